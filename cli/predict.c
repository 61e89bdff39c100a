/*
 * predict.c - `sluice predict` and `sluice embed`: a run's model over a whole graph.
 *
 * The model runs in a program of its own (trainer_subprocess.h), layer after layer over all
 * neighbours, and writes the result itself, so what is here is small: which job, which parameters,
 * which vertices, and how good it was where the data set has labels.
 */
#include "cli/predict.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/command.h"
#include "cli/trainer_subprocess.h"
#include "cli/output.h"
#include "cli/prediction_csv.h"
#include "cli/prediction_device.h"
#include "cli/prediction_score.h"
#include "cli/run_name.h"
#include "common/text/json.h"
#include "common/text/progress.h"
#include "common/text/text.h"
#include "common/base/threads.h"
#include "common/text/units.h"
#include "broker/rundir/row_files.h"
#include "broker/rundir/run_reader.h"
#include "broker/rundir/rundir.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/names.h"
#include "config/config.h"

struct options {
    const char *run, *out, *nodes, *pairs, *dataset, *weights, *scratch, *device, *type;
    int set; // enum prediction_set
    uint64_t layer, memory, gpu_memory, chunk, threads;
    bool layer_given, set_given, chunk_given;
    int val_edges; // enum val_edges
    bool classes, probabilities, names, best, last, force, quiet;
    int output; // enum sl_output
};

static const char *const set_names[] = {"train", "val", "test", "all", NULL};
enum { SET_ALL = 3 };

enum val_edges { VAL_EDGES_AUTO, VAL_EDGES_WITH, VAL_EDGES_WITHOUT };
static const char *const val_edges_names[] = {"auto", "with", "without", NULL};

// The files that --out may name, by how the name ends.
static const char npy_ending[] = ".npy", csv_ending[] = ".csv";

struct prediction {
    struct options o;
    bool embeds, csv;
    bool with_val_edges; // in the graph
    bool says_nothing;   // a step of another command, which wants the rows of
    enum sl_embed_end end;
    // Where the child puts the rows: --out, or a hidden file that loses its name once it is open.
    char rows_path[PATH_MAX];
    char run_path[SL_RUN_NAME_BYTES]; // of a run that was named otherwise
    int rows_fd;                      // that file without a name; -1: none
    char weights[4200];
    const char *weights_are; // "best", "last", "given"
    char learned[4200];      // rows of vertices that were trained with them; "": none
    char *job;               // JSON
    struct sl_prediction_device device;
    struct sl_config config;
    struct sl_dataset dataset;
    struct sl_names vertex_names, class_names; // of --names; n 0: there are none
    struct sl_trainer_subprocess child;
    struct sl_params params;
    float *values;
    struct sl_progress progress;
    uint32_t stage; // layer that progress shows, + 1
    // Told by the child.
    uint64_t rows, computed, not_finite, first_broken;
    uint32_t layer;
    double seconds;
    struct sl_prediction_score score;
};

// ---- what is asked ------------------------------------------------------------------------------

static const char *command_name(const struct prediction *p)
{
    return p->embeds ? "embed" : "predict";
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int read_job(struct prediction *p, const char *dataset);

// The best parameters where the run has them, else the last ones.
static int choose_weights(struct prediction *p)
{
    const struct options *o = &p->o;
    if (o->weights) {
        snprintf(p->weights, sizeof p->weights, "%s", o->weights);
        p->weights_are = "given";
        return SL_OK;
    }
    char last[sizeof p->weights];
    snprintf(last, sizeof last, "%s/model.safetensors", o->run);
    snprintf(p->weights, sizeof p->weights, "%s/model.best.safetensors", o->run);
    p->weights_are = "best";
    if (o->best && !exists(p->weights) && exists(last))
        return sl_fail(SL_ENOENT,
                       "%s --best: run '%s' has no model.best.safetensors: no validation was the "
                       "best; leave --best out",
                       command_name(p), o->run);
    if (!o->last && exists(p->weights))
        return SL_OK;
    memcpy(p->weights, last, sizeof last);
    p->weights_are = "last";
    if (!exists(p->weights)) {
        SL_TRY(read_job(p, o->dataset)); // which may say that there never will be
        return sl_fail(SL_ENOENT,
                       "%s: run '%s' has no model.safetensors, so it is not finished: let it end, "
                       "or name parameters with --weights (those of a checkpoint, such as "
                       "%s/checkpoints/*/model.safetensors)",
                       command_name(p), o->run, o->run);
    }
    return SL_OK;
}

// --out says by its ending what is written. The child writes .npy in any case.
static int check_out(struct prediction *p)
{
    const char *out = p->o.out, *slash = strrchr(out, '/');
    const int n_dir = slash ? (int)(slash - out) + 1 : 0;
    p->csv = sl_text_ends_in(out, csv_ending);
    if (!p->csv && !sl_text_ends_in(out, npy_ending))
        return sl_fail(SL_EINVAL,
                       "%s --out '%s': found a name that ends otherwise, wanted FILE%s (for NumPy) "
                       "or FILE%s (text)",
                       command_name(p), out, npy_ending, csv_ending);
    SL_TRY(sl_rundir_check_file(out, "--out"));
    const char *base = out + n_dir;
    int n = p->csv ? snprintf(p->rows_path, sizeof p->rows_path, "%.*s.%s.%ld.rows", n_dir, out,
                              base, (long)getpid())
                   : snprintf(p->rows_path, sizeof p->rows_path, "%s", out);
    return n < (int)sizeof p->rows_path
               ? SL_OK
               : sl_fail(SL_EINVAL, "%s --out '%s': the name is too long", command_name(p), out);
}

static int check_options(struct prediction *p)
{
    const struct options *o = &p->o;
    const char *name = command_name(p);
    char path[4200];
    if (o->classes && o->probabilities)
        return sl_fail(SL_EINVAL, "%s: --classes and --probabilities: wanted one of them", name);
    if (o->best + o->last + (o->weights != NULL) > 1)
        return sl_fail(SL_EINVAL, "%s: --best, --last and --weights: wanted one of them", name);
    if ((o->nodes != NULL) + o->set_given + (o->pairs != NULL) > 1)
        return sl_fail(SL_EINVAL, "%s: --nodes, --pairs and --set: wanted one of them", name);
    if (o->pairs && o->classes)
        return sl_fail(SL_EINVAL, "%s: --pairs and --classes: a pair has a score and no class",
                       name);
    int found = sl_run_name_find(o->run, p->run_path);
    if (found == SL_EINVAL)
        return sl_fail_prefix(found, "%s", name);
    p->o.run = found == SL_OK ? p->run_path : o->run;
    snprintf(path, sizeof path, "%s/config.json", o->run);
    if (!exists(path))
        return sl_fail(SL_ENOENT,
                       "%s: '%s' is no run directory: it has no config.json: wanted what `sluice "
                       "run` or `sluice import-weights` made",
                       name, o->run);
    SL_TRY(check_out(p));
    if (o->names && !p->csv)
        return sl_fail(SL_EINVAL,
                       "%s --names --out '%s': an array has no place for names: wanted FILE%s, or "
                       "no --names (the data set's vertex_names.npy has them)",
                       name, o->out, csv_ending);
    if (exists(o->out) && !o->force)
        return sl_fail(SL_EEXIST, "%s: '%s' exists: name another file or give --force", name,
                       o->out);
    if (o->scratch && access(o->scratch, W_OK | X_OK) != 0)
        return sl_fail_errno(errno == ENOENT || errno == ENOTDIR ? SL_ENOENT : SL_EACCESS, errno,
                             "%s --scratch '%s': wanted a directory that can be written to", name,
                             o->scratch);
    return choose_weights(p);
}

/*
 * A job names its data set relative to the directory it was started in, which is where the run
 * directory's own relative name leads from as well. False where that cannot be told, or nothing
 * is there.
 */
static bool find_beside_run(const struct prediction *p, char *out, size_t bytes)
{
    const char *dataset = p->config.dataset, *output = p->config.output;
    char run[PATH_MAX];
    if (dataset[0] == '/' || output[0] == '/' || exists(dataset) || !realpath(p->o.run, run))
        return false;
    while (strncmp(output, "./", 2) == 0)
        output += 2;
    size_t n = strlen(run), tail = strlen(output);
    while (tail > 0 && output[tail - 1] == '/')
        tail--;
    if (tail == 0 || n <= tail || run[n - tail - 1] != '/' ||
        strncmp(run + n - tail, output, tail) != 0)
        return false;
    int length = snprintf(out, bytes, "%.*s%s", (int)(n - tail), run, dataset);
    return length > 0 && (size_t)length < bytes && exists(out);
}

static int read_job(struct prediction *p, const char *dataset)
{
    char path[4200];
    free(p->job);
    p->job = NULL;
    snprintf(path, sizeof path, "%s/config.json", p->o.run);
    SL_TRY(sl_trainer_subprocess_job(path, dataset, &p->job));
    SL_TRY(sl_config_parse(p->job, strlen(p->job), path, &p->config));
    if (sl_config_is_external(&p->config))
        return sl_fail(
            SL_EINVAL,
            "%s: the model of run '%s' is \"external\", a program's of yours, and sluice "
            "has no parameters of it: let that program predict",
            command_name(p), p->o.run);
    if (p->config.sampler.time && !p->o.dataset)
        return sl_fail(SL_EINVAL,
                       "%s: run '%s' has sampler.time \"%s\", and here all edges of the graph "
                       "count, whatever their times: give --dataset with a data set that has the "
                       "edges up to one time",
                       command_name(p), p->o.run,
                       p->config.sampler.time == SL_TIME_LATEST ? "latest" : "uniform");
    return SL_OK;
}

// Of a graph of several types: mini-batches of the size that evaluations have, on cores.
static int check_typed(const struct prediction *p)
{
    const struct options *o = &p->o;
    const char *kind = sl_model_kind_name(p->config.model.kind);
    if (!sl_model_is_typed(p->config.model.kind))
        return o->type ? sl_fail(SL_EINVAL,
                                 "%s --type: the model of run '%s' is \"%s\", of a graph of one "
                                 "type: leave --type out",
                                 command_name(p), o->run, kind)
                       : SL_OK;
    if (p->says_nothing && !sl_config_is_links(&p->config))
        return sl_fail(SL_EINVAL,
                       "retrieve: run '%s' learned labels on a graph of several types, whose "
                       "embeddings are by type, wanted a run of links: to look among vertices of "
                       "one type take `sluice embed %s --type TYPE --out FILE.npy`, and `sluice "
                       "retrieve FILE.npy`",
                       o->run, o->run);
    if (o->memory)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s --memory: the model of run '%s' is \"%s\", of a graph of several types, "
                       "for which a mini-batch bounds the memory: take --chunk, such as --chunk 64",
                       command_name(p), o->run, kind);
    return SL_OK;
}

// What a model of links says is of pairs, what others say is of vertices.
static int check_pairs(const struct prediction *p)
{
    const bool links = sl_config_is_links(&p->config);
    if (p->embeds || links == (p->o.pairs != NULL))
        return SL_OK;
    if (links)
        return sl_fail(SL_EINVAL,
                       "predict: run '%s' is of links, whose model scores pairs of vertices: name "
                       "them with --pairs FILE.npy, or take `sluice embed` or `sluice retrieve`",
                       p->o.run);
    return sl_fail(SL_EINVAL,
                   "predict --pairs: run '%s' learned labels of vertices, wanted one with "
                   "task.kind \"link\": leave --pairs out",
                   p->o.run);
}

// A learned row is of one vertex of one graph. Of a run that has not ended that is not known.
static int check_topology(const struct prediction *p)
{
    char found[17], wanted[17] = "", *text = NULL;
    if (sl_run_reader_report_text(p->o.run, &text) == SL_OK) {
        cJSON *report = cJSON_Parse(text);
        snprintf(wanted, sizeof wanted, "%s", sl_json_string(report, "topology_digest"));
        cJSON_Delete(report);
    }
    free(text);
    snprintf(found, sizeof found, "%016" PRIx64, sl_dataset_topology_digest(&p->dataset));
    if (!wanted[0] || strcmp(found, wanted) == 0)
        return SL_OK;
    return sl_fail(
        SL_EINVAL,
        "%s: data set '%s' has another graph than run '%s' was trained on (found "
        "topology digest %s, wanted %s), and the model has learned a row for each vertex "
        "of that one (features.kind): give that one with --dataset",
        command_name(p), p->dataset.path, p->o.run, found, wanted);
}

// Learned rows lie beside the parameters that they were trained with: the best ones beside a file
// of best parameters, as in a run directory and in a checkpoint.
static int find_learned(struct prediction *p)
{
    const char *slash = strrchr(p->weights, '/');
    const int n = slash ? (int)(slash - p->weights) + 1 : 0;
    const bool best = strstr(p->weights + n, "best") != NULL;
    if (sl_config_learned_dim(&p->config) == 0)
        return SL_OK;
    snprintf(p->learned, sizeof p->learned, "%.*s%s", n, p->weights,
             best ? SL_ROW_FILE_BEST : SL_ROW_FILE_VALUES);
    if (!exists(p->learned))
        return sl_fail(SL_ENOENT,
                       "%s: the model has learned rows (features.kind), wanted '%s' beside '%s': "
                       "they belong together",
                       command_name(p), p->learned, p->weights);
    return check_topology(p);
}

// The graph is the one that the run's test was on, unless the user wants another.
static int choose_graph(struct prediction *p)
{
    const bool links = sl_config_is_links(&p->config);
    const uint64_t n = p->dataset.edges[SL_SPLIT_VAL].n;
    if (p->o.val_edges != VAL_EDGES_AUTO && !links)
        return sl_fail(SL_EINVAL,
                       "%s --val-edges: run '%s' learned labels of vertices, wanted one with "
                       "task.kind \"link\": leave --val-edges out",
                       command_name(p), p->o.run);
    if (p->o.val_edges == VAL_EDGES_WITH && n == 0)
        return sl_fail(SL_EINVAL,
                       "%s --val-edges with: data set '%s' has none, wanted val_edges.npy there: "
                       "leave --val-edges out",
                       command_name(p), p->dataset.path);
    p->with_val_edges =
        n > 0 && (p->o.val_edges == VAL_EDGES_WITH ||
                  (p->o.val_edges == VAL_EDGES_AUTO && p->config.evaluate.val_edges_as_input));
    return SL_OK;
}

// Of a step of another command: the type that the end of a link is of.
static int choose_end(struct prediction *p)
{
    const struct sl_typed *t = &p->dataset.typed;
    if (!p->says_nothing || t->n_types == 0)
        return SL_OK;
    SL_TRY(sl_config_choose_relation(&p->config, &p->dataset));
    const struct sl_relation *r = sl_dataset_linked(&p->dataset);
    p->o.type = t->type[p->end == SL_EMBED_SOURCES ? r->source : r->target].name;
    return SL_OK;
}

static int open_job(struct prediction *p)
{
    char beside[SL_CONFIG_PATH_BYTES];
    SL_TRY(read_job(p, p->o.dataset));
    if (!p->o.dataset && find_beside_run(p, beside, sizeof beside))
        SL_TRY(read_job(p, beside));
    SL_TRY(check_pairs(p));
    SL_TRY(check_typed(p));
    int rc = sl_dataset_open(p->config.dataset, sl_config_needs_to_predict(&p->config),
                             SL_CHECK_CACHED, (int)p->o.threads, &p->dataset);
    if (rc == SL_ENOENT && !p->o.dataset)
        return sl_fail_prefix(rc, "the data set of run '%s' (name another place with --dataset)",
                              p->o.run);
    SL_TRY(rc);
    sl_config_choose_features(&p->config, &p->dataset);
    SL_TRY(choose_end(p));
    SL_TRY(choose_graph(p));
    return find_learned(p);
}

// Names of vertices, of classes, or of both.
static int open_names(struct prediction *p)
{
    const struct sl_dataset *ds = &p->dataset;
    if (!p->o.names)
        return SL_OK;
    int rc = sl_names_open(ds->path, SL_NAMES_VERTEX, ds->n_nodes, &p->vertex_names);
    if (rc < 0 && rc != SL_ENOENT)
        return rc;
    bool none = rc == SL_ENOENT;
    rc = ds->n_classes ? sl_names_open(ds->path, SL_NAMES_CLASS, ds->n_classes, &p->class_names)
                       : SL_ENOENT;
    if (rc < 0 && rc != SL_ENOENT)
        return rc;
    if (none && rc == SL_ENOENT)
        return sl_fail(SL_ENOENT,
                       "%s --names: data set '%s' has no names (vertex_names.npy): import it with "
                       "--relabel, or leave --names out",
                       command_name(p), ds->path);
    return SL_OK;
}

// Rows are of the ids from before a reordering, and so are names.
static int name_vertex(void *ctx, uint64_t vertex, const char **text, size_t *n)
{
    const struct prediction *p = ctx;
    return sl_names_get(&p->vertex_names, vertex, text, n);
}

// Which option names the vertices, and what it says.
static const char *which_option(const struct options *o)
{
    return o->pairs ? "--pairs" : o->nodes ? "--nodes" : "--set";
}

static const char *which_vertices(const struct options *o)
{
    return o->pairs ? o->pairs : o->nodes ? o->nodes : set_names[o->set];
}

// ---- the child ----------------------------------------------------------------------------------

// What the child is told on its command line.
struct words {
    const char *word[SL_TRAINER_SUBPROCESS_OPTIONS];
    char numbers[SL_TRAINER_SUBPROCESS_OPTIONS][24];
    size_t n;
};

static void add_text(struct words *w, const char *name, const char *text)
{
    w->word[w->n++] = name;
    w->word[w->n++] = text;
}

static void add_number(struct words *w, const char *name, uint64_t number)
{
    char *text = w->numbers[w->n];
    snprintf(text, sizeof w->numbers[0], "%" PRIu64, number);
    add_text(w, name, text);
}

static int start_child(struct prediction *p)
{
    const struct options *o = &p->o;
    char out[4200];
    struct words w = {.word = {"--predict"}, .n = 1};
    snprintf(out, sizeof out, "%s", o->out);
    add_text(&w, "--out", p->rows_path);
    add_text(&w, "--kind",
             p->embeds          ? "hidden"
             : o->classes       ? "classes"
             : o->probabilities ? "probabilities"
                                : "logits");
    add_text(&w, "--scratch", o->scratch ? o->scratch : dirname(out));
    add_number(&w, "--memory", o->memory);
    if (o->chunk_given)
        add_number(&w, "--chunk", o->chunk);
    add_number(&w, "--threads", o->threads);
    add_text(&w, "--device", p->device.text);
    add_number(&w, "--gpu-memory", p->device.memory_bytes);
    add_text(&w, which_option(o), which_vertices(o));
    if (o->layer_given)
        add_number(&w, "--layer", o->layer);
    if (o->type)
        add_text(&w, "--type", o->type);
    if (p->learned[0])
        add_text(&w, "--rows", p->learned);
    if (p->with_val_edges)
        w.word[w.n++] = "--val-edges";
    return sl_trainer_subprocess_start(&p->child, p->job, &p->dataset, w.word);
}

static int hand_over_params(struct prediction *p)
{
    SL_TRY(sl_trainer_subprocess_hello(&p->child, &p->params));
    p->values = calloc(SL_MAX(p->params.n, (uint64_t)1), sizeof *p->values);
    if (!p->values)
        return sl_fail(SL_ENOMEM, "no memory for %" PRIu64 " parameters", p->params.n);
    int rc = sl_params_load(&p->params, p->weights, p->values);
    if (rc == SL_EFORMAT && p->o.dataset && p->dataset.typed.n_types)
        return sl_fail_prefix(rc,
                              "data set '%s' must have the types, relations and widths of features "
                              "that the model was trained on",
                              p->o.dataset);
    if (rc == SL_EFORMAT && p->o.dataset)
        return sl_fail_prefix(rc,
                              "data set '%s' has %u features and %u outputs, which must be those "
                              "that the model was trained on",
                              p->o.dataset, p->dataset.feat_dim, p->dataset.n_classes);
    SL_TRY(rc);
    return sl_trainer_subprocess_go(&p->child, p->values, p->params.n);
}

static void take_line(struct prediction *p, const char *line)
{
    uint32_t layer, layers;
    uint64_t done, total;
    if (sscanf(line, "progress %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu64, &layer, &layers,
               &done, &total) == 4) {
        if (p->stage != layer + 1) {
            char what[48];
            snprintf(what, sizeof what, "layer %u of %u", layer + 1, layers);
            sl_progress_begin(&p->progress, what, total, "vertices");
            p->stage = layer + 1;
        }
        sl_progress_set(&p->progress, done);
        return;
    }
    sscanf(line, "result rows %" SCNu64, &p->rows);
    sscanf(line, "result not-finite %" SCNu64 " %" SCNu64, &p->not_finite, &p->first_broken);
    sscanf(line, "result computed %" SCNu64, &p->computed);
    sscanf(line, "result layer %" SCNu32, &p->layer);
    sscanf(line, "result seconds %lf", &p->seconds);
}

static int follow_child(struct prediction *p)
{
    char line[8192];
    for (;;) {
        int rc = sl_trainer_subprocess_line(&p->child, line, sizeof line);
        if (rc == SL_EAGAIN)
            return SL_OK;
        if (rc < 0)
            sl_progress_clear(&p->progress);
        SL_TRY(rc);
        take_line(p, line);
    }
}

// ---- text ---------------------------------------------------------------------------------------

// The rows are there, and only to be read: whatever happens from here on, nothing of them is left.
static int hide_rows(struct prediction *p)
{
    if (!p->csv)
        return SL_OK;
    p->rows_fd = open(p->rows_path, O_RDONLY | O_CLOEXEC);
    if (p->rows_fd < 0)
        return sl_fail_errno(SL_EIO, errno, "%s", p->rows_path);
    unlink(p->rows_path);
    snprintf(p->rows_path, sizeof p->rows_path, "/proc/self/fd/%d", p->rows_fd);
    return SL_OK;
}

static int write_csv(struct prediction *p)
{
    const struct options *o = &p->o;
    const struct sl_prediction_csv csv = {
        .rows = p->rows_path,
        .column = p->embeds          ? "hidden"
                  : o->pairs         ? "score"
                  : o->classes       ? "class"
                  : o->probabilities ? "probability"
                                     : "output",
        .list = o->nodes || o->pairs || o->set == SET_ALL ? NULL : &p->dataset.split[o->set],
        .vertex_map = p->dataset.vertex_map,
        .nodes = o->pairs ? o->pairs : o->nodes,
        .pairs = o->pairs != NULL,
        .name = p->vertex_names.n ? name_vertex : NULL,
        .name_ctx = p,
        .classes = p->class_names.n && !p->embeds ? &p->class_names : NULL,
        .progress = &p->progress,
    };
    return p->csv ? sl_prediction_csv_write(&csv, o->out) : SL_OK;
}

// ---- the summary --------------------------------------------------------------------------------

static int judge(struct prediction *p)
{
    const struct options *o = &p->o;
    if (p->embeds || o->nodes || o->pairs)
        return SL_OK;
    enum sl_prediction_kind kind = o->classes         ? SL_PREDICTION_CLASSES
                                   : o->probabilities ? SL_PREDICTION_PROBABILITIES
                                                      : SL_PREDICTION_LOGITS;
    return sl_prediction_score(&p->score, &p->dataset, p->rows_path, kind,
                               o->set == SET_ALL ? SL_SPLIT_COUNT : (enum sl_split)o->set);
}

// Where the rows are that say nothing, and what stands for them.
static void warn_of_rows(const struct prediction *p)
{
    const struct options *o = &p->o;
    if (p->not_finite > 0)
        fprintf(stderr,
                "sluice: warning: %s: %" PRIu64 " of %" PRIu64 " rows (%s %s) are not finite, "
                "the first is row %" PRIu64 "; %s holds %s: look at the features of these vertices "
                "and of their neighbours, whose sums may leave float32's range\n",
                command_name(p), p->not_finite, p->rows, which_option(o), which_vertices(o),
                p->first_broken, o->out,
                o->classes         ? "-1 for them"
                : o->probabilities ? "nan for them"
                                   : "them as they are");
}

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void print_scores(const struct prediction *p)
{
    char value[SL_MEASURE_TEXT];
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        if (!p->score.has[s])
            continue;
        const struct sl_evaluation *e = &p->score.split[s];
        const char *gap = " ";
        printf("  %-10s", set_names[s]);
        for (int m = 0; m < SL_MEASURE_COUNT; m++) {
            if (!e->applies[m])
                continue;
            printf("%s%s %s", gap, sl_measure_name((enum sl_measure)m),
                   sl_measure_text(e->value[m], value));
            gap = "  ";
        }
        if (e->not_finite > 0)
            printf("  (%" PRIu64 " of %" PRIu64 " labelled rows are not finite)", e->not_finite,
                   e->n_labelled);
        printf("\n");
    }
}

static void print_text(const struct prediction *p)
{
    char rows[SL_UNITS_BYTES], bytes[SL_UNITS_BYTES], took[SL_UNITS_BYTES], rate[SL_UNITS_BYTES];
    char computed[SL_UNITS_BYTES], memory[SL_UNITS_BYTES];
    const struct options *o = &p->o;
    double seconds = SL_MAX(p->seconds, 1e-9);
    printf("%s: %s rows, %s\n", o->out, sl_units_grouped(rows, p->rows),
           sl_units_bytes(bytes, file_bytes(o->out)));
    printf("  parameters %s (%s)\n", p->weights, p->weights_are);
    if (p->embeds)
        printf("  layer      %u\n", p->layer);
    if (p->with_val_edges)
        printf("  graph      with the %s validation edges%s\n",
               sl_units_grouped(rows, p->dataset.edges[SL_SPLIT_VAL].n),
               o->val_edges == VAL_EDGES_AUTO ? ", as in the run's test" : "");
    if (p->device.cuda)
        printf("  device     GPU %u (%s), at most %s of its memory\n", p->device.index,
               p->device.gpu, sl_units_bytes(memory, p->device.memory_bytes));
    else
        printf("  device     cores, %" PRIu64 " threads\n", o->threads);
    printf("  time       %s, %s %s/s, %s rows computed in all layers\n",
           sl_units_seconds(took, p->seconds), sl_units_count(rate, (double)p->rows / seconds),
           o->pairs ? "pairs" : "vertices", sl_units_grouped(computed, p->computed));
    print_scores(p);
}

static void add_scores(const struct prediction *p, cJSON *root)
{
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        if (!p->score.has[s])
            continue;
        cJSON *split = cJSON_AddObjectToObject(root, set_names[s]);
        const struct sl_evaluation *e = &p->score.split[s];
        for (int m = 0; m < SL_MEASURE_COUNT; m++)
            if (e->applies[m])
                sl_json_add_number(split, sl_measure_key((enum sl_measure)m), e->value[m]);
        cJSON_AddNumberToObject(split, "not_finite", (double)e->not_finite);
    }
}

static int print_json(const struct prediction *p)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "sluice.predict/1");
    cJSON_AddStringToObject(root, "output", p->o.out);
    cJSON_AddNumberToObject(root, "rows", (double)p->rows);
    cJSON_AddNumberToObject(root, "bytes", (double)file_bytes(p->o.out));
    cJSON_AddStringToObject(root, "weights", p->weights);
    cJSON_AddStringToObject(root, "parameters", p->weights_are);
    cJSON_AddStringToObject(root, "device", p->device.text);
    if (p->device.cuda) {
        cJSON_AddStringToObject(root, "gpu", p->device.gpu);
        cJSON_AddNumberToObject(root, "gpu_memory", (double)p->device.memory_bytes);
    }
    cJSON_AddNumberToObject(root, "threads", (double)p->o.threads);
    cJSON_AddNumberToObject(root, "layer", p->layer);
    cJSON_AddNumberToObject(root, "computed_rows", (double)p->computed);
    cJSON_AddNumberToObject(root, "not_finite", (double)p->not_finite);
    cJSON_AddBoolToObject(root, "val_edges", p->with_val_edges);
    cJSON_AddNumberToObject(root, "seconds", p->seconds);
    add_scores(p, root);
    return sl_output_json_pages(root, command_name(p));
}

// ---- the commands -------------------------------------------------------------------------------

static int predict(void *state)
{
    struct prediction *p = state;
    SL_TRY(check_options(p));
    if (p->o.threads == 0)
        p->o.threads = (uint64_t)sl_threads_default();
    SL_TRY(open_job(p));
    SL_TRY(open_names(p));
    SL_TRY(sl_prediction_device_choose(command_name(p), p->o.run, p->o.device, p->o.gpu_memory,
                                       &p->device));
    if (p->device.note[0] && !p->o.quiet)
        fprintf(stderr, "sluice: note: %s\n", p->device.note);
    sl_interrupt_catch();
    sl_progress_init(&p->progress, p->o.quiet);
    SL_TRY(start_child(p));
    SL_TRY(hand_over_params(p));
    SL_TRY(follow_child(p));
    SL_TRY(hide_rows(p));
    int rc = write_csv(p);
    if (rc < 0)
        sl_progress_clear(&p->progress);
    SL_TRY(rc);
    sl_progress_end(&p->progress);
    SL_TRY(judge(p));
    warn_of_rows(p);
    if (p->says_nothing)
        return SL_EXIT_OK;
    if (p->o.output == SL_OUTPUT_JSON)
        return print_json(p);
    if (!p->o.quiet)
        print_text(p);
    return SL_EXIT_OK;
}

static int init(const struct sl_command *c, void *state)
{
    struct prediction *p = state;
    p->embeds = c == &sl_command_embed;
    p->o.set = SET_ALL;
    p->o.chunk = 65536;
    p->rows_fd = -1;
    return SL_OK;
}

static void release(void *state)
{
    struct prediction *p = state;
    sl_trainer_subprocess_end(&p->child);
    if (p->rows_fd >= 0)
        close(p->rows_fd);
    else if (p->csv)
        unlink(p->rows_path); // interrupted just before it lost its name
    sl_params_fini(&p->params);
    sl_dataset_close(&p->dataset);
    sl_names_close(&p->vertex_names);
    sl_names_close(&p->class_names);
    free(p->values);
    free(p->job);
}

// What the rows are of, for the command that this is a step of.
static void tell(const struct prediction *p, struct sl_embedded *used)
{
    const struct sl_relation *r = p->o.type ? sl_dataset_linked(&p->dataset) : NULL;
    memcpy(used->dataset, p->dataset.path, sizeof p->dataset.path);
    used->val_edges = p->with_val_edges;
    used->linked = r ? p->dataset.typed.linked : SL_NO_RELATION;
    used->joins_types = r && r->source != r->target;
}

int sl_embed_run(const char *run, const char *dataset, enum sl_embed_end end, const char *out,
                 bool quiet, struct sl_embedded *used)
{
    struct prediction *p = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "embed: no memory");
    init(&sl_command_embed, p);
    p->o.run = run;
    p->o.dataset = dataset;
    p->o.out = out;
    p->o.quiet = quiet;
    p->says_nothing = true;
    p->end = end;
    int rc = predict(p);
    tell(p, used);
    release(p);
    free(p);
    return rc;
}

#define AT(kind, field) SL_OPTION_AT(kind, prediction, field)
#define GIVEN(field)    SL_OPTION_GIVEN(prediction, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "out", AT(TEXT, o.out), .placeholder = "FILE", .required = true,
     .help = "where the rows go, by its ending: .npy is an array, .csv text, a heading and then "
             "the vertex and its values in a line; appears whole or not at all"},
    {.name = "set", AT(CHOICE, o.set), .choices = set_names, GIVEN(o.set_given),
     .help = "which vertices, in the order of the data set's list"},
    {.name = "names", AT(FLAG, o.names),
     .help = "in FILE.csv names of vertices and classes in place of numbers, where the data set "
             "has them (import edgelist --relabel)"},
    {.name = "nodes", AT(TEXT, o.nodes), .placeholder = "IDS.npy",
     .help = "these vertices, in this order (int32 or int64)"},
    {.name = "dataset", AT(TEXT, o.dataset), .placeholder = "DIR",
     .help = "another graph than the one of the run; features and outputs must be as many"},
    {.name = "val-edges", AT(CHOICE, o.val_edges), .choices = val_edges_names,
     .help = "whether a run of links sees the validation edges in the graph; auto: as in its test "
             "(evaluate.val_edges_as_input)"},
    {.name = "best", AT(FLAG, o.best),
     .help = "model.best.safetensors; the default where the run has it"},
    {.name = "last", AT(FLAG, o.last), .help = "model.safetensors, as training left it"},
    {.name = "weights", AT(TEXT, o.weights), .placeholder = "FILE",
     .help = "parameters of the same model from another .safetensors file"},
    {.name = "force", .letter = 'f', AT(FLAG, o.force), .help = "write over --out"},
    {.name = "device", AT(TEXT, o.device), .placeholder = "auto|cpu|cuda|cuda:N",
     .no_default = true,
     .help = "where it is computed, which differs in rounding only; default: as the run trained, "
             "on a GPU if one is there (cuda: the one with the most memory free)"},
    {.name = "gpu-memory", AT(SIZE, o.gpu_memory), .placeholder = "BYTES", .no_default = true,
     .help = "at most so much of the GPU's memory; default: what is free, less 512 MiB (at most a "
             "quarter) that CUDA needs beside it"},
    {.name = "threads", AT(UINT, o.threads), .placeholder = "N", .min = 1, .max = 1024,
     .no_default = true,
     .help = "on the cores, also beside a GPU; default: all that the process may use"},
    {.name = "memory", AT(SIZE, o.memory), .placeholder = "BYTES", .no_default = true,
     .help = "bound of what is resident of features, edges and activations in the machine's "
             "memory, all of them mapped files; one piece of 8192 vertices may need more"},
    {.name = "scratch", AT(TEXT, o.scratch), .placeholder = "DIR",
     .help = "where hidden activations lie meanwhile; default: beside --out"},
    {.name = "chunk", AT(UINT, o.chunk), GIVEN(o.chunk_given), .placeholder = "ROWS", .min = 1,
     .max = 1e9,
     .help = "vertices that are computed in one go; of a graph of several types a mini-batch with "
             "all neighbours, by default of evaluate.batch_size"},
    {.name = "output", .letter = 'o', AT(CHOICE, o.output), .choices = sl_output_names,
     .help = "how the summary is printed"},
    {.name = "quiet", .letter = 'q', AT(FLAG, o.quiet), .help = "no progress and no text"},
    {0},
};
static const struct sl_option predict_options[] = {
    {.name = "pairs", AT(TEXT, o.pairs), .placeholder = "PAIRS.npy",
     .help = "scores of these pairs (n, 2), source and target, by a run of links"},
    {.name = "classes", AT(FLAG, o.classes),
     .help = "the likeliest class (int32); of several labels 0 or 1 each (int8); "
             "-1 where an output is not finite"},
    {.name = "probabilities", AT(FLAG, o.probabilities),
     .help = "softmax of the outputs; of several labels, and of pairs, sigmoid"},
    {0},
};
static const struct sl_option embed_options[] = {
    {.name = "layer", AT(UINT, o.layer), GIVEN(o.layer_given), .placeholder = "K",
     .max = SL_CONFIG_MAX_LAYERS - 1, .no_default = true,
     .help = "a hidden layer, from 0, as in the name convs.K; default: the last one, of links "
             "what their scores are made of"},
    {.name = "type", AT(TEXT, o.type), .placeholder = "NAME", .no_default = true,
     .help = "of a graph of several types: whose vertices, as far as layers give rows to them; "
             "default: the type with labels"},
    {0},
};
// clang-format on

const struct sl_command sl_command_predict = {
    .name = "predict",
    .help = "apply a run's model to a graph: outputs, classes or scores of pairs",
    .about = "Applies the model of a finished run to a graph, over all neighbours, and writes "
             "a row of outputs (float32) for each vertex, as .npy or .csv. Where few vertices are "
             "asked for, only those that they depend on are computed. Of a graph of several types: "
             "for each vertex of the type with labels. Of a run of links: a score for each "
             "pair of --pairs.",
    .example = "sluice predict runs/products --out logits.npy\n"
               "sluice predict runs/products --out classes.csv --classes --set test\n"
               "sluice predict runs/links --pairs pairs.npy --out scores.csv",
    .operands = {{"RUN", offsetof(struct prediction, o.run)}},
    .options = {{options}, {predict_options}},
    .bytes = sizeof(struct prediction),
    .init = init,
    .run = predict,
    .fini = release,
};

const struct sl_command sl_command_embed = {
    .name = "embed",
    .help = "apply a run's model to a graph: a hidden layer's output",
    .about = "Applies the model of a finished run to a graph, over all neighbours, and writes "
             "what a hidden layer gives (after its activation) for each vertex, as .npy or .csv. "
             "Of a run of links: the embeddings that its decoder reads.",
    .example = "sluice embed runs/products --out hidden.npy\n"
               "sluice embed runs/products --out first.npy --layer 0 --nodes ids.npy",
    .operands = {{"RUN", offsetof(struct prediction, o.run)}},
    .options = {{options}, {embed_options}},
    .bytes = sizeof(struct prediction),
    .init = init,
    .run = predict,
    .fini = release,
};
