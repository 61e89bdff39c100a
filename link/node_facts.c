#include "link/node_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "common/base/open_file.h"
#include "common/base/version.h"
#include "common/data/dataset_contents.h"
#include "config/config.h"

enum { PATH_BYTES = 4096 };

static const size_t file_bytes_max = (size_t)4 << 30;

int sl_node_facts_digest(const char *path, uint64_t *digest)
{
    struct stat st;
    char *text;
    size_t n;
    int fd = sl_open_regular_file(path, &st);
    if (fd < 0)
        return fd;
    int rc = sl_read_whole_file(fd, path, file_bytes_max, &text, &n);
    close(fd);
    SL_TRY(rc);
    *digest = XXH3_64bits(text, n);
    free(text);
    return SL_OK;
}

static int add_program(struct sl_facts *f, const char *name, const char *path)
{
    uint64_t digest;
    SL_TRY(sl_node_facts_digest(path, &digest));
    return sl_facts_add(f, SL_FACT_SLUICE, name, "version %s of build %016llx", SL_VERSION,
                        (unsigned long long)digest);
}

int sl_node_facts_add_machine(struct sl_facts *f)
{
    SL_TRY(add_program(f, "", "/proc/self/exe"));
    SL_TRY(sl_facts_add(f, SL_FACT_ISA, "", "%s%s", sl_isa_name(sl_isa()),
                        sl_isa_has_bf16() ? " with bf16" : ""));
    return sl_facts_add(f, SL_FACT_PAGE, "", "%ld bytes", sysconf(_SC_PAGESIZE));
}

int sl_node_facts_add_programs(struct sl_facts *f)
{
    static const char *const names[] = {"sluice-broker", "sluice-sampler", "sluice-trainer"};
    char own[PATH_BYTES], path[PATH_BYTES + 32];
    const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n <= 0)
        return sl_fail_errno(SL_ESYS, errno, "finding this program's directory");
    own[n] = '\0';
    char *slash = strrchr(own, '/');
    for (size_t i = 0; i < SL_COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%.*s/%s", slash ? (int)(slash - own) : 0, own, names[i]);
        SL_TRY(add_program(f, names[i], path));
    }
    return SL_OK;
}

int sl_node_facts_add_dataset(struct sl_facts *f, const struct sl_dataset *ds)
{
    struct sl_dataset_content content[SL_DATASET_PARTS_MAX + 1];
    const uint32_t n = sl_dataset_contents(ds, content);
    for (uint32_t i = 0; i < n; i++)
        SL_TRY(sl_facts_add(f, SL_FACT_DATA, content[i].name, "%llu bytes, contents %016llx",
                            (unsigned long long)content[i].bytes,
                            (unsigned long long)content[i].digest));
    return SL_OK;
}

static int add_key(void *ctx, const char *path, const char *value)
{
    return sl_facts_add(ctx, SL_FACT_JOB, path, "%s", value);
}

int sl_node_facts_add_job(struct sl_facts *f, const char *config_json)
{
    return sl_config_each_shared(config_json, add_key, f);
}
