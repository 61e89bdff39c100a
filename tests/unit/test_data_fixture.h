/*
 * test_data_fixture.h - a scratch directory for each test program, and a small valid data set in it
 * for each test that wants one. The parent process removes the scratch directory at the end, so a
 * test that crashes leaves nothing either.
 */
#ifndef SL_TESTS_UNIT_TEST_DATA_FIXTURE_H
#define SL_TESTS_UNIT_TEST_DATA_FIXTURE_H

#include <dirent.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/npy.h"
#include "tests/unit/asserts.h"

static char scratch[256]; // of the program
static char dir[512];     // of the test: the data set

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static inline void scratch_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/sluice-test-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
    char cache[300];
    snprintf(cache, sizeof cache, "%s/cache", scratch);
    setenv("SLUICE_CACHE_DIR", cache, 1);
}

static inline void scratch_end(void)
{
    nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void dir_begin(void)
{
    snprintf(dir, sizeof dir, "%s/XXXXXX", scratch);
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

// A path inside the test's directory; valid until the next call but one.
static inline const char *in_dir(const char *name)
{
    static char path[2][1024];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static inline bool exists(const char *name)
{
    return access(in_dir(name), F_OK) == 0;
}

static inline void write_file(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(in_dir(name), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static inline void must(int rc)
{
    if (rc < 0)
        ck_abort_msg("%s", sl_error_message());
}

static inline void write_npy(const char *name, enum sl_dtype dtype, int ndim, const uint64_t *shape,
                             const void *data)
{
    struct sl_npy_writer *w;
    uint64_t n_bytes = sl_dtype_bytes(dtype);
    for (int i = 0; i < ndim; i++)
        n_bytes *= shape[i];
    must(sl_npy_writer_open(in_dir(name), dtype, ndim, shape, &w));
    must(sl_npy_writer_append(w, data, n_bytes));
    must(sl_npy_writer_commit(w));
}

static inline void write_list(const char *name, enum sl_dtype dtype, uint64_t n, const void *data)
{
    write_npy(name, dtype, 1, &n, data);
}

#define WRITE_I32(name, ...)                                                                       \
    write_list(name, SL_DTYPE_I32, sizeof((int32_t[]){__VA_ARGS__}) / 4, (int32_t[]){__VA_ARGS__})
#define WRITE_I64(name, ...)                                                                       \
    write_list(name, SL_DTYPE_I64, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})
#define WRITE_F32(name, ...)                                                                       \
    write_list(name, SL_DTYPE_F32, sizeof((float[]){__VA_ARGS__}) / 4, (float[]){__VA_ARGS__})

/*
 * 5 vertices, 7 edges: vertex 0 has no in-edges, vertex 4 is in-neighbour of nobody; 3 features,
 * 2 classes, vertex 4 without a label.
 */
static const char tiny_metadata[] =
    "{\"name\": \"tiny\", \"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, "
    "\"num_classes\": 2, \"task\": \"multiclass\", \"licence\": \"none\"}";

static inline void tiny_begin(void)
{
    static const float feat[15] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, -14};
    dir_begin();
    write_text("metadata.json", tiny_metadata);
    WRITE_I64("indptr.npy", 0, 0, 3, 5, 6, 7);
    WRITE_I32("indices.npy", 0, 2, 3, 1, 3, 0, 0);
    WRITE_F32("edge_weight.npy", 1, 2, 0, -0.0f, 1e-30f, 5, 6);
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){5, 3}, feat);
    WRITE_I32("node_label.npy", 0, 1, 1, 0, -1);
    WRITE_I64("train_idx.npy", 3, 1);
    WRITE_I64("val_idx.npy", 0);
    WRITE_I64("test_idx.npy", 2);
}

// Number of entries of the test's directory.
static inline int count_entries(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static inline void assert_message_has(const char *part)
{
    if (part && !strstr(sl_error_message(), part))
        ck_abort_msg("wanted \"%s\" in the message: %s", part, sl_error_message());
}

// A case of tests that each begin in an empty directory of their own.
#define IN_A_DIRECTORY .setup = dir_begin, .begin = scratch_begin, .end = scratch_end

#endif
