#include "common/device/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/version.h"

#define FILE_NAME "libsluice_cuda.so"

enum { PLUGIN_PATH_BYTES = PATH_MAX + 64 };

// Guards what follows; each is written once.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sl_plugin *opened;
static char opened_path[PLUGIN_PATH_BYTES];

// --- what the plug-in calls ----------------------------------------------------------------------

static int take_failure(int code, const char *message)
{
    return sl_fail(code, "%s", message);
}

static void take_line(int level, const char *message)
{
    sl_log_write((enum sl_log_level)level, "%s", message);
}

static const struct sl_plugin_host HOST = {
    .abi = SL_PLUGIN_ABI,
    .bytes = sizeof(struct sl_plugin_host),
    .fail = take_failure,
    .log = take_line,
};

// --- finding it ----------------------------------------------------------------------------------

// The folder of a program; SL_ESYS.
static int program_folder(const char *program, char out[PATH_MAX])
{
    if (!realpath(program, out))
        return sl_fail_errno(SL_ESYS, errno, "%s, to find the CUDA plug-in beside it", program);
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    return SL_OK;
}

// Where it is looked for from the folder of the program: installed and built, flat, a test program,
// tests/bench/kernels.
static const char *const places[] = {"../lib", ".", "../../lib", "../../../lib"};

static int find_beside(const char *program, char out[PLUGIN_PATH_BYTES])
{
    char folder[PATH_MAX];
    SL_TRY(program_folder(program, folder));
    for (size_t i = 0; i < SL_COUNT_OF(places); i++) {
        snprintf(out, PLUGIN_PATH_BYTES, "%s/%s/" FILE_NAME, folder, places[i]);
        if (access(out, F_OK) == 0)
            return SL_OK;
    }
    return sl_fail(SL_ENOENT,
                   "this build has no CUDA plug-in: there is no " FILE_NAME " in %s/../lib, nor "
                   "in %s: build with CUDA=1 where nvcc is, or say where it is in "
                   "SLUICE_CUDA_PLUGIN",
                   folder, folder);
}

// What the program at this path opens.
static int find(const char *program, char out[PLUGIN_PATH_BYTES])
{
    const char *named = getenv("SLUICE_CUDA_PLUGIN");
    if (!named || !named[0])
        return find_beside(program, out);
    // A name without a folder would be looked for where the loader finds libraries.
    snprintf(out, PLUGIN_PATH_BYTES, "%s%s", strchr(named, '/') ? "" : "./", named);
    if (access(out, F_OK) == 0)
        return SL_OK;
    return sl_fail_errno(SL_ENOENT, errno, "SLUICE_CUDA_PLUGIN names %s", named);
}

// What this process opens. Where this code is in a library of another program, libsluice, the
// plug-in is beside that.
static int find_own(char out[PLUGIN_PATH_BYTES])
{
    Dl_info info;
    const int rc = find("/proc/self/exe", out);
    const bool in_library =
        dladdr((void *)find_own, &info) && info.dli_fname && strstr(info.dli_fname, ".so");
    return rc == SL_ENOENT && in_library ? find(info.dli_fname, out) : rc;
}

int sl_plugin_look(const char *program)
{
    char file[PLUGIN_PATH_BYTES];
    return find(program, file);
}

void sl_plugin_report_none(struct sl_gpu_report *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->problem, sizeof out->problem, "%s", sl_error_message());
    snprintf(out->cublas, sizeof out->cublas, "not looked for");
    snprintf(out->nccl, sizeof out->nccl, "not looked for");
}

// --- opening it ----------------------------------------------------------------------------------

static int check_build(const char *file, const struct sl_plugin *found)
{
    if (!found)
        return sl_fail(
            SL_EPROTO,
            "%s is of another build: it does not take programs of ABI %d, as this one of "
            "version %s: build both together",
            file, SL_PLUGIN_ABI, SL_VERSION);
    if (found->abi != SL_PLUGIN_ABI)
        return sl_fail(SL_EPROTO,
                       "%s is of another build: its ABI is %u, this program's (version %s) is %d: "
                       "build both together",
                       file, found->abi, SL_VERSION, SL_PLUGIN_ABI);
    // Of the fields behind these two nothing is known when the sizes differ.
    if (found->bytes != sizeof *found || found->device_bytes != sizeof(struct sl_device))
        return sl_fail(SL_EPROTO,
                       "%s is of another build: its tables have %u and %u bytes, this program's "
                       "(version %s) %zu and %zu: build both together",
                       file, found->bytes, found->bytes == sizeof *found ? found->device_bytes : 0,
                       SL_VERSION, sizeof *found, sizeof(struct sl_device));
    if (strcmp(found->version, SL_VERSION) != 0)
        return sl_fail(SL_EPROTO,
                       "%s is of version %s, this program is of version %s: wanted both of one "
                       "build",
                       file, found->version, SL_VERSION);
    return SL_OK;
}

// The handle stays open: kernels are registered with the driver for as long as the process lives.
static int load(const char *file, const struct sl_plugin **out)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return sl_fail(SL_EDEVICE, "the CUDA plug-in cannot be loaded: %s", dlerror());
    sl_plugin_entry entry;
    *(void **)&entry = dlsym(handle, SL_PLUGIN_SYMBOL);
    if (!entry) {
        dlclose(handle);
        return sl_fail(SL_EPROTO, "%s is no CUDA plug-in of sluice: it has no %s()", file,
                       SL_PLUGIN_SYMBOL);
    }
    *out = entry(&HOST);
    return check_build(file, *out);
}

static int open_locked(void)
{
    char file[PLUGIN_PATH_BYTES];
    const struct sl_plugin *found = NULL;
    if (opened)
        return SL_OK;
    SL_TRY(find_own(file));
    SL_TRY(load(file, &found));
    if (!realpath(file, opened_path))
        snprintf(opened_path, sizeof opened_path, "%s", file);
    __atomic_store_n(&opened, found, __ATOMIC_RELEASE);
    return SL_OK;
}

int sl_plugin_open(const struct sl_plugin **out)
{
    pthread_mutex_lock(&lock);
    int rc = open_locked();
    pthread_mutex_unlock(&lock);
    *out = rc == SL_OK ? opened : NULL;
    return rc;
}

// Pairs with the store of open_locked(): who sees the plug-in sees its path.
const struct sl_plugin *sl_plugin_opened(void)
{
    return __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
}

const char *sl_plugin_path(void)
{
    return sl_plugin_opened() ? opened_path : "";
}
