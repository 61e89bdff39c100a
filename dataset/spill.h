/*
 * spill.h - an unnamed temporary file for what does not fit into memory, written and read at any
 * offset; it disappears with its process.
 */
#ifndef SL_DATASET_SPILL_H
#define SL_DATASET_SPILL_H

#include <stddef.h>
#include <stdint.h>

struct sl_spill {
    char *dir;
    const char *doing; // "sort edges": for messages
    int fd;            // -1 until something is reserved
    uint64_t bytes;    // reserved so far
};

// The file is made in `dir` at the first reservation. SL_ENOMEM.
int sl_spill_init(struct sl_spill *s, const char *dir, const char *doing);
void sl_spill_fini(struct sl_spill *s); // safe on a zeroed struct

// Room at the end of the file; *offset is where. One thread at a time. SL_EIO.
int sl_spill_reserve(struct sl_spill *s, uint64_t n_bytes, uint64_t *offset);

// From any thread. SL_EIO, with what to do about a full disk.
int sl_spill_write(const struct sl_spill *s, const void *data, size_t n_bytes, uint64_t offset);
int sl_spill_read(const struct sl_spill *s, void *data, size_t n_bytes, uint64_t offset);

// A part that is not needed again: its space is given back where the file system can.
void sl_spill_release(const struct sl_spill *s, uint64_t offset, uint64_t n_bytes);

#endif
