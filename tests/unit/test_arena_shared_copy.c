// A copy of a part of the data set that one worker makes and all read.
#include "common/arena/shared_copy.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "tests/unit/suite.h"

#define MIB ((uint64_t)1 << 20)

enum { THREADS = 3 };

static int fd;
static unsigned char *from;
static const uint64_t bytes = 70 * MIB + 123; // three parts, the last of them no whole page

// For all tests: their processes have it too.
static void fill(void)
{
    from = malloc(bytes);
    if (!from)
        abort();
    for (uint64_t i = 0; i < bytes; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 24);
}

static void discard(void)
{
    free(from);
}

static void setup(void)
{
    fd = sl_shared_array_file();
    ck_assert_int_ge(fd, 0);
}

static void teardown(void)
{
    close(fd);
}

static struct sl_shared_copy all(void)
{
    return (struct sl_shared_copy){.fd = fd, .from = from, .bytes = bytes, .threads = THREADS};
}

static uint64_t held(void)
{
    struct stat st;
    ck_assert_int_eq(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

LOOP_TEST(all_of_it_is_there_once, 0, 6)
{
    static const uint64_t sizes[] = {1, 4096, 2 * MIB - 1, 2 * MIB, 33 * MIB + 5, bytes};
    struct sl_shared_copy copy = all();
    struct sl_shared_array a, b;
    copy.bytes = sizes[_i];
    ck_assert_int_eq(sl_shared_copy_open(&copy, &a), SL_OK);
    ck_assert_int_eq(memcmp(a.data, from, copy.bytes), 0);
    const uint64_t one = held();
    ck_assert_uint_ge(one, copy.bytes);
    ck_assert_uint_le(one, copy.bytes + 2 * 4096);
    // Not asked for any more once it is there.
    copy.from = NULL;
    ck_assert_int_eq(sl_shared_copy_open(&copy, &b), SL_OK);
    ck_assert(a.made_here && !b.made_here);
    ck_assert_int_eq(memcmp(b.data, from, copy.bytes), 0);
    ck_assert_uint_eq(held(), one);
    sl_shared_array_close(&a);
    sl_shared_array_close(&b);
}

TEST(whoever_dies_half_way_is_followed)
{
    struct sl_shared_copy copy = all();
    struct sl_shared_array a;
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv("SLUICE_FAILPOINT", "shared_copy", 1);
        sl_failpoint_init();
        sl_shared_copy_open(&copy, &a);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_uint_gt(held(), 0);
    ck_assert_int_eq(sl_shared_copy_open(&copy, &a), SL_OK);
    ck_assert(a.made_here);
    ck_assert_int_eq(memcmp(a.data, from, bytes), 0);
    sl_shared_array_close(&a);
}

static int asked;

static int may_not(void *ctx, uint64_t n)
{
    ck_assert_uint_eq(n, bytes);
    asked++;
    return *(int *)ctx ? SL_OK : sl_fail(SL_ENOMEM, "no room");
}

TEST(only_who_makes_it_asks_for_the_memory)
{
    int yes = 0;
    struct sl_shared_copy copy = all();
    struct sl_shared_array a, b;
    copy.may = may_not;
    copy.ctx = &yes;
    ck_assert_int_eq(sl_shared_copy_open(&copy, &a), SL_ENOMEM);
    ck_assert_uint_eq(held(), 4096); // the mark
    yes = 1;
    ck_assert_int_eq(sl_shared_copy_open(&copy, &a), SL_OK);
    yes = 0;
    ck_assert_int_eq(sl_shared_copy_open(&copy, &b), SL_OK);
    ck_assert_int_eq(asked, 2);
    sl_shared_array_close(&a);
    sl_shared_array_close(&b);
}

TEST(a_stop_ends_it_between_two_parts)
{
    _Atomic bool stops = true;
    struct sl_shared_copy copy = all();
    struct sl_shared_array a;
    copy.stops = &stops;
    ck_assert_int_eq(sl_shared_copy_open(&copy, &a), SL_EABORTED);
    ck_assert_ptr_null(a.data);
}

RUN_TESTS(.begin = fill, .end = discard, .setup = setup, .teardown = teardown, .timeout_s = 60)
