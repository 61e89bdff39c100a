#include "broker/rundir/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/text/units.h"
#include "common/base/error.h"
#include "common/data/order_kind.h"

// --- the job -------------------------------------------------------------------------------------

static int check_job(const struct sl_checkpoint *c, const char *config_json, const char *output)
{
    struct sl_config_differences d;
    SL_TRY(
        sl_config_compare(config_json, cJSON_GetObjectItemCaseSensitive(c->state, "config"), &d));
    if (d.n == 0)
        return SL_OK;
    return sl_fail(SL_EEXIST,
                   "output: '%s' holds a run of another job, %s%s: %s: give the same "
                   "values to go on with it, or choose another directory with --set output=DIR",
                   output, SL_PLURAL(d.n, "difference"), d.n > d.n_named ? ", the first ones" : "",
                   d.text);
}

static int check_epochs(const struct sl_checkpoint *c, const struct sl_config *config)
{
    if (c->epochs != config->epochs && config->optimizer.schedule == SL_LR_COSINE)
        return sl_fail(SL_EEXIST,
                       "epochs: found %u, the run in '%s' has %u: a cosine of the learning rate "
                       "(optimizer.schedule) ends with the last epoch, so it cannot go on with "
                       "another number: give %u, or choose another directory with --set output=DIR",
                       config->epochs, config->output, c->epochs, c->epochs);
    uint32_t begun = c->epoch + (c->n_records > 0) + (c->n_records > c->n_batches);
    if (begun > config->epochs)
        return sl_fail(SL_EEXIST,
                       "epochs: found %u, the run in '%s' has trained %u already: give at least "
                       "%u, or choose another directory with --set output=DIR",
                       config->epochs, config->output, begun, begun);
    return SL_OK;
}

// --- the run -------------------------------------------------------------------------------------

// `more`: more epochs would go on with it. `how` is behind "finished after 3 epochs".
static int refuse_finished(const char *output, uint32_t epochs, const char *how, bool more)
{
    return sl_fail(SL_EEXIST,
                   "output: '%s' holds an earlier run (found report.json) that is finished after "
                   "%s%s: choose another directory with --set output=DIR%s",
                   output, SL_PLURAL(epochs, "epoch"), how,
                   more ? ", remove this one, or give more epochs to go on with it"
                        : ", or remove this one");
}

// Whether report.json says that the run is done, and with how many epochs.
static bool read_report(const char *output, uint32_t *epochs)
{
    char path[4200], *text = NULL;
    snprintf(path, sizeof path, "%s/report.json", output);
    FILE *f = fopen(path, "re");
    size_t n = 0;
    if (!f)
        return false;
    if (fseek(f, 0, SEEK_END) == 0 && ftell(f) > 0) {
        n = (size_t)ftell(f);
        rewind(f);
        text = calloc(n + 1, 1);
    }
    cJSON *report = text && fread(text, 1, n, f) == n ? cJSON_Parse(text) : NULL;
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(report, "status"));
    const cJSON *has = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(report, "config"), "epochs");
    bool done = status && strcmp(status, "done") == 0 && cJSON_IsNumber(has);
    *epochs = done ? (uint32_t)has->valuedouble : 0;
    cJSON_Delete(report);
    free(text);
    fclose(f);
    return done;
}

static int check_unfinished(const struct sl_checkpoint *c, const struct sl_config *config)
{
    uint32_t epochs;
    // The report is the last thing that a run writes: without it the end is done once more.
    if (!read_report(config->output, &epochs))
        return SL_OK;
    if (strcmp(c->status, "done") == 0 && c->epoch < c->epochs)
        return refuse_finished(config->output, c->epoch, ", stopped early", false);
    if (config->optimizer.schedule == SL_LR_COSINE)
        return refuse_finished(config->output, epochs,
                               ", with which the cosine of its learning rate (optimizer.schedule) "
                               "has ended",
                               false);
    return config->epochs <= epochs ? refuse_finished(config->output, epochs, "", true) : SL_OK;
}

// The reason is recorded; says which older one could be taken instead.
static int offer_older(const char *output, const char *name)
{
    struct sl_checkpoint_list list;
    char reason[1024];
    snprintf(reason, sizeof reason, "%s", sl_error_message());
    SL_TRY(sl_checkpoint_list(output, &list));
    struct sl_checkpoint older;
    char good[SL_CHECKPOINT_NAME_BYTES] = "";
    bool behind = false;
    for (uint32_t i = 0; i < list.n && !good[0]; i++) {
        if (behind && sl_checkpoint_open(output, list.names[i], &older) == SL_OK) {
            snprintf(good, sizeof good, "%s", list.names[i]);
            sl_checkpoint_close(&older);
        }
        behind |= strcmp(list.names[i], name) == 0;
    }
    sl_checkpoint_list_fini(&list);
    if (good[0])
        return sl_fail(SL_EFORMAT,
                       "checkpoint %s of '%s' cannot be used: %s: take the one before it with "
                       "--checkpoint %s",
                       name, output, reason, good);
    return sl_fail(SL_EFORMAT,
                   "checkpoint %s of '%s' cannot be used: %s: there is no older one that is "
                   "whole: choose another directory with --set output=DIR",
                   name, output, reason);
}

static int find_name(const char *output, const char *wanted, char out[SL_CHECKPOINT_NAME_BYTES])
{
    struct sl_checkpoint_list list;
    SL_TRY(sl_checkpoint_list(output, &list));
    char newest[SL_CHECKPOINT_NAME_BYTES] = "";
    bool there = false;
    for (uint32_t i = 0; i < list.n; i++) {
        there |= wanted && strcmp(list.names[i], wanted) == 0;
        snprintf(newest, sizeof newest, "%s", list.names[0]);
    }
    sl_checkpoint_list_fini(&list);
    snprintf(out, SL_CHECKPOINT_NAME_BYTES, "%s", wanted ? wanted : newest);
    if (wanted && !there)
        return sl_fail(SL_ENOENT, "--checkpoint: '%s' has no checkpoint '%s': %s%s", output, wanted,
                       newest[0] ? "the newest one is " : "it has none at all", newest);
    return SL_OK;
}

int sl_resume_find(const struct sl_config *config, const char *config_json, const char *wanted,
                   sl_rundir_waits waits, struct sl_resume *out)
{
    char name[SL_CHECKPOINT_NAME_BYTES];
    memset(out, 0, sizeof *out);
    SL_TRY(sl_rundir_examine(config->output, waits, &out->content));
    if (out->content != SL_RUNDIR_CHECKPOINTS)
        return wanted ? find_name(config->output, wanted, name) : SL_OK;
    SL_TRY(find_name(config->output, wanted, name));
    struct sl_checkpoint *c = &out->checkpoint;
    if (sl_checkpoint_open(config->output, name, c) < 0)
        return offer_older(config->output, name);
    int rc = check_unfinished(c, config);
    if (rc == SL_OK)
        rc = check_job(c, config_json, config->output);
    if (rc == SL_OK)
        rc = check_epochs(c, config);
    if (rc < 0)
        sl_resume_fini(out);
    return rc;
}

void sl_resume_fini(struct sl_resume *r)
{
    sl_checkpoint_close(&r->checkpoint);
    memset(r, 0, sizeof *r);
}

int sl_resume_check_dataset(const struct sl_resume *r, const struct sl_config *config,
                            uint64_t dataset_digest)
{
    if (r->content != SL_RUNDIR_CHECKPOINTS || r->checkpoint.dataset_digest == dataset_digest)
        return SL_OK;
    return sl_fail(SL_EEXIST,
                   "dataset: '%s' is not the data set%s that the run in '%s' was trained on (found "
                   "digest %016" PRIx64 ", wanted %016" PRIx64
                   "): give that one to go on, or choose another directory with --set output=DIR",
                   config->dataset,
                   sl_order_kinds[config->order.kind].parts ? " with the partition" : "",
                   config->output, dataset_digest, r->checkpoint.dataset_digest);
}

int sl_resume_outlook(const char *output, char buf[SL_RESUME_OUTLOOK_BYTES])
{
    struct sl_checkpoint_list list;
    enum sl_rundir_content content;
    uint32_t epochs;
    SL_TRY(sl_rundir_look(output, &content));
    snprintf(buf, SL_RESUME_OUTLOOK_BYTES, "begins it anew, since no checkpoint was written yet");
    if (content != SL_RUNDIR_CHECKPOINTS)
        return SL_OK;
    if (sl_rundir_is_reported(output) && read_report(output, &epochs))
        return refuse_finished(output, epochs, "", false);
    SL_TRY(sl_checkpoint_list(output, &list));
    if (list.n)
        snprintf(buf, SL_RESUME_OUTLOOK_BYTES, "goes on from update %llu",
                 strtoull(list.names[0], NULL, 10));
    sl_checkpoint_list_fini(&list);
    return SL_OK;
}

char *sl_resume_text(const struct sl_checkpoint *c, char *buf, size_t bytes)
{
    return sl_position_text(c->version, c->epoch, c->n_records, c->n_batches, buf, bytes);
}
