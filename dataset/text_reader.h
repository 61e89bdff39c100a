/*
 * text_reader.h - a text file, plain or gzip, as blocks of whole lines.
 *
 * A thread reads and inflates ahead while the caller parses, so a compressed file costs the slower
 * of the two and not their sum. Memory: two blocks.
 */
#ifndef SL_DATASET_TEXT_READER_H
#define SL_DATASET_TEXT_READER_H

#include <stdint.h>

struct sl_text_reader;

// "-" is standard input. SL_ENOENT, SL_EACCESS, SL_EIO; SL_EFORMAT for a .gz that is not gzip.
int sl_text_reader_open(const char *path, struct sl_text_reader **out);
void sl_text_reader_close(struct sl_text_reader *r); // NULL is fine

/*
 * The next block: [*begin, *end) is one or more whole lines, the last byte a '\n' (added when the
 * file's last line lacks it), and **end is '\0'. Borrowed until the next call. *begin == *end after
 * the last block. UTF-8's mark at the beginning is left out. SL_EFORMAT for damaged gzip, a line
 * over 64 MiB, UTF-16 and UTF-32; SL_EIO.
 */
int sl_text_reader_next(struct sl_text_reader *r, const char **begin, const char **end);

// Bytes of the file (compressed) read so far, and its size (0 = not known).
uint64_t sl_text_reader_position(const struct sl_text_reader *r);
uint64_t sl_text_reader_size(const struct sl_text_reader *r);

#endif
