/*
 * A zip file is read from its end: the end record says where the central directory is, and that
 * says what every member is called, how large it is and where it begins. Files or members of 4 GiB
 * and more have a second, wider end record and wider numbers in an "extra" field of the entry
 * (zip64): numpy writes that for every array that may become so large.
 *
 * The central directory is the one truth. A member's own header is only used to find its data, and
 * refused when it contradicts (another name or method): two readings of one file are how archives
 * deceive. All positions are checked against the file before they are followed. Content is read
 * with pread through a buffer: nothing is proportional to a member's size, so a small file that
 * claims a huge content costs no memory, and inflating stops at the size that was claimed.
 */
#include "dataset/zip_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/open_file.h"

enum {
    END_BYTES = 22,
    END_MAX_COMMENT = 65535,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    MAX_LIST_BYTES = 64 << 20,
    BUFFER_BYTES = 256 << 10,
    EXTRA_ZIP64 = 1,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    FLAG_ENCRYPTED = 1,
};

struct sl_zip {
    int fd;
    char *path;
    uint64_t file_bytes;
    uint64_t list_offset; // of the central directory: members end before it
    size_t n;
    struct sl_zip_member *members;
    char *names; // of all members
};

struct sl_zip_stream {
    const struct sl_zip *zip;
    const struct sl_zip_member *member;
    uint64_t at, end; // in the file: stored bytes that are not in the buffer yet
    uint64_t left;    // of the content
    uint32_t crc;
    bool inflating; // z is initialised
    z_stream z;
    size_t n_stored; // of the buffer, when nothing is inflated
    unsigned char *next;
    unsigned char buffer[BUFFER_BYTES];
};

static uint16_t get16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const unsigned char *p)
{
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const unsigned char *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static int read_at(const struct sl_zip *z, uint64_t offset, void *buf, size_t n)
{
    char *p = buf;
    while (n > 0) {
        ssize_t got = pread(z->fd, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_fail_errno(SL_EIO, errno, "%s: can not be read", z->path);
        if (got == 0)
            return sl_fail(SL_EFORMAT, "%s: became shorter while it was read", z->path);
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return SL_OK;
}

// ---- the list of members ------------------------------------------------------------------------

struct end_record {
    uint64_t n, list_bytes, list_offset;
    uint64_t limit; // where the list must end at the latest
};

static int fail_damaged(const struct sl_zip *z, const char *what)
{
    return sl_fail(SL_EFORMAT, "%s: damaged zip file: %s: copy or download it again", z->path,
                   what);
}

// The wider end record, when there is one: its place is in a locator just before the end record.
static int read_end64(const struct sl_zip *z, uint64_t end_at, struct end_record *end)
{
    unsigned char locator[LOCATOR_BYTES], b[END64_BYTES];
    if (end_at < LOCATOR_BYTES)
        return SL_OK;
    SL_TRY(read_at(z, end_at - LOCATOR_BYTES, locator, sizeof locator));
    if (memcmp(locator, "PK\6\7", 4) != 0)
        return SL_OK;
    uint64_t at = get64(locator + 8);
    if (end_at - LOCATOR_BYTES < END64_BYTES || at > end_at - LOCATOR_BYTES - END64_BYTES)
        return fail_damaged(z, "its zip64 end record is said to be outside the file");
    SL_TRY(read_at(z, at, b, sizeof b));
    if (memcmp(b, "PK\6\6", 4) != 0)
        return fail_damaged(z, "there is no zip64 end record where it is said to be");
    if (get32(b + 16) != 0 || get32(b + 20) != 0 || get32(locator + 16) > 1)
        return sl_fail(SL_EUNSUPPORTED, "%s: is one of several parts of a zip file: join them",
                       z->path);
    *end = (struct end_record){get64(b + 32), get64(b + 40), get64(b + 48), at};
    return SL_OK;
}

// Searches the end record backwards: behind it there is only a comment, whose length it knows.
static int find_end(const struct sl_zip *z, struct end_record *end)
{
    uint64_t span = SL_MIN(z->file_bytes, (uint64_t)END_BYTES + END_MAX_COMMENT);
    unsigned char *tail = malloc(span + 1);
    if (!tail)
        return sl_fail(SL_ENOMEM, "%s: out of memory", z->path);
    int rc = read_at(z, z->file_bytes - span, tail, span);
    const unsigned char *found = NULL;
    for (uint64_t i = END_BYTES; rc == SL_OK && i <= span && !found; i++) {
        const unsigned char *p = tail + span - i;
        if (memcmp(p, "PK\5\6", 4) == 0 && get16(p + 20) == i - END_BYTES)
            found = p;
    }
    if (rc == SL_OK && !found) {
        bool zip = span >= 4 && z->file_bytes <= span && memcmp(tail, "PK\3\4", 4) == 0;
        unsigned char first[4] = {0};
        if (!zip && z->file_bytes > span && read_at(z, 0, first, sizeof first) == SL_OK)
            zip = memcmp(first, "PK\3\4", 4) == 0;
        rc = zip ? sl_fail(SL_EFORMAT,
                           "%s: truncated: a zip file without its end record: copy or download it "
                           "again",
                           z->path)
                 : sl_fail(SL_EFORMAT, "%s: is not a zip file (numpy's .npz)%s", z->path,
                           z->file_bytes ? "" : ": it is empty");
    }
    if (rc == SL_OK && (get16(found + 4) != 0 || get16(found + 6) != 0) &&
        get16(found + 4) != 0xffff)
        rc = sl_fail(SL_EUNSUPPORTED, "%s: is one of several parts of a zip file: join them",
                     z->path);
    if (rc == SL_OK) {
        uint64_t at = z->file_bytes - span + (uint64_t)(found - tail);
        *end = (struct end_record){get16(found + 10), get32(found + 12), get32(found + 16), at};
        rc = read_end64(z, at, end);
    }
    free(tail);
    return rc;
}

// The wide numbers of an entry: those that are all ones in its narrow fields, in this order.
static int read_extra(const struct sl_zip *z, const unsigned char *p, size_t n,
                      struct sl_zip_member *m)
{
    while (n >= 4) {
        uint16_t id = get16(p), len = get16(p + 2);
        if (len > n - 4)
            break;
        if (id == EXTRA_ZIP64) {
            const unsigned char *q = p + 4, *end = q + len;
            uint64_t *const wide[] = {&m->size, &m->stored_size, &m->offset};
            for (size_t i = 0; i < SL_COUNT_OF(wide); i++) {
                if (*wide[i] != UINT32_MAX)
                    continue;
                if (end - q < 8)
                    return fail_damaged(z, "an entry of its list lacks its zip64 sizes");
                *wide[i] = get64(q);
                q += 8;
            }
            return SL_OK;
        }
        p += 4 + len;
        n -= 4u + len;
    }
    return SL_OK;
}

// Steps over an entry of the list; *text receives its name.
static int read_entry(struct sl_zip *z, const unsigned char **at, const unsigned char *end,
                      char **text, struct sl_zip_member *m)
{
    const unsigned char *p = *at;
    if (end - p < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0)
        return fail_damaged(z, "its list of members is cut off");
    size_t n_name = get16(p + 28), n_extra = get16(p + 30), n_comment = get16(p + 32);
    if ((size_t)(end - p) < ENTRY_BYTES + n_name + n_extra + n_comment)
        return fail_damaged(z, "its list of members is cut off");
    *m = (struct sl_zip_member){
        .name = *text,
        .size = get32(p + 24),
        .stored_size = get32(p + 20),
        .offset = get32(p + 42),
        .crc = get32(p + 16),
        .method = get16(p + 10),
        .flags = get16(p + 8),
    };
    memcpy(*text, p + ENTRY_BYTES, n_name);
    (*text)[n_name] = '\0';
    for (size_t i = 0; i < n_name; i++)
        if ((unsigned char)(*text)[i] < ' ' || (*text)[i] == 0x7f) // it is shown in messages
            return fail_damaged(z, "a member's name holds a control character");
    SL_TRY(read_extra(z, p + ENTRY_BYTES + n_name, n_extra, m));
    if (m->offset > z->list_offset || m->stored_size > z->list_offset - m->offset)
        return sl_fail(SL_EFORMAT,
                       "%s: member %.200s: %" PRIu64 " bytes at byte %" PRIu64
                       " lead out of the file's data (%" PRIu64 " bytes): it is damaged",
                       z->path, m->name, m->stored_size, m->offset, z->list_offset);
    *text += n_name + 1;
    *at = p + ENTRY_BYTES + n_name + n_extra + n_comment;
    return SL_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct sl_zip_member *const *)a)->name,
                  (*(const struct sl_zip_member *const *)b)->name);
}

static int check_names(const struct sl_zip *z)
{
    const struct sl_zip_member **sorted = malloc((z->n + 1) * sizeof *sorted);
    int rc = SL_OK;
    if (!sorted)
        return sl_fail(SL_ENOMEM, "%s: out of memory", z->path);
    for (size_t i = 0; i < z->n; i++)
        sorted[i] = &z->members[i];
    qsort(sorted, z->n, sizeof *sorted, by_name);
    for (size_t i = 1; i < z->n && rc == SL_OK; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            rc = sl_fail(SL_EFORMAT, "%s: has two members of the name %.200s: save it again",
                         z->path, sorted[i]->name);
    free(sorted);
    return rc;
}

static int read_list(struct sl_zip *z)
{
    struct end_record end = {0};
    SL_TRY(find_end(z, &end));
    if (end.list_offset > end.limit || end.list_bytes > end.limit - end.list_offset)
        return fail_damaged(z, "its list of members is said to be outside the file");
    if (end.list_bytes != end.limit - end.list_offset)
        return sl_fail(SL_EFORMAT,
                       "%s: damaged zip file: %" PRIu64
                       " bytes between its list of members and its end: is something in front of "
                       "it, or missing from it? Copy or download it again",
                       z->path, end.limit - end.list_offset - end.list_bytes);
    if (end.list_bytes > MAX_LIST_BYTES)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: its list of members has %" PRIu64 " bytes, at most %d "
                       "are supported",
                       z->path, end.list_bytes, (int)MAX_LIST_BYTES);
    if (end.n > end.list_bytes / ENTRY_BYTES)
        return fail_damaged(z, "it says that it has more members than its list has room for");
    z->list_offset = end.list_offset;
    // Every name gets a zero: an entry is longer than that.
    unsigned char *list = malloc(end.list_bytes + 1);
    z->names = malloc(end.list_bytes + 1);
    z->members = calloc(end.n + 1, sizeof *z->members);
    int rc = SL_OK;
    if (!list || !z->names || !z->members)
        rc = sl_fail(SL_ENOMEM, "%s: out of memory", z->path);
    else
        rc = read_at(z, end.list_offset, list, end.list_bytes);
    const unsigned char *at = list;
    char *text = z->names;
    for (; z->n < end.n && rc == SL_OK; z->n += rc == SL_OK)
        rc = read_entry(z, &at, list + end.list_bytes, &text, &z->members[z->n]);
    if (rc == SL_OK && at != list + end.list_bytes)
        rc = fail_damaged(z, "its list has more members than it says");
    free(list);
    return rc == SL_OK ? check_names(z) : rc;
}

int sl_zip_open(const char *path, struct sl_zip **out)
{
    struct stat st;
    struct sl_zip *z = calloc(1, sizeof *z);
    int rc = SL_OK;
    *out = NULL;
    if (!z || !(z->path = strdup(path))) {
        free(z);
        return sl_fail(SL_ENOMEM, "%s: out of memory", path);
    }
    z->fd = sl_open_file(path);
    if (z->fd < 0)
        rc = z->fd;
    else if (fstat(z->fd, &st) < 0)
        rc = sl_fail_errno(SL_EIO, errno, "%s", path);
    else if (!S_ISREG(st.st_mode))
        rc = sl_fail(SL_EFORMAT, "%s: is not a regular file", path);
    if (rc == SL_OK) {
        z->file_bytes = (uint64_t)st.st_size;
        rc = read_list(z);
    }
    if (rc < 0)
        sl_zip_close(z);
    else
        *out = z;
    return rc;
}

void sl_zip_close(struct sl_zip *z)
{
    if (!z)
        return;
    if (z->fd >= 0)
        close(z->fd);
    free(z->members);
    free(z->names);
    free(z->path);
    free(z);
}

const char *sl_zip_path(const struct sl_zip *z)
{
    return z->path;
}

size_t sl_zip_count(const struct sl_zip *z)
{
    return z->n;
}

const struct sl_zip_member *sl_zip_member(const struct sl_zip *z, size_t i)
{
    return &z->members[i];
}

const struct sl_zip_member *sl_zip_find(const struct sl_zip *z, const char *name)
{
    for (size_t i = 0; i < z->n; i++)
        if (strcmp(z->members[i].name, name) == 0)
            return &z->members[i];
    return NULL;
}

// ---- content ------------------------------------------------------------------------------------

static const char *method_name(uint16_t method)
{
    return method == 9    ? "deflate64"
           : method == 12 ? "bzip2"
           : method == 14 ? "lzma"
           : method == 93 ? "zstandard"
                          : "unknown";
}

// Finds the content behind the member's own header.
static int find_content(struct sl_zip_stream *s)
{
    const struct sl_zip *z = s->zip;
    const struct sl_zip_member *m = s->member;
    unsigned char b[LOCAL_BYTES];
    size_t n_name = strlen(m->name);
    char name[4096];
    if (z->list_offset - m->offset < LOCAL_BYTES)
        return sl_fail(SL_EFORMAT, "%s: member %.200s: no room for its header: damaged", z->path,
                       m->name);
    SL_TRY(read_at(z, m->offset, b, sizeof b));
    if (memcmp(b, "PK\3\4", 4) != 0)
        return sl_fail(SL_EFORMAT,
                       "%s: member %.200s: does not begin at byte %" PRIu64 ": damaged: copy or "
                       "download it again",
                       z->path, m->name, m->offset);
    s->at = m->offset + LOCAL_BYTES + get16(b + 26) + get16(b + 28);
    if (s->at > z->list_offset || m->stored_size > z->list_offset - s->at)
        return sl_fail(SL_EFORMAT,
                       "%s: member %.200s: its %" PRIu64 " bytes lead out of the file: "
                       "damaged",
                       z->path, m->name, m->stored_size);
    bool same = get16(b + 26) == n_name && n_name < sizeof name && get16(b + 8) == m->method;
    if (same)
        SL_TRY(read_at(z, m->offset + LOCAL_BYTES, name, n_name));
    if (!same || memcmp(name, m->name, n_name) != 0)
        return sl_fail(SL_EFORMAT,
                       "%s: member %.200s: its own header and the list of members contradict each "
                       "other: damaged",
                       z->path, m->name);
    s->end = s->at + m->stored_size;
    return SL_OK;
}

int sl_zip_stream_open(const struct sl_zip *z, const struct sl_zip_member *m,
                       struct sl_zip_stream **out)
{
    *out = NULL;
    if (m->flags & FLAG_ENCRYPTED)
        return sl_fail(SL_EUNSUPPORTED, "%s: member %.200s: is encrypted: save it without", z->path,
                       m->name);
    if (m->method != METHOD_STORED && m->method != METHOD_DEFLATED)
        return sl_fail(
            SL_EUNSUPPORTED,
            "%s: member %.200s: is compressed by method %u (%s), wanted deflate or none, "
            "as numpy.savez and savez_compressed write",
            z->path, m->name, m->method, method_name(m->method));
    if (m->method == METHOD_STORED && m->size != m->stored_size)
        return sl_fail(SL_EFORMAT, "%s: member %.200s: two sizes for one content: damaged", z->path,
                       m->name);
    struct sl_zip_stream *s = calloc(1, sizeof *s);
    if (!s)
        return sl_fail(SL_ENOMEM, "%s: out of memory", z->path);
    s->zip = z;
    s->member = m;
    s->left = m->size;
    s->crc = (uint32_t)crc32(0, NULL, 0);
    int rc = find_content(s);
    if (rc == SL_OK && m->method == METHOD_DEFLATED) {
        s->inflating = inflateInit2(&s->z, -MAX_WBITS) == Z_OK;
        if (!s->inflating)
            rc = sl_fail(SL_ENOMEM, "%s: out of memory", z->path);
    }
    if (rc < 0)
        sl_zip_stream_close(s);
    else
        *out = s;
    return rc;
}

void sl_zip_stream_close(struct sl_zip_stream *s)
{
    if (!s)
        return;
    if (s->inflating)
        inflateEnd(&s->z);
    free(s);
}

uint64_t sl_zip_stream_left(const struct sl_zip_stream *s)
{
    return s->left;
}

static int fail_content(const struct sl_zip_stream *s, const char *what)
{
    return sl_fail(SL_EFORMAT,
                   "%s: member %.200s: %s after %" PRIu64 " of %" PRIu64
                   " bytes: copy or download it again",
                   s->zip->path, s->member->name, what, s->member->size - s->left, s->member->size);
}

// Fills the empty buffer with the next stored bytes; *n = 0 at their end.
static int fill(struct sl_zip_stream *s, size_t *n)
{
    *n = (size_t)SL_MIN(s->end - s->at, (uint64_t)BUFFER_BYTES);
    SL_TRY(read_at(s->zip, s->at, s->buffer, *n));
    s->at += *n;
    s->next = s->buffer;
    return SL_OK;
}

static int copy_some(struct sl_zip_stream *s, unsigned char *out, size_t *n)
{
    if (s->n_stored == 0)
        SL_TRY(fill(s, &s->n_stored));
    *n = SL_MIN(*n, s->n_stored);
    memcpy(out, s->next, *n);
    s->next += *n;
    s->n_stored -= *n;
    return SL_OK;
}

// At least one byte into out (room for *n), or an error.
static int inflate_some(struct sl_zip_stream *s, unsigned char *out, size_t *n)
{
    uInt room = (uInt)SL_MIN(*n, (size_t)1 << 30);
    s->z.next_out = out;
    s->z.avail_out = room;
    while (s->z.avail_out == room) {
        if (s->z.avail_in == 0) {
            size_t got;
            SL_TRY(fill(s, &got));
            if (got == 0)
                return fail_content(s, "its compressed data ends");
            s->z.next_in = s->buffer;
            s->z.avail_in = (uInt)got;
        }
        int status = inflate(&s->z, Z_NO_FLUSH);
        if (status == Z_STREAM_END && s->z.avail_out == room)
            return fail_content(s, "its compressed data ends");
        if (status != Z_OK && status != Z_STREAM_END)
            return fail_content(s, status == Z_MEM_ERROR ? "out of memory"
                                                         : "its compressed data is damaged");
    }
    *n = room - s->z.avail_out;
    return SL_OK;
}

// The content is read: nothing more may follow, and its checksum must be right.
static int check_end(struct sl_zip_stream *s)
{
    unsigned char more;
    if (s->inflating) {
        int status = Z_OK;
        while (status == Z_OK) {
            size_t got;
            s->z.next_out = &more;
            s->z.avail_out = 1;
            if (s->z.avail_in == 0) {
                SL_TRY(fill(s, &got));
                s->z.next_in = s->buffer;
                s->z.avail_in = (uInt)got;
            }
            status = inflate(&s->z, Z_FINISH);
            if (s->z.avail_out == 0)
                return fail_content(s, "it goes on");
            if (status == Z_BUF_ERROR && s->z.avail_in == 0 && s->at < s->end)
                status = Z_OK;
        }
        if (status != Z_STREAM_END)
            return fail_content(s, "its compressed data is damaged");
    }
    if (s->crc != s->member->crc)
        return sl_fail(SL_EFORMAT,
                       "%s: member %.200s: damaged: its checksum is %08" PRIx32
                       ", wanted %08" PRIx32 ": copy or download it again",
                       s->zip->path, s->member->name, s->crc, s->member->crc);
    return SL_OK;
}

int sl_zip_stream_read(struct sl_zip_stream *s, void *buf, size_t n)
{
    unsigned char *out = buf;
    if (n > s->left)
        return fail_content(s, "its content ends");
    if (n == 0 && s->left == 0 && s->member->size == 0)
        return check_end(s);
    while (n > 0) {
        size_t got = n;
        SL_TRY(s->inflating ? inflate_some(s, out, &got) : copy_some(s, out, &got));
        // zlib takes 32-bit lengths.
        s->crc = (uint32_t)crc32_z(s->crc, out, got);
        s->left -= got;
        out += got;
        n -= got;
        if (s->left == 0)
            return check_end(s);
    }
    return SL_OK;
}
