/*
 * harness.h - what every kernel test needs: cases, guarded memory, random inputs, comparison.
 *
 * A case is opened with t_begin(), checks with t_expect() and its kin, and is counted once by
 * t_end(), which also looks at the sentinels around every piece of memory that the case took.
 * Memory of a case is freed by t_end().
 *
 * Arrays that an operation is given come from t_alloc() and its kin, or are variables of the test's
 * own frame; not static ones, which a GPU cannot reach.
 */
#ifndef SL_TESTS_KERNELS_HARNESS_H
#define SL_TESTS_KERNELS_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "common/device/device.h"
#include "kernels/kernels.h"

struct t_memory;

struct suite {
    const struct sl_kernels *ref;
    const struct sl_kernels *dev;   // the back end under test
    const struct sl_device *device; // and where it computes
    struct sl_mempool ws;           // of the process's memory
    struct sl_mempool dev_ws;       // of the device's; t_ws() chooses
    int passed, failed;
    uint64_t random;
    int is_emulated;
    int is_small;    // large cases are left out (--small)
    int is_checked;  // by the build that sees every access
    uint64_t choice; // state of t_affords()
    int left_out;    // cases that it left out
    // Mapped memory of a GPU's tests: arrays are taken from its front, up to the stack. NULL for a
    // device that is the processor.
    unsigned char *region;
    size_t region_used;
    int is_apart; // each array is a mapping of its own (--apart)
    void (*forbid)(const void *p, size_t n), (*allow)(const void *p, size_t n); // of the emulation
    // The open case.
    char name[256];
    int broken;
    struct t_memory *memory;
};

void t_begin(struct suite *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void t_end(struct suite *t);

// Notes a failure of the open case, and says so on standard error, when `ok` is 0. Returns ok.
int t_expect(struct suite *t, int ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * A call that must succeed, or fail with this code. The device is synchronised, so that results are
 * there afterwards, and so that what it refuses because of the values of arrays, which the
 * processor's tables say at once and a GPU at the next sync(), is the same to a test.
 */
int t_expect_ok(struct suite *t, int rc, const char *what);
int t_expect_code(struct suite *t, int rc, int want, const char *what);

void t_same_bits(struct suite *t, const char *what, const void *got, const void *want,
                 size_t bytes);

// That a result with more threads is the first one's, which `first` is set to where it is NULL.
#define T_REPEATS(t, what, got, first, bytes)                                                      \
    do {                                                                                           \
        if (first)                                                                                 \
            t_same_bits(t, what " with more threads", got, first, bytes);                          \
        else                                                                                       \
            first = got;                                                                           \
    } while (0)

// Two results of a loss, bit for bit.
void t_same_results(struct suite *t, const char *what, const struct sl_loss_result *a,
                    const struct sl_loss_result *b);

// |got - want| <= relative * |want| + absolute for every element; NaN equals NaN.
void t_close(struct suite *t, const char *what, const float *got, const float *want, size_t n,
             double relative, double absolute);

/*
 * Memory of the open case, between sentinels, filled with a byte that makes every float a NaN.
 * The address is aligned to 64 bytes plus `skew` bytes.
 */
void *t_alloc(struct suite *t, size_t bytes, size_t skew);
void *t_copy(struct suite *t, const void *from, size_t bytes, size_t skew);

uint64_t t_random(struct suite *t);
uint32_t t_random_below(struct suite *t, uint32_t n); // n >= 1
float t_random_float(struct suite *t);                // [-1, 1)

// Arrays of the open case.
float *t_random_floats(struct suite *t, size_t n);
uint16_t *t_random_halves(struct suite *t, size_t n); // finite, subnormals among them
// x (rows, dim) as bf16, (rows, *ld): wherever it is misaligned to, and however far apart.
const uint16_t *t_round_rows(struct suite *t, const float *x, uint64_t rows, uint32_t dim,
                             uint64_t *ld);
uint32_t *t_random_ids(struct suite *t, size_t n, uint32_t below);
// n different ones, in random order.
uint32_t *t_random_places(struct suite *t, uint64_t n, uint64_t below);

// The transpose of an adjacency, by the reference, and each edge's old position.
struct sl_csr_view t_transpose(struct suite *t, const struct sl_csr_view *csr, uint32_t **t_edge);

// The most edges that a row has.
uint32_t t_longest_row(const struct sl_csr_view *csr);

/*
 * A random adjacency with about `degree` edges a row; some rows are empty, and row 0 is a hub with
 * `hub` edges when that is not 0.
 */
struct sl_csr_view t_random_csr(struct suite *t, uint32_t n_dst, uint32_t n_src, uint32_t degree,
                                uint32_t hub);

// The numbers of threads that a case runs with, up to 0. On a GPU: that it runs twice.
extern int t_threads[4];

// body(t) with every instruction set of this processor, where the back end computes on it: what
// holds here holds on a lesser one.
void t_each_isa(struct suite *t, void (*body)(struct suite *t));

// The pool that operations of this table take their workspace from.
struct sl_mempool *t_ws(struct suite *t, const struct sl_kernels *kernels);

/*
 * Whether a case of so many element operations is run. Always, but on an emulated device, where an
 * element costs a switch between fibres, and with --small, for tools that make a GPU a hundred
 * times slower: there small cases are, and a large one with a probability that makes it cost as
 * much as a small one on average. Which ones depends on SLUICE_SIMT_SEED.
 */
int t_affords(struct suite *t, double work);

/*
 * The device that the suite is for, before the first case. Arrays and the stack of tests are then
 * in one piece of memory that the device reads and writes in place: host memory that is mapped.
 * One piece, since mapping takes a GPU's driver longer than most cases. With is_apart an array lies
 * at the end of a piece of its own, and behind it lies memory that nobody may touch: a tool that
 * knows what is mapped, as compute-sanitizer does, sees a load that goes 64 bytes too far.
 */
int t_open_device(struct suite *t, const struct sl_device *device, int is_emulated);
// Runs body(context) on a stack that the device can reach.
void t_run(struct suite *t, void (*body)(void *context), void *context);
void t_close_device(struct suite *t);

// The tests themselves, an operation each (test_*.c), in the order in which they run.
// clang-format off
#define T_OPERATIONS(X) \
    X(emulation) X(gather_rows) X(aggregate) X(transpose) X(edge_softmax) X(edge_scores) \
    X(aggregate_heads) X(edge_dot) X(aggregate_max) X(normalize_rows) X(gemm) X(bias_act) \
    X(bias_act_bf16) X(dropout) X(softmax_xent) X(sigmoid_bce) X(squared_error) X(batch_norm) \
    X(layer_norm) X(scale_columns) X(sum_squares) X(reduce) X(adam) X(sgd) X(khop_uniform) \
    X(khop_weighted) X(labor) X(random_walk) X(weight_prefix) X(mark_ranks) X(split_rows) \
    X(gather_rows_to) X(draw) X(gather_ranked) X(scatter_rows) X(gemm_bias_act) \
    X(weight_gradients) X(row_sums) X(fix_loops) X(gcn_scales) X(block_diagonal) X(sum_heads) \
    X(add_scaled) X(maximum) X(running_scale) X(pair_dot) X(pair_rows) X(pair_gradient) \
    X(pair_loss) X(join_rows) X(curve)
// clang-format on

#define T_DECLARE(name) void test_##name(struct suite *t);
T_OPERATIONS(T_DECLARE)
#undef T_DECLARE

#endif
