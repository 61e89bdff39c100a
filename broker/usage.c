#include "broker/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"

bool sl_usage_read(pid_t pid, struct sl_usage *out)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    memset(out, 0, sizeof *out);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    const struct {
        const char *key;
        uint64_t *value;
    } keys[] = {
        {"VmHWM:", &out->peak_bytes},
        {"RssAnon:", &out->anon_bytes},
        {"RssFile:", &out->file_bytes},
        {"RssShmem:", &out->shmem_bytes},
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
    return any;
}

void sl_usage_add(struct sl_usage_total *total, const struct sl_usage *process)
{
    total->anon_bytes += process->anon_bytes;
    total->file_bytes = SL_MAX(total->file_bytes, process->file_bytes);
    total->shmem_bytes = SL_MAX(total->shmem_bytes, process->shmem_bytes);
}

uint64_t sl_usage_bytes(const struct sl_usage_total *total)
{
    return total->anon_bytes + total->file_bytes + total->shmem_bytes;
}
