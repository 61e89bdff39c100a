#include "tests/kernels/harness.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"

enum {
    ZONE_BYTES = 256,
    SENTINEL = 0xa5,
    FILL = 0xff, // as f32, f16 and f64: NaN
};

int t_threads[4] = {1, 2, 3, 0};

struct t_memory {
    struct t_memory *next;
    unsigned char *base;
    unsigned char *data;
    size_t bytes, total;
    enum { OF_HEAP, OF_REGION, APART } kind;
};

void t_begin(struct suite *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->name, sizeof t->name, fmt, ap);
    va_end(ap);
    t->broken = 0;
}

static int zone_is_intact(const unsigned char *from, const unsigned char *to)
{
    for (; from < to; from++)
        if (*from != SENTINEL)
            return 0;
    return 1;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void release(struct suite *t, struct t_memory *m)
{
    if (m->kind == OF_HEAP)
        free(m->base);
    if (m->kind == APART) {
        t->device->unmap(m->base);
        munmap(m->base, m->total + page_bytes());
    }
    free(m);
}

void t_end(struct suite *t)
{
    t_expect_ok(t, SL_OK, "the end of the case");
    if (t->allow)
        t->allow(t->region, t->region_used);
    for (struct t_memory *m = t->memory; m && t->allow; m = m->next)
        t->allow(m->base, m->total);
    while (t->memory) {
        struct t_memory *m = t->memory;
        t_expect(t, zone_is_intact(m->base, m->data), "memory before an array was overwritten");
        t_expect(t, zone_is_intact(m->data + m->bytes, m->base + m->total),
                 "memory behind an array of %zu bytes was overwritten", m->bytes);
        t->memory = m->next;
        release(t, m);
    }
    t->region_used = 0;
    sl_mempool_reset(&t->ws);
    sl_mempool_reset(&t->dev_ws);
    if (t->broken)
        t->failed++;
    else
        t->passed++;
}

int t_expect(struct suite *t, int ok, const char *fmt, ...)
{
    if (ok)
        return 1;
    t->broken = 1;
    fprintf(stderr, "FAIL %s: ", t->name);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return 0;
}

// What became of a call.
static int outcome(struct suite *t, int rc)
{
    if (t->device->is_host)
        return rc;
    if (rc == SL_OK)
        return t->device->sync();
    char kept[512]; // of the call itself
    snprintf(kept, sizeof kept, "%s", sl_error_message());
    int later = t->device->sync();
    if (later != SL_OK)
        t_expect(t, 0, "sync after a refused call: %s", sl_error_message());
    return sl_fail(rc, "%s", kept);
}

int t_expect_ok(struct suite *t, int rc, const char *what)
{
    rc = outcome(t, rc);
    return t_expect(t, rc == SL_OK, "%s returned %d: %s", what, rc, sl_error_message());
}

int t_expect_code(struct suite *t, int rc, int want, const char *what)
{
    rc = outcome(t, rc);
    return t_expect(t, rc == want, "%s returned %d (%s), wanted %d (%s)", what, rc, sl_strerror(rc),
                    want, sl_strerror(want));
}

void t_same_bits(struct suite *t, const char *what, const void *got, const void *want, size_t bytes)
{
    const unsigned char *g = got, *w = want;
    if (bytes == 0 || memcmp(g, w, bytes) == 0)
        return;
    size_t i = 0;
    while (g[i] == w[i])
        i++;
    size_t word = i / 4 * 4;
    uint32_t gw = 0, ww = 0;
    memcpy(&gw, g + word, SL_MIN(bytes - word, sizeof gw));
    memcpy(&ww, w + word, SL_MIN(bytes - word, sizeof ww));
    t_expect(t, 0, "%s differs first at byte %zu of %zu: word %08x, wanted %08x", what, i, bytes,
             gw, ww);
}

void t_same_results(struct suite *t, const char *what, const struct sl_loss_result *a,
                    const struct sl_loss_result *b)
{
    t_expect(t,
             a->loss == b->loss && a->weight == b->weight && a->correct == b->correct &&
                 a->counted == b->counted,
             "%s: loss %.17g, weight %.17g, %llu correct: wanted %.17g, %.17g, %llu", what, a->loss,
             a->weight, (unsigned long long)a->correct, b->loss, b->weight,
             (unsigned long long)b->correct);
}

void t_close(struct suite *t, const char *what, const float *got, const float *want, size_t n,
             double relative, double absolute)
{
    for (size_t i = 0; i < n; i++) {
        if (isnan(got[i]) && isnan(want[i]))
            continue;
        if (got[i] == want[i]) // infinities too
            continue;
        double error = fabs((double)got[i] - (double)want[i]);
        double allowed = relative * fabs((double)want[i]) + absolute;
        if (!(error <= allowed)) {
            t_expect(t, 0, "%s[%zu] of %zu is %.9g, wanted %.9g within %.3g", what, i, n,
                     (double)got[i], (double)want[i], allowed);
            return;
        }
    }
}

static void out_of_memory(void)
{
    fputs("kernels: out of memory\n", stderr);
    exit(1);
}

// ---- a GPU's tests ------------------------------------------------------------------------------

#define REGION_BYTES ((size_t)512 << 20)
#define STACK_BYTES  ((size_t)8 << 20)

static void *take_mapped(struct suite *t, size_t bytes)
{
    if (bytes > REGION_BYTES - STACK_BYTES - t->region_used)
        return NULL;
    void *p = t->region + t->region_used;
    t->region_used += bytes;
    return p;
}

// Pages that the device reads and writes in place, with one behind them that nobody can. NULL when
// the device has mapped as many pieces as it can.
static unsigned char *map_pages(struct suite *t, size_t bytes)
{
    void *seen = NULL;
    unsigned char *p = mmap(NULL, bytes + page_bytes(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    mprotect(p + bytes, page_bytes(), PROT_NONE);
    int rc = t->device->map(p, bytes, false, &seen);
    if (rc == SL_OK && seen == p)
        return p;
    if (rc == SL_OK)
        t->device->unmap(p);
    munmap(p, bytes + page_bytes());
    return NULL;
}

// The array ends where its pages do, but for what its alignment takes.
static int take_apart(struct suite *t, struct t_memory *m, size_t skew)
{
    size_t at_end = sl_align_up(skew + m->bytes, 64);
    m->total = sl_align_up(ZONE_BYTES + at_end, page_bytes());
    m->base = map_pages(t, m->total);
    if (!m->base)
        return 0;
    m->kind = APART;
    m->data = m->base + m->total - at_end + skew;
    return 1;
}

static void take(struct suite *t, struct t_memory *m, size_t skew)
{
    if (t->region && t->is_apart && take_apart(t, m, skew))
        return;
    m->total = sl_align_up(ZONE_BYTES + skew + m->bytes + ZONE_BYTES, 64);
    m->kind = t->region ? OF_REGION : OF_HEAP;
    m->base = t->region ? take_mapped(t, m->total) : aligned_alloc(64, m->total);
    if (!m->base)
        out_of_memory();
    m->data = m->base + ZONE_BYTES + skew;
}

int t_open_device(struct suite *t, const struct sl_device *device, int is_emulated)
{
    t->device = device;
    t->is_emulated = is_emulated;
    const char *seed = getenv("SLUICE_SIMT_SEED");
    t->choice = (seed ? strtoull(seed, NULL, 0) : 0) << 32;
    sl_mempool_init(&t->ws);
    sl_mempool_init_on(&t->dev_ws, device->is_host ? NULL : &device->memory);
    if (device->is_host)
        return SL_OK;
    t_threads[2] = 0; // twice
    void *p = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return sl_fail_errno(SL_ENOMEM, errno, "no %zu bytes for the tests' arrays", REGION_BYTES);
    void *seen;
    SL_TRY(device->map(p, REGION_BYTES, false, &seen));
    if (seen != p)
        return sl_fail(SL_EUNSUPPORTED,
                       "the device has host memory %p at %p: these tests want one address", p,
                       seen);
    t->region = p;
    return SL_OK;
}

void t_close_device(struct suite *t)
{
    sl_mempool_fini(&t->ws);
    sl_mempool_fini(&t->dev_ws);
    if (!t->region)
        return;
    t->device->unmap(t->region);
    munmap(t->region, REGION_BYTES);
    t->region = NULL;
}

struct start {
    void (*body)(void *context);
    void *context;
};

static void *start_body(void *p)
{
    const struct start *start = p;
    start->body(start->context);
    return NULL;
}

void t_run(struct suite *t, void (*body)(void *context), void *context)
{
    struct start start = {body, context};
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    unsigned char *stack = t->region ? t->region + REGION_BYTES - STACK_BYTES : NULL;
    if (!t->region) {
        body(context);
    } else if (pthread_attr_setstack(&attr, stack, STACK_BYTES) != 0 ||
               pthread_create(&thread, &attr, start_body, &start) != 0) {
        fputs("kernels: no thread on mapped memory\n", stderr);
        exit(1);
    } else {
        pthread_join(thread, NULL);
    }
    pthread_attr_destroy(&attr);
}

struct sl_mempool *t_ws(struct suite *t, const struct sl_kernels *kernels)
{
    return kernels == t->dev ? &t->dev_ws : &t->ws;
}

int t_affords(struct suite *t, double work)
{
    const double affordable = t->is_checked ? 1000 : 20000;
    if ((!t->is_emulated && !t->is_small) || work <= affordable)
        return 1;
    struct suite other = {.random = t->choice++};
    int runs = (double)t_random_below(&other, 1u << 20) < affordable / work * (1 << 20);
    t->left_out += !runs;
    return runs;
}

void t_each_isa(struct suite *t, void (*body)(struct suite *t))
{
    const enum sl_isa best = sl_isa();
    for (int isa = t->device->is_host ? SL_ISA_BASELINE : (int)best; isa <= (int)best; isa++) {
        sl_isa_limit((enum sl_isa)isa);
        body(t);
    }
    sl_isa_limit(best);
}

void *t_alloc(struct suite *t, size_t bytes, size_t skew)
{
    struct t_memory *m = calloc(1, sizeof *m);
    if (!m)
        out_of_memory();
    m->bytes = bytes;
    take(t, m, skew);
    memset(m->base, SENTINEL, m->total);
    memset(m->data, FILL, bytes);
    if (t->forbid) {
        t->forbid(m->base, (size_t)(m->data - m->base));
        t->forbid(m->data + bytes, (size_t)(m->base + m->total - m->data) - bytes);
    }
    m->next = t->memory;
    t->memory = m;
    return m->data;
}

void *t_copy(struct suite *t, const void *from, size_t bytes, size_t skew)
{
    void *p = t_alloc(t, bytes, skew);
    if (bytes)
        memcpy(p, from, bytes);
    return p;
}

uint64_t t_random(struct suite *t)
{
    // splitmix64: any state will do.
    uint64_t z = t->random += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t t_random_below(struct suite *t, uint32_t n)
{
    return (uint32_t)(t_random(t) % n);
}

float t_random_float(struct suite *t)
{
    return (float)((double)(t_random(t) >> 40) / 8388608.0 - 1.0);
}

float *t_random_floats(struct suite *t, size_t n)
{
    float *x = t_alloc(t, n * sizeof *x, 0);
    for (size_t i = 0; i < n; i++)
        x[i] = t_random_float(t);
    return x;
}

uint16_t *t_random_halves(struct suite *t, size_t n)
{
    uint16_t *x = t_alloc(t, n * sizeof *x, 0);
    for (size_t i = 0; i < n; i++) {
        uint16_t h = (uint16_t)t_random(t);
        if ((h & 0x7c00) > 0x4000) // at most 4 in magnitude
            h = (uint16_t)(h & 0x83ff) | 0x3c00;
        x[i] = h;
    }
    return x;
}

const uint16_t *t_round_rows(struct suite *t, const float *x, uint64_t rows, uint32_t dim,
                             uint64_t *ld)
{
    *ld = dim + (t_random(t) & 1 ? t_random_below(t, 9) : 0);
    uint16_t *out = t_alloc(t, rows * *ld * sizeof *out, t_random_below(t, 5) * 2);
    t_expect_ok(t, t->ref->bias_act_bf16(x, rows, dim, NULL, SL_ACT_NONE, NULL, NULL, out, *ld),
                "rounded");
    return out;
}

uint32_t *t_random_ids(struct suite *t, size_t n, uint32_t below)
{
    uint32_t *ids = t_alloc(t, n * sizeof *ids, 0);
    for (size_t i = 0; i < n; i++)
        ids[i] = t_random_below(t, below);
    return ids;
}

uint32_t *t_random_places(struct suite *t, uint64_t n, uint64_t below)
{
    uint32_t *all = t_alloc(t, below * sizeof *all, 0);
    for (uint64_t i = 0; i < below; i++)
        all[i] = (uint32_t)i;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t j = i + t_random(t) % (below - i);
        const uint32_t swap = all[i];
        all[i] = all[j];
        all[j] = swap;
    }
    return t_copy(t, all, n * sizeof *all, 0);
}

struct sl_csr_view t_random_csr(struct suite *t, uint32_t n_dst, uint32_t n_src, uint32_t degree,
                                uint32_t hub)
{
    uint32_t *indptr = t_alloc(t, ((size_t)n_dst + 1) * sizeof *indptr, 0);
    indptr[0] = 0;
    for (uint32_t i = 0; i < n_dst; i++) {
        uint32_t d = t_random_below(t, 4) == 0 ? 0 : t_random_below(t, 2 * degree + 1);
        if (i == 0 && hub)
            d = hub;
        indptr[i + 1] = indptr[i] + (n_src ? d : 0);
    }
    uint32_t *indices = t_random_ids(t, indptr[n_dst], n_src ? n_src : 1);
    return (struct sl_csr_view){n_dst, n_src, indptr[n_dst], indptr, indices};
}

struct sl_csr_view t_transpose(struct suite *t, const struct sl_csr_view *csr, uint32_t **t_edge)
{
    size_t n_edges = csr->n_edges;
    uint32_t *indptr = t_alloc(t, ((size_t)csr->n_src + 1) * sizeof *indptr, 0);
    uint32_t *indices = t_alloc(t, n_edges * sizeof *indices, 0);
    *t_edge = t_alloc(t, n_edges * sizeof **t_edge, 0);
    t_expect_ok(t, t->ref->transpose(csr, indptr, indices, *t_edge, &t->ws), "transpose");
    return (struct sl_csr_view){csr->n_src, csr->n_dst, csr->n_edges, indptr, indices};
}

uint32_t t_longest_row(const struct sl_csr_view *csr)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        longest = SL_MAX(longest, csr->indptr[i + 1] - csr->indptr[i]);
    return longest;
}
