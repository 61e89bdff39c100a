// advise.h - how mapped memory is going to be read, so that the system reads files ahead, or not.
#ifndef SL_BASE_ADVISE_H
#define SL_BASE_ADVISE_H

#include <stdint.h>
#include <sys/mman.h>

/*
 * madvise() for the pages of [p, p + bytes): MADV_SEQUENTIAL, MADV_RANDOM, MADV_WILLNEED,
 * MADV_NORMAL. Only for advices that leave what pages hold as it is. A hint: that the system takes
 * none is no error.
 */
void sl_advise(const void *p, uint64_t bytes, int advice);

#endif
