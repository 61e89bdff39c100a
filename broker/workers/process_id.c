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

uint64_t sl_process_id_start(pid_t pid)
{
    char path[64], text[1024], state = 'X';
    uint64_t start = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = pid > 0 ? fopen(path, "re") : NULL;
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    // The second field is a name in brackets, which may hold anything, brackets and blanks too.
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at + 1,
                      " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                      "%" SCNu64,
                      &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : start;
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
