/*
 * oneDNN's bf16 matmul as a function: for each thread a bounded cache of primitives keyed by their
 * shape.
 *
 * Making a primitive compiles code and takes milliseconds; running one takes microseconds. Callers
 * keep the number of shapes small by padding (gemm_amx.c); a cache holds CAPACITY of them and
 * drops the one that was used longest ago. A shape for which the library has only its reference
 * loops is remembered as unsupported: those loops are hundreds of times slower than gemm_tile.c.
 *
 * A primitive is made for one thread and run by one: bits would depend on how the library divides
 * its work. The caches are the threads' own, since the memory objects of an entry carry the
 * pointers of the call and the library's scratch space is the thread's; compiled code is shared
 * among them by the library.
 */
#include "kernels/cpu/cpu_internal.h"

#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "common/base/late_library.h"

enum { CAPACITY = 64 };

#define FUNCTIONS(X)                                                                               \
    X(dnnl_set_max_cpu_isa)                                                                        \
    X(dnnl_engine_create)                                                                          \
    X(dnnl_stream_create)                                                                          \
    X(dnnl_stream_wait)                                                                            \
    X(dnnl_primitive_create)                                                                       \
    X(dnnl_primitive_destroy)                                                                      \
    X(dnnl_primitive_execute)                                                                      \
    X(dnnl_primitive_desc_create)                                                                  \
    X(dnnl_primitive_desc_destroy)                                                                 \
    X(dnnl_primitive_desc_query)                                                                   \
    X(dnnl_memory_create)                                                                          \
    X(dnnl_memory_destroy)                                                                         \
    X(dnnl_memory_set_data_handle)                                                                 \
    X(dnnl_memory_desc_init_by_strides)                                                            \
    X(dnnl_matmul_desc_init)

static struct {
    FUNCTIONS(SL_LATE_POINTER)
} lib;
static const struct sl_late_symbol symbols[] = {FUNCTIONS(SL_LATE_SYMBOL)};
_Static_assert(DNNL_VERSION_MAJOR == 2, "the file below is what these functions are of");
static struct sl_late_library library = {
    .name = "oneDNN",
    .files = {"libdnnl.so.2"},
    .package = "libdnnl2",
    .symbols = symbols,
    .n_symbols = SL_COUNT_OF(symbols),
};

struct entry {
    struct sl_cpu_bf16_shape shape;
    uint64_t used; // clock of the last use; 0 = free
    int unsupported;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
};

static _Thread_local struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    uint64_t clock;
    struct entry entries[CAPACITY];
} cache;

static int fail(dnnl_status_t status, const char *what, const struct sl_cpu_bf16_shape *s)
{
    return sl_fail(status == dnnl_out_of_memory ? SL_ENOMEM : SL_EFAILED,
                   "gemm: oneDNN %s for bf16 %u x %u x %u: status %d", what, s->m, s->n, s->k,
                   (int)status);
}

// Before the library's first use in this process; measurements may have used it, at their level.
static void limit_library(void)
{
    static const dnnl_cpu_isa_t most[] = {
        [SL_ISA_BASELINE] = dnnl_cpu_isa_sse41,
        [SL_ISA_AVX2] = dnnl_cpu_isa_avx2,
        [SL_ISA_AVX512] = dnnl_cpu_isa_avx512_core_bf16,
        [SL_ISA_AMX] = dnnl_cpu_isa_all,
    };
    (void)lib.dnnl_set_max_cpu_isa(most[sl_isa()]);
}

static int open_engine(const struct sl_cpu_bf16_shape *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!cache.stream)
        SL_TRY(sl_late_library_open(&library));
    pthread_once(&once, limit_library);
    if (omp_get_max_threads() != 1) // what the library would take
        omp_set_num_threads(1);
    if (cache.stream)
        return SL_OK;
    dnnl_status_t status = dnnl_success;
    if (!cache.engine)
        status = lib.dnnl_engine_create(&cache.engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = lib.dnnl_stream_create(&cache.stream, cache.engine, dnnl_stream_default_flags);
    return status == dnnl_success ? SL_OK : fail(status, "engine", s);
}

static void release(struct entry *e)
{
    lib.dnnl_primitive_destroy(e->primitive);
    lib.dnnl_memory_destroy(e->a);
    lib.dnnl_memory_destroy(e->b);
    lib.dnnl_memory_destroy(e->c);
    memset(e, 0, sizeof *e);
}

// A row-major (rows, cols) matrix; `trans` when its (cols, rows) transpose is what is stored.
static dnnl_status_t describe(dnnl_memory_desc_t *desc, dnnl_data_type_t type, uint32_t rows,
                              uint32_t cols, int trans, uint64_t ld)
{
    dnnl_dims_t dims = {rows, cols};
    dnnl_dims_t strides = {trans ? 1 : (dnnl_dim_t)ld, trans ? (dnnl_dim_t)ld : 1};
    return lib.dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides);
}

// 1 for an optimised implementation, 0 for the library's reference loops.
static int is_optimised(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    if (lib.dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) != dnnl_success)
        return 0;
    return name && strncmp(name, "ref", 3) != 0;
}

// Makes a primitive desc in *out; NULL there when the library has none worth using.
static dnnl_status_t create_desc(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
                                 const dnnl_memory_desc_t *c, dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t matmul;
    *out = NULL;
    dnnl_status_t status = lib.dnnl_matmul_desc_init(&matmul, a, b, NULL, c);
    if (status == dnnl_success)
        status = lib.dnnl_primitive_desc_create(out, &matmul, NULL, cache.engine, NULL);
    if (status == dnnl_unimplemented)
        status = dnnl_success;
    if (status == dnnl_success && *out && !is_optimised(*out)) {
        lib.dnnl_primitive_desc_destroy(*out);
        *out = NULL;
    }
    return status;
}

static int fill(struct entry *e, const struct sl_cpu_bf16_shape *s)
{
    dnnl_memory_desc_t a, b, c;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status =
        describe(&a, dnnl_bf16, s->m, s->k, (int)s->a_trans, s->a_trans ? s->m : s->k);
    if (status == dnnl_success)
        status = describe(&b, dnnl_bf16, s->k, s->n, (int)s->b_trans, s->b_trans ? s->k : s->n);
    if (status == dnnl_success)
        status = describe(&c, dnnl_f32, s->m, s->n, 0, s->n);
    if (status == dnnl_success)
        status = create_desc(&a, &b, &c, &desc);
    e->shape = *s;
    e->unsupported = status == dnnl_success && !desc;
    if (status == dnnl_success && desc) {
        status = lib.dnnl_primitive_create(&e->primitive, desc);
        if (status == dnnl_success)
            status = lib.dnnl_memory_create(&e->a, &a, cache.engine, DNNL_MEMORY_NONE);
        if (status == dnnl_success)
            status = lib.dnnl_memory_create(&e->b, &b, cache.engine, DNNL_MEMORY_NONE);
        if (status == dnnl_success)
            status = lib.dnnl_memory_create(&e->c, &c, cache.engine, DNNL_MEMORY_NONE);
        lib.dnnl_primitive_desc_destroy(desc);
    }
    if (status != dnnl_success) {
        release(e);
        return fail(status, "matmul", s);
    }
    return SL_OK;
}

static int same_shape(const struct sl_cpu_bf16_shape *x, const struct sl_cpu_bf16_shape *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->a_trans == y->a_trans &&
           x->b_trans == y->b_trans;
}

static int find(const struct sl_cpu_bf16_shape *s, struct entry **out)
{
    struct entry *oldest = &cache.entries[0];
    for (size_t i = 0; i < CAPACITY; i++) {
        struct entry *e = &cache.entries[i];
        if (e->used && same_shape(&e->shape, s)) {
            e->used = ++cache.clock;
            *out = e;
            return SL_OK;
        }
        if (e->used < oldest->used)
            oldest = e;
    }
    if (oldest->used)
        release(oldest);
    SL_TRY(fill(oldest, s));
    oldest->used = ++cache.clock;
    *out = oldest;
    return SL_OK;
}

int sl_cpu_gemm_primitive_find(const struct sl_cpu_bf16_shape *s)
{
    struct entry *e = NULL;
    SL_TRY(open_engine(s));
    SL_TRY(find(s, &e));
    return e->unsupported ? SL_EUNSUPPORTED : SL_OK;
}

int sl_cpu_gemm_primitive(const struct sl_cpu_bf16_shape *s, const uint16_t *a, const uint16_t *b,
                          float *c)
{
    struct entry *e = NULL;
    SL_TRY(open_engine(s));
    SL_TRY(find(s, &e));
    if (e->unsupported)
        return SL_EUNSUPPORTED;
    // The handles are not const in oneDNN's interface; the primitive only reads a and b.
    dnnl_status_t status = lib.dnnl_memory_set_data_handle(e->a, (void *)(uintptr_t)a);
    if (status == dnnl_success)
        status = lib.dnnl_memory_set_data_handle(e->b, (void *)(uintptr_t)b);
    if (status == dnnl_success)
        status = lib.dnnl_memory_set_data_handle(e->c, c);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, e->a}, {DNNL_ARG_WEIGHTS, e->b}, {DNNL_ARG_DST, e->c}};
    if (status == dnnl_success)
        status =
            lib.dnnl_primitive_execute(e->primitive, cache.stream, (int)SL_COUNT_OF(args), args);
    if (status == dnnl_success)
        status = lib.dnnl_stream_wait(cache.stream);
    return status == dnnl_success ? SL_OK : fail(status, "execution", s);
}
