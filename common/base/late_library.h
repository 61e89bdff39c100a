/*
 * late_library.h - libraries of others that few runs need: opened when something is first asked of
 * them. Linked with a program they would take milliseconds of each of its starts: libzip brings
 * OpenSSL along, libmicrohttpd GnuTLS.
 *
 * Who uses one lists its functions once, and calls lib.zip_fread(...):
 *
 *     #define FUNCTIONS(X) X(zip_fread) X(zip_fclose)
 *     static struct { FUNCTIONS(SL_LATE_POINTER) } lib;
 *     static const struct sl_late_symbol symbols[] = {FUNCTIONS(SL_LATE_SYMBOL)};
 *
 * scripts/bundle and scripts/deb find the files' names in the programs.
 */
#ifndef SL_BASE_LATE_LIBRARY_H
#define SL_BASE_LATE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct sl_late_symbol {
    const char *name;
    void *pointer; // to the function's pointer
};

struct sl_late_library {
    const char *name;     // "libzip"
    const char *files[2]; // the first that is there; NULL: no other
    const char *package;  // of Debian
    const struct sl_late_symbol *symbols;
    size_t n_symbols;
    bool is_open; // guarded by late_library.c's lock
};

#define SL_LATE_POINTER(function) __typeof__(function) *function;
#define SL_LATE_SYMBOL(function)  {#function, &lib.function},

// Fills the pointers in, once; by any thread. The library stays open until the process ends.
// SL_ENOENT: it is not there, with the loader's words; SL_EUNSUPPORTED: it lacks a function.
int sl_late_library_open(struct sl_late_library *l);

#endif
