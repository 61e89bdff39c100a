/*
 * cuBLASLt behind gemm_lt.h.
 *
 * ROW-MAJOR. The library's matrices are column-major; a row-major matrix is the transpose of such a
 * one with the same leading dimension. So c' = op(b)' op(a)' is what is asked for: operands change
 * places, m and n too, and what was to be transposed still is. The library's bias belongs to the
 * rows of its result, which are our columns.
 *
 * WHICH ALGORITHM is the library's heuristic's, which costs tens of microseconds, while the number
 * of rows differs from batch to batch. So it is asked once a class of shapes (gemm_class.h): larger
 * sizes are rounded up, as far as the leading dimensions let them be. The choice is a function of
 * the class alone, never of the batch that came first: parameters have the same bits whichever
 * trainer computes a batch. Where the class's algorithm does not take the very shape (the library
 * is asked before each product, on the processor), the heuristic is asked for this shape, which is
 * a class of its own. Choices are kept in a table of a fixed size a thread; what is pushed out is
 * chosen again, alike.
 *
 * HANDLES are never destroyed: that waits for all that the GPU does, which may be a sum of another
 * thread that waits for other processes (nccl.cc), and nothing may be asked of a GPU that has
 * faulted. A thread that ends leaves its handle and its choices for the next one that multiplies;
 * the last ones end with the process.
 *
 * DETERMINISM. A long reduction may be split; its parts are added in a second step or not split at
 * all (reduction schemes COMPUTE_TYPE and NONE), never in the order in which they end. The
 * workspace has a fixed size. Bits depend on the GPU's architecture and number of processors, on
 * the library's version, and on whether matrices begin at a multiple of 16 bytes.
 *
 * No epilogue with relu: the library's makes a NaN 0, and a NaN has to show in the loss.
 */
#include "kernels/cuda/gemm_lt.h"

#include <atomic>
#include <dlfcn.h>
#include <initializer_list>
#include <new>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "kernels/cuda/gemm_class.h"
#include "kernels/cuda/libraries.h"
#ifdef SL_SIMT
#include "tests/simt/cublas_lt.h"
#else
#include <cublasLt.h>
#endif

#define LT_FUNCTIONS(X)                                                                            \
    X(cublasLtCreate)                                                                              \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoCheck)                                                                     \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)

namespace {

// ---- the library --------------------------------------------------------------------------------

struct library {
#define LT_POINTER(name) decltype(&::name) name;
    LT_FUNCTIONS(LT_POINTER)
#undef LT_POINTER
    bool is_there;
    char text[480]; // what sl_cuda_cublas_describe says
};

struct library lt;
pthread_once_t looked = PTHREAD_ONCE_INIT;

bool take_functions(void *handle)
{
#define LT_TAKE(name)                                                                              \
    lt.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));                           \
    if (!lt.name) {                                                                                \
        snprintf(lt.text, sizeof lt.text, "%s: products are the plug-in's own", dlerror());        \
        return false;                                                                              \
    }
    LT_FUNCTIONS(LT_TAKE)
#undef LT_TAKE
    return true;
}

void describe(void)
{
    Dl_info where;
    size_t version = lt.cublasLtGetVersion();
    bool known = dladdr(reinterpret_cast<void *>(lt.cublasLtCreate), &where) && where.dli_fname;
    snprintf(lt.text, sizeof lt.text, "cuBLASLt %zu.%zu.%zu (%.400s)", version / 10000,
             version / 100 % 100, version % 100, known ? where.dli_fname : "?");
}

#ifdef SL_SIMT
// What stands in for it, where a test names that: the library itself is not for emulated memory.
bool search(void)
{
    snprintf(lt.text, sizeof lt.text, "none under emulation: products are the plug-in's own");
    void *handle = simt_lt_open();
    return handle && take_functions(handle);
}
#else
bool search(void)
{
    // The loader's own places first (LD_LIBRARY_PATH, the plug-in's folder), then the toolkit's.
    static const char *const names[] = {
        "libcublasLt.so.13",
        "libcublasLt.so.12",
        "libcublasLt.so",
        "/usr/local/cuda/lib64/libcublasLt.so.13",
        "/usr/local/cuda/lib64/libcublasLt.so.12",
        "/usr/local/cuda/lib/libcublasLt.so.13",
    };
    snprintf(
        lt.text, sizeof lt.text,
        "libcublasLt.so.13 and .12 are neither where the loader looks nor in /usr/local/cuda: "
        "products are the plug-in's own, which are slower; install cuBLAS or name its folder in "
        "LD_LIBRARY_PATH");
    for (const char *name : names) {
        void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            continue;
        if (take_functions(handle))
            return true;
        dlclose(handle);
    }
    return false;
}
#endif

void look(void)
{
    const char *wish = getenv("SLUICE_CUBLAS");
    if (wish && strcmp(wish, "none") == 0) {
        snprintf(lt.text, sizeof lt.text,
                 "SLUICE_CUBLAS is none: products are the plug-in's own, which are slower");
        return;
    }
    if (wish && wish[0])
        sl_log_warn("gemm: SLUICE_CUBLAS is '%s', wanted none or nothing: it is ignored", wish);
    lt.is_there = search();
    if (lt.is_there)
        describe();
}

// A function of the library that was refused.
int fail(const char *what, cublasStatus_t status, const struct sl_lt_product *p)
{
    return sl_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? SL_ENOMEM : SL_EDEVICE,
                   "gemm: %s of %llu x %llu x %llu: %s (status %d, %s)", what,
                   (unsigned long long)p->m, (unsigned long long)p->n, (unsigned long long)p->k,
                   lt.cublasLtGetStatusString(status), (int)status, lt.text);
}

#define LT_TRY(what, expr, p)                                                                      \
    do {                                                                                           \
        cublasStatus_t status_ = (expr);                                                           \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                      \
            return fail(what, status_, p);                                                         \
    } while (0)

// ---- what a thread keeps ------------------------------------------------------------------------

enum { CHOICES = 128 };

// What a choice depends on. Compared byte by byte: begins as zeros.
struct shape_class {
    uint64_t m, n, k, lda, ldb, ldc;
    uint8_t ta, tb, bf16, tf32, adds, biased; // adds: beta is not 0
    uint8_t align_a, align_b, align_c, align_bias;
};

struct choice {
    struct shape_class of;
    bool taken;
    bool found; // there is an algorithm
    cublasLtMatmulAlgo_t algo;
};

struct state {
    cublasLtHandle_t handle = nullptr;
    struct choice choices[CHOICES] = {};
    struct state *next = nullptr; // of those that are left
};

thread_local struct state *mine;

// What threads that have ended have left.
pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
struct state *left; // guarded by left_lock

void leave_state(struct state *s)
{
    pthread_mutex_lock(&left_lock);
    s->next = left;
    left = s;
    pthread_mutex_unlock(&left_lock);
}

// NULL when there is none.
struct state *take_left(void)
{
    pthread_mutex_lock(&left_lock);
    struct state *s = left;
    if (s)
        left = s->next;
    pthread_mutex_unlock(&left_lock);
    return s;
}

// Leaves the state at the thread's end; the pointer itself costs a thread that never multiplies
// nothing.
struct owner {
    ~owner()
    {
        if (mine)
            leave_state(mine);
        mine = nullptr;
    }
};

int have_state(const struct sl_lt_product *p)
{
    static thread_local struct owner at_end;
    if (mine)
        return SL_OK;
    (void)&at_end;
    if ((mine = take_left()))
        return SL_OK;
    struct state *made = new (std::nothrow) struct state;
    if (!made)
        return sl_fail(SL_ENOMEM, "gemm: no memory for the choices of algorithms");
    cublasStatus_t status = lt.cublasLtCreate(&made->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        made->handle = nullptr;
        delete made;
        return fail("making a handle for a product", status, p);
    }
    mine = made;
    return SL_OK;
}

// ---- descriptions of a product ------------------------------------------------------------------

// The library's objects for one product; those that were made are destroyed.
struct operation {
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;

    ~operation()
    {
        if (product)
            lt.cublasLtMatmulDescDestroy(product);
        for (cublasLtMatrixLayout_t layout : {first, second, result})
            if (layout)
                lt.cublasLtMatrixLayoutDestroy(layout);
    }
};

int describe_product(const struct sl_lt_product *p, struct operation *op)
{
    const char *what = "describing a product";
    cublasComputeType_t compute = p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    LT_TRY(what, lt.cublasLtMatmulDescCreate(&op->product, compute, CUDA_R_32F), p);
    int32_t of_b = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, of_a = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    LT_TRY(what,
           lt.cublasLtMatmulDescSetAttribute(op->product, CUBLASLT_MATMUL_DESC_TRANSA, &of_b,
                                             sizeof of_b),
           p);
    LT_TRY(what,
           lt.cublasLtMatmulDescSetAttribute(op->product, CUBLASLT_MATMUL_DESC_TRANSB, &of_a,
                                             sizeof of_a),
           p);
    if (!p->bias)
        return SL_OK;
    uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    LT_TRY(what,
           lt.cublasLtMatmulDescSetAttribute(op->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                             sizeof epilogue),
           p);
    LT_TRY(what,
           lt.cublasLtMatmulDescSetAttribute(op->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                             &p->bias, sizeof p->bias),
           p);
    return SL_OK;
}

// Layouts of the product with these sizes.
int describe_layouts(const struct sl_lt_product *p, uint64_t m, uint64_t n, uint64_t k,
                     struct operation *op)
{
    const char *what = "describing the matrices";
    cudaDataType_t type = p->bf16 ? CUDA_R_16BF : CUDA_R_32F;
    LT_TRY(what,
           lt.cublasLtMatrixLayoutCreate(&op->first, type, p->tb ? k : n, p->tb ? n : k,
                                         (int64_t)p->ldb),
           p);
    LT_TRY(what,
           lt.cublasLtMatrixLayoutCreate(&op->second, type, p->ta ? m : k, p->ta ? k : m,
                                         (int64_t)p->lda),
           p);
    LT_TRY(what, lt.cublasLtMatrixLayoutCreate(&op->result, CUDA_R_32F, n, m, (int64_t)p->ldc), p);
    return SL_OK;
}

// ---- the choice ---------------------------------------------------------------------------------

// Kernels ask for 16 bytes at most.
uint8_t alignment_of(const void *p)
{
    uintptr_t low = ((uintptr_t)p | 16) & -((uintptr_t)p | 16);
    return (uint8_t)low;
}

struct shape_class class_of(const struct sl_lt_product *p, bool exact)
{
    struct shape_class c;
    memset(&c, 0, sizeof c);
    struct sl_gemm_sizes s = {p->m, p->n, p->k, p->lda, p->ldb, p->ldc, p->ta, p->tb};
    if (!exact)
        s = sl_gemm_class(s);
    c.m = s.m;
    c.n = s.n;
    c.k = s.k;
    c.lda = p->lda;
    c.ldb = p->ldb;
    c.ldc = p->ldc;
    c.ta = p->ta;
    c.tb = p->tb;
    c.bf16 = p->bf16;
    c.tf32 = p->tf32;
    c.adds = p->beta != 0.0f;
    c.biased = p->bias != nullptr;
    c.align_a = alignment_of(p->a);
    c.align_b = alignment_of(p->b);
    c.align_c = alignment_of(p->c);
    c.align_bias = alignment_of(p->bias);
    return c;
}

uint32_t place_of(const struct shape_class *c)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(c);
    for (size_t i = 0; i < sizeof *c; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return (uint32_t)(hash >> 32) % CHOICES;
}

int set_preferences(const struct sl_lt_product *p, const struct shape_class *c,
                    cublasLtMatmulPreference_t preference)
{
    const char *what = "choosing an algorithm for a product";
    size_t workspace = SL_LT_WORKSPACE_BYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t of_a = c->align_a, of_b = c->align_b, of_c = c->align_c;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } all[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &of_b, sizeof of_b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &of_a, sizeof of_a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &of_c, sizeof of_c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &of_c, sizeof of_c},
    };
    for (const auto &one : all)
        LT_TRY(what,
               lt.cublasLtMatmulPreferenceSetAttribute(preference, one.name, one.value, one.bytes),
               p);
    return SL_OK;
}

// Asks the heuristic for the class's sizes. No algorithm is no error.
int ask(const struct sl_lt_product *p, const struct shape_class *c, struct choice *out)
{
    struct operation op;
    SL_TRY(describe_product(p, &op));
    SL_TRY(describe_layouts(p, c->m, c->n, c->k, &op));
    cublasLtMatmulPreference_t preference;
    LT_TRY("choosing an algorithm for a product", lt.cublasLtMatmulPreferenceCreate(&preference),
           p);
    cublasLtMatmulHeuristicResult_t best;
    int n = 0, rc = set_preferences(p, c, preference);
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (rc == SL_OK)
        status = lt.cublasLtMatmulAlgoGetHeuristic(mine->handle, op.product, op.first, op.second,
                                                   op.result, op.result, preference, 1, &best, &n);
    lt.cublasLtMatmulPreferenceDestroy(preference);
    SL_TRY(rc);
    out->of = *c;
    out->taken = true;
    out->found = status == CUBLAS_STATUS_SUCCESS && n == 1 && best.state == CUBLAS_STATUS_SUCCESS;
    if (out->found)
        out->algo = best.algo;
    return SL_OK;
}

int choose(const struct sl_lt_product *p, bool exact, const struct choice **out)
{
    struct shape_class c = class_of(p, exact);
    struct choice *place = &mine->choices[place_of(&c)];
    if (!place->taken || memcmp(&place->of, &c, sizeof c) != 0) {
        place->taken = false;
        SL_TRY(ask(p, &c, place));
    }
    *out = place;
    return SL_OK;
}

bool takes(const struct operation *op, const struct choice *choice)
{
    cublasLtMatmulHeuristicResult_t result;
    return choice->found &&
           lt.cublasLtMatmulAlgoCheck(mine->handle, op->product, op->first, op->second, op->result,
                                      op->result, &choice->algo,
                                      &result) == CUBLAS_STATUS_SUCCESS &&
           result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= SL_LT_WORKSPACE_BYTES;
}

} // namespace

bool sl_lt_is_there(void)
{
    pthread_once(&looked, look);
    return lt.is_there;
}

// The caller multiplies by itself then, which should not be slow unseen.
static void warn_once(const struct sl_lt_product *p, int rc)
{
    static std::atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!warned.test_and_set())
        sl_log_warn(
            "gemm: cuBLASLt does not multiply %llu x %llu x %llu%s%s; such products are made "
            "by a slower kernel",
            (unsigned long long)p->m, (unsigned long long)p->n, (unsigned long long)p->k,
            rc < 0 ? ": " : "", rc < 0 ? sl_error_message() : "");
}

static int multiply(const struct sl_lt_product *p, bool *done)
{
    SL_TRY(have_state(p));
    struct operation op;
    const struct choice *choice;
    SL_TRY(describe_product(p, &op));
    SL_TRY(describe_layouts(p, p->m, p->n, p->k, &op));
    SL_TRY(choose(p, false, &choice));
    if (!takes(&op, choice)) {
        SL_TRY(choose(p, true, &choice));
        if (!takes(&op, choice))
            return SL_OK;
    }
    cublasStatus_t status =
        lt.cublasLtMatmul(mine->handle, op.product, &p->alpha, p->b, op.first, p->a, op.second,
                          &p->beta, p->c, op.result, p->c, op.result, &choice->algo, p->workspace,
                          SL_LT_WORKSPACE_BYTES, static_cast<cudaStream_t>(p->stream));
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
        return SL_OK;
    LT_TRY("a product", status, p);
    *done = true;
    return SL_OK;
}

int sl_lt_multiply(const struct sl_lt_product *p, bool *done)
{
    *done = false;
    if (!sl_lt_is_there())
        return SL_OK;
    int rc = multiply(p, done);
    if (!*done)
        warn_once(p, rc);
    return rc;
}

void sl_cuda_cublas_describe(char *out, size_t bytes)
{
    pthread_once(&looked, look);
    snprintf(out, bytes, "%s", lt.text);
}
