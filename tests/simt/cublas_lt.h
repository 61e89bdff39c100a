/*
 * cublas_lt.h - what of cuBLASLt's C interface the plug-in uses, for where there is no toolkit.
 *
 * Names, values and sizes are those of NVIDIA's header; standin/same.cc compares them with it where
 * it can be found. gemm_lt.cc is compiled against it for the emulation, and the library that stands
 * in (standin/cublas_lt.cc) is made of the same declarations.
 *
 * The library is a shared object of its own and knows nothing of the emulation, whose functions the
 * plug-in does not export. So it is lent what it needs (struct simt_lent) when it is found; one
 * that does not take it, as NVIDIA's, is not used.
 *
 * Seen by tests in C: keep it C11 and C++17.
 */
#ifndef SL_TESTS_SIMT_CUBLAS_LT_H
#define SL_TESTS_SIMT_CUBLAS_LT_H

#include <stddef.h>
#include <stdint.h>

// X(name, value)
#define SIMT_LT_STATUSES(X)                                                                        \
    X(CUBLAS_STATUS_SUCCESS, 0)                                                                    \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1)                                                            \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3)                                                               \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)                                                              \
    X(CUBLAS_STATUS_ARCH_MISMATCH, 8)                                                              \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13)                                                          \
    X(CUBLAS_STATUS_INTERNAL_ERROR, 14)                                                            \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)

#define SIMT_LT_TYPES(X)                                                                           \
    X(CUDA_R_32F, 0)                                                                               \
    X(CUDA_R_16BF, 14)

#define SIMT_LT_OPERATIONS(X)                                                                      \
    X(CUBLAS_OP_N, 0)                                                                              \
    X(CUBLAS_OP_T, 1)

#define SIMT_LT_COMPUTES(X)                                                                        \
    X(CUBLAS_COMPUTE_32F, 68)                                                                      \
    X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)

#define SIMT_LT_DESCRIPTIONS(X)                                                                    \
    X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                                                              \
    X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                                                              \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                                            \
    X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)

#define SIMT_LT_SCHEMES(X)                                                                         \
    X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)                                                           \
    X(CUBLASLT_REDUCTION_SCHEME_INPLACE, 1)                                                        \
    X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)                                                   \
    X(CUBLASLT_REDUCTION_SCHEME_MASK, 7)

#define SIMT_LT_EPILOGUES(X)                                                                       \
    X(CUBLASLT_EPILOGUE_DEFAULT, 1)                                                                \
    X(CUBLASLT_EPILOGUE_BIAS, 4)

#define SIMT_LT_PREFERENCES(X)                                                                     \
    X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                                                 \
    X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)                                               \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                                               \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                                               \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                                               \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)

#define SIMT_LT_VALUES(X)                                                                          \
    SIMT_LT_STATUSES(X)                                                                            \
    SIMT_LT_TYPES(X)                                                                               \
    SIMT_LT_OPERATIONS(X)                                                                          \
    SIMT_LT_COMPUTES(X)                                                                            \
    SIMT_LT_DESCRIPTIONS(X)                                                                        \
    SIMT_LT_SCHEMES(X)                                                                             \
    SIMT_LT_EPILOGUES(X)                                                                           \
    SIMT_LT_PREFERENCES(X)

// Bytes of what crosses the boundary by its contents, and where its members are.
enum { SIMT_LT_ALGO_BYTES = 64, SIMT_LT_RESULT_BYTES = 96 };
enum { SIMT_LT_AT_WORKSPACE = 64, SIMT_LT_AT_STATE = 72, SIMT_LT_AT_WAVES = 76 };

// X(name, result, arguments)
#define SIMT_LT_FUNCTIONS(X)                                                                       \
    X(cublasLtCreate, cublasStatus_t, (cublasLtHandle_t * handle))                                 \
    X(cublasLtDestroy, cublasStatus_t, (cublasLtHandle_t handle))                                  \
    X(cublasLtGetVersion, size_t, (void))                                                          \
    X(cublasLtGetStatusString, const char *, (cublasStatus_t status))                              \
    X(cublasLtMatmul, cublasStatus_t,                                                              \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha, const void *a,    \
       cublasLtMatrixLayout_t of_a, const void *b, cublasLtMatrixLayout_t of_b, const void *beta,  \
       const void *c, cublasLtMatrixLayout_t of_c, void *d, cublasLtMatrixLayout_t of_d,           \
       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,                  \
       cudaStream_t stream))                                                                       \
    X(cublasLtMatmulAlgoCheck, cublasStatus_t,                                                     \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t of_a,         \
       cublasLtMatrixLayout_t of_b, cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,      \
       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result))                 \
    X(cublasLtMatmulAlgoGetHeuristic, cublasStatus_t,                                              \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t of_a,         \
       cublasLtMatrixLayout_t of_b, cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,      \
       cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *out,    \
       int *n))                                                                                    \
    X(cublasLtMatmulDescCreate, cublasStatus_t,                                                    \
      (cublasLtMatmulDesc_t * product, cublasComputeType_t compute, cudaDataType_t scale))         \
    X(cublasLtMatmulDescDestroy, cublasStatus_t, (cublasLtMatmulDesc_t product))                   \
    X(cublasLtMatmulDescSetAttribute, cublasStatus_t,                                              \
      (cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t name, const void *value,       \
       size_t bytes))                                                                              \
    X(cublasLtMatmulPreferenceCreate, cublasStatus_t, (cublasLtMatmulPreference_t * preference))   \
    X(cublasLtMatmulPreferenceDestroy, cublasStatus_t, (cublasLtMatmulPreference_t preference))    \
    X(cublasLtMatmulPreferenceSetAttribute, cublasStatus_t,                                        \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,           \
       const void *value, size_t bytes))                                                           \
    X(cublasLtMatrixLayoutCreate, cublasStatus_t,                                                  \
      (cublasLtMatrixLayout_t * layout, cudaDataType_t type, uint64_t rows, uint64_t cols,         \
       int64_t ld))                                                                                \
    X(cublasLtMatrixLayoutDestroy, cublasStatus_t, (cublasLtMatrixLayout_t layout))

// same.cc sees no more than this, beside NVIDIA's declarations.
#ifndef SIMT_LT_VALUES_ALONE

typedef struct simt_stream *cudaStream_t;

#define SIMT_LT_VALUE(name, value) name = value,
typedef enum { SIMT_LT_STATUSES(SIMT_LT_VALUE) } cublasStatus_t;
typedef enum { SIMT_LT_TYPES(SIMT_LT_VALUE) } cudaDataType_t;
typedef enum { SIMT_LT_OPERATIONS(SIMT_LT_VALUE) } cublasOperation_t;
typedef enum { SIMT_LT_COMPUTES(SIMT_LT_VALUE) } cublasComputeType_t;
typedef enum { SIMT_LT_DESCRIPTIONS(SIMT_LT_VALUE) } cublasLtMatmulDescAttributes_t;
typedef enum { SIMT_LT_SCHEMES(SIMT_LT_VALUE) } cublasLtReductionScheme_t;
typedef enum { SIMT_LT_EPILOGUES(SIMT_LT_VALUE) } cublasLtEpilogue_t;
typedef enum { SIMT_LT_PREFERENCES(SIMT_LT_VALUE) } cublasLtMatmulPreferenceAttributes_t;
#undef SIMT_LT_VALUE

typedef struct simt_lt_handle *cublasLtHandle_t;
typedef struct simt_lt_product *cublasLtMatmulDesc_t;
typedef struct simt_lt_layout *cublasLtMatrixLayout_t;
typedef struct simt_lt_preference *cublasLtMatmulPreference_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

#ifdef __cplusplus
extern "C" {
#endif
#define SIMT_LT_DECLARE(name, result, arguments)                                                   \
    __attribute__((visibility("default"))) result name arguments;
SIMT_LT_FUNCTIONS(SIMT_LT_DECLARE)
#undef SIMT_LT_DECLARE
#ifdef __cplusplus
}
#endif

// What the emulation lends the library.
struct simt_lent {
    // Puts step(context) into the stream, which may touch device memory there; `context` is freed
    // behind it. False: the stream cannot take it.
    bool (*give)(cudaStream_t stream, void (*step)(void *context), void *context);
    // Whether all of it is memory that the device reaches, in one piece.
    bool (*is_reached)(const void *p, size_t bytes);
    // Says what was found, and aborts.
    void (*report)(const char *what, const char *text);
};
#define SIMT_LT_TAKE_SYMBOL "simt_lt_take" // void simt_lt_take(const struct simt_lent *)

// What the stand-in counts: objects that are not destroyed (handles left out), and products by the
// algorithm that made them.
enum simt_lt_algorithm {
    SIMT_LT_VECTOR_ADDED, // parts of k are added to the result in the order in which they end
    SIMT_LT_VECTOR_SPLIT, // parts of k are kept in the workspace and added in order
    SIMT_LT_VECTOR,
    SIMT_LT_SCALAR,
    SIMT_LT_ALGORITHMS,
};
struct simt_lt_counts {
    uint64_t objects, asked; // asked: calls of the heuristic
    uint64_t products[SIMT_LT_ALGORITHMS];
};
#define SIMT_LT_COUNTS_SYMBOL "simt_lt_counts" // void simt_lt_counts(struct simt_lt_counts *)

// cublas_lt.cc: the library that SLUICE_SIMT_CUBLAS names, open and with what it is lent; NULL when
// none is named. One that is named and cannot be used ends the process.
void *simt_lt_open(void);

#endif
#endif
