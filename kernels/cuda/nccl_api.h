/*
 * nccl_api.h - what of NCCL's C interface is used (its user guide: "NCCL API").
 *
 * NCCL is no part of the CUDA toolkit, so its header may be missing where the plug-in is built, and
 * whichever library a machine has is found at run time: what is called is declared here, as it has
 * been since version 2.14. nccl.cc compares it with <nccl.h> where that is there. The emulation
 * (tests/simt/nccl.cc) has functions of the same names.
 */
#ifndef SL_KERNELS_CUDA_NCCL_API_H
#define SL_KERNELS_CUDA_NCCL_API_H

#include <stddef.h>

struct sl_nccl_comm; // a communicator

struct sl_nccl_id {
    char internal[128];
};

enum sl_nccl_result {
    SL_NCCL_SUCCESS,
    SL_NCCL_UNHANDLED_CUDA_ERROR,
    SL_NCCL_SYSTEM_ERROR,
    SL_NCCL_INTERNAL_ERROR,
    SL_NCCL_INVALID_ARGUMENT,
    SL_NCCL_INVALID_USAGE,
    SL_NCCL_REMOTE_ERROR,
    SL_NCCL_IN_PROGRESS,
};

enum { SL_NCCL_FLOAT32 = 7, SL_NCCL_SUM = 0 };

/*
 * How a communicator behaves, as version 2.14 had it. A library takes `size` bytes of it over its
 * own defaults, and from `version` it knows which of these bytes are none of the caller's: the
 * last four of `size` are padding here and hold a member since 2.17, which a `version` before 2.17
 * has it fill in again. So the version is that of these members, whatever the library's is.
 */
struct sl_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking; // 0: calls start something and return
};
#define SL_NCCL_CONFIG_MAGIC 0xcafebeefu
enum { SL_NCCL_CONFIG_VERSION = 21400 };

// The oldest library that is taken, as ncclGetVersion() says it and in words (why: nccl.cc).
enum { SL_NCCL_OLDEST = 21900 };
#define SL_NCCL_WANTED "2.19"

// X(name, result, arguments). Codes are enum sl_nccl_result, streams are cudaStream_t.
#define SL_NCCL_FUNCTIONS(X)                                                                       \
    X(ncclGetVersion, int, (int *version))                                                         \
    X(ncclGetUniqueId, int, (struct sl_nccl_id * id))                                              \
    X(ncclCommInitRankConfig, int,                                                                 \
      (struct sl_nccl_comm * *comm, int n, struct sl_nccl_id id, int rank,                         \
       struct sl_nccl_config *config))                                                             \
    X(ncclCommGetAsyncError, int, (struct sl_nccl_comm * comm, int *result))                       \
    X(ncclAllReduce, int,                                                                          \
      (const void *in, void *out, size_t count, int type, int operation,                           \
       struct sl_nccl_comm *comm, void *stream))                                                   \
    X(ncclCommAbort, int, (struct sl_nccl_comm * comm))                                            \
    X(ncclGetErrorString, const char *, (int result))                                              \
    X(ncclGetLastError, const char *, (struct sl_nccl_comm * comm))

#ifdef SL_SIMT
extern "C" {
#define SL_NCCL_DECLARE(name, result, arguments) result name arguments;
SL_NCCL_FUNCTIONS(SL_NCCL_DECLARE)
#undef SL_NCCL_DECLARE
}
// Whether there is an NCCL (SLUICE_SIMT_NCCL).
bool simt_nccl_is_there();
#endif

#endif
