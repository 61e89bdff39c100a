/*
 * zip_reader.h - zip files (numpy's .npz), zip64 included: their list of members, and members as
 * streams of bytes whose checksum is checked.
 */
#ifndef SL_DATASET_ZIP_READER_H
#define SL_DATASET_ZIP_READER_H

#include <stddef.h>
#include <stdint.h>

struct sl_zip_member {
    const char *name;
    uint64_t size;        // bytes of its content
    uint64_t stored_size; // of them in the file
    uint64_t offset;      // of its local header
    uint32_t crc;
    uint16_t method, flags;
};

struct sl_zip;

/*
 * SL_ENOENT, SL_EACCESS, SL_EIO; SL_EFORMAT for what is no zip file, truncated or damaged, with two
 * members of one name, or whose list leads out of the file.
 */
int sl_zip_open(const char *path, struct sl_zip **out);
void sl_zip_close(struct sl_zip *z); // NULL is fine

const char *sl_zip_path(const struct sl_zip *z);
size_t sl_zip_count(const struct sl_zip *z);
const struct sl_zip_member *sl_zip_member(const struct sl_zip *z, size_t i);
// NULL when there is none.
const struct sl_zip_member *sl_zip_find(const struct sl_zip *z, const char *name);

struct sl_zip_stream;

// The zip must outlive the stream. SL_EUNSUPPORTED for encryption and other methods than deflate.
int sl_zip_stream_open(const struct sl_zip *z, const struct sl_zip_member *m,
                       struct sl_zip_stream **out);
void sl_zip_stream_close(struct sl_zip_stream *s); // NULL is fine

/*
 * The next n bytes of the content, all of them: SL_EFORMAT when it ends before. With the last byte
 * of the content the checksum is verified.
 */
int sl_zip_stream_read(struct sl_zip_stream *s, void *buf, size_t n);

// Bytes of the content that are not read yet.
uint64_t sl_zip_stream_left(const struct sl_zip_stream *s);

#endif
