/*
 * descriptors.h - whether there are file descriptors left.
 *
 * For callers of a library that aborts the process when it gets none (libzmq does).
 */
#ifndef SL_BASE_DESCRIPTORS_H
#define SL_BASE_DESCRIPTORS_H

#include <stdbool.h>

enum { SL_DESCRIPTORS_MAX = 64 };

// Whether this process could open n more now (at most SL_DESCRIPTORS_MAX). They are not reserved:
// another thread may take them.
bool sl_descriptors_left(unsigned n);

// SL_EAGAIN, with what to do, when there are not.
int sl_descriptors_check(unsigned n, const char *what);

#endif
