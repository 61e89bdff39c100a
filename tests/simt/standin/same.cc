/*
 * same.cc - that tests/simt/cublas_lt.h says what NVIDIA's header says, where that is there.
 */
#define SIMT_LT_VALUES_ALONE
#include "tests/simt/cublas_lt.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <type_traits>

#define SAME_VALUE(name, value) static_assert((int)(name) == (value), #name);
SIMT_LT_VALUES(SAME_VALUE)
#define SAME_FUNCTION(name, result, arguments)                                                     \
    static_assert(std::is_same<decltype(&::name), result(*) arguments>::value, #name);
SIMT_LT_FUNCTIONS(SAME_FUNCTION)

static_assert(sizeof(cublasLtMatmulAlgo_t) == SIMT_LT_ALGO_BYTES, "an algorithm");
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == SIMT_LT_RESULT_BYTES, "a result");
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == SIMT_LT_AT_WORKSPACE,
              "its workspace");
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == SIMT_LT_AT_STATE, "its state");
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, wavesCount) == SIMT_LT_AT_WAVES, "waves");
#endif
