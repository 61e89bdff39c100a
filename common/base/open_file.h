/*
 * open_file.h - a file that somebody names, opened for reading.
 */
#ifndef SL_COMMON_BASE_OPEN_FILE_H
#define SL_COMMON_BASE_OPEN_FILE_H

// A file descriptor, close-on-exec and non-blocking: to open a pipe of that name does not hang, and
// whoever wants a regular file finds out with fstat(). SL_ENOENT, SL_EACCES, SL_EIO.
int sl_open_file(const char *path);

#endif
