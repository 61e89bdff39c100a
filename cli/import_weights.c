/*
 * import_weights.c - `sluice import-weights`: parameters from elsewhere as a run that `predict`
 * takes.
 *
 * The model of a job file is asked for its tensors (trainer_subprocess.h), the file is checked
 * against them, converted to float32, and written beside the job's configuration: config.json and
 * model.safetensors, no report. The directory appears whole or not at all.
 *
 * Names and shapes do not say all that a model computes. With --check the child applies it to the
 * whole graph and compares what comes out with the original's logits.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/command.h"
#include "cli/trainer_subprocess.h"
#include "cli/output.h"
#include "common/text/units.h"
#include "broker/rundir/params.h"
#include "broker/rundir/rundir.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/atomic_file.h"
#include "common/data/dataset.h"
#include "config/config.h"

// How far an output may be from the original's, absolute up to 1 and relative above: rounding of
// float32 in other orders of sums is some 1e-6, what a model does otherwise some 1e-2.
#define TOLERANCE 1e-4

// What --check found: the largest difference (trainer/infer/logits_check.h).
struct check {
    double largest, found, wanted;
    uint64_t vertex, output;
    int logarithms; // the original's are log_softmax of something
};

struct import {
    const char *file, *job_path, *out, *dataset_path, *strip_prefix, *logits;
    bool quiet;
    int output; // enum sl_output
    char *job;  // JSON
    struct sl_config config;
    struct sl_dataset dataset;
    struct sl_trainer_subprocess child;
    struct sl_params params;
    float *values;
    uint64_t batches; // that its counters say
    struct check check;
};

static int ask_model(struct import *im)
{
    const char *const describe[] = {"--describe", NULL};
    const char *const predict[] = {"--predict", "--check", im->logits, NULL};
    const char *const *options = im->logits ? predict : describe;
    SL_TRY(sl_trainer_subprocess_start(&im->child, im->job, &im->dataset, options));
    return sl_trainer_subprocess_hello(&im->child, &im->params);
}

// What the child says after its tensors, to the end.
static int follow_child(struct import *im)
{
    char line[4096];
    struct check *c = &im->check;
    int rc;
    while ((rc = sl_trainer_subprocess_line(&im->child, line, sizeof line)) == SL_OK)
        sscanf(line, "result check %lf %" SCNu64 " %" SCNu64 " %lf %lf %d", &c->largest, &c->vertex,
               &c->output, &c->found, &c->wanted, &c->logarithms);
    return rc == SL_EAGAIN ? SL_OK : rc;
}

// ---- what tensors do not tell -------------------------------------------------------------------

static bool has_norm(const struct sl_config *c)
{
    return c->model.norm != SL_NORM_NONE;
}

static bool is_layer_norm(const struct sl_config *c)
{
    return c->model.norm == SL_NORM_LAYER;
}

static bool is_graphsage(const struct sl_config *c)
{
    return c->model.kind == SL_MODEL_GRAPHSAGE;
}

static bool is_gcn(const struct sl_config *c)
{
    return c->model.kind == SL_MODEL_GCN;
}

static bool is_attention(const struct sl_config *c)
{
    return c->model.kind == SL_MODEL_GAT || c->model.kind == SL_MODEL_GATV2;
}

// What PyTorch Geometric's models may do that no tensor of them shows, and no job does: the table
// of trainer/MODELS.md.
static const struct {
    const char *what;
    bool (*of)(const struct sl_config *c); // NULL: of all models
} untold[] = {
    {"LayerNorm in its default mode 'graph' (norm layer is mode 'node')", is_layer_norm},
    {"act_first=True", has_norm},
    {"normalize=True", is_graphsage},
    {"another aggr", is_graphsage},
    {"normalize=False", is_gcn},
    {"another negative_slope than 0.2", is_attention},
    {"another act", NULL},
};

static void print_note(const struct import *im)
{
    const char *gap = "";
    fprintf(stderr, "sluice: note: the tensors fit, which does not show whether the original has ");
    for (size_t i = 0; i < SL_COUNT_OF(untold); i++) {
        if (untold[i].of && !untold[i].of(&im->config))
            continue;
        fprintf(stderr, "%s%s", gap, untold[i].what);
        gap = ", ";
    }
    fprintf(stderr, ": --check LOGITS.npy compares its outputs with these\n");
}

static int check_logits(struct import *im)
{
    struct check *c = &im->check;
    c->largest = INFINITY;
    SL_TRY(sl_trainer_subprocess_go(&im->child, im->values, im->params.n));
    SL_TRY(follow_child(im));
    if (c->largest <= TOLERANCE)
        return SL_OK;
    return sl_fail(SL_EFAILED,
                   "import-weights --check %s: vertex %" PRIu64 ", output %" PRIu64
                   ": found %g, the original has %g: %.3g apart, more than rounding (%g), so "
                   "nothing was made: %s",
                   im->logits, c->vertex, c->output, c->found, c->wanted, c->largest, TOLERANCE,
                   c->logarithms ? "the original's are log_softmax of logits: save those"
                                 : "the original computes what its tensors do not tell "
                                   "(trainer/MODELS.md lists it), or other features or edges");
}

// ---- the run directory --------------------------------------------------------------------------

static int make_parents(const char *path)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return sl_fail_errno(SL_EACCESS, errno, "making directory '%s'", part);
        *slash = '/';
    }
    return SL_OK;
}

// In a directory of a hidden name, which gets its own at the end.
static int write_run(struct import *im)
{
    char temporary[4300], path[4400], out[4096], note[4200];
    size_t n = strlen(im->out);
    while (n > 1 && im->out[n - 1] == '/')
        n--;
    snprintf(out, sizeof out, "%.*s", (int)n, im->out);
    SL_TRY(make_parents(out));
    const char *slash = strrchr(out, '/');
    int head = slash ? (int)(slash - out) + 1 : 0;
    snprintf(temporary, sizeof temporary, "%.*s.%s.%d.tmp", head, out, out + head, (int)getpid());
    if (mkdir(temporary, 0777) != 0)
        return sl_fail_errno(SL_EACCESS, errno, "making directory '%s'", temporary);
    snprintf(path, sizeof path, "%s/config.json", temporary);
    int rc = sl_atomic_file_write(path, im->job, strlen(im->job));
    snprintf(path, sizeof path, "%s/model.safetensors", temporary);
    snprintf(note, sizeof note, "imported from %s", im->file);
    if (rc == SL_OK)
        rc = sl_params_save(&im->params, im->values, im->batches, path, im->config.name, note);
    // An empty directory may stand there already.
    if (rc == SL_OK && rename(temporary, out) != 0)
        rc = sl_fail_errno(SL_EEXIST, errno, "making run directory '%s'", out);
    if (rc < 0) {
        unlink(path);
        snprintf(path, sizeof path, "%s/config.json", temporary);
        unlink(path);
        rmdir(temporary);
    }
    return rc;
}

static void add_check(const struct import *im, cJSON *o)
{
    cJSON *check = cJSON_AddObjectToObject(o, "check");
    cJSON_AddStringToObject(check, "original", im->logits);
    cJSON_AddNumberToObject(check, "largest_difference", im->check.largest);
    cJSON_AddNumberToObject(check, "vertex", (double)im->check.vertex);
    cJSON_AddNumberToObject(check, "output", (double)im->check.output);
}

static int print_json(const struct import *im)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.made/1");
    cJSON_AddStringToObject(o, "directory", im->out);
    cJSON_AddStringToObject(o, "from", im->file);
    cJSON_AddNumberToObject(o, "tensors", im->params.n_tensors);
    cJSON_AddNumberToObject(o, "parameters", (double)im->params.n);
    if (im->logits)
        add_check(im, o);
    return sl_output_json_line(o, "the summary");
}

static void print_text(const struct import *im)
{
    char text[SL_UNITS_BYTES];
    printf("%s: %u tensors, %s parameters from %s\n", im->out, im->params.n_tensors,
           sl_units_grouped(text, im->params.n), im->file);
    if (im->logits)
        printf("  check      largest difference from %s %.3g, at vertex %" PRIu64
               ", output %" PRIu64 ": %g, the original %g\n",
               im->logits, im->check.largest, im->check.vertex, im->check.output, im->check.found,
               im->check.wanted);
    printf("  sluice predict %s --out logits.npy\n", im->out);
}

// A prefix is whole words of a name: "model" is "model.".
static int import_params(struct import *im)
{
    char prefix[512];
    size_t n = im->strip_prefix ? strlen(im->strip_prefix) : 0;
    if (im->strip_prefix && (n == 0 || n + 2 > sizeof prefix))
        return sl_fail(SL_EINVAL,
                       "import-weights --strip-prefix '%.80s': wanted the beginning of "
                       "names, as in model.",
                       im->strip_prefix);
    if (n)
        snprintf(prefix, sizeof prefix, "%s%s", im->strip_prefix,
                 im->strip_prefix[n - 1] == '.' ? "" : ".");
    return sl_params_import(&im->params, im->file, n ? prefix : NULL, im->values, &im->batches);
}

// Rows that are learned beside features, of a typed graph those of types without.
static int check_learned(const struct import *im)
{
    const struct sl_typed *t = &im->dataset.typed;
    uint32_t bare = 0;
    if (sl_config_learned_dim(&im->config) == 0)
        return SL_OK;
    while (bare < t->n_types && t->type[bare].feat)
        bare++;
    return sl_fail(SL_EINVAL,
                   "%s: features.kind: found \"both\", by which vertices%s%s of data set '%s' have "
                   "learned rows, wanted \"file\": import-weights brings a model's parameters "
                   "alone",
                   im->job_path, bare < t->n_types ? " of type " : "",
                   bare < t->n_types ? t->type[bare].name : "", im->dataset.path);
}

static int import(void *state)
{
    struct import *im = state;
    SL_TRY(sl_rundir_check(im->out));
    SL_TRY(sl_trainer_subprocess_job(im->job_path, im->dataset_path, &im->job));
    SL_TRY(sl_config_parse(im->job, strlen(im->job), im->job_path, &im->config));
    if (im->config.features.kind == SL_INPUT_LEARNED)
        return sl_fail(SL_EINVAL,
                       "%s: features.kind: found \"learned\", wanted \"file\": import-weights "
                       "brings a model's parameters alone",
                       im->job_path);
    SL_TRY(sl_dataset_open(im->config.dataset, sl_config_needs_to_predict(&im->config),
                           SL_CHECK_CACHED, 0, &im->dataset));
    SL_TRY(check_learned(im));
    sl_interrupt_catch();
    SL_TRY(ask_model(im));
    im->values = calloc(SL_MAX(im->params.n, (uint64_t)1), sizeof *im->values);
    if (!im->values)
        return sl_fail(SL_ENOMEM, "no memory for %" PRIu64 " parameters", im->params.n);
    SL_TRY(import_params(im));
    SL_TRY(im->logits ? check_logits(im) : follow_child(im));
    SL_TRY(sl_interrupt_check());
    SL_TRY(write_run(im));
    if (!im->quiet && !im->logits)
        print_note(im);
    if (im->output == SL_OUTPUT_JSON)
        return print_json(im);
    if (!im->quiet)
        print_text(im);
    return SL_EXIT_OK;
}

static void release(void *state)
{
    struct import *im = state;
    sl_trainer_subprocess_end(&im->child);
    sl_params_fini(&im->params);
    sl_dataset_close(&im->dataset);
    free(im->values);
    free(im->job);
}

#define AT(kind, field) SL_OPTION_AT(kind, import, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "job", AT(TEXT, job_path), .placeholder = "JOB.json", .required = true,
     .help = "job (or config.json) whose model and data set the parameters are of"},
    {.name = "out", AT(TEXT, out), .placeholder = "RUN", .required = true,
     .help = "the run directory to make"},
    {.name = "dataset", AT(TEXT, dataset_path), .placeholder = "DIR",
     .help = "instead of the job's data set"},
    {.name = "strip-prefix", AT(TEXT, strip_prefix), .placeholder = "PREFIX",
     .help = "take this off the names that begin with it: model., module., _orig_mod."},
    {.name = "check", AT(TEXT, logits), .placeholder = "FILE.npy",
     .help = "compare with the original's logits of all vertices (float32 or float64): where an "
             "output differs by more than 1e-4, of rows beyond 1 relative to their largest, "
             "nothing is made and the exit status is 1"},
    {.name = "quiet", .letter = 'q', AT(FLAG, quiet), .help = "no text"},
    {0},
};
// clang-format on

const struct sl_command sl_command_import_weights = {
    .name = "import-weights",
    .help = "make a run directory of parameters that were trained elsewhere",
    .about = "Makes a run directory of parameters that were trained elsewhere: a .safetensors "
             "file with the state_dict of the PyTorch Geometric model that the job describes. "
             "Names and shapes must agree; float16, bfloat16 and float64 become float32. They do "
             "not tell all that the model does: --check compares what it computes. A job begins "
             "with such parameters when it names the file in model.weights.",
    .example = "sluice import-weights gcn.safetensors --job gcn.json --out runs/gcn\n"
               "sluice import-weights gcn.safetensors --job gcn.json --out runs/gcn --check "
               "logits.npy",
    .operands = {{"FILE.safetensors", offsetof(struct import, file)}},
    .options = {{options}, {sl_output_option, offsetof(struct import, output)}},
    .bytes = sizeof(struct import),
    .run = import,
    .fini = release,
};
