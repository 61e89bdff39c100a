/*
 * usage.h - memory that the processes of a job use.
 *
 * The arena and the data set's files are mapped by every process, and the kernel counts a shared
 * page in each of them. The job's total therefore counts private memory of all processes plus the
 * shared memory and the file pages of whoever has most of them mapped: once, not once a process.
 */
#ifndef SL_BROKER_USAGE_H
#define SL_BROKER_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sl_usage {
    uint64_t peak_bytes; // largest resident set so far, shared pages included
    uint64_t anon_bytes, file_bytes, shmem_bytes;
};

// From /proc/<pid>/status; false when the process is gone.
bool sl_usage_read(pid_t pid, struct sl_usage *out);

// Sums up one look at all processes.
struct sl_usage_total {
    uint64_t anon_bytes, file_bytes, shmem_bytes;
};
void sl_usage_add(struct sl_usage_total *total, const struct sl_usage *process);
uint64_t sl_usage_bytes(const struct sl_usage_total *total);

#endif
