#include "common/base/advise.h"

#include <unistd.h>

void sl_advise(const void *p, uint64_t bytes, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)p & ~(page - 1);
    if (p && bytes)
        (void)madvise((void *)from, (uintptr_t)p + bytes - from, advice);
}
