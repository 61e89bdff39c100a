// metapath.c - metapaths in the place of a graph's relations.
#include "common/data/typed.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

static uint32_t behind(uint32_t relation, uint32_t n)
{
    return relation == SL_NO_RELATION ? relation : relation + n;
}

static struct sl_relation relation_of(const struct sl_relation *own, const struct sl_metapath *path,
                                      uint32_t n)
{
    const struct sl_relation *first = &own[path->step[0]];
    struct sl_relation r = {.source = own[path->step[path->n_steps - 1]].source,
                            .target = first->target,
                            .first_row = first->first_row,
                            .reverse_of = SL_NO_RELATION,
                            .n_steps = path->n_steps};
    strcpy(r.name, path->name);
    for (uint32_t k = 0; k < path->n_steps; k++)
        r.step[k] = path->step[k] + n;
    return r;
}

int sl_typed_set_paths(struct sl_typed *t, const struct sl_metapath *path, uint32_t n)
{
    struct sl_relation *own = t->relation;
    struct sl_relation *all = calloc((uint64_t)n + t->n_relations, sizeof *all);
    if (!all)
        return sl_fail(SL_ENOMEM, "no memory for %u metapaths", n);
    for (uint32_t i = 0; i < n; i++)
        all[i] = relation_of(own, &path[i], n);
    memcpy(all + n, own, t->n_relations * sizeof *all);
    for (uint32_t r = n; r < n + t->n_relations; r++)
        all[r].reverse_of = behind(all[r].reverse_of, n);
    t->relation = all;
    t->n_walked = t->n_relations;
    t->n_relations = n;
    t->linked = behind(t->linked, n);
    free(own);
    return SL_OK;
}
