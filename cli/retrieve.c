// `sluice retrieve`: retrieve/retrieve.h as a command.
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/rundir/rundir.h"
#include "cli/command.h"
#include "cli/dataset_command.h"
#include "cli/output.h"
#include "cli/predict.h"
#include "cli/prediction_csv.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/threads.h"
#include "common/data/atomic_file.h"
#include "common/data/id_list.h"
#include "common/data/names.h"
#include "common/data/npy.h"
#include "common/data/wider_graph.h"
#include "common/text/progress.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "retrieve/retrieve.h"

enum { BY_DOT, BY_COSINE, K_MAX = 1000000, LINES_PER_LOOK = 65536 };

static const char *const measures[] = {"dot", "cosine", NULL};

struct request {
    const char *of, *sources, *targets, *out, *scores_out, *dataset_path;
    uint64_t k, threads;
    int by;
    bool exclude_known, names, force, quiet;
    int output;

    struct sl_embedded used;         // what a run's rows are of
    struct sl_npy rows, source_rows; // the second where sources are of another type than targets
    uint32_t *source, *target;       // owned
    struct sl_dataset dataset;       // of --exclude-known, and whose sides and types there are
    struct sl_wider_graph wider;     // of --exclude-known where rows are of a graph with such edges
    struct sl_names vertex_names;
    uint64_t n_targets; // that may be the answer of some source
    struct sl_retrieval retrieval;
    uint32_t *ids;
    float *scores;
    struct sl_progress progress;
    double seconds;
};

// ---- what is asked ------------------------------------------------------------------------------

static bool is_quiet(const struct request *q)
{
    return q->quiet || q->output == SL_OUTPUT_JSON;
}

static int check_place(const struct request *q, const char *path, const char *option)
{
    SL_TRY(sl_rundir_check_file(path, option));
    if (!q->force && access(path, F_OK) == 0)
        return sl_fail(SL_EEXIST, "retrieve: %s %s exists: choose another name, or add --force",
                       option, path);
    return SL_OK;
}

static int check_places(const struct request *q)
{
    if (!sl_text_ends_in(q->out, ".npy") && !sl_text_ends_in(q->out, ".csv"))
        return sl_fail(SL_EINVAL, "retrieve: --out %s: wanted a name that ends in .npy or .csv",
                       q->out);
    if (q->scores_out && !sl_text_ends_in(q->scores_out, ".npy"))
        return sl_fail(SL_EINVAL, "retrieve: --scores %s: wanted a name that ends in .npy",
                       q->scores_out);
    if (q->names && !sl_text_ends_in(q->out, ".csv"))
        return sl_fail(SL_EINVAL,
                       "retrieve: --names with --out %s: an array has no place for names: wanted a "
                       "name that ends in .csv",
                       q->out);
    if (q->scores_out && strcmp(q->scores_out, q->out) == 0)
        return sl_fail(SL_EINVAL,
                       "retrieve: --scores %s: is also --out, wanted another name: each is a file "
                       "of its own",
                       q->scores_out);
    SL_TRY(check_place(q, q->out, "--out"));
    return q->scores_out ? check_place(q, q->scores_out, "--scores") : SL_OK;
}

// Of a run, into a file that has no name once it is open.
static int embed(struct request *q, enum sl_embed_end end, struct sl_npy *rows)
{
    const char *slash = strrchr(q->out, '/');
    const int n_dir = slash ? (int)(slash - q->out) + 1 : 0;
    char *file;
    if (asprintf(&file, "%.*s.%s.%ld.rows.npy", n_dir, q->out, q->out + n_dir, (long)getpid()) < 0)
        return sl_fail(SL_ENOMEM, "retrieve: no memory for a path");
    int rc = sl_embed_run(q->of, q->dataset_path, end, file, is_quiet(q), &q->used);
    if (rc == SL_EXIT_OK)
        rc = sl_npy_open(file, rows);
    unlink(file);
    free(file);
    return rc;
}

static int open_embeddings(struct request *q)
{
    q->used.linked = SL_NO_RELATION;
    if (sl_text_ends_in(q->of, ".npy"))
        return sl_npy_open(q->of, &q->rows);
    SL_TRY(embed(q, SL_EMBED_TARGETS, &q->rows));
    if (!q->used.joins_types)
        return SL_OK;
    SL_TRY(embed(q, SL_EMBED_SOURCES, &q->source_rows));
    q->retrieval.source_rows = q->source_rows.data;
    q->retrieval.n_source_rows = q->source_rows.head.shape[0];
    return SL_OK;
}

static int open_rows(struct request *q)
{
    char shape[128];
    SL_TRY(open_embeddings(q));
    const struct sl_npy_header *h = &q->rows.head;
    if (h->dtype != SL_DTYPE_F32 || h->ndim != 2 || h->shape[0] == 0 || h->shape[1] == 0)
        return sl_fail(SL_EFORMAT,
                       "%s: is %s %s, wanted a matrix of float32 with a row for each vertex, as "
                       "`sluice embed RUN --out FILE.npy` writes it",
                       q->of, sl_npy_dtype_name(h->dtype),
                       sl_npy_shape_text(h, shape, sizeof shape));
    if (h->shape[0] >= UINT32_MAX || h->shape[1] > INT32_MAX)
        return sl_fail(SL_EUNSUPPORTED, "%s: has %" PRIu64 " rows, wanted fewer than 2^32 - 1",
                       q->of, h->shape[0]);
    q->retrieval.rows = q->rows.data;
    q->retrieval.n = h->shape[0];
    q->retrieval.dim = (uint32_t)h->shape[1];
    return SL_OK;
}

// The type that an end of the relation is of; NULL: there is one.
static const struct sl_vertex_type *type_of(const struct request *q, enum sl_embed_end end)
{
    if (q->used.linked == SL_NO_RELATION)
        return NULL;
    const struct sl_relation *r = sl_dataset_linked(&q->dataset);
    return &q->dataset.typed.type[end == SL_EMBED_SOURCES ? r->source : r->target];
}

static int read_ids(const struct request *q, const char *path, enum sl_embed_end end,
                    uint32_t **ids, uint64_t *n)
{
    const struct sl_vertex_type *type = type_of(q, end);
    const bool of_sources = end == SL_EMBED_SOURCES && q->source_rows.map;
    const int rc =
        sl_id_list_read(path, of_sources ? q->retrieval.n_source_rows : q->retrieval.n, ids, n);
    if (rc < 0 && type)
        return sl_fail_prefix(rc, "retrieve: numbers of vertices of type '%s'", type->name);
    SL_TRY(rc);
    return *n ? SL_OK : sl_fail(SL_EFORMAT, "%s: is empty, wanted at least one vertex", path);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int read_targets(struct request *q)
{
    uint64_t n = 0, k = 0;
    if (!q->targets)
        return SL_OK;
    SL_TRY(read_ids(q, q->targets, SL_EMBED_TARGETS, &q->target, &n));
    qsort(q->target, n, sizeof *q->target, ascending);
    for (uint64_t i = 0; i < n; i++)
        if (i == 0 || q->target[i] != q->target[i - 1])
            q->target[k++] = q->target[i];
    q->retrieval.targets = q->target;
    q->retrieval.n_targets = k;
    return SL_OK;
}

// Of a graph with the validation edges these are known, too.
static int know_val_edges(struct request *q)
{
    const struct sl_pair_list *edges = &q->dataset.edges[SL_SPLIT_VAL];
    struct sl_wider_found found;
    char out[4200];
    snprintf(out, sizeof out, "%s", q->out);
    const int fd = sl_anon_file_open(dirname(out));
    if (fd < 0)
        return sl_fail_errno(SL_EIO, errno, "retrieve: a file beside '%s'", q->out);
    int rc = sl_wider_graph_make(fd, &q->dataset, edges, (int)q->threads,
                                 "free space on the drive of --out", &found);
    if (rc == SL_OK)
        rc = sl_wider_graph_open(fd, &q->dataset, edges, &q->wider);
    close(fd);
    q->retrieval.known = &q->wider.dataset;
    return rc;
}

static int open_dataset(struct request *q)
{
    const char *path = q->dataset_path ? q->dataset_path : q->used.dataset;
    if (!*path)
        return SL_OK;
    SL_TRY(
        sl_dataset_check_open(path, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, is_quiet(q), &q->dataset));
    if (q->used.linked != SL_NO_RELATION) {
        q->dataset.typed.linked = q->used.linked;
        return SL_OK;
    }
    if (q->dataset.typed.n_types)
        return sl_fail(SL_EUNSUPPORTED,
                       "retrieve: --dataset %s has several types, wanted the run of links in place "
                       "of %s, which says whose rows they are",
                       path, q->of);
    if (q->dataset.n_nodes != q->retrieval.n)
        return sl_fail(SL_EINVAL,
                       "retrieve: --dataset %s has %" PRIu64 " vertices, and %s %" PRIu64
                       " rows: wanted the data set that the rows are of",
                       path, q->dataset.n_nodes, q->of, q->retrieval.n);
    if (q->dataset.first_side < q->retrieval.n && !q->targets)
        q->retrieval.first_side = q->dataset.first_side;
    return SL_OK;
}

static int know_edges(struct request *q)
{
    if (!q->exclude_known)
        return SL_OK;
    q->retrieval.known = &q->dataset;
    return q->used.val_edges ? know_val_edges(q) : SL_OK;
}

// Rows are of the ids from before a reordering, and so are names.
static int open_names(struct request *q)
{
    const char *path = q->dataset_path ? q->dataset_path : q->used.dataset;
    if (!q->names)
        return SL_OK;
    int rc = sl_names_open(path, SL_NAMES_VERTEX, q->dataset.n_nodes, &q->vertex_names);
    if (rc != SL_ENOENT)
        return rc;
    return sl_fail(SL_ENOENT,
                   "retrieve --names: data set '%s' has no names (vertex_names.npy): import it "
                   "with --relabel, or leave --names out",
                   path);
}

static int open_all(struct request *q)
{
    SL_TRY(check_places(q));
    if ((q->exclude_known || q->names) && !q->dataset_path && sl_text_ends_in(q->of, ".npy"))
        return sl_fail(SL_EINVAL, "retrieve: --%s with %s: wanted --dataset DIR, whose %s",
                       q->exclude_known ? "exclude-known" : "names", q->of,
                       q->exclude_known ? "edges are known" : "names they are");
    SL_TRY(open_rows(q));
    SL_TRY(open_dataset(q));
    SL_TRY(read_ids(q, q->sources, SL_EMBED_SOURCES, &q->source, &q->retrieval.n_sources));
    q->retrieval.sources = q->source;
    SL_TRY(read_targets(q));
    SL_TRY(know_edges(q));
    SL_TRY(open_names(q));
    q->n_targets = sl_retrieval_range(&q->retrieval, q->source, q->retrieval.n_sources).n;
    const uint64_t cells = q->retrieval.n_sources * q->k;
    q->ids = malloc(cells * sizeof *q->ids);
    q->scores = malloc(cells * sizeof *q->scores);
    if (!q->ids || !q->scores)
        return sl_fail(SL_ENOMEM, "retrieve: no memory for %" PRIu64 " answers: ask for fewer",
                       cells);
    return SL_OK;
}

// ---- answers ------------------------------------------------------------------------------------

static int write_npy(const struct request *q, const char *path, enum sl_dtype dtype)
{
    struct sl_npy_writer *w;
    const uint64_t shape[] = {q->retrieval.n_sources, q->k};
    int rc = SL_OK;
    SL_TRY(sl_npy_writer_open(path, dtype, 2, shape, &w));
    if (dtype == SL_DTYPE_F32)
        rc = sl_npy_writer_append(w, q->scores, shape[0] * q->k * sizeof *q->scores);
    for (uint64_t i = 0; dtype != SL_DTYPE_F32 && rc == SL_OK && i < shape[0] * q->k; i++) {
        const int64_t id = q->ids[i] == SL_RETRIEVE_NONE ? -1 : (int64_t)q->ids[i];
        rc = sl_npy_writer_append(w, &id, sizeof id);
    }
    return sl_npy_writer_close(&w, rc);
}

static int write_vertex(const struct request *q, enum sl_embed_end end, uint32_t vertex, FILE *out)
{
    const struct sl_vertex_type *type = type_of(q, end);
    const char *name;
    size_t n;
    if (!q->names) {
        fprintf(out, "%" PRIu32, vertex);
        return SL_OK;
    }
    SL_TRY(sl_names_get(&q->vertex_names, vertex + (type ? type->first : 0), &name, &n));
    sl_prediction_csv_field(name, n, out);
    return SL_OK;
}

static int write_lines(const struct request *q, FILE *out)
{
    fprintf(out, "source,rank,target,score\n");
    for (uint64_t i = 0; i < q->retrieval.n_sources * q->k; i++) {
        if (i % LINES_PER_LOOK == 0)
            SL_TRY(sl_interrupt_check());
        if (q->ids[i] == SL_RETRIEVE_NONE)
            continue;
        SL_TRY(write_vertex(q, SL_EMBED_SOURCES, q->source[i / q->k], out));
        fprintf(out, ",%" PRIu64 ",", i % q->k + 1);
        SL_TRY(write_vertex(q, SL_EMBED_TARGETS, q->ids[i], out));
        fprintf(out, ",%.9g\n", (double)q->scores[i]);
    }
    return SL_OK;
}

static int write_csv(const struct request *q)
{
    struct sl_atomic_file file = {0};
    SL_TRY(sl_atomic_file_open(q->out, &file));
    FILE *out = fdopen(dup(file.fd), "w");
    int rc = out ? write_lines(q, out) : sl_fail(SL_EIO, "%s: cannot be written", q->out);
    const bool bad = out && ferror(out);
    if (out && (fclose(out) != 0 || bad) && rc == SL_OK)
        rc = sl_fail(SL_EIO, "write %s: the drive took only a part of it", q->out);
    if (rc == SL_OK)
        rc = sl_atomic_file_commit(&file);
    sl_atomic_file_abort(&file);
    return rc;
}

static int write_answers(const struct request *q)
{
    if (q->scores_out)
        SL_TRY(write_npy(q, q->scores_out, SL_DTYPE_F32));
    return sl_text_ends_in(q->out, ".csv") ? write_csv(q) : write_npy(q, q->out, SL_DTYPE_I64);
}

static int print(const struct request *q)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    const struct sl_retrieval *r = &q->retrieval;
    const double products = (double)r->n_sources * (double)q->n_targets;
    const bool typed = q->used.linked != SL_NO_RELATION;
    if (q->output == SL_OUTPUT_JSON) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "schema", "sluice.retrieve/1");
        cJSON_AddStringToObject(o, "file", q->out);
        cJSON_AddNumberToObject(o, "sources", (double)r->n_sources);
        cJSON_AddNumberToObject(o, "targets", (double)q->n_targets);
        cJSON_AddBoolToObject(o, "other_side", r->first_side > 0);
        if (typed)
            cJSON_AddStringToObject(o, "relation",
                                    sl_relation_text(&q->dataset.typed, q->used.linked).text);
        cJSON_AddNumberToObject(o, "k", (double)q->k);
        cJSON_AddStringToObject(o, "by", measures[q->by]);
        cJSON_AddNumberToObject(o, "seconds", q->seconds);
        return sl_output_json_line(o, "the answers");
    }
    if (!q->quiet)
        printf("%s: the best %s of %s targets%s for %s%s%s, by %s, in %s (%s products of %" PRIu32
               " numbers a second)\n",
               q->out, sl_units_grouped(a, SL_MIN((uint64_t)q->k, q->n_targets)),
               sl_units_grouped(b, q->n_targets), r->first_side ? ", those of the other side," : "",
               SL_PLURAL((double)r->n_sources, "source"), typed ? " of " : "",
               typed ? sl_relation_text(&q->dataset.typed, q->used.linked).text : "",
               measures[q->by], sl_units_seconds(c, q->seconds),
               sl_units_count((char[SL_UNITS_BYTES]){0}, products / q->seconds), r->dim);
    return SL_EXIT_OK;
}

static void on_progress(void *ctx, uint64_t products)
{
    sl_progress_add(ctx, products);
}

static int retrieve(void *state)
{
    struct request *q = state;
    struct sl_retrieval *r = &q->retrieval;
    sl_interrupt_catch();
    sl_progress_init(&q->progress, is_quiet(q));
    SL_TRY(open_all(q));
    r->k = (uint32_t)q->k;
    r->cosine = q->by == BY_COSINE;
    r->n_threads = q->threads ? (int)q->threads : sl_threads_default();
    r->on_progress = on_progress;
    r->ctx = &q->progress;
    const uint64_t begin = sl_now_ns();
    sl_progress_begin(&q->progress, "products", r->n_sources * q->n_targets, "products");
    int rc = sl_retrieve(r, q->ids, q->scores);
    q->seconds = (double)SL_MAX(sl_now_ns() - begin, (uint64_t)1) * 1e-9;
    sl_progress_clear(&q->progress);
    if (rc == SL_EFORMAT)
        return sl_fail_prefix(rc, "%s", q->of);
    SL_TRY(rc);
    SL_TRY(write_answers(q));
    return print(q);
}

static void release(void *state)
{
    struct request *q = state;
    sl_npy_close(&q->rows);
    sl_npy_close(&q->source_rows);
    sl_wider_graph_close(&q->wider);
    sl_dataset_close(&q->dataset);
    sl_names_close(&q->vertex_names);
    free(q->source);
    free(q->target);
    free(q->ids);
    free(q->scores);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "sources", AT(TEXT, sources), .placeholder = "IDS.npy", .required = true,
     .help = "vertices that targets are looked for, in this order (int32 or int64); of a run on a "
             "graph of several types their numbers within the relation's source type"},
    {.name = "k", AT(UINT, k), .placeholder = "N", .min = 1, .max = K_MAX,
     .help = "targets for each"},
    {.name = "out", AT(TEXT, out), .placeholder = "FILE", .required = true,
     .help = "where they go, by its ending: .npy is an array of int64, a row for each source, best "
             "first, -1 behind the last; .csv lines of source, rank, target and score; appears "
             "whole or not at all"},
    {.name = "scores", AT(TEXT, scores_out), .placeholder = "FILE.npy",
     .help = "where their scores go, too: float32 in the same shape, NaN behind the last"},
    {.name = "by", AT(CHOICE, by), .choices = measures,
     .help = "dot: the product of both rows; cosine: of both at length 1"},
    {.name = "targets", AT(TEXT, targets), .placeholder = "IDS.npy",
     .help = "only these are answers; else all, or where the data set has two sides, such as users "
             "and items, those of the other side than the source's; of several types numbers "
             "within the relation's target type"},
    {.name = "exclude-known", AT(FLAG, exclude_known),
     .help = "no answers to which an edge of the data set leads from the source, validation edges "
             "among them where RUN is applied to a graph that has them"},
    {.name = "names", AT(FLAG, names),
     .help = "in FILE.csv names of vertices in place of numbers, where the data set has them "
             "(import edgelist --relabel)"},
    {.name = "dataset", AT(TEXT, dataset_path), .placeholder = "DIR",
     .help = "whose edges, sides and names are known, and to which the model of RUN is applied; "
             "default: the run's"},
    {.name = "threads", AT(UINT, threads), .placeholder = "N", .min = 1, .max = 256,
     .no_default = true, .help = "else one a core; the answers are the same"},
    {.name = "force", .letter = 'f', AT(FLAG, force), .help = "write over --out and --scores"},
    {.name = "quiet", .letter = 'q', AT(FLAG, quiet), .help = "no progress and no text"},
    {0},
};
// clang-format on

const struct sl_command sl_command_retrieve = {
    .name = "retrieve",
    .help = "for some vertices the nearest others, by their embeddings",
    .about = "Finds for each source the K targets whose embeddings have the largest product with "
             "its own: exact, all products are computed. They are what the last hidden layer of "
             "RUN gives, or the rows of a file (float32, a row for each vertex), such as `sluice "
             "embed` writes. Of equal scores the lower id is first; no vertex is its own answer. "
             "In a graph of users and items users get items and items users, unless --targets says "
             "otherwise. Of a graph of several types, a run of links finds targets of the relation "
             "that it learned.",
    .example = "sluice retrieve runs/products --sources ids.npy --k 20 --exclude-known "
               "--out top.csv\n"
               "sluice embed runs/products --out hidden.npy\n"
               "sluice retrieve hidden.npy --sources users.npy --targets items.npy --by cosine "
               "--out top.npy",
    .operands = {{"RUN|FILE.npy", offsetof(struct request, of)}},
    .options = {{options}, {sl_output_option, offsetof(struct request, output)}},
    .bytes = sizeof(struct request),
    .defaults = &(const struct request){.k = 10},
    .run = retrieve,
    .fini = release,
};
