/*
 * exit_status.h - what the kernel says about the end of a process, in numbers and in words.
 *
 * A process is watched through a pidfd: it names this one process for ever (a process id may be
 * used again), it can be waited for in an event loop, and once it is readable the death is proved.
 */
#ifndef SL_BROKER_WORKERS_EXIT_STATUS_H
#define SL_BROKER_WORKERS_EXIT_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sl_exit_status {
    bool known;      // false: nobody could say how it ended
    int signal;      // 0, or the signal that killed it
    int exit_status; // when signal is 0
    bool core_dumped;
    bool oom_killed;         // the kernel's count of out-of-memory kills rose
    uint64_t peak_rss_bytes; // 0 = not known
};

// A descriptor (close-on-exec) for a child that has not been waited for; -1 where the kernel has no
// pidfds: the caller then depends on SIGCHLD alone.
int sl_exit_status_open(pid_t pid);

// Looks, without waiting and without reaping, how the process ended. False while it lives, or when
// somebody else has reaped it already.
bool sl_exit_status_read(int pidfd, struct sl_exit_status *out);

// Sends a signal to exactly this process; `pid` is used only where pidfd is -1.
void sl_exit_status_send(int pidfd, pid_t pid, int signal);

// Kernel's count of out-of-memory kills in this process's cgroup (or of the whole machine), from
// its start; 0 when it cannot be read.
uint64_t sl_exit_status_oom_kills(void);

// "was killed by SIGSEGV (segmentation fault)", "ended with exit status 3". Returns buf.
char *sl_exit_status_describe(const struct sl_exit_status *death, char *buf, size_t bytes);

#endif
