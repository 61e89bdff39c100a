// fanout.c - fanouts as the job file has them, and by relation once there is a data set.
#include "config/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "config/parse_internal.h"
#include "config/text_internal.h"

_Static_assert((int)SL_FANOUT_MAX_HOPS == (int)SL_CONFIG_MAX_LAYERS, "a hop is a layer");

static const char rest[] = "*";

// ---- from the job file --------------------------------------------------------------------------

// The number of entries is compared with the layers later: that message says more. `of`: the
// relation as messages name it, "" in a list.
static int read_list(const struct sl_parse *p, const struct sl_key *key, const char *path,
                     const char *of, const cJSON *item, int64_t *out, uint32_t *n)
{
    const double min = *of ? 0 : key->min;
    const cJSON *entry;
    *n = 0;
    cJSON_ArrayForEach(entry, item)
    {
        double value = entry->valuedouble;
        if (!cJSON_IsNumber(entry) || value != floor(value) ||
            !(value == -1 || (value >= min && value <= key->max))) {
            char found[SL_PARSE_FOUND_BYTES];
            sl_parse_found(entry, found);
            return sl_parse_fail(p, path,
                                 "%sentry %u: found %s, wanted -1 (all neighbours) or a whole "
                                 "number from %.0f to %.0f: correct it",
                                 of, *n, found, min, key->max);
        }
        if (*n < SL_CONFIG_MAX_LAYERS)
            out[*n] = (int64_t)value;
        (*n)++;
    }
    return SL_OK;
}

struct names_reader {
    const struct sl_parse *parse;
    const struct sl_key *key;
    const char *path;
    struct sl_fanout_names *names;
    int64_t *rest;
    uint32_t n_hops; // of the first entry
};

static int read_name(struct names_reader *in, const cJSON *item)
{
    struct sl_fanout_names *names = in->names;
    struct sl_named_fanout *one = &names->named[names->n];
    const bool is_rest = strcmp(item->string, rest) == 0;
    char quoted[SL_TEXT_QUOTE_BYTES], of[SL_TEXT_QUOTE_BYTES + 4], found[SL_PARSE_FOUND_BYTES];
    uint32_t n;
    sl_text_quote(item->string, quoted);
    snprintf(of, sizeof of, "%s: ", quoted);
    if (!cJSON_IsArray(item)) {
        sl_parse_found(item, found);
        return sl_parse_fail(in->parse, in->path,
                             "%sfound %s, wanted a list of whole numbers such as [15, 10], one for "
                             "each layer: correct it",
                             of, found);
    }
    if (!is_rest && (names->n == SL_FANOUT_MAX_NAMES || strlen(item->string) >= sizeof one->name))
        return sl_parse_fail(in->parse, in->path,
                             "found %s behind %u others, wanted at most %d relations of at most "
                             "%zu characters: leave some to \"*\", which is for all others",
                             quoted, names->n, SL_FANOUT_MAX_NAMES, sizeof one->name - 1);
    SL_TRY(read_list(in->parse, in->key, in->path, of, item, is_rest ? in->rest : one->fanout, &n));
    if (in->n_hops && n != in->n_hops)
        return sl_parse_fail(in->parse, in->path,
                             "%sfound %u entr%s, wanted %u, as many as the list before it has: one "
                             "for each of model.layers",
                             of, n, n == 1 ? "y" : "ies", in->n_hops);
    in->n_hops = n;
    if (is_rest)
        names->has_rest = true;
    else
        strcpy(names->named[names->n++].name, item->string);
    return SL_OK;
}

int sl_parse_fanout(const struct sl_parse *p, const struct sl_key *key, const char *path,
                    const cJSON *item, void *base)
{
    int64_t list[SL_CONFIG_MAX_LAYERS] = {0};
    struct sl_fanout_names *names = (void *)((char *)base + key->names);
    struct names_reader in = {p, key, path, names, list, 0};
    uint32_t n = 0;
    const cJSON *entry, *other, *object = cJSON_IsObject(item) ? item : NULL;
    memset(names, 0, sizeof *names);
    if (cJSON_IsArray(item))
        SL_TRY(read_list(p, key, path, "", item, list, &n));
    cJSON_ArrayForEach(entry, object)
    {
        for (other = item->child; other != entry; other = other->next) {
            char quoted[SL_TEXT_QUOTE_BYTES];
            sl_text_quote(entry->string, quoted);
            if (strcmp(other->string, entry->string) == 0)
                return sl_parse_fail(p, path, "found %s twice, wanted it once: keep one of them",
                                     quoted);
        }
        SL_TRY(read_name(&in, entry));
        n = in.n_hops;
    }
    memcpy((char *)base + key->offset, list, sizeof list);
    memcpy((char *)base + key->companion, &n, sizeof n);
    return SL_OK;
}

// ---- by relation --------------------------------------------------------------------------------

// "author -writes-> paper", "paper -cites-> paper" and 5 others
static const char *list_relations(const struct sl_typed *t, char *out, size_t bytes)
{
    enum { SHOWN = 8 };
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t r = 0; r < SL_MIN(t->n_relations, (uint32_t)SHOWN) && n < bytes; r++)
        n += (size_t)snprintf(out + n, bytes - n, "%s\"%s\"", r ? ", " : "",
                              sl_relation_text(t, r).text);
    if (t->n_relations > SHOWN && n < bytes)
        snprintf(out + n, bytes - n, " and %u others (`sluice inspect` shows them)",
                 t->n_relations - SHOWN);
    return out;
}

struct lookup {
    const char *key;
    const struct sl_typed *typed;
    const struct sl_fanout_names *names;
    const struct sl_named_fanout **of; // (n_relations) the name that means it
};

int sl_config_relation(const char *key, const struct sl_typed *typed, const char *name,
                       uint32_t *out)
{
    char all[1024], quoted[SL_TEXT_QUOTE_BYTES];
    uint32_t n_found;
    *out = sl_typed_relation_named(typed, name, &n_found);
    sl_text_quote(name, quoted);
    if (n_found == 1)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s: found %s, which is %s of the data set, wanted one of %s, or the name "
                   "within where only one has it: correct it",
                   key, quoted, n_found ? "the name of several relations" : "no relation",
                   list_relations(typed, all, sizeof all));
}

static int look_up_name(const struct lookup *l, const struct sl_named_fanout *named)
{
    uint32_t r;
    SL_TRY(sl_config_relation(l->key, l->typed, named->name, &r));
    if (l->of[r])
        return sl_fail(SL_EINVAL,
                       "%s: found \"%s\" and \"%s\", which are the same relation, wanted it "
                       "once: keep one of them",
                       l->key, l->of[r]->name, named->name);
    l->of[r] = named;
    return SL_OK;
}

static int look_up(const struct lookup *l, const int64_t *list, uint32_t n_hops, int64_t *out)
{
    const struct sl_typed *typed = l->typed;
    char all[1024];
    for (uint32_t i = 0; i < l->names->n; i++)
        SL_TRY(look_up_name(l, &l->names->named[i]));
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        if (!l->of[r] && !l->names->has_rest)
            return sl_fail(SL_EINVAL,
                           "%s: found no list for \"%s\", wanted one for each relation of the data "
                           "set (%s): add it, or \"*\" for all that are not named",
                           l->key, sl_relation_text(typed, r).text,
                           list_relations(typed, all, sizeof all));
        for (uint32_t h = 0; h < n_hops; h++)
            out[(uint64_t)h * typed->n_relations + r] = l->of[r] ? l->of[r]->fanout[h] : list[h];
    }
    return SL_OK;
}

static int find_relations(const char *key, struct sl_fanout_names *names, const int64_t *list,
                          uint32_t n_hops, const struct sl_typed *typed)
{
    if (!sl_fanout_is_named(names))
        return SL_OK;
    free(names->by_relation);
    names->by_relation = calloc((uint64_t)n_hops * typed->n_relations, sizeof *names->by_relation);
    struct lookup l = {key, typed, names, calloc(typed->n_relations, sizeof *l.of)};
    int rc = l.of && names->by_relation
                 ? look_up(&l, list, n_hops, names->by_relation)
                 : sl_fail(SL_ENOMEM, "%s: no memory for %u relations", key, typed->n_relations);
    free(l.of);
    return rc;
}

int sl_config_find_relations(struct sl_config *c, const struct sl_typed *typed)
{
    SL_TRY(find_relations("sampler.fanout", &c->sampler.fanout_names, c->sampler.fanout,
                          c->sampler.n_fanout, typed));
    if (sl_config_is_external(c))
        return SL_OK;
    return find_relations("evaluate.fanout", &c->evaluate.fanout_names, c->evaluate.fanout,
                          c->evaluate.n_fanout, typed);
}

void sl_config_forget_relations(struct sl_config *c)
{
    free(c->sampler.fanout_names.by_relation);
    free(c->evaluate.fanout_names.by_relation);
    c->sampler.fanout_names.by_relation = c->evaluate.fanout_names.by_relation = NULL;
}
