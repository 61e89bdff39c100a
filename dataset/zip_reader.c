#include "dataset/zip_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/late_library.h"
#include "common/base/open_file.h"

#define FUNCTIONS(X)                                                                               \
    X(zip_error_strerror)                                                                          \
    X(zip_error_code_zip)                                                                          \
    X(zip_error_init_with_code)                                                                    \
    X(zip_error_fini)                                                                              \
    X(zip_fdopen)                                                                                  \
    X(zip_discard)                                                                                 \
    X(zip_get_num_entries)                                                                         \
    X(zip_get_error)                                                                               \
    X(zip_get_name)                                                                                \
    X(zip_name_locate)                                                                             \
    X(zip_stat_index)                                                                              \
    X(zip_strerror)                                                                                \
    X(zip_fopen_index)                                                                             \
    X(zip_fclose)                                                                                  \
    X(zip_fread)                                                                                   \
    X(zip_file_strerror)

static struct {
    FUNCTIONS(SL_LATE_POINTER)
} lib;
static const struct sl_late_symbol symbols[] = {FUNCTIONS(SL_LATE_SYMBOL)};
// Debian 12 numbers it otherwise than its authors do; these functions are the same in both.
static struct sl_late_library library = {
    .name = "libzip",
    .files = {"libzip.so.4", "libzip.so.5"},
    .package = "libzip4",
    .symbols = symbols,
    .n_symbols = SL_COUNT_OF(symbols),
};

struct sl_zip {
    char *path;
    zip_t *archive;
    size_t n;
};

struct sl_zip_stream {
    const struct sl_zip *zip;
    const char *name;
    zip_file_t *file;
    uint64_t size, left; // of the content
};

// ---- the list of members ------------------------------------------------------------------------

static int fail_zip(const struct sl_zip *z, zip_error_t *error)
{
    const char *why = lib.zip_error_strerror(error);
    if (lib.zip_error_code_zip(error) == ZIP_ER_NOZIP)
        return sl_fail(SL_EFORMAT,
                       "%s: is not a zip file (numpy's .npz, PyTorch's .pt), or a truncated one",
                       z->path);
    if (lib.zip_error_code_zip(error) == ZIP_ER_EXISTS)
        return sl_fail(SL_EFORMAT, "%s: damaged zip file: two members have one name", z->path);
    if (lib.zip_error_code_zip(error) == ZIP_ER_MEMORY)
        return sl_fail(SL_ENOMEM, "%s: out of memory", z->path);
    return sl_fail(SL_EFORMAT, "%s: damaged zip file: %s: copy or download it again", z->path, why);
}

// The file is opened by us, since libzip would wait at a pipe.
static int open_archive(struct sl_zip *z)
{
    struct stat st;
    int code, rc = SL_OK, fd = sl_open_regular_file(z->path, &st);
    if (fd < 0)
        return fd;
    if (st.st_size == 0) {
        rc = sl_fail(SL_EFORMAT, "%s: is not a zip file (numpy's .npz, PyTorch's .pt): it is empty",
                     z->path);
    } else if (!(z->archive = lib.zip_fdopen(fd, ZIP_CHECKCONS, &code))) {
        zip_error_t error;
        lib.zip_error_init_with_code(&error, code);
        rc = fail_zip(z, &error);
        lib.zip_error_fini(&error);
    }
    if (!z->archive)
        close(fd);
    return rc;
}

static int check_names(struct sl_zip *z)
{
    z->n = (size_t)lib.zip_get_num_entries(z->archive, 0);
    for (size_t i = 0; i < z->n; i++)
        if (!sl_zip_name(z, i))
            return fail_zip(z, lib.zip_get_error(z->archive));
    return SL_OK;
}

int sl_zip_open(const char *path, struct sl_zip **out)
{
    *out = NULL;
    SL_TRY(sl_late_library_open(&library));
    struct sl_zip *z = calloc(1, sizeof *z);
    if (!z || !(z->path = strdup(path))) {
        free(z);
        return sl_fail(SL_ENOMEM, "%s: out of memory", path);
    }
    int rc = open_archive(z);
    if (rc == SL_OK)
        rc = check_names(z);
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
    if (z->archive)
        lib.zip_discard(z->archive);
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

const char *sl_zip_name(const struct sl_zip *z, size_t member)
{
    return lib.zip_get_name(z->archive, member, ZIP_FL_ENC_RAW);
}

size_t sl_zip_find(const struct sl_zip *z, const char *name)
{
    const zip_int64_t found = lib.zip_name_locate(z->archive, name, ZIP_FL_ENC_RAW);
    size_t i = 0;
    if (found >= 0)
        return (size_t)found;
    // libzip 1.7 looks a name that is not ASCII up as UTF-8, whatever it was asked for.
    while (i < z->n && strcmp(sl_zip_name(z, i), name) != 0)
        i++;
    return i;
}

// ---- content ------------------------------------------------------------------------------------

static int fail_member(const struct sl_zip_stream *s, int code, const char *what)
{
    return sl_fail(code, "%s: member %.200s: %s", s->zip->path, s->name, what);
}

static int open_member(struct sl_zip_stream *s, size_t member)
{
    zip_t *archive = s->zip->archive;
    zip_stat_t about;
    const zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (lib.zip_stat_index(archive, member, 0, &about) < 0 || (about.valid & wanted) != wanted)
        return fail_member(s, SL_EFORMAT, "nothing is known of it: damaged");
    s->size = s->left = about.size;
    if (about.encryption_method != ZIP_EM_NONE)
        return fail_member(s, SL_EUNSUPPORTED, "is encrypted: save it without");
    if (about.comp_method != ZIP_CM_STORE && about.comp_method != ZIP_CM_DEFLATE)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: member %.200s: is compressed by method %d%s, wanted deflate or none, "
                       "as numpy.savez and savez_compressed write",
                       s->zip->path, s->name, about.comp_method,
                       about.comp_method == ZIP_CM_BZIP2 ? " (bzip2)" : "");
    s->file = lib.zip_fopen_index(archive, member, 0);
    return s->file ? SL_OK : fail_member(s, SL_EFORMAT, lib.zip_strerror(archive));
}

int sl_zip_stream_open(const struct sl_zip *z, size_t member, struct sl_zip_stream **out)
{
    struct sl_zip_stream *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return sl_fail(SL_ENOMEM, "%s: out of memory", z->path);
    s->zip = z;
    s->name = sl_zip_name(z, member);
    int rc = open_member(s, member);
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
    if (s->file)
        lib.zip_fclose(s->file);
    free(s);
}

uint64_t sl_zip_stream_left(const struct sl_zip_stream *s)
{
    return s->left;
}

static int fail_content(const struct sl_zip_stream *s, const char *what)
{
    return sl_fail(SL_EFORMAT,
                   "%s: member %.200s: damaged: %s after %" PRIu64 " of %" PRIu64
                   " bytes: copy or download it again",
                   s->zip->path, s->name, what, s->size - s->left, s->size);
}

// The content is read: libzip compares size and checksum when it finds that nothing follows.
static int check_end(struct sl_zip_stream *s)
{
    char more;
    zip_int64_t got = lib.zip_fread(s->file, &more, 1);
    if (got == 0)
        return SL_OK;
    return fail_content(s, got > 0 ? "it goes on" : lib.zip_file_strerror(s->file));
}

int sl_zip_stream_read(struct sl_zip_stream *s, void *buf, size_t n)
{
    char *out = buf;
    if (n > s->left)
        return fail_content(s, "its content ends");
    while (n > 0) {
        zip_int64_t got = lib.zip_fread(s->file, out, n);
        if (got <= 0)
            return fail_content(s, got < 0 ? lib.zip_file_strerror(s->file) : "its content ends");
        s->left -= (uint64_t)got;
        out += got;
        n -= (size_t)got;
        if (s->left == 0)
            return check_end(s);
    }
    return SL_OK;
}
