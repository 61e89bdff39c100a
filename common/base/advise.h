// advise.h - tells the system how mapped memory is going to be read.
#ifndef SL_BASE_ADVISE_H
#define SL_BASE_ADVISE_H

#include <stdint.h>
#include <sys/mman.h>

/*
 * madvise() for the pages of [p, p + bytes): MADV_SEQUENTIAL, MADV_RANDOM, MADV_WILLNEED,
 * MADV_NORMAL. Only for advice that does not change the contents of pages. A hint: it is no error
 * when the system ignores it.
 */
void sl_advise(const void *p, uint64_t bytes, int advice);

#endif
