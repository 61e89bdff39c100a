#include "tests/kernels/harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum {
    ZONE_BYTES = 256,
    SENTINEL = 0xa5,
    FILL = 0xff, // as f32, f16 and f64: NaN
};

const int t_threads[] = {1, 2, 3, 0};

struct t_memory {
    struct t_memory *next;
    unsigned char *base;
    unsigned char *data;
    size_t bytes, total;
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

void t_end(struct suite *t)
{
    while (t->memory) {
        struct t_memory *m = t->memory;
        t_expect(t, zone_is_intact(m->base, m->data), "memory before an array was overwritten");
        t_expect(t, zone_is_intact(m->data + m->bytes, m->base + m->total),
                 "memory behind an array of %zu bytes was overwritten", m->bytes);
        t->memory = m->next;
        free(m->base);
        free(m);
    }
    sl_mempool_reset(&t->ws);
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

int t_expect_ok(struct suite *t, int rc, const char *what)
{
    return t_expect(t, rc == SL_OK, "%s returned %d: %s", what, rc, sl_error_message());
}

int t_expect_code(struct suite *t, int rc, int want, const char *what)
{
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

void *t_alloc(struct suite *t, size_t bytes, size_t skew)
{
    struct t_memory *m = calloc(1, sizeof *m);
    if (!m)
        out_of_memory();
    m->bytes = bytes;
    m->total = sl_align_up(ZONE_BYTES + skew + bytes + ZONE_BYTES, 64);
    m->base = aligned_alloc(64, m->total);
    if (!m->base)
        out_of_memory();
    m->data = m->base + ZONE_BYTES + skew;
    memset(m->base, SENTINEL, m->total);
    memset(m->data, FILL, bytes);
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

uint32_t *t_random_ids(struct suite *t, size_t n, uint32_t below)
{
    uint32_t *ids = t_alloc(t, n * sizeof *ids, 0);
    for (size_t i = 0; i < n; i++)
        ids[i] = t_random_below(t, below);
    return ids;
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
    return (struct sl_csr_view){n_dst, n_src, indptr, indices};
}

struct sl_csr_view t_transpose(struct suite *t, const struct sl_csr_view *csr, uint32_t **t_edge)
{
    size_t n_edges = csr->indptr[csr->n_dst] - csr->indptr[0];
    uint32_t *indptr = t_alloc(t, ((size_t)csr->n_src + 1) * sizeof *indptr, 0);
    uint32_t *indices = t_alloc(t, n_edges * sizeof *indices, 0);
    *t_edge = t_alloc(t, n_edges * sizeof **t_edge, 0);
    t_expect_ok(t, t->ref->transpose(csr, indptr, indices, *t_edge, &t->ws), "transpose");
    return (struct sl_csr_view){csr->n_src, csr->n_dst, indptr, indices};
}

uint32_t t_longest_row(const struct sl_csr_view *csr)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        longest = SL_MAX(longest, csr->indptr[i + 1] - csr->indptr[i]);
    return longest;
}
