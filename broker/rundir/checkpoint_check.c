/*
 * checkpoint_check.c - whether the counters of a checkpoint agree with one another.
 *
 * A job that went on from counters that do not would wait for an update that nobody can make. With
 * B batches and U updates an epoch, of k batches each (asynchronous updates: U = B, k = 1), E
 * epochs, and a position of epoch e with r of its batches in version v:
 *
 *     1 <= B, 1 <= E            e <= E, and r = 0 where e = E          r <= B
 *     v = e U + d with d <= U   r = min(d k, B)
 *     or, where epoch e was evaluated beside the next one, r = B and s batches of that one:
 *     e + 1 < E, v = (e + 1) U + d with 1 <= d <= U, s = min(d k, B)
 *     epochs = config.epochs    history.epochs has the epochs 0 to e - 1
 *     best.epoch < e            best.waited < e
 *     status "done": r = 0      samples_digest is there if, and only if, config.digest is true
 *     seconds >= 0              split: no more workers than config.devices
 *
 * Ordered updates: the batches of batches.bin are 0 to r - 1. That the files are what state.json
 * says, and that B and the data set are the job's, is seen elsewhere (checkpoint.c, startup.c).
 */
#include "broker/rundir/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

__attribute__((format(printf, 2, 3))) static int disagree(const struct sl_checkpoint *c,
                                                          const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return sl_fail(SL_EFORMAT, "%s/state.json: %s: its counters contradict one another", c->path,
                   what);
}

static const cJSON *of_config(const struct sl_checkpoint *c, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(c->state, "config"),
                                            key);
}

bool sl_checkpoint_is_async(const struct sl_checkpoint *c)
{
    const char *mode =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(of_config(c, "updates"), "mode"));
    return mode && strcmp(mode, "async") == 0;
}

// Batches of an update; 0 where the job does not say.
static uint64_t batches_per_update(const struct sl_checkpoint *c)
{
    const cJSON *n =
        cJSON_GetObjectItemCaseSensitive(of_config(c, "updates"), "batches_per_update");
    if (sl_checkpoint_is_async(c))
        return 1;
    bool known = cJSON_IsNumber(n) && n->valuedouble >= 1 && n->valuedouble <= UINT32_MAX;
    return known ? (uint64_t)n->valuedouble : 0;
}

static int check_position(const struct sl_checkpoint *c)
{
    uint64_t per_update = batches_per_update(c);
    if (c->n_batches == 0 || c->epochs == 0)
        return disagree(c, "batches, epochs: found %u and %u, wanted at least 1 of each",
                        c->n_batches, c->epochs);
    if (c->epoch > c->epochs)
        return disagree(c, "epoch: found %u, wanted at most epochs, %u", c->epoch, c->epochs);
    uint32_t epoch = c->epoch, records = c->n_records; // where training is
    bool beside = records > c->n_batches;
    sl_position_of_training(&epoch, &records, c->n_batches);
    const char *key = beside ? "batches_beside" : "batches_done";
    uint32_t most = epoch >= c->epochs ? 0 : c->n_batches;
    if (records > most)
        return disagree(c, "%s: found %u, wanted at most %u in epoch %u of %u", key, records, most,
                        epoch, c->epochs);
    if (per_update == 0)
        return disagree(c, "config.updates: wanted batches_per_update of at least 1");
    uint64_t updates = sl_div_up(c->n_batches, per_update), first = epoch * updates;
    if (c->version < first || c->version > first + updates)
        return disagree(c,
                        "version: found %" PRIu64 ", wanted %" PRIu64 " to %" PRIu64
                        " in epoch %u of %" PRIu64 " updates",
                        c->version, first, first + updates, epoch, updates);
    uint64_t done = SL_MIN((c->version - first) * per_update, (uint64_t)c->n_batches);
    if (records != done)
        return disagree(c,
                        "%s: found %u, wanted %" PRIu64 " after update %" PRIu64 " of %" PRIu64
                        " batches each",
                        key, records, done, c->version, per_update);
    return SL_OK;
}

static int check_job(const struct sl_checkpoint *c)
{
    static const char *const known[] = {"running", "done", "stopped", "failed"};
    const cJSON *epochs = of_config(c, "epochs");
    if (!cJSON_IsNumber(epochs) || epochs->valuedouble != c->epochs)
        return disagree(c, "epochs: found %u, wanted config.epochs, %.0f", c->epochs,
                        cJSON_IsNumber(epochs) ? epochs->valuedouble : NAN);
    bool is_known = false;
    for (size_t i = 0; i < SL_COUNT_OF(known); i++)
        is_known |= strcmp(c->status, known[i]) == 0;
    if (!is_known || (strcmp(c->status, "done") == 0 && c->n_records > 0))
        return disagree(c, "status: found \"%s\" with %u batches of epoch %u done", c->status,
                        c->n_records, c->epoch);
    const cJSON *digest = of_config(c, "digest"); // of a job of an older sluice it is not there
    if (digest && c->has_digest != (cJSON_IsTrue(digest) != 0))
        return disagree(c, "samples_digest: found %s, and config.digest is %s",
                        c->has_digest ? "one" : "none", c->has_digest ? "false" : "true");
    if (!(c->seconds >= 0) || isinf(c->seconds))
        return disagree(c, "seconds: found %g, wanted at least 0", c->seconds);
    uint64_t devices = (uint64_t)cJSON_GetArraySize(of_config(c, "devices"));
    const char *cores =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(of_config(c, "allocation"), "cores"));
    if (cores && strcmp(cores, "pool") == 0)
        devices = SL_CONFIG_MAX_DEVICES; // it has as many as there are workers
    if ((uint64_t)c->samplers + c->trainers > devices)
        return disagree(c, "split: found %u samplers and %u trainers on %" PRIu64 " devices",
                        c->samplers, c->trainers, devices);
    return SL_OK;
}

static int check_past(const struct sl_checkpoint *c)
{
    const cJSON *history = cJSON_GetObjectItemCaseSensitive(c->state, "history");
    const cJSON *epochs = cJSON_GetObjectItemCaseSensitive(history, "epochs"), *e;
    uint32_t n = 0;
    if (c->best.has && (c->best.epoch >= c->epoch || c->best.waited >= c->epoch))
        return disagree(c, "best: found epoch %u, %u evaluations ago, wanted both below %u",
                        c->best.epoch, c->best.waited, c->epoch);
    cJSON_ArrayForEach(e, epochs)
    {
        const cJSON *number = cJSON_GetObjectItemCaseSensitive(e, "epoch");
        if (!cJSON_IsNumber(number) || number->valuedouble != n)
            return disagree(c, "history.epochs: found something else than epoch %u in its place",
                            n);
        n++;
    }
    if (!cJSON_IsArray(epochs) || n != c->epoch)
        return disagree(c, "history.epochs: found %u epochs, wanted %u", n, c->epoch);
    return SL_OK;
}

int sl_checkpoint_check_counters(const struct sl_checkpoint *c)
{
    SL_TRY(check_position(c));
    SL_TRY(check_job(c));
    return check_past(c);
}
