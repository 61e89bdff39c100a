#include "loader/programs.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"

static bool is_there(const char *folder)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/sluice-broker", folder);
    return access(path, X_OK) == 0;
}

// The folder of the file that this code was loaded from; "" where the loader does not say.
static void own_folder(char out[PATH_MAX])
{
    Dl_info info;
    out[0] = '\0';
    if (!dladdr((void *)own_folder, &info) || !info.dli_fname || !realpath(info.dli_fname, out))
        return;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
}

static bool find_near(const char *folder, char out[PATH_MAX])
{
    static const char *const from[] = {"", "/../bin", "/../../bin"};
    for (size_t i = 0; *folder && i < sizeof from / sizeof *from; i++)
        if (snprintf(out, PATH_MAX, "%s%s", folder, from[i]) < PATH_MAX && is_there(out))
            return true;
    return false;
}

static bool find_in_path(char out[PATH_MAX])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        const size_t n = strcspn(at, ":");
        if (n > 0 && n < PATH_MAX) {
            memcpy(out, at, n);
            out[n] = '\0';
            if (is_there(out))
                return true;
        }
        at += n + (at[n] == ':');
    }
    return false;
}

int sl_loader_programs(const char *given, char out[PATH_MAX])
{
    char folder[PATH_MAX];
    const char *named = given ? given : getenv("SLUICE_PROGRAMS");
    if (named && *named) {
        if (strlen(named) < PATH_MAX && is_there(named)) {
            strcpy(out, named);
            return SL_OK;
        }
        return sl_fail(
            SL_ENOENT,
            "starting a job: %s '%s': there is no program sluice-broker: wanted the folder "
            "of sluice's programs",
            given ? "programs" : "SLUICE_PROGRAMS", named);
    }
    own_folder(folder);
    if (find_near(folder, out) || find_in_path(out))
        return SL_OK;
    return sl_fail(
        SL_ENOENT,
        "starting a job: there is no program sluice-broker in '%s', in ../bin or ../../bin "
        "from there, nor in PATH: name the folder of sluice's programs in SLUICE_PROGRAMS",
        folder);
}
