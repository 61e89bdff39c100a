/*
 * staging.h - a data set directory under construction.
 *
 * Everything is written into a hidden directory beside the final one and renamed at the end, so
 * that what was interrupted, failed or killed leaves nothing under the final name. The hidden
 * directory is locked while its process lives; what a killed process left is removed by the next
 * one that makes the same data set.
 */
#ifndef SL_DATASET_STAGING_H
#define SL_DATASET_STAGING_H

#include <stdbool.h>
#include <stddef.h>

enum { SL_STAGING_PATH_BYTES = 4096 };

struct sl_staging {
    char final[SL_STAGING_PATH_BYTES];
    char dir[SL_STAGING_PATH_BYTES]; // empty = not open
    char name[128];                  // last part of the final path
    bool force;
    int lock_fd;
};

/*
 * SL_EEXIST when `final` exists and is not to be replaced, or is something else than a data set
 * (which --force does not replace either); SL_ENOENT or SL_EACCESS for its parent. The parent must
 * exist. A zeroed struct is a closed one.
 */
int sl_staging_open(const char *final, bool force, struct sl_staging *out);

// Writes "DIR/name" into buf (SL_STAGING_PATH_BYTES) and returns it.
char *sl_staging_file(const struct sl_staging *st, const char *name, char *buf);

// Puts the directory under its final name; on failure it is removed.
int sl_staging_commit(struct sl_staging *st);

// Removes everything. Safe on a zeroed, committed or aborted struct.
void sl_staging_abort(struct sl_staging *st);

// Sum of the sizes of the files so far.
unsigned long long sl_staging_bytes(const struct sl_staging *st);

#endif
