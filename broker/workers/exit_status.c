#include "broker/workers/exit_status.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cgroup.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

int sl_exit_status_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0); // always close-on-exec
}

bool sl_exit_status_read(int pidfd, struct sl_exit_status *out)
{
    siginfo_t info;
    struct rusage usage;
    memset(&info, 0, sizeof info);
    memset(&usage, 0, sizeof usage);
    // The raw call: unlike the library's it tells the resources used. WNOWAIT leaves the body for
    // libuv, which reaps its children itself.
    if (syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOWAIT | WNOHANG, &usage) != 0 ||
        info.si_pid == 0)
        return false;
    bool killed = info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    out->known = true;
    out->signal = killed ? info.si_status : 0;
    out->exit_status = killed ? 0 : info.si_status;
    out->core_dumped = info.si_code == CLD_DUMPED;
    out->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    return true;
}

void sl_exit_status_send(int pidfd, pid_t pid, int signal)
{
    // A process that is gone already needs no signal.
    if (pidfd >= 0)
        syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
    else
        kill(pid, signal);
}

// --- the out-of-memory killer --------------------------------------------------------------------

static bool read_count(const char *dir, const char *name, uint64_t *count)
{
    char text[SL_CGROUP_TEXT_BYTES];
    const char *at = sl_cgroup_read(dir, name, text) ? strstr(text, "oom_kill ") : NULL;
    return at && sscanf(at, "oom_kill %" SCNu64, count) == 1;
}

struct oom_kills {
    uint64_t n;
    bool known;
};

// Of the innermost group that keeps a count.
static void take_count(void *ctx, const char *dir, enum sl_cgroup_version version)
{
    struct oom_kills *kills = ctx;
    const char *name = version == SL_CGROUP_V2 ? "memory.events" : "memory.oom_control";
    kills->known = kills->known || read_count(dir, name, &kills->n);
}

uint64_t sl_exit_status_oom_kills(void)
{
    struct oom_kills kills = {0};
    sl_cgroup_each("", "memory", take_count, &kills);
    // The root group keeps no count: then the machine's.
    if (!kills.known)
        read_count("/proc", "vmstat", &kills.n);
    return kills.n;
}

// --- words ---------------------------------------------------------------------------------------

char *sl_exit_status_describe(const struct sl_exit_status *death, char *buf, size_t bytes)
{
    if (!death->known) {
        snprintf(buf, bytes, "ended, and its exit status is not known");
        return buf;
    }
    if (death->signal == 0) {
        snprintf(buf, bytes, "ended with exit status %d", death->exit_status);
        return buf;
    }
    const char *abbreviation = sigabbrev_np(death->signal);
    const char *meaning = sigdescr_np(death->signal);
    char name[32], lower[64] = "";
    if (abbreviation)
        snprintf(name, sizeof name, "SIG%s", abbreviation);
    else
        snprintf(name, sizeof name, "signal %d", death->signal);
    if (death->signal == SIGKILL)
        meaning = death->oom_killed ? "by the kernel: memory ran out"
                                    : "by a user, or by the kernel when memory ran out";
    else if (meaning) {
        snprintf(lower, sizeof lower, "%s", meaning);
        if (lower[0] >= 'A' && lower[0] <= 'Z')
            lower[0] = (char)(lower[0] - 'A' + 'a');
        meaning = lower;
    }
    snprintf(buf, bytes, "was killed by %s%s%s%s%s", name, meaning ? " (" : "",
             meaning ? meaning : "", meaning ? ")" : "", death->core_dumped ? ", core dumped" : "");
    return buf;
}
