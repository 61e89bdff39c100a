#include "cli/job_check.h"
#include "cli/dataset_command.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/dispatch.h"
#include "cli/run_view.h"
#include "broker/sharding/gpus.h"
#include "broker/epochs/phases.h"
#include "broker/rundir/rundir.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/order_kind.h"
#include "common/base/failpoint.h"
#include "common/data/safetensors.h"
#include "nodes/launcher.h"

#define AT(kind, field) SL_OPTION_AT(kind, sl_job_check, field)
// clang-format off
const struct sl_option sl_job_check_options[] = {
    {.name = "set", AT(LIST, set), .placeholder = "PATH=VALUE", .find_key = sl_config_find_key,
     .help = "change a key of the job file, e.g. epochs=5 or sampler.fanout=[10,5]"},
    {.name = "report", AT(TEXT, report), .placeholder = "FILE",
     .help = "write the report here too"},
    {.name = "checkpoint", AT(TEXT, checkpoint), .placeholder = "NAME",
     .help = "go on from this checkpoint of the output directory, not from its newest"},
    {.name = "quiet", .letter = 'q', AT(FLAG, quiet), .help = "show nothing but errors"},
    {0},
};
// clang-format on

// --- the data set --------------------------------------------------------------------------------

static int open_dataset(struct sl_job_check *r)
{
    const struct sl_config *c = &r->config;
    unsigned need = sl_config_needs(c);
    if (r->dry_run && r->nodes <= 1 && !sl_config_is_links(c))
        need |= SL_TAKES_DESCRIBED;
    char path[sizeof c->dataset];
    snprintf(path, sizeof path, "%s", c->dataset);
    if (r->nodes > 1) {
        need |= SL_TAKES_SHARD;
        SL_TRY(sl_shard_find(c->dataset, r->node, r->nodes, path, sizeof path));
    }
    SL_TRY(sl_dataset_check_open(path, need, SL_CHECK_CACHED, r->quiet, &r->dataset));
    sl_config_choose_features(c, &r->dataset);
    return sl_config_check_shard(c, &r->dataset);
}

// --- the job -------------------------------------------------------------------------------------

static int load_config(struct sl_job_check *r)
{
    struct sl_config_override *overrides = NULL;
    size_t n = r->set.n;
    if (n) {
        overrides = calloc(n, sizeof *overrides);
        if (!overrides)
            return sl_fail(SL_ENOMEM, "no memory for %zu --set options", n);
        for (size_t i = 0; i < n; i++)
            overrides[i].text = r->set.items[i];
    }
    int rc = sl_config_load(r->job, overrides, n, &r->config);
    free(overrides);
    return rc;
}

// GPUs: which there are, what of each the job may take. `away`: it is for a daemon, which has its
// own; whether what it names can be had is the daemon's to say.
static int take_gpus(struct sl_job_check *r, bool away)
{
    char note[SL_GPUS_NOTE_BYTES];
    if (away)
        return SL_OK;
    SL_TRY(sl_gpus_resolve(&r->config, r->job, note));
    if (note[0] && !r->quiet)
        fprintf(stderr, "sluice: note: %s\n", note);
    return SL_OK;
}

// A dry run without a launcher, or in a batch script whose allocation is of n: of so many nodes as
// the job says, or the data set is spread over.
static int foresee_nodes(struct sl_job_check *r, uint32_t n)
{
    const struct sl_config *c = &r->config;
    uint32_t shards = 0;
    if (c->nodes_auto && n == 1)
        SL_TRY(sl_shards_at(c->dataset, &shards));
    r->nodes = !c->nodes_auto ? c->nodes : SL_MAX(n, shards);
    return sl_config_check_nodes(c, r->nodes) < 0 ? sl_fail_prefix(SL_EINVAL, "%s", r->job) : SL_OK;
}

// The nodes: those that the launcher has started, where the job is for several. `away`: a daemon
// has one machine.
static int find_nodes(struct sl_job_check *r, bool away)
{
    const struct sl_config *c = &r->config;
    uint32_t rank, n = sl_launcher_size(&rank);
    if (away && c->nodes_auto)
        return SL_OK;
    if (away && c->nodes > 1)
        return sl_fail(SL_EINVAL,
                       "%s: nodes: found %u, wanted 1 or \"auto\": a daemon runs jobs on its own "
                       "machine: start this one with mpirun or srun and 'sluice run'",
                       r->job, c->nodes);
    if (away)
        return SL_OK;
    if (r->dry_run && (n == 1 || sl_launcher_is_batch()))
        SL_TRY(foresee_nodes(r, n));
    if (r->machine && (r->nodes > 1 || (n != 1 && !sl_launcher_is_batch())))
        return sl_fail(SL_EINVAL,
                       "%s: --machine: found with a job on several nodes, wanted one on one: set "
                       "nodes to 1, or take --machine out",
                       r->job);
    if (r->dry_run && (n == 1 || sl_launcher_is_batch()))
        return SL_OK;
    if (!c->nodes_auto && c->nodes == 1 && (n > 1 || rank > 0) && !sl_launcher_is_batch())
        return sl_fail(SL_EINVAL,
                       "%s: nodes: found 1, and the launcher has started %u processes, of which "
                       "each would run the whole job: set nodes to \"auto\", or start one",
                       r->job, n);
    if (!c->nodes_auto && c->nodes == 1)
        return SL_OK;
    if (n > 0 && sl_config_check_nodes(c, n) < 0)
        return sl_fail_prefix(SL_EINVAL, "%s", r->job);
    r->over_nodes = n != 1;
    r->nodes = n;
    r->node = rank;
    r->quiet |= rank > 0;
    return SL_OK;
}

// How many batches an epoch has only the data set can tell.
static int check_schedule(const struct sl_job_check *r)
{
    uint64_t batches = sl_phases_batches(&r->config, r->dataset.split[SL_SPLIT_TRAIN].n);
    for (uint32_t i = 0; i < r->config.n_schedule; i++)
        if (r->config.schedule[i].batch > batches)
            return sl_fail(SL_EINVAL,
                           "%s: schedule[%u].batch: found %u, wanted at most %" PRIu64
                           ", the mini-batches of an epoch: correct it",
                           r->job, i, r->config.schedule[i].batch, batches);
    return SL_OK;
}

// One weight for each class of the data set.
static int check_class_weights(const struct sl_job_check *r)
{
    enum sl_class_weights kind = r->config.loss.class_weights;
    const struct sl_dataset *ds = &r->dataset;
    if (kind != SL_CLASS_WEIGHTS_NONE && ds->task == SL_TASK_REGRESSION)
        return sl_fail(SL_EINVAL,
                       "%s: loss.class_weights: found it with the data set '%s', which is of a "
                       "regression and has no classes: take it out",
                       r->job, r->config.dataset);
    if (kind != SL_CLASS_WEIGHTS_LIST || r->config.loss.n_class_weights == ds->n_classes)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s: loss.class_weights: found %u numbers, wanted %u, one for each %s of the "
                   "data set '%s': give as many, or \"balanced\" or \"none\"",
                   r->job, r->config.loss.n_class_weights, ds->n_classes,
                   ds->task == SL_TASK_MULTILABEL ? "label" : "class", r->config.dataset);
}

// Initial parameters: whether the file is one. Which model it is of only the trainers can tell.
static int check_weights(const struct sl_job_check *r, bool goes_on)
{
    struct sl_safetensors_file file;
    if (!r->config.model.weights[0] || goes_on)
        return SL_OK;
    int rc = sl_safetensors_open(r->config.model.weights, &file);
    if (rc == SL_ENOENT)
        return sl_fail(rc,
                       "%s: model.weights: found \"%s\", wanted a .safetensors file, and there is "
                       "none of that name: correct the path, or leave it out for random values",
                       r->job, r->config.model.weights);
    if (rc < 0)
        return sl_fail_prefix(rc, "model.weights");
    sl_safetensors_close(&file);
    return SL_OK;
}

static void tell_wait(const char *path, const struct sl_rundir_user *user)
{
    fprintf(stderr, "waiting for '%s', which %s is about to leave\n", path, user->who);
}

// Says that it is not the beginning, before the first line of progress.
static void tell_resume(const struct sl_job_check *r)
{
    char where[96];
    if (r->quiet)
        return;
    if (r->resume.content == SL_RUNDIR_BEGUN)
        fprintf(stderr,
                "sluice: note: '%s' is of a run that was killed before its first checkpoint: the "
                "job begins anew there\n",
                r->config.output);
    if (r->resume.content == SL_RUNDIR_CHECKPOINTS)
        fprintf(stderr, "going on from %s\n",
                sl_resume_text(&r->resume.checkpoint, where, sizeof where));
}

static int make_absolute(char path[SL_CONFIG_PATH_BYTES], const char *what)
{
    char here[PATH_MAX], whole[PATH_MAX + SL_CONFIG_PATH_BYTES + 2];
    if (!path[0] || path[0] == '/')
        return SL_OK;
    if (!getcwd(here, sizeof here))
        return sl_fail_errno(SL_ESYS, errno, "%s '%s': the working directory", what, path);
    int n = snprintf(whole, sizeof whole, "%s/%s", here, path);
    if (n >= SL_CONFIG_PATH_BYTES)
        return sl_fail(SL_ERANGE, "%s: '%s' has %d characters, wanted fewer than %d", what, whole,
                       n, SL_CONFIG_PATH_BYTES);
    memcpy(path, whole, (size_t)n + 1);
    return SL_OK;
}

static int make_paths_absolute(struct sl_job_check *r)
{
    char report[SL_CONFIG_PATH_BYTES];
    SL_TRY(make_absolute(r->config.dataset, "dataset"));
    SL_TRY(make_absolute(r->config.output, "output"));
    SL_TRY(make_absolute(r->config.model.weights, "model.weights"));
    if (!r->report)
        return SL_OK;
    if (strlen(r->report) >= sizeof report)
        return sl_fail(SL_ERANGE, "--report: found %zu characters, wanted fewer than %zu",
                       strlen(r->report), sizeof report);
    snprintf(report, sizeof report, "%s", r->report);
    SL_TRY(make_absolute(report, "--report"));
    r->report_path = strdup(report);
    return r->report_path ? SL_OK : sl_fail(SL_ENOMEM, "no memory for the report's name");
}

// Links learned from a graph as it is: a graph has no edges that were held out.
static void tell_unjudged(const struct sl_job_check *r)
{
    const struct sl_pair_list *edges = r->dataset.edges;
    if (r->quiet || !sl_config_is_links(&r->config) || sl_config_is_external(&r->config) ||
        edges[SL_SPLIT_VAL].n + edges[SL_SPLIT_TEST].n > 0)
        return;
    fprintf(stderr,
            "sluice: note: the data set has no edges to validate or to test (val_edges.npy, "
            "test_edges.npy), so that nothing says how good the model is: `sluice split-edges` "
            "holds some out\n");
}

int sl_job_check_run(struct sl_job_check *r, bool absolute)
{
    SL_TRY(sl_failpoint_init()); // for the processes to come
    SL_TRY(load_config(r));
    SL_TRY(find_nodes(r, absolute));
    SL_TRY(take_gpus(r, absolute));
    if (absolute)
        SL_TRY(make_paths_absolute(r));
    r->config_json = sl_config_to_json(&r->config);
    if (!r->config_json)
        return sl_fail(SL_ENOMEM, "no memory for the configuration");
    if (r->report)
        SL_TRY(sl_rundir_check_file(r->report, "--report"));
    SL_TRY(open_dataset(r));
    int rc = sl_config_choose_items(&r->config, &r->dataset);
    if (rc == SL_OK)
        rc = sl_config_find_relations(&r->config, &r->dataset.typed);
    if (rc == SL_OK)
        rc = sl_judging_check(&r->config, &r->dataset);
    if (rc < 0)
        return sl_fail_prefix(rc, "%s", r->job);
    SL_TRY(sl_judging_find(&r->judging, &r->config, &r->dataset));
    uint64_t n_train = r->dataset.split[SL_SPLIT_TRAIN].n, identity;
    // The broker settles it likewise.
    sl_config_settle_epochs(&r->config, sl_phases_updates(&r->config, n_train),
                            r->judging.finds_best, r->epochs_note);
    SL_TRY(check_class_weights(r));
    SL_TRY(check_schedule(r));
    if (r->node > 0)
        return SL_OK; // whether it goes on, and from where, is for the first node to say
    // A key that is wrong comes before a directory that is taken.
    rc = sl_resume_find(&r->config, r->config_json, r->checkpoint, r->quiet ? NULL : tell_wait,
                        &r->resume);
    SL_TRY(check_weights(r, rc == SL_OK && r->resume.content == SL_RUNDIR_CHECKPOINTS));
    SL_TRY(rc);
    SL_TRY(sl_epoch_order_identity(r->config.order.kind, &r->dataset, &identity));
    SL_TRY(sl_resume_check_dataset(&r->resume, &r->config, identity));
    tell_resume(r);
    if (r->config.sampler.batch_size > n_train && !r->quiet)
        fprintf(stderr,
                "sluice: note: sampler.batch_size %" PRIu64 " is larger than the training set of "
                "%" PRIu64 ": every epoch is one mini-batch\n",
                r->config.sampler.batch_size, n_train);
    tell_unjudged(r);
    if (*r->epochs_note && !r->quiet)
        fprintf(stderr, "sluice: note: %s\n", r->epochs_note);
    if (sl_config_sums_differ(&r->config) && !r->quiet)
        fprintf(stderr,
                "sluice: note: training sums the neighbours that were sampled, and "
                "evaluation %s: where sampler.fanout cuts, the sums are others than those "
                "that the model was trained on (model.degrees \"graph\" scales them)\n",
                r->config.evaluate.full ? "all of them" : "as many as evaluate.fanout says");
    return SL_OK;
}

void sl_job_check_fini(struct sl_job_check *r)
{
    sl_dataset_close(&r->dataset);
    sl_resume_fini(&r->resume);
    sl_config_forget_relations(&r->config);
    free(r->config_json);
    free(r->report_path);
    r->config_json = r->report_path = NULL;
}

int sl_job_check_status(int rc)
{
    if (sl_exit_status(rc) == SL_EXIT_USAGE)
        return rc;
    fprintf(stderr, "sluice: %s\n", sl_error_message());
    return SL_EXIT_USAGE;
}

int sl_job_check_result(const struct sl_job_check *check, const Sl__Control__Finished *finished,
                        enum sl_output output)
{
    enum sl_run_view_result what = output == SL_OUTPUT_JSON ? SL_RUN_VIEW_JSON
                                   : check->quiet           ? SL_RUN_VIEW_NOTHING
                                                            : SL_RUN_VIEW_SUMMARY;
    // Another node than the first leaves nothing, whenever it ends.
    const char *nothing = check->node > 0 ? ""
                          : check->resume.content == SL_RUNDIR_CHECKPOINTS
                              ? " before it went on; the run is as it was"
                              : " before it began; nothing was left";
    return sl_run_view_result(finished, check->config.name, what, nothing);
}
