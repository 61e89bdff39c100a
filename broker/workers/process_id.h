/*
 * process_id.h - whether a process that a file names is still the same process.
 *
 * A process id is used again; together with the moment at which the process began it is not, as
 * long as the machine has not been started again.
 */
#ifndef SL_BROKER_WORKERS_PROCESS_ID_H
#define SL_BROKER_WORKERS_PROCESS_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SL_BOOT_ID_BYTES = 40 };

// This start of the machine; "" where the kernel does not tell. Returns buf.
char *sl_process_id_boot(char buf[SL_BOOT_ID_BYTES]);

// Of /proc/PID/stat.
struct sl_process_stat {
    char state;
    uint64_t cpu_ticks;   // of all its threads
    uint64_t start_ticks; // when it began, after the machine did
};

// False when there is no such process.
bool sl_process_id_stat(pid_t pid, struct sl_process_stat *out);

// When the process began, in ticks since the machine did; 0 when there is none (a zombie counts as
// none: it holds nothing any more).
uint64_t sl_process_id_start(pid_t pid);

// Sends SIGKILL to exactly this process. False when it is gone.
bool sl_process_id_kill(pid_t pid, uint64_t start);

#endif
