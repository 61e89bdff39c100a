/*
 * plugin_file.h - shared objects that lie beside the programs and are opened when they are needed:
 * the CUDA plug-in (common/device/plugin.h), the MPI plug-in (nodes/plugin.h).
 *
 * One is looked for in ../lib from the program's folder, in that folder, in ../../lib and in
 * ../../../lib, or where a variable of the environment says, and then nowhere else. Whether it is
 * of this build is its opener's business: each has a table and a number of its own.
 */
#ifndef SL_BASE_PLUGIN_FILE_H
#define SL_BASE_PLUGIN_FILE_H

#include <limits.h>

enum { SL_PLUGIN_PATH_BYTES = PATH_MAX + 64 };

struct sl_plugin_kind {
    const char *name;     // "CUDA"
    const char *file;     // "libsluice_cuda.so"
    const char *variable; // that names another file
    const char *symbol;   // the one function that it exports
    const char *build;    // how it is made: "build with CUDA=1 where nvcc is"
    int load_error;       // the code where the loader refuses it
};

// What the program at this path opens. SL_ENOENT: there is none, with where it was looked for;
// SL_ESYS.
int sl_plugin_file_find(const struct sl_plugin_kind *kind, const char *program,
                        char out[SL_PLUGIN_PATH_BYTES]);
// What this process opens. Where this code is in a library of another program, libsluice, the
// plug-in may be beside that.
int sl_plugin_file_find_own(const struct sl_plugin_kind *kind, char out[SL_PLUGIN_PATH_BYTES]);

// Opens it for as long as the process lives; *symbol is its function. load_error with the loader's
// words; SL_EPROTO: it has no such function.
int sl_plugin_file_load(const struct sl_plugin_kind *kind, const char *file, void **symbol);

#endif
