// job_memory.c - what the processes of a job hold, and what its own bound leaves.
#include "broker/job/job.h"

#include <sys/stat.h>

#include "common/base/bits.h"
#include "common/arena/seat.h"

// What one of them takes once it is filled. Learned rows on a drive and the test's graph are pages
// of a file, and of what updates of rows are made of only what batches touch is ever memory.
static uint64_t memory_of(const struct sl_job *job, int i, const struct stat *st)
{
    enum { BLOCK = 512 }; // of st_blocks
    if (i == SL_SHARED_ROWS_WORK)
        return (uint64_t)st->st_blocks * BLOCK;
    if (i == SL_SHARED_WIDER_GRAPH ||
        (i == SL_SHARED_ROWS && job->config.features.place == SL_ROWS_IN_FILE))
        return 0;
    return (uint64_t)st->st_size;
}

uint64_t sl_job_copied_bytes(const struct sl_job *job, enum sl_shared from)
{
    struct stat st;
    uint64_t bytes = 0;
    for (int i = from; i < SL_SHARED_COUNT; i++)
        if (job->shared_fd[i] >= 0 && fstat(job->shared_fd[i], &st) == 0)
            bytes += memory_of(job, i, &st);
    return bytes;
}

struct sl_usage_shared sl_job_shared(const struct sl_job *job)
{
    struct sl_usage_shared shared = {0};
    sl_usage_share(&shared, job->arena_fd);
    sl_usage_share(&shared, job->acts_fd);
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        sl_usage_share(&shared, job->shared_fd[i]);
    return shared;
}

void sl_job_poll_memory(struct sl_job *job)
{
    const struct sl_usage_shared shared = sl_job_shared(job);
    sl_memory_use_poll(&job->memory, &job->workers, job->nodes.pool.list, &shared);
    if (job->arena_shared_bytes == 0)
        return; // there is no arena yet
    job->memory.shared_bytes = job->arena_shared_bytes + sl_job_copied_bytes(job, SL_SHARED_SUMS);
    job->split.memory.shared = job->memory.shared_bytes;
}

uint64_t sl_job_memory_left(void *ctx)
{
    struct sl_job *job = ctx;
    const uint64_t bound = job->config.memory_bytes;
    sl_job_poll_memory(job);
    return bound - SL_MIN(sl_memory_use_promised(&job->memory), bound);
}

void sl_job_sample_memory(struct sl_job *job)
{
    if (job->config.memory_bytes == 0)
        sl_job_poll_memory(job);
    else if (job->arena.base)
        atomic_store(&job->arena.h->memory_left, sl_job_memory_left(job));
    for (uint32_t d = 0; job->arena.base && d < job->config.n_devices; d++) {
        const struct sl_seat *seat = sl_seat(&job->arena, sl_seat_trainer(&job->arena, d));
        job->cache_load_ns[d] = SL_MAX(job->cache_load_ns[d], atomic_load(&seat->cache_load_ns));
    }
}
