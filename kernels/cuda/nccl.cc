/*
 * nccl.cc - NCCL, found at run time, behind struct sl_collective (common/device/plugin.h).
 *
 * WHERE. SLUICE_NCCL names a file, and then nothing else is tried. Otherwise libnccl.so.2 and
 * libnccl.so where the loader looks, and in the plug-in's own folder. It is loaded at the first
 * need and stays: it may have threads.
 *
 * WITHOUT WAITING. A communicator is made with `blocking = 0`, so its calls hand their work to a
 * thread of NCCL's and return "in progress"; until ncclCommGetAsyncError() says that this is over
 * nothing else may be asked of it, and the sum may not be in the stream yet. So poll() asks this
 * first, and only then whether the thread's queue is empty: a queue that is empty before says
 * nothing. One operation is under way at a time, and what the caller asks of the device between
 * all_reduce() and the SL_OK of poll() may run before the sum.
 *
 * THE END of a communicator is always ncclCommAbort(), which is allowed in every state and makes
 * kernels that wait for others return; ncclCommFinalize() would wait for the others. The queue is
 * waited for afterwards, so that nothing writes into `out` behind the caller's back. A GPU that
 * does not come to rest then is treated as faulted (runtime.cu): its process ends.
 *
 * A GPU that has faulted is left alone: NCCL would ask CUDA, and its communicator dies with the
 * process.
 *
 * ITS VERSION. Up to 2.17 NCCL's thread follows the address of the caller's communicator while it
 * meets the others; 2.16 may hang in the abort after a peer was killed (NVIDIA/nccl #863), and up
 * to 2.18 an abort may hang while others of NCCL's threads work for the communicator (#992). 2.25.1
 * is said to hang too, and 2.26.2 no longer (pytorch/pytorch #149153).
 *
 * KNOWN OF NCCL: a peer's death may be noticed (ncclRemoteError) or never; whoever waits has to
 * learn of it elsewhere. Rank 0 of a meeting that was given up keeps the thread that others were to
 * connect to, one for each such meeting. While a sum waits for others its kernel occupies a few
 * multiprocessors, and giving memory back to the driver would wait for it, in any thread of the
 * process: release.cu puts that off.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/nccl_api.h"

static_assert(sizeof(struct sl_nccl_id) == SL_COLLECTIVE_ID_BYTES, "a group's name is NCCL's");

#if !defined(SL_SIMT) && __has_include(<nccl.h>)
#include <nccl.h>
#if NCCL_VERSION_CODE >= 21400
#define SAME(ours, theirs) static_assert((long long)(ours) == (long long)(theirs), #theirs)
SAME(sizeof(struct sl_nccl_id), sizeof(ncclUniqueId));
SAME(offsetof(struct sl_nccl_config, size), offsetof(ncclConfig_t, size));
SAME(offsetof(struct sl_nccl_config, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(struct sl_nccl_config, version), offsetof(ncclConfig_t, version));
SAME(offsetof(struct sl_nccl_config, blocking), offsetof(ncclConfig_t, blocking));
SAME(SL_NCCL_CONFIG_VERSION, NCCL_VERSION(2, 14, 0));
SAME(SL_NCCL_SUCCESS, ncclSuccess);
SAME(SL_NCCL_UNHANDLED_CUDA_ERROR, ncclUnhandledCudaError);
SAME(SL_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(SL_NCCL_INTERNAL_ERROR, ncclInternalError);
SAME(SL_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(SL_NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(SL_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(SL_NCCL_IN_PROGRESS, ncclInProgress);
SAME(SL_NCCL_FLOAT32, ncclFloat32);
SAME(SL_NCCL_SUM, ncclSum);
#undef SAME
#endif
#endif

namespace {

// ---- the library --------------------------------------------------------------------------------

struct library {
#define NCCL_POINTER(name, result, arguments) result(*name) arguments;
    SL_NCCL_FUNCTIONS(NCCL_POINTER)
#undef NCCL_POINTER
    bool is_there;
    char text[480]; // its version and file, or why there is none
};

struct library nccl;
pthread_once_t looked = PTHREAD_ONCE_INIT;

#define HOW_TO_GET                                                                                 \
    "install it (pip install nvidia-nccl-cu13 or -cu12, or the distribution's libnccl2) and name " \
    "its file in SLUICE_NCCL"

// What the loader calls the file.
const char *path_of(void *handle, const char *name)
{
    struct link_map *map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0])
        return map->l_name;
    return name;
}

// Takes the functions when they are all there and the version is one that can be used.
bool judge(const char *path)
{
    int version = 0;
    if (nccl.ncclGetVersion(&version) != SL_NCCL_SUCCESS)
        version = 0;
    if (version < SL_NCCL_OLDEST) {
        snprintf(nccl.text, sizeof nccl.text,
                 "%.300s is of version %d.%d.%d: wanted " SL_NCCL_WANTED " or newer: " HOW_TO_GET,
                 path, version / 10000, version % 10000 / 100, version % 100);
        return false;
    }
    snprintf(nccl.text, sizeof nccl.text, "%d.%d.%d, %.400s", version / 10000,
             version % 10000 / 100, version % 100, path);
    return true;
}

bool take_functions(void *handle, const char *path)
{
#define NCCL_TAKE(name, result, arguments)                                                         \
    nccl.name = reinterpret_cast<result(*) arguments>(dlsym(handle, #name));                       \
    if (!nccl.name) {                                                                              \
        snprintf(nccl.text, sizeof nccl.text,                                                      \
                 "%.300s has no %s(): wanted NCCL " SL_NCCL_WANTED " or newer: " HOW_TO_GET, path, \
                 #name);                                                                           \
        return false;                                                                              \
    }
    SL_NCCL_FUNCTIONS(NCCL_TAKE)
#undef NCCL_TAKE
    return true;
}

// A file that is there and cannot be used is worth more words than one that is not there.
void note_why(const char *file, const char *words, bool was_named)
{
    const size_t n = strlen(file);
    if (was_named)
        snprintf(nccl.text, sizeof nccl.text, "SLUICE_NCCL names %.200s: %.250s", file, words);
    else if (strncmp(words, file, n) != 0 || !strstr(words, "No such file"))
        snprintf(nccl.text, sizeof nccl.text, "%.200s cannot be loaded: %.200s", file, words);
}

bool load(const char *file, bool was_named)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        note_why(file, dlerror(), was_named);
        return false;
    }
    const char *path = path_of(handle, file);
    if (take_functions(handle, path) && judge(path))
        return true;
    dlclose(handle);
    return false;
}

#ifdef SL_SIMT
// The emulation's own.
bool search()
{
    snprintf(nccl.text, sizeof nccl.text, "the emulation is told to have none: " HOW_TO_GET);
    if (!simt_nccl_is_there())
        return false;
#define NCCL_OWN(name, result, arguments) nccl.name = name;
    SL_NCCL_FUNCTIONS(NCCL_OWN)
#undef NCCL_OWN
    return judge("emulated");
}
#else
// The folder of the plug-in, where a bundle would have it; "" when it is not known.
void own_folder(char *out, size_t bytes)
{
    Dl_info where;
    out[0] = '\0';
    if (!dladdr(reinterpret_cast<void *>(&nccl), &where) || !where.dli_fname)
        return;
    snprintf(out, bytes, "%s", where.dli_fname);
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    else
        out[0] = '\0';
}

bool search()
{
    char folder[2048], file[2200];
    own_folder(folder, sizeof folder);
    snprintf(nccl.text, sizeof nccl.text,
             "libnccl.so.2 is neither where the loader looks (LD_LIBRARY_PATH) nor in "
             "%.150s: " HOW_TO_GET,
             folder);
    if (load("libnccl.so.2", false) || load("libnccl.so", false))
        return true;
    snprintf(file, sizeof file, "%s/libnccl.so.2", folder);
    return folder[0] && load(file, false);
}
#endif

void look()
{
    const char *named = getenv("SLUICE_NCCL");
    char file[2200];
    if (!named || !named[0]) {
        nccl.is_there = search();
        return;
    }
    // A name without a folder would be looked for where the loader finds libraries.
    snprintf(file, sizeof file, "%s%s", strchr(named, '/') ? "" : "./", named);
    nccl.is_there = load(file, true);
}

bool is_there()
{
    pthread_once(&looked, look);
    return nccl.is_there;
}

int fail_none()
{
    return sl_fail(SL_ENOENT, "there is no NCCL: %s", nccl.text);
}

// ---- errors -------------------------------------------------------------------------------------

// What to do about the usual ones, by NCCL's own words.
const char *advice(int result, const char *words)
{
    static const struct {
        const char *said, *advice;
    } usual[] = {
        {"Duplicate GPU", "; give each device of the job a GPU of its own"},
        {"socket interface", "; name one in NCCL_SOCKET_IFNAME (lo will do)"},
        {"listening interface", "; name one in NCCL_SOCKET_IFNAME (lo will do)"},
        {"no device found", "; name one in NCCL_SOCKET_IFNAME (lo will do)"},
        {"shared memory", "; make /dev/shm larger (docker run --shm-size=1g), or set "
                          "NCCL_SHM_DISABLE=1"},
        {"driver version is insufficient", "; this NCCL is of a newer CUDA than the driver: take "
                                           "nvidia-nccl-cu12, or a newer driver"},
    };
    for (const auto &each : usual)
        if (strstr(words, each.said))
            return each.advice;
    if (result == SL_NCCL_REMOTE_ERROR)
        return "; another process of the group is gone";
    return "; NCCL_DEBUG=WARN in the environment says more";
}

int fail(struct sl_nccl_comm *comm, int result, const char *what)
{
    const char *words = nccl.ncclGetLastError(comm);
    words = words ? words : "";
    return sl_fail(SL_EDEVICE, "NCCL, %s: %s%s%.300s%s", what, nccl.ncclGetErrorString(result),
                   words[0] ? ": " : "", words, advice(result, words));
}

// ---- the group ----------------------------------------------------------------------------------

// The one that this process is in. NCCL is told the address of `comm`, which it may write to until
// the communicator is given up: so it is not moved.
struct group {
    struct sl_nccl_comm *comm; // NULL: in none
    uint32_t rank, n;
    bool has_met;    // poll() has said so
    bool is_summing; // all_reduce() has begun, and poll() has not said that it is over
};

struct group mine;

// The last one of a GPU that is lost: freeing it would ask CUDA. No other can begin then.
struct sl_nccl_comm *abandoned;

// Settings of NCCL's own with which nothing here works.
int refuse_settings()
{
    const char *name = getenv("NCCL_COMM_ID"), *blocking = getenv("NCCL_COMM_BLOCKING");
    if (name && name[0])
        return sl_fail(SL_EUNSUPPORTED,
                       "NCCL, naming a group: NCCL_COMM_ID is '%s', and every group has to have "
                       "a name of its own: unset NCCL_COMM_ID, also in nccl.conf",
                       name);
    if (blocking && blocking[0] && strcmp(blocking, "0") != 0)
        return sl_fail(SL_EUNSUPPORTED,
                       "NCCL, naming a group: NCCL_COMM_BLOCKING is '%s', and its calls would wait "
                       "for others, who may be dead: unset NCCL_COMM_BLOCKING, also in nccl.conf",
                       blocking);
    return SL_OK;
}

int unique_id(uint8_t id[SL_COLLECTIVE_ID_BYTES])
{
    struct sl_nccl_id made;
    if (!is_there())
        return fail_none();
    SL_TRY(refuse_settings());
    int result = nccl.ncclGetUniqueId(&made);
    if (result != SL_NCCL_SUCCESS)
        return fail(nullptr, result, "naming a group");
    // Its first call puts what nccl.conf says into the environment.
    SL_TRY(refuse_settings());
    memcpy(id, &made, sizeof made);
    return SL_OK;
}

int begin(const uint8_t id[SL_COLLECTIVE_ID_BYTES], uint32_t rank, uint32_t n)
{
    struct sl_nccl_config config = {sizeof config, SL_NCCL_CONFIG_MAGIC, SL_NCCL_CONFIG_VERSION, 0};
    struct sl_nccl_id name;
    char what[64];
    void *stream;
    if (!is_there())
        return fail_none();
    SL_TRY(refuse_settings());
    if (mine.comm)
        return sl_fail(SL_EINVAL, "NCCL: the group before has not been given up");
    if (rank >= n || n > INT32_MAX)
        return sl_fail(SL_EINVAL, "NCCL: rank %u of %u: wanted less", rank, n);
    SL_TRY(sl_cuda_queue(&stream)); // NCCL takes the GPU that is this thread's
    SL_TRY(sl_cuda_load_kernels());
    memcpy(&name, id, sizeof name);
    snprintf(what, sizeof what, "meeting as rank %u of %u", rank, n);
    mine = {nullptr, rank, n, false, false};
    int result = nccl.ncclCommInitRankConfig(&mine.comm, (int)n, name, (int)rank, &config);
    if ((result == SL_NCCL_SUCCESS || result == SL_NCCL_IN_PROGRESS) && mine.comm)
        return SL_OK;
    int rc = fail(mine.comm, result, what);
    if (mine.comm)
        nccl.ncclCommAbort(mine.comm);
    mine = {};
    return rc;
}

int all_reduce(const float *in, float *out, uint64_t n)
{
    void *stream;
    if (!mine.comm)
        return sl_fail(SL_EINVAL, "NCCL: a sum without a group");
    if (!mine.has_met || mine.is_summing)
        return sl_fail(SL_EINVAL,
                       "NCCL: a sum before poll() has said that the %s over: rank %u of %u",
                       mine.has_met ? "last one is" : "meeting is", mine.rank, mine.n);
    if (n && (!in || !out))
        return sl_fail(SL_EINVAL, "NCCL: a sum of %llu numbers from %p to %p: wanted arrays",
                       (unsigned long long)n, (const void *)in, (void *)out);
    SL_TRY(sl_cuda_queue(&stream));
    sl_cuda_sum_begins();
    int result =
        n ? nccl.ncclAllReduce(in, out, (size_t)n, SL_NCCL_FLOAT32, SL_NCCL_SUM, mine.comm, stream)
          : (int)SL_NCCL_SUCCESS;
    mine.is_summing = result == SL_NCCL_SUCCESS || result == SL_NCCL_IN_PROGRESS;
    if (mine.is_summing)
        return SL_OK;
    int rc = fail(mine.comm, result, "beginning a sum");
    sl_cuda_sum_ends();
    return rc;
}

void end_sum()
{
    if (mine.is_summing)
        sl_cuda_sum_ends();
    mine.is_summing = false;
}

int poll()
{
    void *stream;
    int now = SL_NCCL_SUCCESS;
    if (!mine.comm)
        return sl_fail(SL_EINVAL, "NCCL: there is no group to ask about");
    SL_TRY(sl_cuda_queue(&stream)); // not of a GPU that is lost
    int result = nccl.ncclCommGetAsyncError(mine.comm, &now);
    if (result == SL_NCCL_SUCCESS)
        result = now;
    if (result == SL_NCCL_IN_PROGRESS)
        return SL_EAGAIN;
    if (result != SL_NCCL_SUCCESS)
        return fail(mine.comm, result, mine.has_met ? "summing" : "meeting the others");
    mine.has_met = true;
    if (!mine.is_summing)
        return SL_OK;
    int rc = sl_cuda_queue_poll();
    if (rc == SL_OK)
        end_sum();
    return rc;
}

void abort_group()
{
    // Work of this thread alone is in the queue once NCCL's kernels have been told to end.
    enum { PATIENCE_S = 30 };
    if (mine.comm && sl_cuda_queue_is_lost())
        abandoned = mine.comm;
    if (mine.comm && !abandoned) {
        int result = nccl.ncclCommAbort(mine.comm);
        if (result != SL_NCCL_SUCCESS && result != SL_NCCL_IN_PROGRESS)
            sl_log_warn("NCCL: giving up a group: %s", nccl.ncclGetErrorString(result));
        sl_cuda_queue_drain(PATIENCE_S, "giving up a sum of NCCL");
    }
    end_sum();
    mine = {};
}

} // namespace

const struct sl_collective sl_cuda_collective = {
    .bytes = sizeof(struct sl_collective),
    .unique_id = unique_id,
    .begin = begin,
    .all_reduce = all_reduce,
    .poll = poll,
    .abort = abort_group,
};

void sl_cuda_nccl_describe(char *out, size_t bytes)
{
    snprintf(out, bytes, "%s%s", is_there() ? "" : "none: ", nccl.text);
}
