/*
 * layers.c - how long each model layer takes, against what its bytes and operations must take.
 *
 *   layers [--rounds 9] [--threads 1] [--shrink 1]
 *
 * Two hops as 1024 seeds of ogbn_arxiv have them at fanout 15,10,5: the first layer reads the
 * features (33500 destinations, 72000 sources, 155000 edges, 128 -> 256, no gradient of its input),
 * the second one is hidden (7300, 33500, 57500, 256 -> 256). They are made up with these numbers,
 * each source numbered at its first appearance: no data set is needed. --shrink divides them.
 *
 * THE FLOOR of a layer is the sum of two times: its multiplications and additions at the rate of a
 * matrix product of its own shape, and the bytes of its rows at the speed of copying, both measured
 * in the same rounds. It is a sum because a product and an aggregation follow each other. Counted
 * are
 *
 *   - of products 2 m n k operations; their operands are taken to arrive meanwhile,
 *   - of aggregations a row of the source for each edge, a row written for each destination, and
 *     per-edge weights and indices; backward likewise through the transpose, with a row written for
 *     each source, and of a maximum two rows an edge (where it came from, and its gradient),
 *   - of GAT's scores one pass over the layer's input, forward and backward,
 *   - of a batch norm, which has nothing else, all its passes: two that read and one that writes,
 *     backward four and one.
 *
 * Element-wise passes (activations, the length of rows, the residual) are not counted: they could
 * happen while the rows are there anyway. Nor is transposing the hop. So the ratio, floor / time,
 * says what would be left to gain, and nothing can reach much more than 1: only what stays in the
 * caches is faster than a copy.
 *
 * Rounds of everything are interleaved; medians. Prints lines for people, then one JSON object.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "kernels/kernels.h"
#include "trainer/model/layer.h"
#include "trainer/model/norm.h"
#include "tests/arguments.h"

enum {
    ROUNDS_MAX = 101,
    CASES_MAX = 8,
    COPY_BYTES = 128 << 20,
    WARM_UP = 2, // the pool grows in the first round, its new pages are touched in the second
};

struct options {
    uint32_t rounds, threads, shrink;
};

// What a pass of a layer must do at least.
struct work {
    double flop, bytes;
};

struct shape {
    const char *name;
    uint32_t n_dst, n_src, n_edges, d_in, d_out;
    uint32_t fanout;
    bool input_gradient;
};

static const struct shape shapes[] = {
    {"first", 33500, 72000, 155000, 128, 256, 5, false},
    {"hidden", 7300, 33500, 57500, 256, 256, 10, true},
};

struct layer_case {
    const char *name;
    const struct sl_layer_kind *kind; // NULL: batch norm
    struct sl_layer_options options;
    bool weighted; // by visits of random walks
    struct work (*forward)(const struct shape *s, const struct layer_case *c);
    struct work (*backward)(const struct shape *s, const struct layer_case *c);
};

// One layer on one hop, and the times it took.
struct bench {
    const struct layer_case *what;
    struct sl_layer layer;
    struct sl_norm norm;
    uint64_t norm_offset[SL_NORM_TENSORS];
    uint64_t n_params;
    float *params, *gradient; // (n_params)
    double forward_s[ROUNDS_MAX], backward_s[ROUNDS_MAX];
};

// What all layers on one hop share.
struct hop {
    const struct shape *shape;
    struct sl_hop hop;
    float *x, *dx; // (n_src, d_in)
    float *dy;     // (n_dst, d_out)
    float *spent;  // the same, overwritten by backward
    struct sl_layer_env env;
};

static void *must(void *p)
{
    if (p)
        return p;
    fprintf(stderr, "layers: no memory: choose a larger --shrink\n");
    exit(1);
}

static void must_ok(int code)
{
    if (code == SL_OK)
        return;
    fprintf(stderr, "layers: %s\n", sl_error_message());
    exit(1);
}

// splitmix64: any numbers will do.
static uint64_t random_word(void)
{
    static uint64_t state = 1;
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static float *random_floats(uint64_t n, float scale)
{
    float *x = must(sl_pages_alloc(n * sizeof *x));
    for (uint64_t i = 0; i < n; i++)
        x[i] = scale * (float)((double)(random_word() >> 40) / 8388608.0 - 1.0);
    return x;
}

// ---- floors -------------------------------------------------------------------------------------

// One product of the layer: rows x d_in x d_out.
static double product(const struct shape *s, double rows, double k)
{
    return 2.0 * rows * k * s->d_out;
}

// Rows of `dim` floats gathered along the edges into n rows, with `per_edge` bytes beside each.
static double gathered(double n_edges, double n, double dim, double per_edge)
{
    return n_edges * (4 * dim + per_edge) + n * 4 * dim;
}

static struct work sage_forward(const struct shape *s, const struct layer_case *c)
{
    struct work w = {.flop = 2 * product(s, s->n_dst, s->d_in)};
    w.bytes = gathered(s->n_edges, s->n_dst, s->d_in, 4);
    if (c->options.aggregator == SL_AGGREGATOR_MAX) // and where each element came from
        w.bytes += 4.0 * s->n_dst * s->d_in;
    return w;
}

static struct work sage_backward(const struct shape *s, const struct layer_case *c)
{
    struct work w = {.flop = 2 * product(s, s->n_dst, s->d_in)};
    if (!s->input_gradient)
        return w;
    w.flop *= 2;
    w.bytes = gathered(s->n_edges, s->n_src, s->d_in, 8);
    if (c->options.aggregator == SL_AGGREGATOR_MAX)
        w.bytes += 4.0 * s->n_edges * s->d_in;
    return w;
}

static struct work gcn_forward(const struct shape *s, const struct layer_case *c)
{
    (void)c;
    return (struct work){.flop = product(s, s->n_dst, s->d_in),
                         .bytes = gathered((double)s->n_edges + s->n_dst, s->n_dst, s->d_in, 4)};
}

static struct work gcn_backward(const struct shape *s, const struct layer_case *c)
{
    (void)c;
    struct work w = {.flop = product(s, s->n_dst, s->d_in)};
    if (!s->input_gradient)
        return w;
    w.flop *= 2;
    w.bytes = gathered((double)s->n_edges + s->n_dst, s->n_src, s->d_in, 4);
    return w;
}

static struct work gat_forward(const struct shape *s, const struct layer_case *c)
{
    double edges = (double)s->n_edges + s->n_dst, heads = c->options.heads;
    return (struct work){.flop = product(s, s->n_src, s->d_in),
                         .bytes = 4.0 * s->n_src * s->d_in + // scores
                                  edges * 12 * heads +       // softmax
                                  gathered(edges, s->n_dst, s->d_out, 4 + 4 * heads)};
}

static struct work gat_backward(const struct shape *s, const struct layer_case *c)
{
    double edges = (double)s->n_edges + s->n_dst, heads = c->options.heads;
    return (struct work){.flop = (s->input_gradient ? 2 : 1) * product(s, s->n_src, s->d_in),
                         .bytes = gathered(edges, s->n_dst, s->d_out, 4 + 4 * heads) + // of alpha
                                  edges * 20 * heads + 4.0 * s->n_src * s->d_in +
                                  gathered(edges, s->n_src, s->d_out, 8 + 4 * heads)};
}

static struct work gin_forward(const struct shape *s, const struct layer_case *c)
{
    (void)c;
    return (struct work){.flop = product(s, s->n_dst, s->d_in) + product(s, s->n_dst, s->d_out),
                         .bytes = gathered((double)s->n_edges + s->n_dst, s->n_dst, s->d_in, 4)};
}

static struct work gin_backward(const struct shape *s, const struct layer_case *c)
{
    (void)c;
    struct work w = {.flop = product(s, s->n_dst, s->d_in) + 2 * product(s, s->n_dst, s->d_out)};
    if (!s->input_gradient)
        return w;
    w.flop += product(s, s->n_dst, s->d_in);
    w.bytes = gathered((double)s->n_edges + s->n_dst, s->n_src, s->d_in, 4);
    return w;
}

static struct work pinsage_forward(const struct shape *s, const struct layer_case *c)
{
    (void)c;
    return (struct work){.flop = product(s, (double)s->n_src + s->n_dst, s->d_in) +
                                 product(s, s->n_dst, s->d_out),
                         .bytes = gathered(s->n_edges, s->n_dst, s->d_out, 8)};
}

static struct work pinsage_backward(const struct shape *s, const struct layer_case *c)
{
    (void)c;
    double rows = (double)s->n_src + s->n_dst;
    return (struct work){.flop = (s->input_gradient ? 2 : 1) * product(s, rows, s->d_in) +
                                 2 * product(s, s->n_dst, s->d_out),
                         .bytes = gathered(s->n_edges, s->n_src, s->d_out, 12)};
}

static struct work norm_forward(const struct shape *s, const struct layer_case *c)
{
    (void)c;
    return (struct work){.bytes = 3.0 * 4 * s->n_dst * s->d_out};
}

static struct work norm_backward(const struct shape *s, const struct layer_case *c)
{
    (void)c;
    return (struct work){.bytes = 5.0 * 4 * s->n_dst * s->d_out};
}

static const struct layer_case cases[] = {
    {"graphsage mean", &sl_layer_graphsage, {0}, false, sage_forward, sage_backward},
    {"graphsage max",
     &sl_layer_graphsage,
     {.aggregator = SL_AGGREGATOR_MAX},
     false,
     sage_forward,
     sage_backward},
    {"gcn", &sl_layer_gcn, {.self_loops = true}, false, gcn_forward, gcn_backward},
    {"gat, 8 heads", &sl_layer_gat, {.heads = 8}, false, gat_forward, gat_backward},
    {"gin", &sl_layer_gin, {0}, false, gin_forward, gin_backward},
    {"pinsage", &sl_layer_pinsage, {0}, true, pinsage_forward, pinsage_backward},
    {"batch norm", NULL, {0}, false, norm_forward, norm_backward},
};
_Static_assert(SL_COUNT_OF(cases) <= CASES_MAX, "");

// ---- the hop ------------------------------------------------------------------------------------

static struct sl_csr_view make_block(const struct shape *s)
{
    uint32_t *indptr = must(sl_pages_alloc(((size_t)s->n_dst + 1) * sizeof *indptr));
    uint32_t *indices = must(sl_pages_alloc((size_t)s->n_edges * sizeof *indices));
    // Rows have `fanout` edges or, where a vertex has fewer neighbours, less: as many such rows as
    // it takes.
    uint64_t left = s->n_edges;
    indptr[0] = 0;
    for (uint32_t i = 0; i < s->n_dst; i++) {
        uint64_t rows = s->n_dst - i,
                 least = left > (rows - 1) * s->fanout ? left - (rows - 1) * s->fanout : 0;
        uint64_t degree = SL_MIN(s->fanout, left);
        if (random_word() % (rows * s->fanout) >= left)
            degree = random_word() % s->fanout;
        degree = SL_MIN(SL_MAX(degree, least), left);
        left -= degree;
        indptr[i + 1] = indptr[i] + (uint32_t)degree;
    }
    // Each edge meets a new source or one that is known, so that all are met in the end.
    uint32_t n_known = s->n_dst, n_edges = indptr[s->n_dst];
    for (uint32_t e = 0; e < n_edges; e++) {
        if (random_word() % (n_edges - e) < s->n_src - n_known)
            indices[e] = n_known++;
        else
            indices[e] = (uint32_t)(random_word() % n_known);
    }
    return (struct sl_csr_view){s->n_dst, s->n_src, indptr[s->n_dst], indptr, indices};
}

static void make_hop(const struct shape *s, struct sl_layer_env env, struct hop *h)
{
    *h = (struct hop){.shape = s, .env = env};
    h->hop.csr = make_block(s);
    uint32_t n_edges = h->hop.csr.indptr[s->n_dst];
    uint32_t *degrees = must(sl_pages_alloc((size_t)s->n_src * sizeof *degrees));
    for (uint32_t i = 0; i < s->n_src; i++)
        degrees[i] = s->fanout + (uint32_t)(random_word() % 20);
    h->hop.degrees = degrees;
    float *visits = random_floats(n_edges, 1);
    for (uint32_t e = 0; e < n_edges; e++)
        visits[e] = (float)(1 + random_word() % 8);
    h->hop.weights = visits;
    h->x = random_floats((uint64_t)s->n_src * s->d_in, 1);
    h->dx = random_floats((uint64_t)s->n_src * s->d_in, 1);
    h->dy = random_floats((uint64_t)s->n_dst * s->d_out, 1);
    h->spent = random_floats((uint64_t)s->n_dst * s->d_out, 1);
}

static void free_hop(struct hop *h)
{
    const struct shape *s = h->shape;
    uint32_t n_edges = h->hop.csr.indptr[s->n_dst];
    sl_pages_free((void *)(uintptr_t)h->hop.csr.indices, (size_t)s->n_edges * 4);
    sl_pages_free((void *)(uintptr_t)h->hop.csr.indptr, ((size_t)s->n_dst + 1) * 4);
    sl_pages_free((void *)(uintptr_t)h->hop.degrees, (size_t)s->n_src * 4);
    sl_pages_free((void *)(uintptr_t)h->hop.weights, (size_t)n_edges * 4);
    sl_pages_free(h->x, (size_t)s->n_src * s->d_in * 4);
    sl_pages_free(h->dx, (size_t)s->n_src * s->d_in * 4);
    sl_pages_free(h->dy, (size_t)s->n_dst * s->d_out * 4);
    sl_pages_free(h->spent, (size_t)s->n_dst * s->d_out * 4);
}

// ---- layers -------------------------------------------------------------------------------------

// Lays the tensors out one after the other, with some values.
static void lay_out(struct bench *b, const struct sl_tensor *tensors, uint32_t n, uint64_t *offset)
{
    for (uint32_t t = 0; t < n; t++) {
        offset[t] = b->n_params;
        b->n_params += sl_tensor_count(&tensors[t]);
    }
    b->params = random_floats(b->n_params, 0.1f);
    b->gradient = random_floats(b->n_params, 0);
    for (uint32_t t = 0; t < n; t++)
        if (tensors[t].role == SL_TENSOR_RUNNING) // variances are positive
            for (uint64_t i = 0; i < sl_tensor_count(&tensors[t]); i++)
                b->params[offset[t] + i] = 1;
}

static void make_bench(const struct layer_case *what, const struct shape *s, struct bench *b)
{
    *b = (struct bench){.what = what};
    if (!what->kind) {
        struct sl_tensor tensors[SL_NORM_TENSORS];
        uint32_t n = sl_norm_describe(SL_NORM_BATCH, s->d_out, "norm", tensors);
        b->norm =
            (struct sl_norm){.kind = SL_NORM_BATCH, .dim = s->d_out, .offset = b->norm_offset};
        lay_out(b, tensors, n, b->norm_offset);
        return;
    }
    b->layer = (struct sl_layer){
        .kind = what->kind, .d_in = s->d_in, .d_out = s->d_out, .options = &what->options};
    struct sl_tensor tensors[SL_LAYER_TENSORS];
    if (what->kind->check)
        must_ok(what->kind->check(&b->layer));
    lay_out(b, tensors, what->kind->describe(&b->layer, tensors), b->layer.offset);
}

static void run_norm(struct bench *b, const struct hop *h, uint32_t round)
{
    const struct shape *s = h->shape;
    struct sl_norm_tape tape;
    float *y = must(sl_mempool_alloc(h->env.pool, (size_t)s->n_dst * s->d_out * sizeof *y));
    uint64_t start = sl_now_ns();
    must_ok(sl_norm_forward(&h->env, &b->norm, b->params, h->dy, s->n_dst, true, y, &tape));
    uint64_t middle = sl_now_ns();
    must_ok(sl_norm_backward(&h->env, &b->norm, b->params, &tape, h->spent, b->gradient, h->spent));
    b->forward_s[round] = (double)(middle - start) * 1e-9;
    b->backward_s[round] = (double)(sl_now_ns() - middle) * 1e-9;
}

// Forward and backward once, into the times of this round.
static void run_layer(struct bench *b, const struct hop *h, uint32_t round)
{
    const struct shape *s = h->shape;
    sl_mempool_reset(h->env.pool);
    memcpy(h->spent, h->dy, (size_t)s->n_dst * s->d_out * sizeof *h->dy);
    if (!b->what->kind) {
        run_norm(b, h, round);
        return;
    }
    struct sl_layer_tape tape = {.hop = h->hop, .x = h->x, .training = true};
    if (!b->what->weighted)
        tape.hop.weights = NULL;
    uint64_t start = sl_now_ns();
    must_ok(b->what->kind->forward(&h->env, &b->layer, b->params, s->input_gradient, &tape));
    uint64_t middle = sl_now_ns();
    must_ok(b->what->kind->backward(&h->env, &b->layer, b->params, &tape, h->spent, b->gradient,
                                    s->input_gradient ? h->dx : NULL));
    b->forward_s[round] = (double)(middle - start) * 1e-9;
    b->backward_s[round] = (double)(sl_now_ns() - middle) * 1e-9;
}

// ---- ceilings -----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static double copy_once(char *to, const char *from)
{
    uint64_t start = sl_now_ns();
    memcpy(to, from, COPY_BYTES);
    return 2.0 * COPY_BYTES / ((double)(sl_now_ns() - start) * 1e-9);
}

// A product of the hop's shape, into scratch of the pool.
static double product_once(const struct hop *h)
{
    const struct shape *s = h->shape;
    sl_mempool_reset(h->env.pool);
    float *y = must(sl_mempool_alloc(h->env.pool, (size_t)s->n_dst * s->d_out * sizeof *y));
    uint64_t start = sl_now_ns();
    must_ok(h->env.kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_TRANS, s->n_dst, s->d_out,
                                 s->d_in, 1, h->x, s->d_in, h->dx, s->d_in, 0, y, s->d_out,
                                 h->env.pool));
    return product(s, s->n_dst, s->d_in) / ((double)(sl_now_ns() - start) * 1e-9);
}

// ---- output -------------------------------------------------------------------------------------

static void print_pass(const char *pass, double seconds, double floor)
{
    printf("  %-8s %8.2f ms  floor %8.2f ms  %5.2f", pass, seconds * 1e3, floor * 1e3,
           floor / seconds);
}

static void print_shape(const struct options *o, const struct shape *s, struct bench *benches,
                        double flops, double bandwidth, char *json, size_t json_bytes)
{
    printf("%s layer: %u destinations, %u sources, %u edges, %u -> %u%s\n", s->name, s->n_dst,
           s->n_src, s->n_edges, s->d_in, s->d_out,
           s->input_gradient ? "" : ", no gradient of its input");
    printf("  products %.1f GFLOP/s, copies %.1f GB/s\n", flops * 1e-9, bandwidth * 1e-9);
    for (size_t c = 0; c < SL_COUNT_OF(cases); c++) {
        struct work f = cases[c].forward(s, &cases[c]), b = cases[c].backward(s, &cases[c]);
        double forward = median(benches[c].forward_s, o->rounds);
        double backward = median(benches[c].backward_s, o->rounds);
        double forward_floor = f.flop / flops + f.bytes / bandwidth;
        double backward_floor = b.flop / flops + b.bytes / bandwidth;
        printf("  %-15s", cases[c].name);
        print_pass("forward", forward, forward_floor);
        print_pass("   backward", backward, backward_floor);
        putchar('\n');
        size_t at = strlen(json);
        snprintf(json + at, json_bytes - at,
                 "%s{\"layer\": \"%s\", \"hop\": \"%s\", \"forward_s\": %.6f, "
                 "\"forward_floor_s\": %.6f, \"backward_s\": %.6f, \"backward_floor_s\": %.6f}",
                 at ? ", " : "", cases[c].name, s->name, forward, forward_floor, backward,
                 backward_floor);
    }
    fflush(stdout);
}

static void run_shape(const struct options *o, struct shape s, char *json, size_t json_bytes)
{
    static struct bench benches[CASES_MAX];
    double products[ROUNDS_MAX], copies[ROUNDS_MAX];
    s.n_dst /= o->shrink, s.n_src /= o->shrink, s.n_edges /= o->shrink;
    struct sl_mempool pool;
    sl_mempool_init(&pool);
    struct sl_layer_env env = {.kernels = sl_kernels_cpu(),
                               .device = sl_device_host(),
                               .precision = SL_PRECISION_F32,
                               .pool = &pool,
                               .notes = &pool};
    struct hop h;
    make_hop(&s, env, &h);
    char *from = must(sl_pages_alloc(COPY_BYTES)), *to = must(sl_pages_alloc(COPY_BYTES));
    memset(from, 1, COPY_BYTES);
    for (size_t c = 0; c < SL_COUNT_OF(cases); c++)
        make_bench(&cases[c], &s, &benches[c]);
    for (uint32_t round = 0; round < o->rounds + WARM_UP; round++) {
        uint32_t r = round < WARM_UP ? 0 : round - WARM_UP; // overwritten
        copies[r] = copy_once(to, from);
        products[r] = product_once(&h);
        for (size_t c = 0; c < SL_COUNT_OF(cases); c++)
            run_layer(&benches[c], &h, r);
    }
    print_shape(o, &s, benches, median(products, o->rounds), median(copies, o->rounds), json,
                json_bytes);
    for (size_t c = 0; c < SL_COUNT_OF(cases); c++) {
        sl_pages_free(benches[c].params, benches[c].n_params * sizeof(float));
        sl_pages_free(benches[c].gradient, benches[c].n_params * sizeof(float));
    }
    sl_pages_free(from, COPY_BYTES);
    sl_pages_free(to, COPY_BYTES);
    free_hop(&h);
    sl_mempool_fini(&pool);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("rounds", options, rounds, 1, ROUNDS_MAX),
    ARGUMENT_NUMBER("threads", options, threads, 1, 1024),
    ARGUMENT_NUMBER("shrink", options, shrink, 1, 100),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "layers",
    .is_program = true,
    .about = "A model's layers beside the least time that their bytes and operations take.",
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {.rounds = 9, .threads = 1, .shrink = 1};
    arguments_parse(&command, &o, argc, argv);
    sl_kernels_set_threads((int)o.threads);
    static char json[1 << 14];
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        run_shape(&o, shapes[s], json, sizeof json);
    printf("{\"bench\": \"layers\", \"threads\": %u, \"layers\": [%s]}\n", o.threads, json);
    return 0;
}
