// An array that one process makes and others map.
#include "common/ipc/shared_array.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"

enum { N = 3000000 / 8, NOTE = 4711 };

static int fd;
static int made; // times, by this process

static void setup(void)
{
    fd = memfd_create("array", 0);
    ck_assert_int_ge(fd, 0);
    made = 0;
}

static void teardown(void)
{
    close(fd);
}

static int count_up(void *ctx, void *data, uint64_t *note)
{
    uint64_t *at = data;
    for (uint64_t i = 0; i < N; i++)
        at[i] = i + *(const uint64_t *)ctx;
    *note = NOTE;
    made++;
    return SL_OK;
}

static int die_half_way(void *ctx, void *data, uint64_t *note)
{
    (void)ctx;
    memset(data, 0xff, N * 4);
    *note = 1;
    kill(getpid(), SIGKILL);
    return SL_OK;
}

static int refuse(void *ctx, void *data, uint64_t *note)
{
    (void)ctx, (void)data, (void)note;
    return sl_fail(SL_EINVAL, "edge 3 has weight -1");
}

static void assert_counts_from(const struct sl_shared_array *a, uint64_t first)
{
    const uint64_t *at = a->data;
    for (uint64_t i = 0; i < N; i++)
        if (at[i] != i + first)
            ck_abort_msg("element %zu is %zu, wanted %zu", (size_t)i, (size_t)at[i],
                         (size_t)(i + first));
    ck_assert_uint_eq(a->note, NOTE);
    ck_assert_uint_eq((uintptr_t)at % (2 << 20), 0);
}

static int open_from(uint64_t first, struct sl_shared_array *a)
{
    return sl_shared_array_open(fd, N * sizeof(uint64_t), count_up, &first, a);
}

START_TEST(the_first_makes_it_for_all)
{
    struct sl_shared_array a, b;
    ck_assert_int_eq(open_from(5, &a), SL_OK);
    ck_assert_int_eq(open_from(6, &b), SL_OK); // another array, if it were made
    ck_assert_int_eq(made, 1);
    ck_assert(a.made_here && !b.made_here);
    assert_counts_from(&a, 5);
    assert_counts_from(&b, 5);
    sl_shared_array_close(&a);
    assert_counts_from(&b, 5);
    sl_shared_array_close(&b);
    sl_shared_array_close(&b);
}
END_TEST

START_TEST(one_that_died_half_way_is_followed_by_the_next)
{
    pid_t child = fork();
    if (child == 0) {
        struct sl_shared_array a;
        sl_shared_array_open(fd, N * sizeof(uint64_t), die_half_way, NULL, &a);
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    struct sl_shared_array a;
    ck_assert_int_eq(open_from(9, &a), SL_OK);
    ck_assert(a.made_here);
    assert_counts_from(&a, 9);
    sl_shared_array_close(&a);
}
END_TEST

// All begin at once; each writes its own number, and all must read the same.
START_TEST(many_at_once_make_one)
{
    enum { CHILDREN = 6 };
    int go[2], result[2];
    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(result), 0);
    for (uint64_t c = 0; c < CHILDREN; c++)
        if (fork() == 0) {
            struct sl_shared_array a;
            uint64_t answer[2] = {0, 0};
            char word;
            close(go[1]);
            if (read(go[0], &word, 1) == 0 && open_from(100 * (c + 1), &a) == SL_OK) {
                answer[0] = *(const uint64_t *)a.data;
                answer[1] = a.made_here;
                assert_counts_from(&a, answer[0]);
            }
            ssize_t written = write(result[1], answer, sizeof answer);
            _exit(written != sizeof answer);
        }
    close(go[1]);
    uint64_t first = 0, makers = 0;
    for (int c = 0; c < CHILDREN; c++) {
        uint64_t answer[2];
        ck_assert_int_eq(read(result[0], answer, sizeof answer), sizeof answer);
        ck_assert_uint_ne(answer[0], 0);
        ck_assert(first == 0 || answer[0] == first);
        first = answer[0];
        makers += answer[1];
    }
    ck_assert_uint_eq(makers, 1);
    while (wait(NULL) > 0) {
    }
}
END_TEST

START_TEST(what_can_not_be_made_is_an_error_and_left_to_the_next)
{
    struct sl_shared_array a;
    ck_assert_int_eq(sl_shared_array_open(fd, N * sizeof(uint64_t), refuse, NULL, &a), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "edge 3"));
    ck_assert_ptr_null(a.data);
    ck_assert_int_eq(open_from(1, &a), SL_OK);
    assert_counts_from(&a, 1);
    sl_shared_array_close(&a);
    ck_assert_int_eq(sl_shared_array_open(fd, 2 * N * sizeof(uint64_t), count_up, &a, &a),
                     SL_EPROTO);
}
END_TEST

START_TEST(without_a_file_it_is_ones_own)
{
    uint64_t first = 2;
    struct sl_shared_array a;
    ck_assert_int_eq(sl_shared_array_open(-1, N * sizeof(uint64_t), count_up, &first, &a), SL_OK);
    assert_counts_from(&a, 2);
    sl_shared_array_close(&a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("shared_array");
    TCase *c = tcase_create("shared_array");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, the_first_makes_it_for_all);
    tcase_add_test(c, one_that_died_half_way_is_followed_by_the_next);
    tcase_add_test(c, many_at_once_make_one);
    tcase_add_test(c, what_can_not_be_made_is_an_error_and_left_to_the_next);
    tcase_add_test(c, without_a_file_it_is_ones_own);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
