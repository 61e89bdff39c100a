/*
 * import_weights.c - `sluice import-weights`: parameters from elsewhere as a run that `predict`
 * takes.
 *
 * The model of a job file is asked for its tensors (model_child.h), the file is checked against
 * them, converted to float32, and written beside the job's configuration: config.json and
 * model.safetensors, no report. The directory appears whole or not at all.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/output.h"
#include "cli/command.h"
#include "cli/model_child.h"
#include "common/text/units.h"
#include "broker/params.h"
#include "broker/rundir.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/atomic_file.h"
#include "common/data/dataset.h"
#include "config/config.h"

struct import {
    const char *file, *job_path, *out, *dataset_path;
    bool quiet;
    int output; // enum sl_output
    char *job;  // JSON
    struct sl_config config;
    struct sl_dataset dataset;
    struct sl_params params;
    float *values;
};

static int64_t counted_batches(const char *path, const struct sl_params *params)
{
    int64_t batches = 0;
    struct sl_safetensors_file file;
    if (sl_safetensors_open(path, &file) < 0)
        return 0;
    for (uint32_t t = 0; t < params->n_tensors; t++) {
        const struct sl_safetensor *found = sl_safetensors_find(&file, params->tensors[t].name);
        if (params->tensors[t].role == SL_PARAM_COUNTER && found && found->dtype == SL_DTYPE_I64)
            memcpy(&batches, found->data, sizeof batches);
    }
    sl_safetensors_close(&file);
    return batches;
}

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
        rc = sl_params_save(&im->params, im->values,
                            (uint64_t)counted_batches(im->file, &im->params), path, im->config.name,
                            note);
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

static int print_json(const struct import *im)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.made/1");
    cJSON_AddStringToObject(o, "directory", im->out);
    cJSON_AddStringToObject(o, "from", im->file);
    cJSON_AddNumberToObject(o, "tensors", im->params.n_tensors);
    cJSON_AddNumberToObject(o, "parameters", (double)im->params.n);
    return sl_output_json_line(o, "the summary");
}

static int import(void *state)
{
    struct import *im = state;
    SL_TRY(sl_rundir_check(im->out));
    SL_TRY(sl_model_child_job(im->job_path, im->dataset_path, &im->job));
    SL_TRY(sl_config_parse(im->job, strlen(im->job), im->job_path, &im->config));
    SL_TRY(sl_dataset_open(im->config.dataset, SL_NEED_TOPOLOGY | SL_NEED_FEATURES, SL_CHECK_CACHED,
                           0, &im->dataset));
    sl_interrupt_catch();
    SL_TRY(sl_model_child_describe(im->job, &im->dataset, &im->params));
    im->values = calloc(SL_MAX(im->params.n, (uint64_t)1), sizeof *im->values);
    if (!im->values)
        return sl_fail(SL_ENOMEM, "no memory for %" PRIu64 " parameters", im->params.n);
    SL_TRY(sl_params_load(&im->params, im->file, im->values));
    SL_TRY(sl_interrupt_check());
    SL_TRY(write_run(im));
    char text[SL_UNITS_BYTES];
    if (im->output == SL_OUTPUT_JSON)
        return print_json(im);
    if (!im->quiet)
        printf("%s: %u tensors, %s parameters from %s\n  sluice predict %s --out logits.npy\n",
               im->out, im->params.n_tensors, sl_units_grouped(text, im->params.n), im->file,
               im->out);
    return SL_EXIT_OK;
}

static void release(void *state)
{
    struct import *im = state;
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
    {.name = "quiet", .letter = 'q', AT(FLAG, quiet), .help = "no text"},
    {0},
};
// clang-format on

const struct sl_command sl_command_import_weights = {
    .name = "import-weights",
    .help = "make a run directory of parameters that were trained elsewhere",
    .about = "Makes a run directory of parameters that were trained elsewhere: a .safetensors "
             "file with the state_dict of the PyTorch Geometric model that the job describes. "
             "Names and shapes must agree; float16, bfloat16 and float64 become float32. A "
             "job begins with such parameters when it names the file in model.weights.",
    .example = "sluice import-weights gcn.safetensors --job gcn.json --out runs/gcn",
    .operands = {{"FILE.safetensors", offsetof(struct import, file)}},
    .options = {{options}, {sl_output_option, offsetof(struct import, output)}},
    .bytes = sizeof(struct import),
    .run = import,
    .fini = release,
};
