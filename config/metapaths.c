// metapaths.c - sampler.metapaths as the job file has it, and as relations with a data set.
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/dataset.h"
#include "config/parse_internal.h"
#include "config/text_internal.h"

// ---- from the job file --------------------------------------------------------------------------

static int read_steps(const struct sl_parse *p, const char *path, const cJSON *item,
                      struct sl_named_path *out)
{
    const uint32_t n = (uint32_t)cJSON_GetArraySize(item);
    char found[SL_PARSE_FOUND_BYTES];
    const cJSON *step;
    if (!cJSON_IsArray(item) || n == 0 || n > SL_METAPATH_STEPS_MAX) {
        sl_parse_found(item, found);
        return sl_parse_fail(p, path,
                             "\"%s\": found %s, wanted a list of 1 to %d relations, such as "
                             "[\"author -writes-> paper\", \"rev_writes\"]: correct it",
                             out->name, found, SL_METAPATH_STEPS_MAX);
    }
    cJSON_ArrayForEach(step, item)
    {
        if (!cJSON_IsString(step) || strlen(step->valuestring) >= sizeof *out->step) {
            sl_parse_found(step, found);
            return sl_parse_fail(p, path,
                                 "\"%s\": entry %u: found %s, wanted a relation, such as \"author "
                                 "-writes-> paper\": correct it",
                                 out->name, out->n_steps, found);
        }
        strcpy(out->step[out->n_steps++], step->valuestring);
    }
    return SL_OK;
}

static int read_path(const struct sl_parse *p, const char *path, const cJSON *item,
                     struct sl_metapaths *out)
{
    char quoted[SL_TEXT_QUOTE_BYTES];
    uint32_t at = out->n;
    sl_text_quote(item->string, quoted);
    if (!sl_typed_is_name(item->string) || out->n == SL_METAPATHS_MAX)
        return sl_parse_fail(
            p, path,
            "found %s behind %u others, wanted at most %d metapaths, of names with "
            "1 to %d letters, digits, '_' and '-': correct it",
            quoted, out->n, SL_METAPATHS_MAX, SL_TYPE_NAME_BYTES - 1);
    while (at > 0 && strcmp(out->path[at - 1].name, item->string) > 0)
        at--;
    if (at > 0 && strcmp(out->path[at - 1].name, item->string) == 0)
        return sl_parse_fail(p, path, "found %s twice, wanted it once: keep one of them", quoted);
    memmove(&out->path[at + 1], &out->path[at], (out->n - at) * sizeof *out->path);
    out->path[at] = (struct sl_named_path){.n_steps = 0};
    out->n++;
    strcpy(out->path[at].name, item->string);
    return read_steps(p, path, item, &out->path[at]);
}

int sl_parse_metapaths(const struct sl_parse *p, const char *path, const cJSON *object,
                       struct sl_metapaths *out)
{
    const cJSON *item;
    out->n = 0;
    cJSON_ArrayForEach(item, object)
    {
        SL_TRY(read_path(p, path, item, out));
    }
    return SL_OK;
}

// ---- as relations -------------------------------------------------------------------------------

static int look_up(const struct sl_typed *typed, const struct sl_named_path *named,
                   struct sl_metapath *out)
{
    char key[SL_TYPE_NAME_BYTES + 32];
    snprintf(key, sizeof key, "sampler.metapaths: \"%s\"", named->name);
    *out = (struct sl_metapath){.name = named->name, .n_steps = named->n_steps};
    for (uint32_t k = 0; k < named->n_steps; k++) {
        SL_TRY(sl_config_relation(key, typed, named->step[k], &out->step[k]));
        if (k == 0)
            continue;
        const uint32_t stands = typed->relation[out->step[k - 1]].source;
        if (typed->relation[out->step[k]].target != stands)
            return sl_fail(SL_EINVAL,
                           "%s: found \"%s\" behind \"%s\", wanted a relation that leads to %s, "
                           "where a walk stands then (it goes against the edges): correct it",
                           key, sl_relation_text(typed, out->step[k]).text,
                           sl_relation_text(typed, out->step[k - 1]).text,
                           typed->type[stands].name);
    }
    return SL_OK;
}

int sl_config_choose_paths(const struct sl_config *c, struct sl_dataset *ds)
{
    struct sl_metapath path[SL_METAPATHS_MAX];
    const struct sl_metapaths *named = &c->sampler.metapaths;
    if (named->n == 0 || ds->typed.n_types == 0 || ds->typed.n_walked > 0)
        return SL_OK;
    for (uint32_t i = 0; i < named->n; i++)
        SL_TRY(look_up(&ds->typed, &named->path[i], &path[i]));
    return sl_typed_set_paths(&ds->typed, path, named->n);
}
