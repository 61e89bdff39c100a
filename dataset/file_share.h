/*
 * file_share.h - the same file in another data set directory: a hard link to it, or a copy where a
 * link cannot be made (another file system, somebody else's file) or is not wanted.
 */
#ifndef SL_DATASET_FILE_SHARE_H
#define SL_DATASET_FILE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct sl_file_share {
    bool copies; // wanted: links are not made

    // Found.
    uint64_t n_files, n_copied;
    uint64_t bytes; // that were copied
    char why[128];  // why a link could not be made; else empty
    char *piece;    // (owned)
};

// SL_EIO, where the drive has no room for a copy as well; SL_ENOMEM; SL_EABORTED.
int sl_file_share(struct sl_file_share *s, const char *from, const char *to);
// Whether `from` can have a second name `to`; it has none afterwards. What fails for another reason
// is left to sl_file_share() to tell.
bool sl_file_share_can_link(const char *from, const char *to);
void sl_file_share_fini(struct sl_file_share *s); // safe on a zeroed struct

#endif
