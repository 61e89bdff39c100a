#include "broker/meter/usage.h"

#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "broker/workers/worker_pool.h"

enum { BLOCK_BYTES = 512 }; // of st_blocks, whatever the file system

// --- what is shared ------------------------------------------------------------------------------

void sl_usage_share(struct sl_usage_shared *shared, int fd)
{
    struct statfs fs;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return;
    shared->bytes += (uint64_t)st.st_blocks * BLOCK_BYTES;
    if (shared->n < SL_USAGE_SHARED_MAX)
        shared->inode[shared->n++] = st.st_ino;
}

static bool is_shared(const struct sl_usage_shared *shared, uint64_t inode)
{
    for (uint32_t i = 0; i < shared->n; i++)
        if (shared->inode[i] == inode)
            return true;
    return false;
}

// --- a process -----------------------------------------------------------------------------------

static FILE *open_of(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return fopen(path, "re");
}

// Memory without a file that it has mapped as shared, and that is nobody else's. Mapped, not
// touched: the kernel would have to go through all pages for that.
static uint64_t mapped_alone(pid_t pid, const struct sl_usage_shared *shared)
{
    static const char *const files[] = {"/dev/zero (deleted)", "/memfd:"};
    uint64_t bytes = 0, begin, end, inode;
    char line[4608], flags[8];
    int path;
    FILE *f = open_of(pid, "maps");
    while (f && fgets(line, sizeof line, f)) {
        path = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %*x:%*x %" SCNu64 " %n", &begin, &end,
                   flags, &inode, &path) < 4 ||
            path == 0 || flags[3] != 's' || is_shared(shared, inode))
            continue;
        for (size_t i = 0; i < SL_COUNT_OF(files); i++)
            if (strncmp(line + path, files[i], strlen(files[i])) == 0)
                bytes += end - begin;
    }
    if (f)
        fclose(f);
    return bytes;
}

bool sl_usage_read(pid_t pid, const struct sl_usage_shared *shared, struct sl_usage *out)
{
    char line[256];
    uint64_t anon = 0, shmem = 0;
    *out = (struct sl_usage){0};
    FILE *f = open_of(pid, "status");
    if (!f)
        return false;
    const struct {
        const char *key;
        uint64_t *value;
    } keys[] = {
        {"VmHWM:", &out->peak_bytes},
        {"RssAnon:", &anon},
        {"RssFile:", &out->file_bytes},
        {"RssShmem:", &shmem},
    };
    bool any = false; // a zombie has no memory, and none of these lines
    while (fgets(line, sizeof line, f)) {
        for (size_t i = 0; i < SL_COUNT_OF(keys); i++) {
            size_t n = strlen(keys[i].key);
            if (strncmp(line, keys[i].key, n) != 0)
                continue;
            *keys[i].value = strtoull(line + n, NULL, 10) * 1024;
            any = true;
        }
    }
    fclose(f);
    out->private_bytes = anon + (shmem ? SL_MIN(shmem, mapped_alone(pid, shared)) : 0);
    return any;
}

// --- all of them ---------------------------------------------------------------------------------

void sl_usage_add(struct sl_usage_total *total, enum sl_usage_group group,
                  const struct sl_usage *process)
{
    total->private_bytes += process->private_bytes;
    total->file_bytes[group] = SL_MAX(total->file_bytes[group], process->file_bytes);
}

uint64_t sl_usage_held(const struct sl_usage_total *total, const struct sl_usage_shared *shared)
{
    return total->private_bytes + shared->bytes;
}

uint64_t sl_usage_used(const struct sl_usage_total *total, const struct sl_usage_shared *shared)
{
    // The broker has hardly more than the programs' files, which the others have as well.
    const uint64_t *file = total->file_bytes;
    return sl_usage_held(total, shared) +
           SL_MAX(file[SL_USAGE_BROKER], file[SL_USAGE_SAMPLERS] + file[SL_USAGE_TRAINERS]);
}

// --- memory use ----------------------------------------------------------------------------------

void sl_memory_use_poll(struct sl_memory_use *m, struct sl_worker_pool *workers,
                        struct sl_pool_worker *link, const struct sl_usage_shared *shared)
{
    struct sl_usage_total total = {0};
    struct sl_usage usage;
    if (sl_usage_read(getpid(), shared, &usage)) {
        sl_usage_add(&total, SL_USAGE_BROKER, &usage);
        m->broker_peak_bytes = SL_MAX(m->broker_peak_bytes, usage.peak_bytes);
    }
    for (uint32_t i = 0; i < workers->n; i++) {
        struct sl_pool_worker *w = &workers->list[i];
        m->worker_bytes[i] = 0;
        // An external trainer's memory is its own.
        if (!w->alive || w->external || !sl_usage_read(w->pid, shared, &usage))
            continue;
        sl_usage_add(&total, w->role == SL_ROLE_SAMPLER ? SL_USAGE_SAMPLERS : SL_USAGE_TRAINERS,
                     &usage);
        m->worker_bytes[i] = usage.private_bytes;
        w->peak_rss_bytes = SL_MAX(w->peak_rss_bytes, usage.peak_bytes);
    }
    if (link && link->alive && sl_usage_read(link->pid, shared, &usage)) {
        sl_usage_add(&total, SL_USAGE_BROKER, &usage);
        link->peak_rss_bytes = SL_MAX(link->peak_rss_bytes, usage.peak_bytes);
    }
    m->bytes = sl_usage_used(&total, shared);
    m->private_bytes = total.private_bytes;
    m->held_bytes = sl_usage_held(&total, shared);
    m->held_peak_bytes = SL_MAX(m->held_peak_bytes, m->held_bytes);
    m->peak_bytes = SL_MAX(m->peak_bytes, m->bytes);
}
