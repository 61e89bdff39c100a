#include "common/base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

bool sl_descriptors_left(unsigned n)
{
    int taken[SL_DESCRIPTORS_MAX];
    unsigned have = 0;
    n = SL_MIN(n, (unsigned)SL_DESCRIPTORS_MAX);
    if (n > 0 && (taken[0] = open("/", O_PATH | O_CLOEXEC)) >= 0)
        have = 1;
    while (have > 0 && have < n && (taken[have] = fcntl(taken[0], F_DUPFD_CLOEXEC, 0)) >= 0)
        have++;
    bool enough = have == n;
    while (have > 0)
        close(taken[--have]);
    return enough;
}

int sl_descriptors_check(unsigned n, const char *what)
{
    struct rlimit limit = {0};
    if (sl_descriptors_left(n))
        return SL_OK;
    getrlimit(RLIMIT_NOFILE, &limit);
    return sl_fail(SL_EAGAIN,
                   "%s: too many open files: wanted %u more, and the limit is %llu: raise it with "
                   "'ulimit -n' (LimitNOFILE= of a service)",
                   what, n, (unsigned long long)limit.rlim_cur);
}
