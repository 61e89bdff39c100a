#include "common/base/late_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int find_symbols(const struct sl_late_library *l, void *handle)
{
    for (size_t i = 0; i < l->n_symbols; i++) {
        void *found = dlsym(handle, l->symbols[i].name);
        if (!found)
            return sl_fail(SL_EUNSUPPORTED, "this machine's %s has no %s(): install package %s",
                           l->name, l->symbols[i].name, l->package);
        memcpy(l->symbols[i].pointer, &found, sizeof found);
    }
    return SL_OK;
}

static int load(const struct sl_late_library *l)
{
    void *handle = NULL;
    for (size_t i = 0; !handle && i < SL_COUNT_OF(l->files) && l->files[i]; i++)
        handle = dlopen(l->files[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return sl_fail(SL_ENOENT, "%s is not there (%s): install Debian's package %s", l->name,
                       dlerror(), l->package);
    const int rc = find_symbols(l, handle);
    if (rc < 0)
        dlclose(handle);
    return rc;
}

int sl_late_library_open(struct sl_late_library *l)
{
    int rc = SL_OK;
    pthread_mutex_lock(&lock);
    if (!l->is_open)
        rc = load(l);
    l->is_open = rc == SL_OK;
    pthread_mutex_unlock(&lock);
    return rc;
}
