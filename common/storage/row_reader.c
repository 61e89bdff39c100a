#include "common/storage/row_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/mempool.h"
#include "common/base/open_file.h"
#include "common/data/dataset_files.h"
#include "common/storage/reads.h"

static const struct sl_row_reads *const ways[] = {
    [SL_ROWS_BY_URING] = &sl_row_reads_uring,
    [SL_ROWS_BY_THREADS] = &sl_row_reads_threads,
};

const char *sl_row_way_name(enum sl_row_way way)
{
    return ways[way]->name;
}

// --- ways ----------------------------------------------------------------------------------------

// From now on.
static int open_threads(struct sl_row_reader *r)
{
    r->facts.way = SL_ROWS_BY_THREADS;
    r->reads = ways[SL_ROWS_BY_THREADS];
    return r->reads->open(r);
}

// What the kernel refuses is done by threads; the message is why.
static int fall_back(struct sl_row_reader *r)
{
    static atomic_flag told = ATOMIC_FLAG_INIT; // a process has several readers
    if (!atomic_flag_test_and_set(&told))
        sl_log_info("features: %s: rows are read by threads instead", sl_error_message());
    if (r->state)
        r->reads->close(r);
    r->state = NULL;
    return open_threads(r);
}

static int open_way(struct sl_row_reader *r)
{
    if (r->options.way == SL_ROWS_BY_THREADS)
        return open_threads(r);
    r->facts.way = r->options.way;
    r->reads = ways[r->options.way];
    const int rc = r->reads->open(r);
    return rc == SL_EUNSUPPORTED ? fall_back(r) : rc;
}

// Reads all runs; those that have come before the kernel refuses are not read again.
static int go(struct sl_row_reader *r)
{
    const int rc = r->reads->go(r);
    if (rc != SL_EUNSUPPORTED || r->facts.way == SL_ROWS_BY_THREADS)
        return rc;
    uint32_t left = 0;
    for (uint32_t i = 0; i < r->n_runs; i++)
        if (!r->runs[i].done)
            r->runs[left++] = r->runs[i];
    r->n_runs = left;
    SL_TRY(fall_back(r));
    return r->reads->go(r);
}

// --- runs ----------------------------------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int grow(void **p, uint64_t *max, uint64_t n, size_t each)
{
    if (n <= *max)
        return SL_OK;
    free(*p);
    *max = sl_pow2_at_least(n);
    *p = malloc(*max * each);
    if (*p)
        return SL_OK;
    *max = 0;
    return sl_fail(SL_ENOMEM, "no memory for a list of %" PRIu64 " rows to read", n);
}

// Appends the row to the last run, or begins another one with it.
static void add_row(struct sl_row_reader *r, uint32_t i)
{
    uint32_t part;
    const uint64_t begin = sl_row_place(&r->file, r->sorted[i] >> 32, &part);
    const uint64_t end = begin + r->file.row_bytes;
    const uint64_t from = begin / SL_ROW_BLOCK_BYTES * SL_ROW_BLOCK_BYTES,
                   to = sl_align_up(end, SL_ROW_BLOCK_BYTES);
    struct sl_row_run *last = r->n_runs ? &r->runs[r->n_runs - 1] : NULL;
    if (last && last->part == part && from <= last->at + last->bytes &&
        to - last->at <= r->slot_bytes) {
        last->bytes = (uint32_t)(to - last->at);
        last->need = (uint32_t)(end - last->at);
        last->n++;
        return;
    }
    r->runs[r->n_runs++] = (struct sl_row_run){.part = part,
                                               .at = from,
                                               .bytes = (uint32_t)(to - from),
                                               .need = (uint32_t)(end - from),
                                               .first = i,
                                               .n = 1};
}

// One run of each part after the other, as long as it has some: so all drives have something to do.
static int deal_runs(struct sl_row_reader *r)
{
    const uint32_t n = r->file.n;
    uint32_t next[SL_ROW_PARTS_MAX] = {0};
    if (n == 1)
        return SL_OK;
    SL_TRY(grow((void **)&r->dealt, &r->dealt_max, r->n_runs, sizeof *r->dealt));
    for (uint32_t dealt = 0; dealt < r->n_runs;)
        for (uint32_t part = 0; part < n; part++) {
            uint32_t *at = &next[part];
            while (*at < r->n_runs && r->runs[*at].part != part)
                ++*at;
            if (*at < r->n_runs)
                r->dealt[dealt++] = r->runs[(*at)++];
        }
    memcpy(r->runs, r->dealt, r->n_runs * sizeof *r->runs);
    return SL_OK;
}

int sl_row_reader_read(struct sl_row_reader *r, const uint32_t *rows, const uint32_t *to,
                       uint32_t n, void *out)
{
    if (r->owner != getpid())
        return sl_fail(
            SL_EINVAL,
            "%s: this reader was opened by another process (%d): a forked child must open its own",
            r->path[0], r->owner);
    if (r->broken)
        return sl_fail(SL_ETIMEDOUT, "%s: the drive has stopped answering", r->path[0]);
    if (n == 0)
        return SL_OK;
    SL_TRY(grow((void **)&r->sorted, &r->sorted_max, n, sizeof *r->sorted));
    SL_TRY(grow((void **)&r->runs, &r->runs_max, n, sizeof *r->runs));
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i] >= r->file.n_rows)
            return sl_fail(SL_ERANGE,
                           "%s: row %" PRIu32 " at %" PRIu32 ", wanted one below %" PRIu64,
                           r->path[0], rows[i], i, r->file.n_rows);
        r->sorted[i] = (uint64_t)rows[i] << 32 | (to ? to[i] : i);
    }
    qsort(r->sorted, n, sizeof *r->sorted, compare);
    r->n_runs = 0;
    for (uint32_t i = 0; i < n; i++)
        add_row(r, i);
    SL_TRY(deal_runs(r));
    r->out = out;
    return go(r);
}

// --- depth ---------------------------------------------------------------------------------------

// Seconds that `n` blocks take, of all over the file.
static int time_blocks(struct sl_row_reader *r, uint32_t n, uint32_t depth, double *seconds)
{
    SL_TRY(grow((void **)&r->runs, &r->runs_max, n, sizeof *r->runs));
    uint64_t at = 0x9e3779b97f4a7c15u * depth;
    for (uint32_t i = 0; i < n; i++) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        const uint32_t part = i % r->file.n;
        const uint64_t n_blocks = r->file.part[part].bytes / SL_ROW_BLOCK_BYTES;
        r->runs[i] = (struct sl_row_run){.part = part,
                                         .at = (at >> 16) % n_blocks * SL_ROW_BLOCK_BYTES,
                                         .bytes = SL_ROW_BLOCK_BYTES,
                                         .need = SL_ROW_BLOCK_BYTES};
    }
    r->n_runs = n;
    r->out = NULL;
    r->facts.depth = depth;
    const uint64_t start = sl_now_ns();
    SL_TRY(go(r));
    *seconds = (double)(sl_now_ns() - start) * 1e-9;
    return SL_OK;
}

static uint64_t smallest_part(const struct sl_row_reader *r)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < r->file.n; i++)
        least = SL_MIN(least, r->file.part[i].bytes);
    return least;
}

// The least depth at which the drive serves nearly all that it can. A file of few blocks is read at
// once whatever the depth, and soon lies in the drive's own cache.
static int measure_depth(struct sl_row_reader *r)
{
    enum { ALONE = 32, TOGETHER = 1024, FEW = 64, BLOCKS_MIN = 4096, USUAL = 64, LEAST = 8 };
    static const double ENOUGH = 0.95; // of what the drive serves with as many as there may be
    double alone, together;
    r->facts.depth =
        r->options.depth ? SL_MIN(r->options.depth, (uint32_t)SL_ROW_DEPTH_MAX) : USUAL;
    if (r->options.depth || smallest_part(r) / SL_ROW_BLOCK_BYTES < BLOCKS_MIN)
        return SL_OK;
    SL_TRY(time_blocks(r, ALONE, 1, &alone));
    r->facts.latency_s = alone / ALONE;
    // As many as a drive that serves one at a time does in a tenth of a second: a disk that turns
    // would take ten seconds for what flash does at once.
    const double fit = 0.1 / SL_MAX(r->facts.latency_s, 1e-9);
    const uint32_t n = (uint32_t)SL_MIN(SL_MAX(fit, (double)FEW), (double)TOGETHER);
    SL_TRY(time_blocks(r, n, SL_ROW_DEPTH_MAX, &together));
    r->facts.reads_per_s = n / SL_MAX(together, 1e-9);
    // As many as keep it busy if none had to wait for another; they do, so that is where the search
    // begins.
    uint64_t depth = sl_pow2_at_least((uint64_t)(r->facts.latency_s * r->facts.reads_per_s + 0.5));
    double seconds = INFINITY;
    for (depth = SL_MAX(depth, (uint64_t)LEAST); depth < SL_ROW_DEPTH_MAX; depth *= 2) {
        SL_TRY(time_blocks(r, n, (uint32_t)depth, &seconds));
        if (seconds * ENOUGH <= together)
            break;
    }
    r->facts.depth = (uint32_t)SL_MIN(depth, (uint64_t)SL_ROW_DEPTH_MAX);
    return SL_OK;
}

// --- open and close ------------------------------------------------------------------------------

static int prepare(struct sl_row_reader *r)
{
    // Past the page cache, where every file can do that.
    atomic_store(&r->direct, !r->options.cached && sl_row_set_direct(r, true));
    if (!atomic_load(&r->direct))
        sl_row_set_direct(r, false);
    r->slot_bytes = SL_MAX((uint64_t)SL_ROW_RUN_BYTES,
                           sl_align_up(r->file.row_bytes, SL_ROW_BLOCK_BYTES) + SL_ROW_BLOCK_BYTES);
    r->buffers = sl_pages_alloc(SL_ROW_DEPTH_MAX * r->slot_bytes);
    if (!r->buffers)
        return sl_fail(SL_ENOMEM, "%s: no memory for %" PRIu64 " MiB of reads", r->path[0],
                       SL_ROW_DEPTH_MAX * r->slot_bytes >> 20);
    r->facts.depth = 1;
    SL_TRY(open_way(r));
    return measure_depth(r);
}

static void close_parts(const struct sl_row_file *file)
{
    for (uint32_t i = 0; i < file->n; i++)
        close(file->part[i].fd);
}

int sl_row_reader_open_file(const struct sl_row_file *file, const struct sl_row_options *options,
                            struct sl_row_reader **out)
{
    *out = NULL;
    struct sl_row_reader *r = calloc(1, sizeof *r);
    bool named = r != NULL;
    for (uint32_t i = 0; named && i < file->n; i++)
        named = (r->path[i] = strdup(file->part[i].path)) != NULL;
    if (!r) {
        close_parts(file);
        return sl_fail(SL_ENOMEM, "%s: no memory to read it", file->part[0].path);
    }
    r->owner = getpid();
    r->file = *file;
    r->options = *options;
    int rc = named ? prepare(r) : sl_fail(SL_ENOMEM, "no memory for paths");
    if (rc < 0)
        sl_row_reader_close(r);
    else
        *out = r;
    return rc;
}

// Opens a file that is to be the one that was mapped.
static int open_part(const char *path, const struct sl_file_id *was, struct sl_row_part *out)
{
    struct stat st;
    int fd = sl_open_regular_file(path, &st);
    SL_TRY(fd);
    int rc = sl_file_id_check(path, was, &st);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *out = (struct sl_row_part){path, fd, was->bytes};
    return SL_OK;
}

int sl_row_reader_open(const struct sl_dataset *ds, const struct sl_row_options *options,
                       struct sl_row_reader **out)
{
    const struct sl_npy *npy = &ds->files->npy[SL_FILE_FEAT];
    const struct sl_stripes *stripes = &ds->files->stripes;
    char path[sizeof ds->path + 32];
    struct sl_row_file file = {
        .unit_bytes = stripes->unit_bytes,
        .offset = npy->head.data_offset,
        .n_rows = sl_dataset_rows(ds),
        .row_bytes = ds->feat_dim * sl_dtype_bytes(ds->feat_dtype),
    };
    int rc = SL_OK;
    *out = NULL;
    if (stripes->n == 0) {
        snprintf(path, sizeof path, "%s/%s", ds->path, sl_dataset_file_name(SL_FILE_FEAT));
        rc = open_part(path, &npy->id, &file.part[0]);
        file.n = rc == SL_OK;
    } else {
        file.offset = SL_STRIPE_HEAD_BYTES;
        for (; rc == SL_OK && file.n < stripes->n; file.n += rc == SL_OK)
            rc = open_part(stripes->file[file.n].path, &stripes->file[file.n].id,
                           &file.part[file.n]);
    }
    if (rc < 0) {
        close_parts(&file);
        return rc;
    }
    return sl_row_reader_open_file(&file, options, out);
}

void sl_row_reader_close(struct sl_row_reader *r)
{
    if (!r || r->owner != getpid())
        return; // a child has none of the threads, and what it would end is its parent's
    if (r->state)
        r->reads->close(r);
    if (r->broken)
        return; // what is under way still has its files and buffers: they go with the process
    close_parts(&r->file);
    if (r->buffers)
        sl_pages_free(r->buffers, SL_ROW_DEPTH_MAX * r->slot_bytes);
    for (uint32_t i = 0; i < r->file.n; i++)
        free(r->path[i]);
    free(r->sorted);
    free(r->runs);
    free(r->dealt);
    free(r);
}

struct sl_row_profile sl_row_reader_profile(const struct sl_row_reader *r)
{
    struct sl_row_profile facts = r->facts;
    facts.direct = atomic_load(&r->direct);
    return facts;
}

uint64_t sl_row_reader_bytes(const struct sl_row_reader *r)
{
    return atomic_load_explicit(&r->bytes, memory_order_relaxed);
}
