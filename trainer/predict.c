#include "trainer/predict.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/text/options.h"
#include "common/data/atomic_file.h"
#include "common/data/id_list.h"
#include "common/data/npy.h"
#include "common/data/prediction.h"
#include "common/data/self_loops.h"
#include "common/data/weightless.h"
#include "common/data/wider_graph.h"
#include "common/bus/assignment.h"
#include "common/bus/worker.h"
#include "kernels/kernels.h"
#include "trainer/announce.h"
#include "trainer/infer/logits_check.h"
#include "trainer/infer/piece.h"
#include "trainer/infer/predict_device.h"
#include "trainer/infer/typed_graph.h"
#include "trainer/infer/whole_graph.h"
#include "trainer/predict_pairs.h"

enum {
    PARAMS_FD = 5,
    CHUNK_ROWS = 65536,
    PROGRESS_MS = 100,
};

enum kind { LOGITS, PROBABILITIES, CLASSES, HIDDEN };

struct arguments {
    bool describe, predict, has_layer, val_edges;
    int kind; // enum kind
    const char *out, *check, *scratch, *nodes, *set, *pairs, *device, *rows, *type;
    uint64_t layer, memory, chunk, threads, parent, gpu_memory;
};

struct program {
    struct arguments a;
    struct sl_assignment told;
    struct sl_config config;
    struct sl_compute compute;
    struct sl_dataset dataset;
    struct sl_wider_graph wider; // of --val-edges
    struct sl_objective objective;
    struct sl_self_loops self_loops;
    struct sl_neighbours neighbours;
    struct sl_reading reading; // of features that are on the drive
    struct sl_row_source features;
    struct sl_npy learned; // rows
    struct sl_model model;
    uint32_t *nodes; // of --nodes
    struct sl_predict_pairs pairs;
    uint64_t first_end; // of the rows that come: the end of a pair that the first one is of
    uint32_t *renamed;  // (n_nodes) of a reordered data set: the name that each vertex has now
    struct sl_npy_writer *writer;
    struct sl_logits_check check; // in place of the writer
    uint64_t next_progress_ns;
    uint32_t out_width; // of a row that the model gives
    uint32_t width;     // of a row of the output
    enum sl_dtype dtype;
    void *rows;                        // one chunk of it, converted
    uint64_t not_finite, first_broken; // rows that the model gave; the first of them
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

// ---- start --------------------------------------------------------------------------------------

bool sl_predict_asked(int argc, char **argv)
{
    return argc > 1 && (strcmp(argv[1], "--predict") == 0 || strcmp(argv[1], "--describe") == 0);
}

static const char *const kinds[] = {"logits", "probabilities", "classes", "hidden", NULL};

#define AT(kind, field) SL_OPTION_AT(kind, arguments, field)
#define TEXT(field)     AT(TEXT, field), .placeholder = "TEXT", .verbatim = true
#define NUMBER(field)   AT(UINT, field), .placeholder = "N", .no_default = true
// clang-format off
static const struct sl_option options[] = {
    {.name = "describe", AT(FLAG, describe), .help = "say what model the job has, and no more"},
    {.name = "predict", AT(FLAG, predict), .help = "compute outputs"},
    {.name = "parent", NUMBER(parent), .help = "the process with which this one ends"},
    {.name = "out", TEXT(out), .help = "the file that is written"},
    {.name = "check", TEXT(check), .help = "compare with this file and write nothing"},
    {.name = "kind", AT(CHOICE, kind), .choices = kinds, .help = "what is computed"},
    {.name = "scratch", TEXT(scratch), .help = "where intermediate layers lie"},
    {.name = "nodes", TEXT(nodes), .help = "the vertices"},
    {.name = "pairs", TEXT(pairs), .help = "or pairs of them, whose scores are wanted"},
    {.name = "set", TEXT(set), .help = "or a list of the data set: train, val, test or all"},
    {.name = "type", TEXT(type), .help = "of a graph of several types: the vertices' type"},
    {.name = "val-edges", AT(FLAG, val_edges), .help = "with the validation edges in the graph"},
    {.name = "rows", TEXT(rows), .help = "learned rows of the vertices, an array"},
    {.name = "layer", NUMBER(layer), SL_OPTION_GIVEN(arguments, has_layer),
     .help = "whose output: the last"},
    {.name = "memory", NUMBER(memory), .help = "bytes that mapped pages may take"},
    {.name = "chunk", AT(UINT, chunk), .placeholder = "N", .min = 1, .max = INT32_MAX,
     .help = "rows at a time"},
    {.name = "threads", NUMBER(threads), .help = "0: one a core"},
    {.name = "device", TEXT(device), .help = "cpu or cuda:N"},
    {.name = "gpu-memory", NUMBER(gpu_memory), .help = "bytes of the GPU"},
    {0},
};
// clang-format on

static int parse_arguments(struct arguments *a, int argc, char **argv)
{
    static const struct sl_command predict = {
        .name = "sluice-trainer --predict",
        .is_program = true,
        .about = "Outputs of a trained model. 'sluice predict' starts this program.",
        .options = {{options}},
    };
    *a = (struct arguments){.scratch = ".", .set = "all", .device = "cpu"};
    int rc = sl_options_parse(&predict, a, argc, argv);
    if (rc == SL_OK && !a->describe && !a->out && !a->check)
        return sl_fail(SL_EINVAL, "--out is missing: 'sluice predict' starts this program");
    return rc;
}

// The command line's death and its SIGTERM end this program, and so does Ctrl-C.
static int follow_parent(uint64_t parent)
{
    const struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (parent == 0)
        return SL_OK;
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
        return sl_fail_errno(SL_ESYS, errno, "asking for a signal when the command line dies");
    if ((uint64_t)getppid() != parent)
        return sl_fail(SL_EABORTED, "the command line is gone already");
    return SL_OK;
}

static int read_config(struct sl_assignment *told, struct sl_config *config)
{
    if (sl_assignment_read(SL_WORKER_FD_CONFIG, told) < 0)
        return sl_fail(SL_EINVAL, "no job on descriptor %d: 'sluice predict' starts this program",
                       SL_WORKER_FD_CONFIG);
    return sl_config_parse(told->job, told->job_bytes, "config.json", config);
}

static int prepare(struct program *p)
{
    SL_TRY(read_config(&p->told, &p->config));
    if (p->a.threads)
        sl_kernels_set_threads((int)p->a.threads);
    SL_TRY(sl_predict_device_open(p->a.device, p->a.gpu_memory, &p->compute));
    const unsigned need = sl_config_needs_to_predict(&p->config) |
                          (p->a.describe ? SL_TAKES_SHARD | SL_TAKES_DESCRIBED : 0);
    SL_TRY(sl_dataset_open_recorded(p->config.dataset, need, p->told.record, (int)p->a.threads,
                                    &p->dataset));
    SL_TRY(sl_dataset_hold(&p->dataset));
    sl_config_choose_features(&p->config, &p->dataset);
    SL_TRY(sl_config_choose_paths(&p->config, &p->dataset));
    if (sl_neighbours_walks(&p->config))
        SL_TRY(sl_config_find_relations(&p->config, &p->dataset.typed));
    if (sl_config_is_links(&p->config))
        SL_TRY(sl_config_choose_relation(&p->config, &p->dataset));
    p->config.loss.class_weights = SL_CLASS_WEIGHTS_NONE; // no loss is computed
    SL_TRY(sl_objective_init(&p->objective, &p->config, &p->dataset));
    return sl_model_init(&p->model, &p->config, p->dataset.feat_dim, &p->dataset.typed,
                         &p->objective, p->compute.device, p->compute.kernels);
}

// ---- talking ------------------------------------------------------------------------------------

static int say_hello(struct program *p)
{
    struct sl_announcement announcement;
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    SL_TRY(sl_announce_model(&p->model, &announcement, &hello));
    size_t bytes = sl__control__hello__get_packed_size(&hello);
    uint8_t *packed = malloc(bytes);
    if (packed)
        sl__control__hello__pack(&hello, packed);
    sl_announcement_fini(&announcement);
    if (!packed)
        return sl_fail(SL_ENOMEM, "no memory for %zu bytes", bytes);
    printf("hello %zu\n", bytes);
    fwrite(packed, 1, bytes, stdout);
    free(packed);
    return fflush(stdout) == 0 ? SL_OK : sl_fail(SL_EABORTED, "the command line is gone");
}

static int take_params(struct program *p, const float **params)
{
    char word[3];
    ssize_t got = 0;
    for (size_t n = 0; n < sizeof word; n += (size_t)got) { // "go\n"
        got = read(STDIN_FILENO, word + n, sizeof word - n);
        if (got <= 0)
            return sl_fail(SL_EABORTED, "interrupted before the parameters were there");
    }
    uint64_t bytes = p->model.n_params * sizeof **params;
    struct stat st;
    if (fstat(PARAMS_FD, &st) != 0 || (uint64_t)st.st_size != bytes)
        return sl_fail(SL_EPROTO, "the parameters are not %llu bytes", (unsigned long long)bytes);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, PARAMS_FD, 0);
    if (map == MAP_FAILED)
        return sl_fail_errno(SL_ENOMEM, errno, "mapping the parameters");
    *params = map;
    return SL_OK;
}

// ---- which vertices -----------------------------------------------------------------------------

// Where a graph has several types, ids in lists and files are numbers within the vertices' own.
static uint64_t count_of(const struct program *p, uint32_t type)
{
    const struct sl_typed *typed = &p->dataset.typed;
    return typed->n_types ? typed->type[type].n : p->dataset.n_nodes;
}

static int read_nodes(struct program *p, uint32_t type, uint64_t *n)
{
    const struct sl_typed *typed = &p->dataset.typed;
    const uint32_t first = typed->n_types ? (uint32_t)typed->type[type].first : 0;
    SL_TRY(sl_id_list_read(p->a.nodes, count_of(p, type), &p->nodes, n));
    for (uint64_t i = 0; i < *n; i++) {
        const uint32_t id = p->nodes[i] + first;
        p->nodes[i] = p->renamed ? p->renamed[id] : id;
    }
    return SL_OK;
}

// Users know the vertices of a reordered data set by the ids that they had before.
static int undo_reordering(struct program *p)
{
    const struct sl_dataset *ds = &p->dataset;
    if (!ds->vertex_map)
        return SL_OK;
    p->renamed = malloc(ds->n_nodes * sizeof *p->renamed);
    if (!p->renamed)
        return sl_fail(SL_ENOMEM, "data set %s: no memory for the order before its reordering",
                       ds->path);
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        p->renamed[ds->vertex_map[v]] = (uint32_t)v;
    return SL_OK;
}

static int choose_vertices(struct program *p, struct sl_whole_graph *g)
{
    static const char *const sets[] = {
        [SL_SPLIT_TRAIN] = "train", [SL_SPLIT_VAL] = "val", [SL_SPLIT_TEST] = "test"};
    SL_TRY(undo_reordering(p));
    g->n = count_of(p, g->type);
    g->ids = p->renamed;
    if (p->renamed && p->dataset.typed.n_types)
        g->ids += p->dataset.typed.type[g->type].first;
    if (p->a.pairs) {
        SL_TRY(sl_predict_pairs_open(&p->pairs, p->a.pairs, &p->dataset, p->renamed,
                                     p->model.n_outputs));
        g->n = p->pairs.n_ends;
        g->ids = p->pairs.ends;
        return SL_OK;
    }
    if (p->a.nodes) {
        SL_TRY(read_nodes(p, g->type, &g->n));
        g->ids = p->nodes;
        return SL_OK;
    }
    if (strcmp(p->a.set, "all") == 0)
        return SL_OK;
    if (g->type != 0)
        return sl_fail(SL_EINVAL,
                       "--set %s: it lists vertices of type '%s', found --type %s: use --set all "
                       "or --nodes FILE",
                       p->a.set, p->dataset.typed.type[0].name, p->a.type);
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        if (strcmp(p->a.set, sets[s]) != 0)
            continue;
        const struct sl_vertex_list *list = &p->dataset.split[s];
        if (list->n == 0)
            return sl_fail(SL_EINVAL, "data set %s has no %s set: use --set all or --nodes FILE",
                           p->dataset.path, sets[s]);
        g->ids = list->ids;
        g->n = list->n;
        return SL_OK;
    }
    return sl_fail(SL_EINVAL, "--set '%s': wanted train, val, test or all", p->a.set);
}

// Of a graph of several types: of which vertices, and the last layer that gives rows to them.
static int choose_type(struct program *p, struct sl_whole_graph *g)
{
    const struct sl_typed_model *m = p->model.typed;
    const struct sl_typed *typed = &p->dataset.typed;
    char some[512] = "";
    size_t n = 0;
    if (p->a.pairs) { // each end of its own type (run_types())
        g->layer = m->n_layers - 1;
        return SL_OK;
    }
    g->type = p->a.type ? sl_typed_find_type(typed, p->a.type) : 0;
    for (uint32_t t = 0; t < typed->n_types && n < sizeof some; t++)
        if (m->hops[t] < m->n_layers)
            n += (size_t)snprintf(some + n, sizeof some - n, "%s'%s'", n ? ", " : "",
                                  typed->type[t].name);
    if (g->type == typed->n_types || m->hops[g->type] >= m->n_layers)
        return sl_fail(SL_EINVAL, "--type '%s': %s, wanted one of those that it gives rows to: %s",
                       p->a.type,
                       g->type == typed->n_types ? "the graph has no such type"
                                                 : "no layer of the model gives rows to its "
                                                   "vertices",
                       some);
    const uint32_t last = m->n_layers - 1 - m->hops[g->type];
    // A model of links has its outputs for embeddings.
    const bool outputs = p->objective.task == SL_TASK_LINK && !p->a.has_layer;
    g->hidden = p->a.kind == HIDDEN && !(outputs && sl_typed_model_ends_in(m, g->type));
    g->layer = g->hidden && p->a.has_layer ? (uint32_t)p->a.layer : last;
    if (g->layer > last)
        return sl_fail(SL_EINVAL,
                       "--layer %llu: the layers that give rows to vertices of type '%s' are 0 to "
                       "%u: wanted one of them",
                       (unsigned long long)p->a.layer, typed->type[g->type].name, last);
    return SL_OK;
}

// The layer whose rows are wanted; --layer counts from 0, as the names of tensors do. A model of
// links has its outputs for embeddings.
static int choose_layer(struct program *p, struct sl_whole_graph *g)
{
    const struct sl_model *m = &p->model;
    const bool links = p->objective.task == SL_TASK_LINK;
    if (m->typed)
        return choose_type(p, g);
    g->layer = m->n_layers - 1;
    g->hidden = p->a.kind == HIDDEN && (p->a.has_layer || !links);
    if (!g->hidden)
        return SL_OK;
    // Without jumping knowledge the last layer's output is the model's.
    uint32_t hidden = m->n_layers - (m->jumping.kind == SL_JUMPING_NONE);
    if (links && p->a.layer >= hidden)
        return sl_fail(SL_EINVAL,
                       "--layer %llu: this model of links has %u hidden layers, from 0; its "
                       "outputs are the embeddings: leave --layer out for these",
                       (unsigned long long)p->a.layer, hidden);
    if (hidden == 0)
        return sl_fail(SL_EINVAL, "a model of one layer has no hidden one: use `sluice predict`");
    if (p->a.has_layer && p->a.layer >= hidden)
        return sl_fail(SL_EINVAL, "--layer %llu: the hidden layers of this model are 0 to %u",
                       (unsigned long long)p->a.layer, hidden - 1);
    g->layer = p->a.has_layer ? (uint32_t)p->a.layer : hidden - 1;
    return SL_OK;
}

// ---- rows ---------------------------------------------------------------------------------------

static void to_probabilities(const struct program *p, uint32_t n, const float *logits, float *out)
{
    for (uint32_t i = 0; i < n; i++, logits += p->width, out += p->width) {
        double sum = 0, most = logits[0];
        if (!sl_outputs_are_finite(logits, p->width)) {
            for (uint32_t c = 0; c < p->width; c++)
                out[c] = NAN;
            continue;
        }
        for (uint32_t c = 1; c < p->width; c++)
            most = fmax(most, logits[c]);
        for (uint32_t c = 0; c < p->width; c++) {
            bool sigmoid = p->objective.task == SL_TASK_MULTILABEL;
            double e = sigmoid ? 1 / (1 + exp(-(double)logits[c])) : exp(logits[c] - most);
            out[c] = (float)e;
            sum += e;
        }
        if (p->objective.task != SL_TASK_MULTILABEL)
            for (uint32_t c = 0; c < p->width; c++)
                out[c] = (float)(out[c] / sum);
    }
}

static void to_classes(const struct program *p, uint32_t n, const float *logits)
{
    const uint32_t width = p->objective.n_outputs;
    for (uint32_t i = 0; i < n; i++, logits += width) {
        if (p->objective.task != SL_TASK_MULTILABEL) {
            ((int32_t *)p->rows)[i] = sl_outputs_class(logits, width);
            continue;
        }
        const bool finite = sl_outputs_are_finite(logits, width);
        for (uint32_t c = 0; c < width; c++)
            ((int8_t *)p->rows)[(uint64_t)i * width + c] = finite ? logits[c] > 0 : SL_NO_CLASS;
    }
}

static void count_broken(struct program *p, uint64_t first, uint32_t n, const float *rows)
{
    const uint32_t width = p->out_width;
    for (uint32_t i = 0; i < n; i++)
        if (!sl_outputs_are_finite(rows + (uint64_t)i * width, width) && p->not_finite++ == 0)
            p->first_broken = first + i;
}

static int on_rows(void *ctx, uint64_t first, uint32_t n, const float *rows)
{
    struct program *p = ctx;
    const void *data = rows;
    if (p->a.pairs) {
        sl_predict_pairs_put(&p->pairs, p->out_width, p->first_end + first, n, rows);
        return SL_OK;
    }
    count_broken(p, first, n, rows);
    if (p->a.check)
        return sl_logits_check_put(&p->check, first, n, rows);
    if (p->a.kind == PROBABILITIES) {
        to_probabilities(p, n, rows, p->rows);
        data = p->rows;
    } else if (p->a.kind == CLASSES) {
        to_classes(p, n, rows);
        data = p->rows;
    }
    return sl_npy_writer_append(p->writer, data, (uint64_t)n * p->width * sl_dtype_bytes(p->dtype));
}

static int on_progress(void *ctx, uint32_t layer, uint64_t done, uint64_t total)
{
    struct program *p = ctx;
    if (interrupted)
        return sl_fail(SL_EABORTED, "interrupted");
    uint64_t now = sl_now_ns();
    if (now < p->next_progress_ns && done > 0 && done < total)
        return SL_OK;
    p->next_progress_ns = now + PROGRESS_MS * 1000000u;
    printf("progress %u %u %llu %llu\n", layer, p->model.n_layers, (unsigned long long)done,
           (unsigned long long)total);
    return fflush(stdout) == 0 ? SL_OK : sl_fail(SL_EABORTED, "the command line is gone");
}

static int open_output(struct program *p, const struct sl_whole_graph *g)
{
    const enum sl_task task = p->objective.task;
    p->width = p->out_width = sl_whole_graph_width(g);
    p->dtype = SL_DTYPE_F32;
    if (p->a.pairs)
        return sl_npy_writer_open(p->a.out, SL_DTYPE_F32, 1, &p->pairs.n, &p->writer);
    if (p->a.check)
        return sl_logits_check_open(&p->check, p->a.check, g->n, p->width);
    if (p->a.kind == PROBABILITIES || p->a.kind == CLASSES) {
        if (task == SL_TASK_LINK)
            return sl_fail(SL_EINVAL,
                           "a job of links (task.kind \"link\") has no classes: 'sluice embed' "
                           "writes its embeddings, and so does 'sluice predict' without --classes "
                           "and --probabilities");
        if (task != SL_TASK_MULTICLASS && task != SL_TASK_MULTILABEL)
            return sl_fail(SL_EINVAL,
                           "data set %s is of a task (%s) that has no classes: write "
                           "the outputs themselves, without --classes and "
                           "--probabilities",
                           p->dataset.path, task == SL_TASK_REGRESSION ? "regression" : "none");
        uint64_t rows = p->a.chunk + SL_INFER_PIECE_ROWS;
        p->rows = malloc(rows * p->width * sizeof(float));
        if (!p->rows)
            return sl_fail(SL_ENOMEM, "no memory for a chunk of %llu rows",
                           (unsigned long long)rows);
    }
    uint64_t shape[2] = {g->n, p->width};
    int ndim = 2;
    if (p->a.kind == CLASSES) {
        p->dtype = task == SL_TASK_MULTILABEL ? SL_DTYPE_I8 : SL_DTYPE_I32;
        if (task == SL_TASK_MULTICLASS) {
            ndim = 1;
            p->width = 1;
        }
    }
    return sl_npy_writer_open(p->a.out, p->dtype, ndim, shape, &p->writer);
}

/*
 * Features that are much for the memory that is there are read from the drive, as they are while a
 * job trains; a job that was told where they are has it the same way here. Who bounds the memory
 * has mapped pages given back instead (whole_graph.h).
 */
static int open_features(struct program *p)
{
    enum sl_features features = p->config.store.features;
    if (p->dataset.feat_dim == 0 || p->model.typed) // learned rows alone; by type
        return SL_OK;
    if (features == SL_FEATURES_AUTO)
        features = sl_features_choose(&p->dataset, sl_device_memory_available());
    if (!sl_features_kinds[features].reads || p->a.memory)
        return SL_OK;
    SL_TRY(
        sl_row_reader_open(&p->dataset, &(struct sl_row_options){.depth = 0}, &p->reading.drive));
    sl_log_info("features: rows are read from the drive");
    p->features = (struct sl_row_source){.dataset = &p->dataset, .reader = &p->reading};
    p->model.features = &p->features;
    return SL_OK;
}

static int open_rows(struct program *p)
{
    struct sl_learned_rows *learned = &p->model.learned;
    const struct sl_npy_header *h = &p->learned.head;
    const uint64_t n_rows = sl_dataset_learned_rows(&p->dataset);
    char shape[128];
    if (learned->dim == 0)
        return SL_OK;
    if (!p->a.rows)
        return sl_fail(SL_EINVAL, "--rows is missing: 'sluice predict' starts this program");
    if (!p->compute.device->is_host)
        return sl_fail(SL_EUNSUPPORTED,
                       "--device %s: learned rows are read on cores alone: wanted "
                       "cpu",
                       p->a.device);
    SL_TRY(sl_npy_open(p->a.rows, &p->learned));
    if (h->dtype != SL_DTYPE_F32 || h->ndim != 2 || h->shape[0] != n_rows ||
        h->shape[1] != learned->dim)
        return sl_fail(SL_EFORMAT,
                       "%s: found %s %s, wanted float32 (%llu, %u), a row for each vertex of data "
                       "set %s that has one: learned rows are of the data set that they were "
                       "trained on",
                       p->a.rows, sl_npy_dtype_name(h->dtype),
                       sl_npy_shape_text(h, shape, sizeof shape), (unsigned long long)n_rows,
                       learned->dim, p->dataset.path);
    learned->n_rows = n_rows;
    learned->rows = p->learned.data;
    return SL_OK;
}

// The graph that is walked, with the validation edges where these are asked for.
static int open_graph(struct program *p, struct sl_dataset **graph)
{
    const struct sl_pair_list *edges = &p->dataset.edges[SL_SPLIT_VAL];
    struct sl_wider_found found;
    *graph = &p->dataset;
    if (!p->a.val_edges)
        return SL_OK;
    if (sl_sampler_flags[p->config.sampler.kind] & SL_SAMPLER_BY_WEIGHT)
        SL_TRY(sl_weightless_drop(&p->dataset, false, (int)p->a.threads));
    const int fd = sl_anon_file_open(p->a.scratch);
    if (fd < 0)
        return sl_fail_errno(errno == EACCES ? SL_EACCESS : SL_EIO, errno,
                             "the graph with the validation edges: a file in '%s'", p->a.scratch);
    int rc = sl_wider_graph_make(fd, &p->dataset, edges, (int)p->a.threads,
                                 "free space or name another directory with --scratch", &found);
    if (rc == SL_OK)
        rc = sl_wider_graph_open(fd, &p->dataset, edges, &p->wider);
    close(fd);
    *graph = &p->wider.dataset;
    return rc;
}

// The rows that are asked for. Of pairs that join two types those of one type, then of the other.
static int run_types(struct program *p, struct sl_whole_graph *g)
{
    const struct sl_typed *t = &p->dataset.typed;
    const uint32_t *ids = g->ids;
    uint64_t computed = 0;
    if (!p->a.pairs)
        return sl_typed_graph_run(g);
    for (g->type = 0; g->type < t->n_types; g->type++) {
        const uint64_t first = t->type[g->type].first;
        p->first_end = sl_predict_pairs_before(&p->pairs, first);
        g->ids = ids + p->first_end;
        g->n = sl_predict_pairs_before(&p->pairs, first + t->type[g->type].n) - p->first_end;
        if (g->n == 0)
            continue;
        SL_TRY(sl_typed_graph_run(g));
        computed += g->computed;
    }
    g->computed = computed;
    return SL_OK;
}

static int predict(struct program *p)
{
    struct sl_dataset *graph;
    SL_TRY(open_graph(p, &graph));
    struct sl_whole_graph g = {
        .model = &p->model,
        .dataset = graph,
        .scratch = p->a.scratch,
        .memory_bytes = p->a.memory,
        .on_rows = on_rows,
        .on_progress = on_progress,
        .ctx = p,
    };
    SL_TRY(choose_layer(p, &g));
    SL_TRY(choose_vertices(p, &g));
    if (p->a.chunk == 0) // of types: as evaluations are
        p->a.chunk = p->model.typed ? p->config.evaluate.batch_size : CHUNK_ROWS;
    p->a.chunk = SL_MIN(p->a.chunk, SL_MAX(p->dataset.n_nodes, (uint64_t)1));
    g.chunk_rows = (uint32_t)p->a.chunk;
    const float *params = NULL;
    SL_TRY(take_params(p, &params));
    SL_TRY(sl_predict_device_params(&p->compute, params, p->model.n_params, &g.params));
    SL_TRY(sl_rounded_weights_take(&p->model.rounded, g.params));
    SL_TRY(sl_model_prepare_inference(&p->model, &p->config, graph, (int)p->a.threads,
                                      &p->self_loops, &p->neighbours));
    SL_TRY(open_features(p));
    SL_TRY(open_rows(p));
    SL_TRY(open_output(p, &g));
    uint64_t begin = sl_now_ns();
    SL_TRY(p->model.typed ? run_types(p, &g) : sl_whole_graph_run(&g));
    if (p->a.pairs)
        SL_TRY(sl_predict_pairs_write(&p->pairs, &p->model, g.params, p->a.kind == PROBABILITIES,
                                      p->writer, &p->not_finite, &p->first_broken));
    SL_TRY(sl_dataset_check_held(&p->dataset)); // else nobody knows what it is of
    SL_TRY(sl_npy_writer_close(&p->writer, SL_OK));
    printf("result not-finite %llu %llu\n", (unsigned long long)p->not_finite,
           (unsigned long long)p->first_broken);
    if (p->a.check)
        printf("result check %.17g %llu %llu %.9g %.9g %d\n", p->check.largest,
               (unsigned long long)p->check.row, (unsigned long long)p->check.column,
               p->check.found, p->check.wanted, p->check.log_probabilities);
    printf("result rows %llu\nresult computed %llu\nresult layer %u\nresult seconds %.6f\n",
           (unsigned long long)(p->a.pairs ? p->pairs.n : g.n), (unsigned long long)g.computed,
           g.layer, (double)(sl_now_ns() - begin) * 1e-9);
    return SL_OK;
}

// ---- the program --------------------------------------------------------------------------------

static int run(struct program *p, int argc, char **argv)
{
    int rc = parse_arguments(&p->a, argc, argv);
    if (rc != SL_OK) // an error, or help
        return rc;
    SL_TRY(sl_failpoint_init());
    SL_TRY(follow_parent(p->a.parent));
    SL_TRY(prepare(p));
    SL_TRY(say_hello(p));
    return p->a.describe ? SL_OK : predict(p);
}

static void release(struct program *p)
{
    sl_npy_writer_abort(p->writer);
    sl_predict_pairs_fini(&p->pairs);
    sl_logits_check_close(&p->check);
    free(p->rows);
    free(p->nodes);
    free(p->renamed);
    sl_reading_close(&p->reading);
    sl_row_source_fini(&p->features);
    sl_npy_close(&p->learned);
    sl_model_fini(&p->model);
    sl_neighbours_fini(&p->neighbours);
    sl_self_loops_free(&p->self_loops);
    sl_wider_graph_close(&p->wider);
    sl_objective_fini(&p->objective);
    sl_dataset_close(&p->dataset);
    sl_config_forget_relations(&p->config);
    sl_assignment_fini(&p->told);
}

int sl_predict_main(int argc, char **argv)
{
    static struct program p; // too large for a stack
    sl_log_init("sluice");
    int rc = sl_predict_device_explain(run(&p, argc, argv));
    release(&p);
    if (rc < 0)
        printf("error %d %s\n", rc, sl_error_message());
    fflush(stdout);
    return rc < 0;
}
