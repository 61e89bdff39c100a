/*
 * anon_file.h - a file without a name in a directory, which disappears with its last process.
 *
 * For data that is larger than the machine's memory and not needed afterwards. Mapped and shared,
 * the kernel writes it back and drops it as it needs memory. Who maps it reserves its
 * space first: where the disk is full a write through the mapping would be a SIGBUS.
 */
#ifndef SL_DATA_ANON_FILE_H
#define SL_DATA_ANON_FILE_H

// An empty file, readable and writable, close-on-exec. Its descriptor, or -1 with errno set.
int sl_anon_file_open(const char *directory);

#endif
