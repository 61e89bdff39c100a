/*
 * file_id.h - tells whether a file is still the same one, unchanged.
 *
 * The inode shows that another file took its place; size and modification time show that it was
 * written to. Not looked at:
 *
 *   the device   It says no more: another file of the same inode number, size and time of writing,
 *                to the nanosecond, is a copy. And network file systems and automounters give it
 *                anew when they mount.
 *   ctime_ns     It also changes by chmod, by a hard link, and when a file is renamed or loses its
 *                name, which are no reason to end a job. Whoever changes bytes and sets the times
 *                back (touch -d) is not found out. Where a difference costs no more than another
 *                look at the contents (dataset_record.c) it counts.
 */
#ifndef SL_DATA_FILE_ID_H
#define SL_DATA_FILE_ID_H

#include <stdint.h>
#include <sys/stat.h>

struct sl_file_id {
    uint64_t bytes, inode, mtime_ns, ctime_ns;
};

struct sl_file_id sl_file_id_of(const struct stat *st);

#define SL_FILE_ID_ADVICE "leave it as it is while a job uses it, and start the job again"

// Whether a file still is what it was: SL_OK, or SL_ECHANGED with a message that names `path` and
// says what is different. was may be NULL: nobody knows it yet.
int sl_file_id_check(const char *path, const struct sl_file_id *was, const struct stat *st);

#endif
