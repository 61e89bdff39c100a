/*
 * lend.c - a trainer whose step is empty, on libsluice: batches of a running job, with features.
 *
 *   lend JOB --epochs N [--ahead]
 *
 * JOB is the name or the directory of the job, which may not run yet: it is waited for. A batch's
 * features are gathered into memory of this process, --ahead: while the one before is looked at;
 * a sum of labels and of a value a row stands for what a step reads. The epochs must be the job's
 * last ones, or it waits for this trainer.
 *
 * Prints one JSON list: of each epoch when it ended, by the clock that all processes of a machine
 * share, its batches, edges and rows of features.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <sluice.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"

enum { LOOK_MS = 50, START_S = 60 };

struct options {
    const char *job;
    uint32_t epochs;
    bool ahead;
};

struct lend {
    sluice_loader *loader;
    struct sluice_info info;
    float *x; // (capacity / row bytes, feat_dim), without --ahead
    size_t capacity;
    double sum; // of what a step reads
};

static void must_have(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "lend: %s\n", sluice_error());
        exit(EXIT_FAILURE);
    }
}

static void open_loader(struct lend *l, const struct options *o)
{
    const struct sluice_options options = {
        .size = sizeof options, .attach = o->job, .rank = -1, .prefetch = o->ahead};
    const uint64_t until_ns = sl_now_ns() + START_S * UINT64_C(1000000000);
    int rc;
    while ((rc = sluice_open(&options, &l->loader)) == SLUICE_ENOENT && sl_now_ns() < until_ns)
        usleep(LOOK_MS * 1000);
    must_have(rc);
    l->info.size = sizeof l->info;
    must_have(sluice_get_info(l->loader, &l->info));
}

static const float *features(struct lend *l, const struct sluice_batch *b, bool ahead)
{
    const void *rows;
    const size_t bytes = b->n_nodes * l->info.feat_row_bytes;
    if (ahead) {
        must_have(sluice_features_view(l->loader, b, &rows));
        return rows;
    }
    if (bytes > l->capacity) {
        free(l->x);
        l->capacity = bytes + bytes / 8;
        l->x = must(malloc(l->capacity));
    }
    must_have(sluice_features(l->loader, b, l->x, l->capacity));
    return l->x;
}

static void step(struct lend *l, const struct sluice_batch *b, const float *x)
{
    const int32_t *labels = b->labels;
    for (uint32_t i = 0; i < b->n_seeds; i++)
        l->sum += labels[i];
    for (uint32_t i = 0; i < b->n_nodes; i++)
        l->sum += x[(size_t)i * l->info.feat_dim];
}

static void run_epoch(struct lend *l, bool ahead, const char *before)
{
    struct sluice_batch b = {.size = sizeof b};
    uint64_t batches = 0, edges = 0, rows = 0;
    int rc;
    while ((rc = sluice_next(l->loader, LOOK_MS, &b)) != SLUICE_END) {
        must_have(rc);
        if (rc == SLUICE_TIMEOUT)
            continue;
        step(l, &b, features(l, &b, ahead));
        batches++;
        edges += b.n_edges;
        rows += b.n_nodes;
        must_have(sluice_done(l->loader, b.id));
    }
    printf("%s{\"end\": %.6f, \"batches\": %" PRIu64 ", \"edges\": %" PRIu64 ", \"rows\": %" PRIu64
           "}",
           before, (double)sl_now_ns() * 1e-9, batches, edges, rows);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("epochs", options, epochs, 1, 1000000),
    ARGUMENT_FLAG("ahead", options, ahead),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "lend",
    .is_program = true,
    .about = "A trainer whose step is empty, of a running job for external trainers.",
    .operands = {{"JOB", offsetof(struct options, job)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {.epochs = 1};
    struct lend l = {0};
    arguments_parse(&command, &o, argc, argv);
    open_loader(&l, &o);
    if (l.info.feat_type != SLUICE_F32 || l.info.label_type != SLUICE_I32) {
        fprintf(stderr, "lend: %s: wanted features of float32, and classes\n", l.info.dataset);
        return EXIT_FAILURE;
    }
    for (uint32_t i = 0; i < o.epochs; i++)
        run_epoch(&l, o.ahead, i ? ", " : "[");
    printf("]\n");
    sluice_close(l.loader);
    free(l.x);
    return isfinite(l.sum) ? EXIT_SUCCESS : EXIT_FAILURE;
}
