#include "broker/workers/process_id.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/workers/exit_status.h"

char *sl_process_id_boot(char buf[SL_BOOT_ID_BYTES])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n = f ? fread(buf, 1, SL_BOOT_ID_BYTES - 1, f) : 0;
    if (f)
        fclose(f);
    buf[n] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    return buf;
}

bool sl_process_id_stat(pid_t pid, struct sl_process_stat *out)
{
    char path[64], text[1024];
    uint64_t user, system;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = pid > 0 ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    // The second field is a name in brackets, which may hold anything, brackets and blanks too.
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at + 1,
                      " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64 " %" SCNu64
                      " %*s %*s %*s %*s %*s %*s %" SCNu64,
                      &out->state, &user, &system, &out->start_ticks) != 4)
        return false;
    out->cpu_ticks = user + system;
    return true;
}

uint64_t sl_process_id_start(pid_t pid)
{
    struct sl_process_stat stat;
    bool there = sl_process_id_stat(pid, &stat) && stat.state != 'Z' && stat.state != 'X';
    return there ? stat.start_ticks : 0;
}

bool sl_process_id_kill(pid_t pid, uint64_t start)
{
    // The descriptor is of one process for ever: looked at after it was opened, it is the one.
    int pidfd = sl_exit_status_open(pid);
    bool there = start != 0 && sl_process_id_start(pid) == start;
    if (there)
        sl_exit_status_send(pidfd, pid, SIGKILL);
    if (pidfd >= 0)
        close(pidfd);
    return there;
}
