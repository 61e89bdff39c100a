/*
 * zip_reader.h - zip files (numpy's .npz) by libzip: their list of members, and members as streams
 * of bytes whose checksum is checked.
 */
#ifndef SL_DATASET_ZIP_READER_H
#define SL_DATASET_ZIP_READER_H

#include <stddef.h>
#include <stdint.h>

struct sl_zip;

/*
 * SL_ENOENT, SL_EACCESS, SL_EIO; SL_EFORMAT for what is no zip file, truncated or damaged, or has
 * two members of one name.
 */
int sl_zip_open(const char *path, struct sl_zip **out);
void sl_zip_close(struct sl_zip *z); // NULL is fine

const char *sl_zip_path(const struct sl_zip *z);
size_t sl_zip_count(const struct sl_zip *z);
const char *sl_zip_name(const struct sl_zip *z, size_t member);
// sl_zip_count() when there is none.
size_t sl_zip_find(const struct sl_zip *z, const char *name);

struct sl_zip_stream;

// The zip must outlive the stream; several may be open. SL_EUNSUPPORTED for encryption and other
// methods than deflate.
int sl_zip_stream_open(const struct sl_zip *z, size_t member, struct sl_zip_stream **out);
void sl_zip_stream_close(struct sl_zip_stream *s); // NULL is fine

/*
 * The next n bytes of the content, all of them: SL_EFORMAT when it ends before. With the last byte
 * of the content the checksum is verified.
 */
int sl_zip_stream_read(struct sl_zip_stream *s, void *buf, size_t n);

// Bytes of the content that are not read yet.
uint64_t sl_zip_stream_left(const struct sl_zip_stream *s);

#endif
