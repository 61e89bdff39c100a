/*
 * compare.cc - products by cuBLAS and sums by cuSPARSE, as what kernels are measured against.
 *
 * Called by one thread, of tests/bench/kernels. Each library is looked for once, at the first call;
 * what it is called with is what a program would that uses nothing else: cublasGemmEx, and
 * cusparseSpMM on row-major matrices with the CSR algorithm that is made for them (CSR_ALG2) and
 * that gives the same bits each time. cuSPARSE is left its descriptors and its preprocessing between
 * calls of the same shape, so that the product alone is timed.
 */
#include "common/base/error.h"
#include "kernels/cuda/measure.h"

#ifdef SL_SIMT
// The emulation has no such libraries.
int sl_cuda_compare_gemm(const struct sl_cuda_product *, void *)
{
    return sl_fail(SL_EUNSUPPORTED, "there is no cuBLAS under emulation");
}

int sl_cuda_compare_spmm(const struct sl_aggregate_args *, void *, void *(*)(uint64_t))
{
    return sl_fail(SL_EUNSUPPORTED, "there is no cuSPARSE under emulation");
}
#else
#include <cublas_v2.h>
#include <cusparse.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

namespace {

// The first of these files that can be loaded; NULL when none can.
void *load(const char *const *names)
{
    void *handle = nullptr;
    for (; *names && !handle; names++)
        handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return handle;
}

template <typename F> bool take(void *library, const char *name, F *out)
{
    *out = reinterpret_cast<F>(dlsym(library, name));
    return *out != nullptr;
}

// ---- cuBLAS -------------------------------------------------------------------------------------

#define CUBLAS_TRY(expr)                                                                           \
    do {                                                                                           \
        cublasStatus_t status_ = (expr);                                                           \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                      \
            return sl_fail(SL_EDEVICE, "cuBLAS: %s: status %d", #expr, (int)status_);              \
    } while (0)

// The header's macros name the functions' later versions, which is what is looked up.
struct cublas {
    bool looked, is_there;
    cublasHandle_t handle;
    decltype(&::cublasCreate_v2) create;
    decltype(&::cublasSetStream_v2) set_stream;
    decltype(&::cublasGemmEx_64) gemm;
};

struct cublas blas;

int have_cublas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
                                        "/usr/local/cuda/lib64/libcublas.so.13",
                                        "/usr/local/cuda/lib64/libcublas.so.12", nullptr};
    if (!blas.looked) {
        blas.looked = true;
        void *library = load(names);
        blas.is_there = library && take(library, "cublasCreate_v2", &blas.create) &&
                        take(library, "cublasSetStream_v2", &blas.set_stream) &&
                        take(library, "cublasGemmEx_64", &blas.gemm);
        if (blas.is_there)
            CUBLAS_TRY(blas.create(&blas.handle));
    }
    if (!blas.is_there)
        return sl_fail(SL_EUNSUPPORTED, "libcublas.so.13 and .12 are neither where the loader "
                                        "looks nor in /usr/local/cuda");
    return blas.handle ? SL_OK : sl_fail(SL_EDEVICE, "cuBLAS gave no handle before");
}

// ---- cuSPARSE -----------------------------------------------------------------------------------

#define CUSPARSE_TRY(expr)                                                                         \
    do {                                                                                           \
        cusparseStatus_t status_ = (expr);                                                         \
        if (status_ != CUSPARSE_STATUS_SUCCESS)                                                    \
            return sl_fail(SL_EDEVICE, "cuSPARSE: %s: status %d", #expr, (int)status_);            \
    } while (0)

#define CUSPARSE_FUNCTIONS(X)                                                                      \
    X(cusparseCreate)                                                                              \
    X(cusparseSetStream)                                                                           \
    X(cusparseCreateConstCsr)                                                                      \
    X(cusparseCreateConstDnMat)                                                                    \
    X(cusparseCreateDnMat)                                                                         \
    X(cusparseDestroySpMat)                                                                        \
    X(cusparseDestroyDnMat)                                                                        \
    X(cusparseSpMM_bufferSize)                                                                     \
    X(cusparseSpMM_preprocess)                                                                     \
    X(cusparseSpMM)

struct sparse_library {
    bool looked, is_there;
    cusparseHandle_t handle;
#define POINTER(name) decltype(&::name) name;
    CUSPARSE_FUNCTIONS(POINTER)
#undef POINTER
};

// The sum that was set up last.
struct sparse_sum {
    bool is_made;
    struct sl_aggregate_args args;
    cusparseConstSpMatDescr_t csr;
    cusparseConstDnMatDescr_t x;
    cusparseDnMatDescr_t y;
    void *buffer;
};

struct sparse_library sparse;
struct sparse_sum sum;
const float ONE = 1.0f, NOTHING = 0.0f;

bool take_sparse(void *library)
{
#define TAKE_ONE(name)                                                                             \
    if (!take(library, #name, &sparse.name))                                                       \
        return false;
    CUSPARSE_FUNCTIONS(TAKE_ONE)
#undef TAKE_ONE
    return true;
}

int have_cusparse(void)
{
    static const char *const names[] = {"libcusparse.so.12", "libcusparse.so.13",
                                        "/usr/local/cuda/lib64/libcusparse.so.12",
                                        "/usr/local/cuda/lib64/libcusparse.so.13", nullptr};
    if (!sparse.looked) {
        sparse.looked = true;
        void *library = load(names);
        sparse.is_there = library && take_sparse(library);
        if (sparse.is_there)
            CUSPARSE_TRY(sparse.cusparseCreate(&sparse.handle));
    }
    if (!sparse.is_there)
        return sl_fail(SL_EUNSUPPORTED, "libcusparse.so.12 and .13 are neither where the loader "
                                        "looks nor in /usr/local/cuda");
    return sparse.handle ? SL_OK : sl_fail(SL_EDEVICE, "cuSPARSE gave no handle before");
}

void forget_sum(void)
{
    if (sum.csr)
        sparse.cusparseDestroySpMat(sum.csr);
    if (sum.x)
        sparse.cusparseDestroyDnMat(sum.x);
    if (sum.y)
        sparse.cusparseDestroyDnMat(sum.y);
    sum = sparse_sum();
}

// Whether the sum that is set up is of these arrays.
bool is_set_up(const struct sl_aggregate_args *a)
{
    const struct sl_aggregate_args *b = &sum.args;
    return sum.is_made && a->csr.indptr == b->csr.indptr && a->csr.indices == b->csr.indices &&
           a->csr.n_dst == b->csr.n_dst && a->csr.n_src == b->csr.n_src &&
           a->csr.n_edges == b->csr.n_edges && a->dim == b->dim && a->x == b->x && a->y == b->y &&
           a->edge_weight == b->edge_weight;
}

int set_up(const struct sl_aggregate_args *args, void *(*scratch)(uint64_t n))
{
    const struct sl_csr_view *csr = &args->csr;
    size_t bytes = 0;
    forget_sum();
    CUSPARSE_TRY(sparse.cusparseCreateConstCsr(&sum.csr, csr->n_dst, csr->n_src, csr->n_edges,
                                               csr->indptr, csr->indices, args->edge_weight,
                                               CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                               CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    CUSPARSE_TRY(sparse.cusparseCreateConstDnMat(&sum.x, csr->n_src, args->dim, args->dim, args->x,
                                                 CUDA_R_32F, CUSPARSE_ORDER_ROW));
    CUSPARSE_TRY(sparse.cusparseCreateDnMat(&sum.y, csr->n_dst, args->dim, args->dim, args->y,
                                            CUDA_R_32F, CUSPARSE_ORDER_ROW));
    CUSPARSE_TRY(sparse.cusparseSpMM_bufferSize(
        sparse.handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &ONE,
        sum.csr, sum.x, &NOTHING, sum.y, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, &bytes));
    if (bytes && !(sum.buffer = scratch(bytes)))
        return SL_ENOMEM;
    CUSPARSE_TRY(sparse.cusparseSpMM_preprocess(
        sparse.handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &ONE,
        sum.csr, sum.x, &NOTHING, sum.y, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, sum.buffer));
    sum.args = *args;
    sum.is_made = true;
    return SL_OK;
}

} // namespace

// Row-major through a column-major library: c' = op(b)' op(a)', as in gemm_lt.cc.
int sl_cuda_compare_gemm(const struct sl_cuda_product *p, void *stream)
{
    SL_TRY(have_cublas());
    CUBLAS_TRY(blas.set_stream(blas.handle, static_cast<cudaStream_t>(stream)));
    cudaDataType_t type = p->precision == SL_PRECISION_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    cublasComputeType_t compute =
        p->precision == SL_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    CUBLAS_TRY(blas.gemm(
        blas.handle, p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, p->ta ? CUBLAS_OP_T : CUBLAS_OP_N,
        (int64_t)p->n, (int64_t)p->m, (int64_t)p->k, &ONE, p->b, type, (int64_t)p->ldb, p->a, type,
        (int64_t)p->lda, &NOTHING, p->c, CUDA_R_32F, (int64_t)p->n, compute, CUBLAS_GEMM_DEFAULT));
    return SL_OK;
}

int sl_cuda_compare_spmm(const struct sl_aggregate_args *args, void *stream,
                         void *(*scratch)(uint64_t n))
{
    SL_TRY(have_cusparse());
    if (args->x_dtype != SL_DTYPE_F32 || !args->edge_weight)
        return sl_fail(SL_EINVAL, "SpMM: wanted rows of f32 and a weight an edge");
    CUSPARSE_TRY(sparse.cusparseSetStream(sparse.handle, static_cast<cudaStream_t>(stream)));
    if (!is_set_up(args))
        SL_TRY(set_up(args, scratch));
    CUSPARSE_TRY(sparse.cusparseSpMM(
        sparse.handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &ONE,
        sum.csr, sum.x, &NOTHING, sum.y, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, sum.buffer));
    return SL_OK;
}
#endif
