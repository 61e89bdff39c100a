#include "dataset/featurize_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { LIST_BYTES = 512 };

static void add_text(char list[LIST_BYTES], const char *text, uint32_t dim)
{
    const size_t n = strlen(list);
    if (dim)
        snprintf(list + n, LIST_BYTES - n, "%s%s (%" PRIu32 ")", n ? ", " : "", text, dim);
    else
        snprintf(list + n, LIST_BYTES - n, "%s%s", n ? ", " : "", text);
}

// ---- names --------------------------------------------------------------------------------------

// The next of the names between commas, false where there is none.
static bool next_name(const char **at, char name[LIST_BYTES])
{
    if (!**at)
        return false;
    const size_t n = strcspn(*at, ",");
    snprintf(name, LIST_BYTES, "%.*s", (int)SL_MIN(n, (size_t)LIST_BYTES - 1), *at);
    *at += n + ((*at)[n] == ',');
    return true;
}

static int choose_types(struct sl_featurize_plan *p, const char *types)
{
    const struct sl_typed *t = &p->ds->typed;
    char name[LIST_BYTES], all[LIST_BYTES] = "";
    for (uint32_t i = 0; i < t->n_types; i++) {
        add_text(all, t->type[i].name, 0);
        p->wanted[i] = !types && !p->dim[i] && t->type[i].n > 0;
    }
    while (types && next_name(&types, name)) {
        const uint32_t i = sl_typed_find_type(t, name);
        if (i == t->n_types)
            return sl_fail(SL_EINVAL, "featurize %s: --type %s: wanted one of its types: %s",
                           p->ds->path, name, all);
        if (p->dim[i] || t->type[i].n == 0)
            return sl_fail(SL_EINVAL, "featurize %s: --type %s: %s: wanted a type without features",
                           p->ds->path, name,
                           p->dim[i] ? "has features already" : "has no vertices");
        p->wanted[i] = true;
    }
    return SL_OK;
}

// Whether `name` is NAME or SOURCE:NAME:TARGET of the relation.
static bool is_relation(const struct sl_typed *t, const struct sl_relation *r, const char *name)
{
    char whole[3 * SL_TYPE_NAME_BYTES];
    snprintf(whole, sizeof whole, "%s:%s:%s", t->type[r->source].name, r->name,
             t->type[r->target].name);
    return strcmp(name, r->name) == 0 || strcmp(name, whole) == 0;
}

static int choose_relations(struct sl_featurize_plan *p, const char *by)
{
    const struct sl_typed *t = &p->ds->typed;
    char name[LIST_BYTES], all[LIST_BYTES] = "";
    for (uint32_t i = 0; i < t->n_relations; i++) {
        add_text(all, sl_relation_text(t, i).text, 0);
        p->chosen[i] = !by;
    }
    while (by && next_name(&by, name)) {
        bool found = false;
        for (uint32_t i = 0; i < t->n_relations; i++)
            if (is_relation(t, &t->relation[i], name))
                p->chosen[i] = found = true;
        if (!found)
            return sl_fail(SL_EINVAL,
                           "featurize %s: --by %s: wanted relations as NAME or SOURCE:NAME:TARGET, "
                           "of these: %s",
                           p->ds->path, name, all);
    }
    return SL_OK;
}

// ---- rounds -------------------------------------------------------------------------------------

static bool leads(const struct sl_featurize_plan *p, uint32_t relation, uint32_t type)
{
    const struct sl_relation *r = &p->ds->typed.relation[relation];
    return p->chosen[relation] && r->target == type && p->dim[r->source];
}

static int check_widths(const struct sl_featurize_plan *p, const struct sl_featurize_step *s)
{
    const struct sl_typed *t = &p->ds->typed;
    char list[LIST_BYTES] = "";
    bool same = true;
    for (uint32_t i = 0; i < s->n_relations; i++) {
        const uint32_t dim = p->dim[t->relation[s->relation[i]].source];
        same = same && dim == s->dim;
        add_text(list, sl_relation_text(t, s->relation[i]).text, dim);
    }
    if (same)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "featurize %s: type %s is reached from features of several widths, by %s: "
                   "wanted --by with relations of one width",
                   p->ds->path, t->type[s->type].name, list);
}

// The next step, where a relation leads to the type.
static int add_step(struct sl_featurize_plan *p, uint32_t type, uint32_t round)
{
    const struct sl_typed *t = &p->ds->typed;
    struct sl_featurize_step *s = &p->step[p->n_steps];
    *s = (struct sl_featurize_step){.type = type, .round = round, .dtype = SL_DTYPE_F16};
    for (uint32_t i = 0; i < t->n_relations; i++)
        s->n_relations += leads(p, i, type);
    if (s->n_relations == 0)
        return SL_OK;
    s->relation = calloc(s->n_relations, sizeof *s->relation);
    if (!s->relation)
        return sl_fail(SL_ENOMEM, "featurize %s: no memory", p->ds->path);
    p->n_steps++;
    s->n_relations = 0;
    for (uint32_t i = 0; i < t->n_relations; i++) {
        if (!leads(p, i, type))
            continue;
        s->relation[s->n_relations++] = i;
        s->dim = p->dim[t->relation[i].source];
        if (p->dtype[t->relation[i].source] == SL_DTYPE_F32)
            s->dtype = SL_DTYPE_F32;
    }
    return check_widths(p, s);
}

static int make_rounds(struct sl_featurize_plan *p)
{
    uint32_t before;
    for (uint32_t round = 1;; round++) {
        before = p->n_steps;
        for (uint32_t i = 0; i < p->ds->typed.n_types; i++)
            if (p->wanted[i] && !p->dim[i])
                SL_TRY(add_step(p, i, round));
        if (p->n_steps == before)
            return SL_OK;
        for (; before < p->n_steps; before++) { // none of them was a source of this round's
            const struct sl_featurize_step *s = &p->step[before];
            p->dim[s->type] = s->dim;
            p->dtype[s->type] = s->dtype;
        }
    }
}

// Types and relations that somebody named are used, and something is done.
static int check_plan(const struct sl_featurize_plan *p, bool types, bool by)
{
    const struct sl_typed *t = &p->ds->typed;
    char list[LIST_BYTES] = "";
    for (uint32_t i = 0; i < t->n_types; i++)
        if (p->wanted[i] && !p->dim[i])
            add_text(list, t->type[i].name, 0);
    if (list[0] && (types || p->n_steps == 0))
        return sl_fail(SL_EINVAL,
                       "featurize %s: no relation%s leads to %s from a type with features: wanted "
                       "one, as `sluice import ... --reverse` adds%s",
                       p->ds->path, by ? " of --by" : "", list,
                       types ? ", or more types by --type" : "");
    if (p->n_steps == 0)
        return sl_fail(SL_EINVAL, "featurize %s: every type has features already", p->ds->path);
    for (uint32_t i = 0; by && i < t->n_relations; i++) {
        bool used = !p->chosen[i];
        for (uint32_t s = 0; s < p->n_steps; s++)
            for (uint32_t k = 0; k < p->step[s].n_relations; k++)
                used |= p->step[s].relation[k] == i;
        if (!used)
            return sl_fail(SL_EINVAL,
                           "featurize %s: --by: %s leads to no type that gets features, or from "
                           "one without: leave it out",
                           p->ds->path, sl_relation_text(t, i).text);
    }
    return SL_OK;
}

int sl_featurize_plan_make(const struct sl_dataset *ds, const char *types, const char *by,
                           struct sl_featurize_plan *p)
{
    const struct sl_typed *t = &ds->typed;
    *p = (struct sl_featurize_plan){.ds = ds};
    if (t->n_types == 0)
        return sl_fail(
            SL_EINVAL,
            "featurize %s: has one type of vertices: wanted a graph of several, of which "
            "some have features and some have none",
            ds->path);
    p->step = calloc(t->n_types, sizeof *p->step);
    p->wanted = calloc(t->n_types, sizeof *p->wanted);
    p->chosen = calloc(t->n_relations, sizeof *p->chosen);
    p->dim = calloc(t->n_types, sizeof *p->dim);
    p->dtype = calloc(t->n_types, sizeof *p->dtype);
    if (!p->step || !p->wanted || !p->chosen || !p->dim || !p->dtype)
        return sl_fail(SL_ENOMEM, "featurize %s: no memory", ds->path);
    for (uint32_t i = 0; i < t->n_types; i++) {
        p->dim[i] = t->type[i].feat ? t->type[i].feat_dim : 0;
        p->dtype[i] = t->type[i].feat_dtype;
    }
    SL_TRY(choose_types(p, types));
    SL_TRY(choose_relations(p, by));
    SL_TRY(make_rounds(p));
    return check_plan(p, types != NULL, by != NULL);
}

void sl_featurize_plan_fini(struct sl_featurize_plan *p)
{
    for (uint32_t i = 0; i < p->n_steps; i++)
        free(p->step[i].relation);
    free(p->step);
    free(p->wanted);
    free(p->chosen);
    free(p->dim);
    free(p->dtype);
    *p = (struct sl_featurize_plan){0};
}
