/*
 * usage.h - memory that the processes of a job use, and that they hold.
 *
 * PROBLEM. The arena, copies of the data set for all workers and the data set's files are mapped by
 * many processes, and the kernel counts a shared page in each of them. Samplers share other things
 * than trainers do, so neither the sum over the processes nor the largest one is what is there.
 *
 * DESIGN. What a job shares are a few files without names (memfd_create), whose descriptors the
 * broker has. Each counts once, by the blocks that it has: one fstat(), whatever its size, and a
 * page counts even if the process that touched it is gone. The rest is private: anonymous memory,
 * and mappings that are shared in name only, such as the memory that CUDA pins (of /dev/zero).
 *
 *      held    private memory of all processes, and each shared file once
 *      used    that, and pages of the data set's and the programs' files, which the system can take
 *              back. The kernel says how many a process has mapped and not which: those of the
 *              sampler that has most and of the trainer that has most, since samplers map the graph
 *              and trainers map features.
 *
 * A data set in a file system of memory (tmpfs) was there before the job and is there after it: it
 * is not held by it.
 */
#ifndef SL_BROKER_METER_USAGE_H
#define SL_BROKER_METER_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"

enum { SL_USAGE_SHARED_MAX = 16 };

// What the processes of a job share.
struct sl_usage_shared {
    uint64_t bytes; // of memory that it has
    uint32_t n;
    ino_t inode[SL_USAGE_SHARED_MAX]; // of files without names
};

// Counts the file, if it lies in memory. fd < 0: there is none.
void sl_usage_share(struct sl_usage_shared *shared, int fd);

struct sl_usage {
    uint64_t peak_bytes;    // largest resident set so far, shared pages included
    uint64_t private_bytes; // that nobody else has
    uint64_t file_bytes;
};

// From /proc/<pid>; false when the process is gone. All that it maps of `shared` is left out.
bool sl_usage_read(pid_t pid, const struct sl_usage_shared *shared, struct sl_usage *out);

// Who maps the same files of a data set.
enum sl_usage_group { SL_USAGE_BROKER, SL_USAGE_SAMPLERS, SL_USAGE_TRAINERS, SL_USAGE_GROUPS };

// Sums up one look at all processes.
struct sl_usage_total {
    uint64_t private_bytes, file_bytes[SL_USAGE_GROUPS];
};
void sl_usage_add(struct sl_usage_total *total, enum sl_usage_group group,
                  const struct sl_usage *process);
uint64_t sl_usage_held(const struct sl_usage_total *total, const struct sl_usage_shared *shared);
uint64_t sl_usage_used(const struct sl_usage_total *total, const struct sl_usage_shared *shared);

// --- memory use ----------------------------------------------------------------------------------

struct sl_pool_worker;
struct sl_worker_pool;

// The memory of a job's processes, as last looked at, and the most there was.
struct sl_memory_use {
    uint64_t bytes, peak_bytes; // of all processes together
    uint64_t held_bytes;        // of them what is no page of a file
    uint64_t held_peak_bytes;
    uint64_t private_bytes; // of them what is not shared either
    uint64_t shared_bytes;  // shared memory that there is, touched or not
    uint64_t broker_peak_bytes;
    uint64_t worker_bytes[2 * SL_CONFIG_MAX_DEVICES]; // private memory of each; 0: not there
};

// What is held, with the shared memory that nobody has touched yet.
static inline uint64_t sl_memory_use_promised(const struct sl_memory_use *m)
{
    const uint64_t whole = m->private_bytes + m->shared_bytes;
    return m->held_bytes > whole ? m->held_bytes : whole;
}

// Notes the peak of each worker, too. link: of a job over several nodes, or NULL. `shared`: what
// they share, as it is now.
void sl_memory_use_poll(struct sl_memory_use *m, struct sl_worker_pool *workers,
                        struct sl_pool_worker *link, const struct sl_usage_shared *shared);

#endif
