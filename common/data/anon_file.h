/*
 * anon_file.h - a file of a directory that has no name, and ends with its last process.
 *
 * For what is larger than the machine's memory and is of nobody's interest afterwards. Mapped and
 * shared, the kernel writes it back and forgets it as it needs memory. Who maps it reserves its
 * space first: where the disk is full a write through the mapping would be a SIGBUS.
 */
#ifndef SL_DATA_ANON_FILE_H
#define SL_DATA_ANON_FILE_H

// An empty file, readable and writable, close-on-exec. Its descriptor, or -1 with errno set.
int sl_anon_file_open(const char *directory);

#endif
