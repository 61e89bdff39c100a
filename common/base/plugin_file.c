#include "common/base/plugin_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// The folder of a program; SL_ESYS.
static int program_folder(const struct sl_plugin_kind *kind, const char *program,
                          char out[PATH_MAX])
{
    if (!realpath(program, out))
        return sl_fail_errno(SL_ESYS, errno, "%s, to find the %s plug-in beside it", program,
                             kind->name);
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    return SL_OK;
}

// Where it is looked for from the folder of the program: installed and built, flat, a test program,
// tests/bench/kernels.
static const char *const places[] = {"../lib", ".", "../../lib", "../../../lib"};

static int find_beside(const struct sl_plugin_kind *kind, const char *program,
                       char out[SL_PLUGIN_PATH_BYTES])
{
    char folder[PATH_MAX];
    SL_TRY(program_folder(kind, program, folder));
    for (size_t i = 0; i < SL_COUNT_OF(places); i++) {
        snprintf(out, SL_PLUGIN_PATH_BYTES, "%s/%s/%s", folder, places[i], kind->file);
        if (access(out, F_OK) == 0)
            return SL_OK;
    }
    return sl_fail(SL_ENOENT,
                   "this build has no %s plug-in: there is no %s in %s/../lib, nor in %s: %s, or "
                   "say where it is in %s",
                   kind->name, kind->file, folder, folder, kind->build, kind->variable);
}

int sl_plugin_file_find(const struct sl_plugin_kind *kind, const char *program,
                        char out[SL_PLUGIN_PATH_BYTES])
{
    const char *named = getenv(kind->variable);
    if (!named || !named[0])
        return find_beside(kind, program, out);
    // A name without a folder would be looked for where the loader finds libraries.
    snprintf(out, SL_PLUGIN_PATH_BYTES, "%s%s", strchr(named, '/') ? "" : "./", named);
    if (access(out, F_OK) == 0)
        return SL_OK;
    return sl_fail_errno(SL_ENOENT, errno, "%s names %s", kind->variable, named);
}

int sl_plugin_file_find_own(const struct sl_plugin_kind *kind, char out[SL_PLUGIN_PATH_BYTES])
{
    Dl_info info;
    const int rc = sl_plugin_file_find(kind, "/proc/self/exe", out);
    const bool in_library = dladdr((void *)sl_plugin_file_find_own, &info) && info.dli_fname &&
                            strstr(info.dli_fname, ".so");
    return rc == SL_ENOENT && in_library ? sl_plugin_file_find(kind, info.dli_fname, out) : rc;
}

// The handle stays open: a GPU's driver and MPI know functions of it for as long as the process
// lives.
int sl_plugin_file_load(const struct sl_plugin_kind *kind, const char *file, void **symbol)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return sl_fail(kind->load_error, "the %s plug-in cannot be loaded: %s", kind->name,
                       dlerror());
    *symbol = dlsym(handle, kind->symbol);
    if (*symbol)
        return SL_OK;
    dlclose(handle);
    return sl_fail(SL_EPROTO, "%s is no %s plug-in of sluice: it has no %s()", file, kind->name,
                   kind->symbol);
}
