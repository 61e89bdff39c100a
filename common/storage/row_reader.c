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
    const struct sl_row_file *file = &r->now->file;
    const uint64_t begin = sl_row_place(file, r->sorted[i] >> 32, &part);
    const uint64_t end = begin + file->row_bytes;
    const uint64_t from = begin / SL_ROW_BLOCK_BYTES * SL_ROW_BLOCK_BYTES,
                   to = sl_align_up(end, SL_ROW_BLOCK_BYTES);
    struct sl_row_run *last = r->n_runs ? &r->runs[r->n_runs - 1] : NULL;
    part += r->now->first_part;
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
    const uint32_t n = r->now->file.n;
    uint32_t next[SL_ROW_PARTS_MAX] = {0};
    if (n == 1)
        return SL_OK;
    SL_TRY(grow((void **)&r->dealt, &r->dealt_max, r->n_runs, sizeof *r->dealt));
    for (uint32_t dealt = 0; dealt < r->n_runs;)
        for (uint32_t part = 0; part < n; part++) {
            uint32_t *at = &next[part];
            while (*at < r->n_runs && r->runs[*at].part != r->now->first_part + part)
                ++*at;
            if (*at < r->n_runs)
                r->dealt[dealt++] = r->runs[(*at)++];
        }
    memcpy(r->runs, r->dealt, r->n_runs * sizeof *r->runs);
    return SL_OK;
}

// Whose rows `row` is among; the last one for what is no row.
static const struct sl_row_set *set_of(const struct sl_row_reader *r, uint64_t row)
{
    uint32_t low = 0, high = r->n_sets; // the first row of `low` is at most `row`
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (r->set[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return &r->set[low];
}

static int fail_range(const struct sl_row_reader *r, uint32_t row, uint32_t at)
{
    const struct sl_row_set *t = r->now;
    return sl_fail(SL_ERANGE,
                   "%s: row %" PRIu32 " at %" PRIu32 ", wanted one from %" PRIu64 " on below "
                   "%" PRIu64,
                   t->file.n ? r->path[t->first_part] : "rows that are in no file", row, at,
                   t->first, t->first + t->file.n_rows);
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
    const struct sl_row_set *t = r->now = set_of(r, rows[0]);
    SL_TRY(grow((void **)&r->sorted, &r->sorted_max, n, sizeof *r->sorted));
    SL_TRY(grow((void **)&r->runs, &r->runs_max, n, sizeof *r->runs));
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t row = rows[i] - t->first; // of one before the first: a very large number
        if (row >= t->file.n_rows || t->file.n == 0)
            return fail_range(r, rows[i], i);
        r->sorted[i] = row << 32 | (to ? to[i] : i);
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
        const uint32_t part = r->now->first_part + i % r->now->file.n;
        const uint64_t n_blocks = r->part[part].bytes / SL_ROW_BLOCK_BYTES;
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

static uint64_t smallest_part(const struct sl_row_set *t)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < t->file.n; i++)
        least = SL_MIN(least, t->file.part[i].bytes);
    return t->file.n ? least : 0;
}

// Of which files of all sets most can be learned.
static const struct sl_row_set *largest_set(const struct sl_row_reader *r)
{
    const struct sl_row_set *most = &r->set[0];
    for (uint32_t t = 1; t < r->n_sets; t++)
        if (smallest_part(&r->set[t]) > smallest_part(most))
            most = &r->set[t];
    return most;
}

// The least depth at which the drive serves nearly all that it can. A file of few blocks is read at
// once whatever the depth, and soon lies in the drive's own cache.
static int measure_depth(struct sl_row_reader *r)
{
    enum { ALONE = 32, TOGETHER = 1024, FEW = 64, BLOCKS_MIN = 4096, USUAL = 64, LEAST = 8 };
    static const double ENOUGH = 0.95; // of what the drive serves with as many as there may be
    double alone, together;
    r->now = largest_set(r);
    r->facts.depth =
        r->options.depth ? SL_MIN(r->options.depth, (uint32_t)SL_ROW_DEPTH_MAX) : USUAL;
    if (r->options.depth || smallest_part(r->now) / SL_ROW_BLOCK_BYTES < BLOCKS_MIN)
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
    uint64_t most = 0;
    for (uint32_t t = 0; t < r->n_sets; t++)
        most = SL_MAX(most, r->set[t].file.row_bytes);
    r->slot_bytes = SL_MAX((uint64_t)SL_ROW_RUN_BYTES,
                           sl_align_up(most, SL_ROW_BLOCK_BYTES) + SL_ROW_BLOCK_BYTES);
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

// Sets of rows and parts of the reader, of `n` files.
static int take_files(struct sl_row_reader *r, const struct sl_row_file *file, uint32_t n)
{
    uint32_t n_parts = 0;
    for (uint32_t t = 0; t < n; t++)
        n_parts += file[t].n;
    if (n_parts == 0)
        return sl_fail(SL_EINVAL, "rows: found no file to read them from, wanted one");
    r->set = calloc(n, sizeof *r->set);
    r->part = calloc(n_parts, sizeof *r->part);
    r->path = calloc(n_parts, sizeof *r->path);
    if (!r->set || !r->part || !r->path)
        return sl_fail(SL_ENOMEM, "no memory for the files of rows");
    uint64_t first = 0;
    for (uint32_t t = 0; t < n; t++) {
        r->set[t] = (struct sl_row_set){.file = file[t], .first = first, .first_part = r->n_parts};
        first += file[t].n_rows;
        for (uint32_t i = 0; i < file[t].n; i++) {
            r->part[r->n_parts] = file[t].part[i];
            r->path[r->n_parts] = strdup(file[t].part[i].path);
            if (!r->path[r->n_parts++])
                return sl_fail(SL_ENOMEM, "no memory for paths");
        }
    }
    r->n_sets = n; // which are closed with the reader from now on
    return SL_OK;
}

int sl_row_reader_open_files(const struct sl_row_file *file, uint32_t n,
                             const struct sl_row_options *options, struct sl_row_reader **out)
{
    *out = NULL;
    struct sl_row_reader *r = calloc(1, sizeof *r);
    int rc = r ? take_files(r, file, n) : sl_fail(SL_ENOMEM, "no memory to read rows");
    if (rc < 0)
        for (uint32_t t = 0; t < n; t++)
            close_parts(&file[t]);
    if (!r)
        return rc;
    r->owner = getpid();
    r->options = *options;
    if (rc == SL_OK)
        rc = prepare(r);
    if (rc < 0)
        sl_row_reader_close(r);
    else
        *out = r;
    return rc;
}

int sl_row_reader_open_file(const struct sl_row_file *file, const struct sl_row_options *options,
                            struct sl_row_reader **out)
{
    return sl_row_reader_open_files(file, 1, options, out);
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

enum { PATH_BYTES = sizeof(((struct sl_dataset *)0)->path) + sizeof(struct sl_typed_file) };

static int open_stripes(const struct sl_stripes *s, struct sl_row_file *out)
{
    out->unit_bytes = s->unit_bytes;
    out->offset = SL_STRIPE_HEAD_BYTES;
    for (; out->n < s->n; out->n++)
        SL_TRY(open_part(s->file[out->n].path, &s->file[out->n].id, &out->part[out->n]));
    return SL_OK;
}

// The features of a type, or of all vertices: in one file, or in stripes. A type without is a file
// of no part.
static int open_type(const struct sl_dataset *ds, uint32_t t, char path[PATH_BYTES],
                     struct sl_row_file *out)
{
    const struct sl_vertex_type *type = ds->typed.n_types ? &ds->typed.type[t] : NULL;
    const struct sl_npy *npy = type ? &ds->files->typed[t].npy : &ds->files->npy[SL_FILE_FEAT];
    *out = (struct sl_row_file){
        .n_rows = type ? sl_dataset_type_rows(ds, type) : sl_dataset_rows(ds),
        .row_bytes = type ? sl_type_row_bytes(type) : ds->feat_dim * sl_dtype_bytes(ds->feat_dtype),
        .offset = npy->head.data_offset,
    };
    if (!npy->map)
        return SL_OK;
    if (sl_dataset_stripes(ds->files, t))
        return open_stripes(sl_dataset_stripes(ds->files, t), out);
    snprintf(path, PATH_BYTES, "%s/%s", ds->path, sl_dataset_feat_name(ds, t));
    SL_TRY(open_part(path, &npy->id, &out->part[0]));
    out->n = 1;
    return SL_OK;
}

int sl_row_reader_open(const struct sl_dataset *ds, const struct sl_row_options *options,
                       struct sl_row_reader **out)
{
    const uint32_t n = ds->typed.n_types ? ds->typed.n_types : 1;
    struct sl_row_file *file = calloc(n, sizeof *file);
    char *paths = malloc((size_t)n * PATH_BYTES);
    int rc = file && paths ? SL_OK : sl_fail(SL_ENOMEM, "no memory for the files of %u types", n);
    uint32_t t = 0;
    *out = NULL;
    for (; rc == SL_OK && t < n; t++)
        rc = open_type(ds, t, paths + (size_t)t * PATH_BYTES, &file[t]);
    if (rc == SL_OK)
        rc = sl_row_reader_open_files(file, n, options, out);
    else
        while (t-- > 0)
            close_parts(&file[t]);
    free(paths);
    free(file);
    return rc;
}

void sl_row_reader_close(struct sl_row_reader *r)
{
    if (!r || r->owner != getpid())
        return; // a child has none of the threads, and what it would end is its parent's
    if (r->state)
        r->reads->close(r);
    if (r->broken)
        return; // what is under way still has its files and buffers: they go with the process
    for (uint32_t t = 0; t < r->n_sets; t++)
        close_parts(&r->set[t].file);
    if (r->buffers)
        sl_pages_free(r->buffers, SL_ROW_DEPTH_MAX * r->slot_bytes);
    for (uint32_t i = 0; r->path && i < r->n_parts; i++)
        free(r->path[i]);
    free(r->path);
    free(r->part);
    free(r->set);
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
