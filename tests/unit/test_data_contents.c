// Digests of a data set's files, by which nodes compare theirs.
#include "common/data/dataset_contents.h"

#include <string.h>
#include <sys/mman.h>

#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

static struct sl_dataset_files files;
static struct sl_dataset dataset = {.files = &files};

static uint64_t digest(char *bytes, uint64_t n)
{
    struct sl_dataset_content found[SL_DATASET_PARTS_MAX + 1];
    files.npy[SL_FILE_FEAT] = (struct sl_npy){.map = bytes, .file_bytes = n};
    ck_assert_uint_eq(sl_dataset_contents(&dataset, found), 2);
    ck_assert_str_eq(found[0].name, "metadata.json");
    ck_assert_str_eq(found[1].name, "node_feat.npy");
    ck_assert_uint_eq(found[1].bytes, n);
    return found[1].digest;
}

static char *map(uint64_t n)
{
    char *p =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static const struct {
    uint64_t bytes, changed;
} changes[] = {
    {1000, 0},
    {1000, 999},
    {64 * MIB, 33333333}, // all of it
    {200 * MIB, 0},
    {200 * MIB, 200 * MIB - 1}, // a sample, its ends among it
};

LOOP_TEST(a_byte_that_is_another_shows, 0, sizeof changes / sizeof *changes)
{
    char *p = map(changes[_i].bytes);
    const uint64_t before = digest(p, changes[_i].bytes);
    ck_assert_uint_eq(digest(p, changes[_i].bytes), before);
    p[changes[_i].changed] = 1;
    ck_assert_uint_ne(digest(p, changes[_i].bytes), before);
}

// Wherever it begins: pieces are no further apart than a file's 1024th part.
TEST(a_large_file_that_is_another_from_somewhere_on_shows)
{
    const uint64_t n = 200 * (uint64_t)MIB;
    char *p = map(n);
    const uint64_t before = digest(p, n);
    memset(p + n / 2, 1, n / 1024);
    ck_assert_uint_ne(digest(p, n), before);
    ck_assert_uint_ne(digest(p, n - 1), digest(p, n));
}

RUN_TESTS(.timeout_s = 60)
