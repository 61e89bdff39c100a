#include "cli/inspect_types.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/npy.h"
#include "common/data/typed_json.h"
#include "common/text/table.h"
#include "common/text/units.h"

// Vertices of a type that no relation leads to.
static uint64_t count_unreached(const struct sl_dataset *ds, const struct sl_vertex_type *t)
{
    uint64_t n = 0;
    for (uint64_t v = t->first; v < t->first + t->n; v++) {
        bool reached = false;
        uint64_t list;
        for (uint32_t r = 0; !reached && sl_dataset_next_list(ds, v, &r, &list);)
            reached = sl_dataset_degree(ds, list) > 0;
        n += !reached;
    }
    return n;
}

int sl_types_summary_make(struct sl_types_summary *s, const struct sl_dataset *ds)
{
    const struct sl_typed *t = &ds->typed;
    *s = (struct sl_types_summary){.ds = ds};
    if (t->n_types == 0)
        return SL_OK;
    s->degrees = calloc(t->n_relations, sizeof *s->degrees);
    s->unreached = calloc(t->n_types, sizeof *s->unreached);
    if (!s->degrees || !s->unreached)
        return sl_fail(SL_ENOMEM, "inspect: no memory for %u relations", t->n_relations);
    for (uint32_t i = 0; i < t->n_types; i++)
        s->unreached[i] = count_unreached(ds, &t->type[i]);
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_relation *r = &t->relation[i];
        const uint64_t end = r->first_row + t->type[r->target].n;
        for (uint64_t row = r->first_row; row < end; row++) {
            const uint64_t n = sl_dataset_degree(ds, row);
            s->degrees[i].max = SL_MAX(s->degrees[i].max, n);
            s->degrees[i].n_empty += n == 0;
        }
    }
    return SL_OK;
}

void sl_types_summary_fini(struct sl_types_summary *s)
{
    free(s->degrees);
    free(s->unreached);
    *s = (struct sl_types_summary){0};
}

static double mean_degree(const struct sl_typed *t, const struct sl_relation *r)
{
    const uint64_t n = t->type[r->target].n;
    return n ? (double)r->n_edges / (double)n : 0;
}

// ---- text ---------------------------------------------------------------------------------------

static void print_types(const struct sl_types_summary *s)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], feat[64];
    const struct sl_dataset *ds = s->ds;
    struct sl_table table;
    sl_table_init(
        &table, "l r r r l r l",
        (const char *[]){"type", "vertices", "first id", "no in-edge", "features", "bytes", ""});
    for (uint32_t i = 0; i < ds->typed.n_types; i++) {
        const struct sl_vertex_type *t = &ds->typed.type[i];
        const bool labels = i == 0 && ds->task != SL_TASK_NONE;
        snprintf(feat, sizeof feat, "%" PRIu32 " x %s", t->feat_dim,
                 t->feat ? sl_npy_dtype_name(t->feat_dtype) : "");
        sl_table_row(
            &table, "%s|%s|%s|%s|%s|%s|%s", t->name, sl_units_grouped(a, t->n),
            sl_units_grouped(b, t->first), sl_units_grouped(c, s->unreached[i]),
            t->feat ? feat : "none",
            t->feat ? sl_units_bytes((char[SL_UNITS_BYTES]){0},
                                     (double)(sl_dataset_type_rows(ds, t) * sl_type_row_bytes(t)))
                    : "",
            labels ? "labels" : "");
    }
    printf("\n");
    sl_table_print(&table, stdout);
    sl_table_fini(&table);
}

static bool has_edge_features(const struct sl_typed *t)
{
    bool has = false;
    for (uint32_t i = 0; i < t->n_relations; i++)
        has |= t->relation[i].feat != NULL;
    return has;
}

static void print_relations(const struct sl_types_summary *s)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES], reverse[96];
    char feat[64];
    const struct sl_typed *t = &s->ds->typed;
    struct sl_table table;
    sl_table_init(&table, "l r r r r l r l",
                  (const char *[]){"relation", "edges", "mean degree", "largest", "without",
                                   has_edge_features(t) ? "features" : "",
                                   has_edge_features(t) ? "bytes" : "", ""});
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_relation *r = &t->relation[i];
        snprintf(reverse, sizeof reverse, "%s%s",
                 r->reverse_of == SL_NO_RELATION ? ""
                 : r->reverse_of == i            ? "symmetric"
                                                 : "reverse of ",
                 r->reverse_of == SL_NO_RELATION || r->reverse_of == i
                     ? ""
                     : t->relation[r->reverse_of].name);
        snprintf(feat, sizeof feat, "%" PRIu32 " x %s", r->feat_dim,
                 r->feat ? sl_npy_dtype_name(r->feat_dtype) : "");
        sl_table_row(&table, "%s|%s|%.1f|%s|%s|%s|%s|%s", sl_relation_text(t, i).text,
                     sl_units_grouped(a, r->n_edges), mean_degree(t, r),
                     sl_units_grouped(b, s->degrees[i].max),
                     sl_units_grouped(c, s->degrees[i].n_empty), r->feat ? feat : "",
                     r->feat ? sl_units_bytes(d, sl_relation_feature_bytes(r)) : "", reverse);
    }
    printf("\n");
    sl_table_print(&table, stdout);
    sl_table_fini(&table);
}

void sl_types_summary_print(const struct sl_types_summary *s)
{
    if (!s->degrees)
        return;
    print_types(s);
    print_relations(s);
}

// ---- JSON ---------------------------------------------------------------------------------------

void sl_types_summary_to_json(const struct sl_types_summary *s, cJSON *root)
{
    const struct sl_typed *t = &s->ds->typed;
    if (!s->degrees)
        return;
    cJSON *types = sl_typed_types_to_json(s->ds), *o;
    cJSON *relations = sl_typed_relations_to_json(s->ds);
    uint32_t i = 0;
    cJSON_AddItemToObject(root, "types", types);
    cJSON_AddItemToObject(root, "relations", relations);
    cJSON_ArrayForEach(o, types)
    {
        cJSON_AddNumberToObject(o, "unreached", (double)s->unreached[i++]);
    }
    i = 0;
    cJSON_ArrayForEach(o, relations)
    {
        cJSON_AddNumberToObject(o, "mean_degree", mean_degree(t, &t->relation[i]));
        cJSON_AddNumberToObject(o, "max_degree", (double)s->degrees[i].max);
        cJSON_AddNumberToObject(o, "empty_rows", (double)s->degrees[i].n_empty);
        i++;
    }
}
