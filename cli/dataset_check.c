#include "cli/dataset_check.h"

#include "common/text/progress.h"

#define WORTH_TELLING ((uint64_t)256 << 20) // bytes; a fraction of a second

static void begin(void *ctx, uint64_t bytes)
{
    if (bytes > WORTH_TELLING)
        sl_progress_begin(ctx, "checking the data set", bytes, "B");
}

static void add(void *ctx, uint64_t bytes)
{
    struct sl_progress *p = ctx;
    if (p->active)
        sl_progress_add(p, bytes);
}

int sl_dataset_check_open(const char *path, unsigned need, enum sl_dataset_check check, bool quiet,
                          struct sl_dataset *out)
{
    struct sl_progress progress;
    sl_progress_init(&progress, quiet);
    const struct sl_dataset_watch watch = {begin, add, &progress};
    int rc = sl_dataset_open_watched(path, need, check, 0, &watch, out);
    sl_progress_clear(&progress);
    return rc;
}
