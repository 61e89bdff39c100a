#include "tests/kernels/backend.h"

#include <dlfcn.h>
#include <string.h>

#include "common/base/error.h"
#include "common/device/plugin.h"

// The emulation has functions beside the plug-in's symbols, which say what kernels must not touch.
static int open_cuda(struct backend *out)
{
    SL_TRY(sl_kernels_open_gpu(0, 0, &out->device, &out->kernels));
    void *library = dlopen(sl_plugin_path(), RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return SL_OK;
    *(void **)&out->forbid = dlsym(library, "sluice_simt_forbid");
    *(void **)&out->allow = dlsym(library, "sluice_simt_allow");
    out->is_emulated = out->forbid != NULL;
    int (*is_checked)(void) = NULL;
    *(void **)&is_checked = dlsym(library, "sluice_simt_is_checked");
    out->is_checked = is_checked && is_checked();
    return SL_OK;
}

int backend_open(const char *name, struct backend *out)
{
    memset(out, 0, sizeof *out);
    if (strcmp(name, "cuda") == 0)
        return open_cuda(out);
    out->kernels = sl_kernels_find(name);
    out->device = sl_device_host();
    return out->kernels ? SL_OK
                        : sl_fail(SL_EINVAL, "no back end is named '%s': ref, cpu or cuda", name);
}
