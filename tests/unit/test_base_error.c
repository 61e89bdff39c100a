// Messages: what sl_fail and its kin record, and for whom.
#include "common/base/error.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TEST(fail_records_the_message_and_returns_the_code)
{
    ck_assert_int_eq(sl_fail(SL_ERANGE, "id %d of %s", 7, "rows"), SL_ERANGE);
    ck_assert_str_eq(sl_error_message(), "id 7 of rows");
}

TEST(a_new_message_replaces_the_old_one)
{
    sl_fail(SL_EIO, "a long first message that must not shine through");
    sl_fail(SL_EIO, "second");
    ck_assert_str_eq(sl_error_message(), "second");
}

TEST(prefix_is_put_before_the_message)
{
    sl_fail(SL_EFORMAT, "magic is 'X'");
    ck_assert_int_eq(sl_fail_prefix(SL_EFORMAT, "file %s", "a.npy"), SL_EFORMAT);
    ck_assert_str_eq(sl_error_message(), "file a.npy: magic is 'X'");
    sl_fail_prefix(SL_EFORMAT, "data set %s", "d");
    ck_assert_str_eq(sl_error_message(), "data set d: file a.npy: magic is 'X'");
}

static int heard_code;
static char heard[64];

static int hear(int code, const char *text)
{
    heard_code = code;
    strncpy(heard, text, sizeof heard - 1);
    return code;
}

// A plug-in has errors of its own: the program that it is in keeps the message.
TEST(a_sink_hears_what_is_recorded)
{
    sl_error_set_sink(hear);
    sl_fail(SL_EIO, "disk %d", 3);
    ck_assert_int_eq(heard_code, SL_EIO);
    ck_assert_str_eq(heard, "disk 3");
    sl_error_set_sink(NULL);
    sl_fail(SL_EFAILED, "other");
    ck_assert_int_eq(heard_code, SL_EIO);
}

TEST(a_message_may_quote_the_one_before)
{
    sl_fail(SL_EIO, "inner");
    sl_fail(SL_EFAILED, "outer (%s)", sl_error_message());
    ck_assert_str_eq(sl_error_message(), "outer (inner)");
    sl_fail_prefix(SL_EFAILED, "again %s", sl_error_message());
    ck_assert_str_eq(sl_error_message(), "again outer (inner): outer (inner)");
}

TEST(errno_is_spelled_out)
{
    ck_assert_int_eq(sl_fail_errno(SL_ENOENT, ENOENT, "open %s", "x"), SL_ENOENT);
    ck_assert_str_eq(sl_error_message(), "open x: No such file or directory");
}

TEST(long_messages_are_cut_and_terminated)
{
    char text[10000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    sl_fail(SL_EIO, "%s", text);
    size_t n = strlen(sl_error_message());
    ck_assert_uint_gt(n, 1000);
    ck_assert_uint_lt(n, sizeof text - 1);
    ck_assert_uint_eq(strspn(sl_error_message(), "a"), n);
    sl_fail_prefix(SL_EIO, "%s", text);
    sl_fail_errno(SL_EIO, EIO, "%s", text);
    ck_assert_uint_lt(strlen(sl_error_message()), sizeof text - 1);
}

static void *other_thread(void *message)
{
    sl_fail(SL_EIO, "from the other thread");
    strcpy(message, sl_error_message());
    return NULL;
}

TEST(threads_have_messages_of_their_own)
{
    pthread_t thread;
    char theirs[100];
    sl_fail(SL_EIO, "mine");
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, theirs), 0);
    pthread_join(thread, NULL);
    ck_assert_str_eq(theirs, "from the other thread");
    ck_assert_str_eq(sl_error_message(), "mine");
}

TEST(without_a_message_there_is_still_text)
{
    ck_assert_str_ne(sl_error_message(), "");
}

TEST(every_code_has_a_text_of_its_own)
{
    static const int codes[] = {
#define CODE(name, value, text) SL_##name,
        SL_ERROR_MAP(CODE)
#undef CODE
    };
    size_t n = sizeof codes / sizeof codes[0];
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_lt(codes[i], 0);
        ck_assert_str_ne(sl_strerror(codes[i]), "unknown error");
        for (size_t j = 0; j < i; j++) {
            ck_assert_int_ne(codes[i], codes[j]);
            ck_assert_str_ne(sl_strerror(codes[i]), sl_strerror(codes[j]));
        }
    }
    ck_assert_str_eq(sl_strerror(SL_OK), "success");
    ck_assert_str_eq(sl_strerror(-9999), "unknown error");
    ck_assert_str_eq(sl_strerror(3), "unknown error");
}

static int try_it(int code)
{
    SL_TRY(code);
    return 77;
}

static int try_out(int code, int *cleaned)
{
    int rc = SL_OK;
    SL_TRY_OUT(code);
    rc = 77;
out:
    *cleaned = 1;
    return rc;
}

TEST(try_passes_errors_on_and_results_by)
{
    int cleaned = 0;
    ck_assert_int_eq(try_it(SL_EIO), SL_EIO);
    ck_assert_int_eq(try_it(SL_OK), 77);
    ck_assert_int_eq(try_it(5), 77); // a positive result is no error
    ck_assert_int_eq(try_out(SL_EAGAIN, &cleaned), SL_EAGAIN);
    ck_assert_int_eq(cleaned, 1);
    ck_assert_int_eq(try_out(SL_OK, &cleaned), 77);
}

RUN_TESTS(.timeout_s = 20)
