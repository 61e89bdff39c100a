#include "common/data/typed_json.h"

#include "common/data/npy.h"

static cJSON *type_to_json(const struct sl_dataset *ds, uint32_t i)
{
    const struct sl_vertex_type *t = &ds->typed.type[i];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", t->name);
    cJSON_AddNumberToObject(o, "count", (double)t->n);
    cJSON_AddNumberToObject(o, "first", (double)t->first);
    cJSON_AddNumberToObject(o, "feat_dim", t->feat_dim);
    if (t->feat_dim)
        cJSON_AddStringToObject(o, "feat_dtype", sl_npy_dtype_name(t->feat_dtype));
    cJSON_AddNumberToObject(o, "feature_bytes",
                            (double)(sl_dataset_type_rows(ds, t) * sl_type_row_bytes(t)));
    cJSON_AddBoolToObject(o, "labels", i == 0 && ds->task != SL_TASK_NONE);
    return o;
}

cJSON *sl_typed_types_to_json(const struct sl_dataset *ds)
{
    if (ds->typed.n_types == 0)
        return NULL;
    cJSON *types = cJSON_CreateArray();
    for (uint32_t i = 0; i < ds->typed.n_types; i++)
        cJSON_AddItemToArray(types, type_to_json(ds, i));
    return types;
}

static cJSON *relation_to_json(const struct sl_typed *t, uint32_t i)
{
    const struct sl_relation *r = &t->relation[i];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "source", t->type[r->source].name);
    cJSON_AddStringToObject(o, "name", r->name);
    cJSON_AddStringToObject(o, "target", t->type[r->target].name);
    cJSON_AddNumberToObject(o, "edges", (double)r->n_edges);
    cJSON_AddNumberToObject(o, "first_row", (double)r->first_row);
    cJSON_AddNumberToObject(o, "first_edge", (double)r->first_edge);
    if (r->feat) {
        cJSON_AddNumberToObject(o, "edge_feat_dim", r->feat_dim);
        cJSON_AddStringToObject(o, "edge_feat_dtype", sl_npy_dtype_name(r->feat_dtype));
        cJSON_AddNumberToObject(o, "edge_feature_bytes", (double)sl_relation_feature_bytes(r));
    }
    if (r->reverse_of != SL_NO_RELATION)
        cJSON_AddStringToObject(o, "reverse_of", t->relation[r->reverse_of].name);
    cJSON *steps = r->n_steps ? cJSON_AddArrayToObject(o, "metapath") : NULL;
    for (uint32_t k = 0; k < r->n_steps; k++)
        cJSON_AddItemToArray(steps, cJSON_CreateString(sl_relation_text(t, r->step[k]).text));
    return o;
}

cJSON *sl_typed_relations_to_json(const struct sl_dataset *ds)
{
    if (ds->typed.n_types == 0)
        return NULL;
    cJSON *relations = cJSON_CreateArray();
    for (uint32_t i = 0; i < ds->typed.n_relations; i++)
        cJSON_AddItemToArray(relations, relation_to_json(&ds->typed, i));
    return relations;
}
