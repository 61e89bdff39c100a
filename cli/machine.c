#include "cli/machine.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/sharding/gpus.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/suggest.h"
#include "common/text/units.h"

#define EXAMPLE "\"gpus=8,gpu_memory=80GiB,memory=1TiB,drive=6GB\""

enum { WORD_BYTES = 64 };

static const struct word {
    const char *name;
    size_t offset;
    uint64_t min, max;
} words[] = {
#define WORD(field, ...)                                                                           \
    {                                                                                              \
        .name = #field, .offset = offsetof(struct sl_machine, field), __VA_ARGS__                  \
    }
    WORD(gpus, .max = SL_PLUGIN_DEVICES_MAX),
    WORD(gpu_memory, .min = UINT64_C(1) << 30, .max = UINT64_C(1) << 50),
    WORD(memory, .min = UINT64_C(1) << 30, .max = UINT64_C(1) << 60),
    WORD(read, .min = 1, .max = UINT64_C(1) << 60),
    WORD(bus, .min = 1, .max = UINT64_C(1) << 60),
    WORD(drive, .min = 1, .max = UINT64_C(1) << 60),
    WORD(edges, .min = 1, .max = UINT64_C(1) << 60),
    WORD(products, .min = 1, .max = UINT64_C(1) << 62),
#undef WORD
};

static uint64_t *number_of(struct sl_machine *m, const struct word *w)
{
    return (uint64_t *)((char *)m + w->offset);
}

static const struct word *find(const char *name)
{
    for (size_t i = 0; i < SL_COUNT_OF(words); i++)
        if (strcmp(words[i].name, name) == 0)
            return &words[i];
    return NULL;
}

static int fail_unknown(const char *name)
{
    const char *names[SL_COUNT_OF(words)];
    char list[SL_COUNT_OF(words) * WORD_BYTES] = "";
    for (size_t i = 0, n = 0; i < SL_COUNT_OF(words); i++) {
        names[i] = words[i].name;
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = sl_suggest_closest(name, names, SL_COUNT_OF(names));
    return sl_fail(SL_EINVAL, "--machine: found \"%s\", wanted one of %s, as in " EXAMPLE "%s%s%s",
                   name, list, near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

// One "KEY=NUMBER".
static int read_word(const char *text, struct sl_machine *m)
{
    char name[WORD_BYTES], least[SL_UNITS_BYTES], most[SL_UNITS_BYTES];
    const size_t n = strcspn(text, "=");
    uint64_t number;
    snprintf(name, sizeof name, "%.*s", (int)SL_MIN(n, sizeof name - 1), text);
    const struct word *w = find(name);
    if (!w)
        return fail_unknown(name);
    uint64_t *to = number_of(m, w);
    if (*to)
        return sl_fail(SL_EINVAL, "--machine: found %s twice, wanted it once", name);
    if (text[n] == '=' && sl_units_parse_bytes(text + n + 1, &number) == 0 && number >= w->min &&
        number <= w->max) {
        *to = number;
        return SL_OK;
    }
    return sl_fail(SL_EINVAL,
                   "--machine: %s: found \"%s\", wanted a number from %s to %s, as in " EXAMPLE,
                   name, text[n] ? text + n + 1 : "", sl_units_size(least, w->min),
                   sl_units_size(most, w->max));
}

static int check(const struct sl_machine *m)
{
    if (!m->memory)
        return sl_fail(SL_EINVAL, "--machine: found no memory, wanted how much the machine has, as "
                                  "in " EXAMPLE);
    if ((m->gpus > 0) != (m->gpu_memory > 0))
        return sl_fail(SL_EINVAL,
                       "--machine: found %s alone, wanted gpus and gpu_memory, what "
                       "each of them has, as in " EXAMPLE,
                       m->gpus ? "gpus" : "gpu_memory");
    if (m->bus && !m->gpus)
        return sl_fail(SL_EINVAL, "--machine: found bus without gpus, wanted both: take it out");
    return SL_OK;
}

int sl_machine_read(const char *text, struct sl_machine *out)
{
    char *all = strdup(text), *rest = all;
    int rc = all ? SL_OK : sl_fail(SL_ENOMEM, "--machine: no memory");
    *out = (struct sl_machine){0};
    for (char *word; rc == SL_OK && (word = strsep(&rest, ",")) != NULL;)
        rc = read_word(word, out);
    free(all);
    SL_TRY(rc);
    SL_TRY(check(out));
    if (out->gpus && !out->bus)
        out->bus = (uint64_t)SL_GPUS_HOST_GBS * 1000000000u;
    return SL_OK;
}

void sl_machine_assume(const struct sl_machine *m)
{
    static struct sl_gpus gpus; // too large for a stack
    gpus = (struct sl_gpus){.asked = true};
    gpus.report.n = (uint32_t)m->gpus;
    for (uint32_t i = 0; i < gpus.report.n; i++) {
        struct sl_gpu *gpu = &gpus.report.gpu[i];
        snprintf(gpu->name, sizeof gpu->name, "as --machine says");
        gpu->total_bytes = gpu->free_bytes = m->gpu_memory;
        gpu->unified_host = true;
    }
    snprintf(gpus.report.nccl, sizeof gpus.report.nccl, "taken for granted");
    if (m->gpus == 0)
        snprintf(gpus.report.problem, sizeof gpus.report.problem, "--machine has no gpus");
    sl_gpus_assume(&gpus);
}

cJSON *sl_machine_to_json(const struct sl_machine *m)
{
    struct sl_machine copy = *m;
    cJSON *o = cJSON_CreateObject();
    for (size_t w = 0; w < SL_COUNT_OF(words); w++)
        if (*number_of(&copy, &words[w]))
            cJSON_AddNumberToObject(o, words[w].name, (double)*number_of(&copy, &words[w]));
    return o;
}
