#include "dataset/edge_relation.h"

#include <inttypes.h>

#include <cjson/cJSON.h>

#include "common/base/error.h"

static struct sl_relation_text text_of(const struct sl_typed *t, const struct sl_relation *r)
{
    return sl_relation_text(t, (uint32_t)(r - t->relation));
}

int sl_edge_relation_find(const struct sl_typed *t, const char *name, const char *who,
                          const struct sl_relation **out)
{
    uint32_t n_found = 0;
    const uint32_t found = name ? sl_typed_relation_named(t, name, &n_found) : SL_NO_RELATION;
    *out = n_found == 1 ? &t->relation[found] : NULL;
    if (n_found == 1 || (t->n_types == 0 && !name))
        return SL_OK;
    if (t->n_types == 0)
        return sl_fail(SL_EINVAL, "%s --relation %s: the graph has one type of edges: leave it out",
                       who, name);
    return sl_fail(SL_EINVAL,
                   "%s: found %s%s%s, wanted --relation NAME with one of the %u relations of its "
                   "graph, such as \"%s\" (`sluice inspect` shows them)",
                   who, name ? "--relation " : "no relation", name ? name : "",
                   n_found ? ", which several are called" : "", t->n_relations,
                   sl_relation_text(t, 0).text);
}

int sl_edge_relation_reverse(const struct sl_typed *t, const struct sl_relation *linked,
                             bool wanted, const char *who, const struct sl_relation **out)
{
    const uint32_t own = (uint32_t)(linked - t->relation), found = sl_typed_reverse(t, own);
    const bool said = found != own || linked->reverse_of == own;
    *out = found != SL_NO_RELATION && (said || wanted) ? &t->relation[found] : NULL;
    if (*out || !wanted)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s: nothing says which relation has the reverses of \"%s\", wanted it with "
                   "--pairs undirected: say so by \"reverse_of\" in metadata.json, or take --pairs "
                   "directed",
                   who, text_of(t, linked).text);
}

static uint64_t edges_of(const struct sl_typed *t, const struct sl_relation *r,
                         const int64_t *offsets)
{
    const int64_t *at = offsets + r->first_row;
    return (uint64_t)(at[t->type[r->target].n] - at[0]);
}

int sl_edge_relation_write(const struct sl_typed *t, const struct sl_relation *linked,
                           const struct sl_relation *back, const int64_t *offsets, const char *who,
                           struct cJSON *root)
{
    cJSON *relations = cJSON_GetObjectItemCaseSensitive(root, "relations");
    const uint64_t left = edges_of(t, linked, offsets);
    for (uint32_t i = 0; i < t->n_relations; i++) {
        cJSON *item = cJSON_GetArrayItem(relations, (int)i);
        cJSON_SetNumberValue(cJSON_GetObjectItemCaseSensitive(item, "edges"),
                             (double)edges_of(t, &t->relation[i], offsets));
    }
    cJSON_DeleteItemFromObjectCaseSensitive(root, "pair_relation");
    cJSON_AddStringToObject(root, "pair_relation", text_of(t, linked).text);
    if (!back || edges_of(t, back, offsets) == left)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s: \"%s\" and the relation that is said to have its reverses do not have the "
                   "same edges: %" PRIu64 " and %" PRIu64 " would be left: take \"reverse_of\" out "
                   "of metadata.json",
                   who, text_of(t, linked).text, left, edges_of(t, back, offsets));
}
