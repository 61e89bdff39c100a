#include "cli/prediction_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trainer_subprocess.h"
#include "common/text/units.h"
#include "broker/sharding/gpus.h"
#include "common/base/error.h"
#include "config/config.h"

// Room on a GPU without which the default leaves it alone: what the rows of one piece may take.
#define ROOM_WANTED (UINT64_C(256) << 20)

// What --device says.
struct wish {
    bool any, cuda, numbered; // any: the default
    uint32_t index;
};

static int parse(const char *command, const char *text, struct wish *out)
{
    char *end = NULL;
    *out = (struct wish){.any = !text || strcmp(text, "auto") == 0};
    if (out->any || strcmp(text, "cpu") == 0)
        return SL_OK;
    out->cuda = strncmp(text, "cuda", 4) == 0;
    if (out->cuda && !text[4])
        return SL_OK;
    out->numbered = out->cuda && text[4] == ':' && text[5] >= '0' && text[5] <= '9';
    unsigned long index = out->numbered ? strtoul(text + 5, &end, 10) : 0;
    if (!out->numbered || *end || index >= SL_PLUGIN_DEVICES_MAX)
        return sl_fail(SL_EINVAL,
                       "%s --device: found '%s', wanted auto, cpu, cuda, or cuda:N with N from 0 "
                       "to %d",
                       command, text, SL_PLUGIN_DEVICES_MAX - 1);
    out->index = (uint32_t)index;
    return SL_OK;
}

// The one with the most room; the first of equals. There is at least one.
static uint32_t roomiest(const struct sl_gpu_report *report)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < report->n; i++)
        if (sl_config_gpu_room(&report->gpu[i], 1) > sl_config_gpu_room(&report->gpu[best], 1))
            best = i;
    return best;
}

__attribute__((format(printf, 2, 3))) static void note(struct sl_prediction_device *d,
                                                       const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(d->note, sizeof d->note, fmt, ap);
    va_end(ap);
}

static int take_memory(const char *command, const struct sl_gpu *gpu, uint64_t wanted,
                       struct sl_prediction_device *d)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    d->memory_bytes = wanted ? wanted : sl_config_gpu_room(gpu, 1) >> 20 << 20;
    if (gpu->total_bytes && wanted > gpu->total_bytes)
        return sl_fail(SL_EINVAL,
                       "%s --gpu-memory: found %s, wanted at most %s, which is what GPU %u (%s) "
                       "has: lower it, or leave it out for what is free",
                       command, sl_units_bytes(a, wanted), sl_units_bytes(b, gpu->total_bytes),
                       d->index, gpu->name);
    if (d->memory_bytes == 0)
        return sl_fail(SL_EINVAL,
                       "%s: GPU %u (%s) has no memory free (%s of %s): end what else uses it "
                       "('nvidia-smi' lists it), or take --device cpu",
                       command, d->index, gpu->name, sl_units_bytes(a, gpu->free_bytes),
                       sl_units_bytes(b, gpu->total_bytes));
    if (gpu->free_bytes && wanted > gpu->free_bytes)
        note(d,
             "--gpu-memory is %s, but GPU %u has %s free: other processes have the rest "
             "('nvidia-smi' lists them)",
             sl_units_bytes(a, wanted), d->index, sl_units_bytes(b, gpu->free_bytes));
    return SL_OK;
}

static int take_gpu(const char *command, const struct sl_gpu_report *report,
                    const struct wish *wish, uint64_t memory_bytes, struct sl_prediction_device *d)
{
    char list[SL_CONFIG_GPUS_TEXT];
    if (report->n == 0 || (wish->numbered && wish->index >= report->n)) {
        char which[16] = "";
        if (wish->numbered)
            snprintf(which, sizeof which, ":%u", wish->index);
        return sl_fail(SL_EINVAL,
                       "%s --device: found cuda%s, wanted one of the GPUs that this machine "
                       "offers: %s. 'sluice doctor' tells more; --device cpu does without",
                       command, which, sl_config_gpus_text(report, list));
    }
    d->cuda = true;
    d->index = wish->numbered ? wish->index : roomiest(report);
    snprintf(d->gpu, sizeof d->gpu, "%s", report->gpu[d->index].name);
    snprintf(d->text, sizeof d->text, "cuda:%u", d->index);
    return take_memory(command, &report->gpu[d->index], memory_bytes, d);
}

// The default of a run that trained on a GPU.
static int take_gpu_if_there(const char *command, uint64_t memory_bytes,
                             struct sl_prediction_device *d)
{
    static const char *const after = "computes on the cores, which differs in rounding only; "
                                     "--device cpu says that this is meant";
    const struct sl_gpu_report *report = &sl_gpus_known()->report;
    char room[SL_UNITS_BYTES];
    if (report->n == 0) {
        note(d, "the run trained on a GPU, and none can be used here (%.600s): %s", report->problem,
             after);
        return SL_OK;
    }
    const struct sl_gpu *gpu = &report->gpu[roomiest(report)];
    if (!memory_bytes && sl_config_gpu_room(gpu, 1) < ROOM_WANTED) {
        note(d,
             "the run trained on a GPU, and no GPU here has room for it (%s free on the one with "
             "the most): %s",
             sl_units_bytes(room, gpu->free_bytes), after);
        return SL_OK;
    }
    return take_gpu(command, report, &(struct wish){.cuda = true}, memory_bytes, d);
}

int sl_prediction_device_choose(const char *command, const char *run, const char *asked,
                                uint64_t memory_bytes, struct sl_prediction_device *out)
{
    struct wish wish;
    *out = (struct sl_prediction_device){.text = "cpu"};
    SL_TRY(parse(command, asked, &wish));
    if (wish.cuda)
        return take_gpu(command, &sl_gpus_known()->report, &wish, memory_bytes, out);
    bool trained = false;
    if (wish.any) {
        char path[4200];
        snprintf(path, sizeof path, "%s/config.json", run);
        SL_TRY(sl_trainer_subprocess_trained(path, &trained));
    }
    if (trained)
        return take_gpu_if_there(command, memory_bytes, out);
    if (memory_bytes)
        return sl_fail(SL_EINVAL, "%s --gpu-memory: %s: add --device cuda", command,
                       wish.any ? "the run trained on cores, and so that is where it computes"
                                : "--device cpu takes none");
    return SL_OK;
}
