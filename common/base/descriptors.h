/*
 * descriptors.h - whether there are file descriptors left.
 *
 * For who is about to use a library that ends the process when it gets none (libzmq does).
 */
#ifndef SL_BASE_DESCRIPTORS_H
#define SL_BASE_DESCRIPTORS_H

#include <stdbool.h>

enum { SL_DESCRIPTORS_MAX = 64 };

// Whether this process could open n more now (at most SL_DESCRIPTORS_MAX). Nothing is kept for it:
// another thread may be quicker.
bool sl_descriptors_left(unsigned n);

// SL_EAGAIN, with what to do, when there are not.
int sl_descriptors_check(unsigned n, const char *what);

#endif
