/*
 * atomic_file.h - files that appear whole or not at all.
 *
 * The bytes go to a file without a name in the target's directory, so that a killed writer leaves
 * nothing there; commit does fsync, gives it a hidden name ending in ".tmp", renames it and does
 * fsync of the directory, so after a crash at any instant the target is the old file or the new
 * one, never a mixture. On a file system that has no files without a name it has the hidden one
 * from the beginning.
 */
#ifndef SL_DATA_ATOMIC_FILE_H
#define SL_DATA_ATOMIC_FILE_H

#include <stddef.h>
#include <stdint.h>

struct sl_atomic_file {
    int fd;          // of the temporary file; the caller may write, pwrite and mmap it
    char *path;      // final name (owned); NULL = not open
    char *temp_path; // NULL = it has none yet
};

/*
 * Creates the temporary file for `path`, readable and writable, with the permissions of the umask.
 * SL_ENOENT when the directory is missing, SL_EACCESS when it cannot be written to, SL_EIO.
 */
int sl_atomic_file_open(const char *path, struct sl_atomic_file *out);

// Writes all of it at the file's position. SL_EIO, with "no space left" and so on in the message.
int sl_atomic_file_append(struct sl_atomic_file *f, const void *data, size_t n_bytes);

// Makes it durable under its final name. On failure the temporary file is removed; closed anyway.
int sl_atomic_file_commit(struct sl_atomic_file *f);

// Removes the temporary file. Safe on a zeroed, committed or aborted struct.
void sl_atomic_file_abort(struct sl_atomic_file *f);

// The three steps in one: replaces the contents of `path` by `data`.
int sl_atomic_file_write(const char *path, const void *data, size_t n_bytes);

// --- files without a name ------------------------------------------------------------------------

/*
 * A file of a directory that has no name, and ends with its last process.
 *
 * For data that is larger than the machine's memory and not needed afterwards. Mapped and shared,
 * the kernel writes it back and drops it as it needs memory. Who maps it reserves its
 * space first: where the disk is full a write through the mapping would be a SIGBUS.
 */
// An empty file, readable and writable, close-on-exec. Its descriptor, or -1 with errno set.
int sl_anon_file_open(const char *directory);

#endif
