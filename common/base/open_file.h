/*
 * open_file.h - opens and reads files that users name.
 */
#ifndef SL_BASE_OPEN_FILE_H
#define SL_BASE_OPEN_FILE_H

#include <stddef.h>
#include <sys/stat.h>

// A file descriptor, close-on-exec and non-blocking: to open a pipe of that name does not hang, and
// whoever wants a regular file finds out with fstat(). SL_ENOENT, SL_EACCES, SL_EIO.
int sl_open_file(const char *path);

// The same of a regular file; SL_EFORMAT for others.
int sl_open_regular_file(const char *path, struct stat *st);

// The whole of an open regular file, NUL-terminated (owned: free()), whatever its descriptor's
// position, which stays. It may become shorter while it is read. n may be NULL. SL_EFORMAT: no
// regular file, or larger than bytes_max; SL_EIO; SL_ENOMEM.
int sl_read_whole_file(int fd, const char *path, size_t bytes_max, char **text, size_t *n);

#endif
