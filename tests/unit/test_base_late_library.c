// Libraries that are opened at their first use.
#include "common/base/late_library.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

// libm is there wherever these tests are.
#define FUNCTIONS(X) X(hypot) X(fdim)
static struct {
    FUNCTIONS(SL_LATE_POINTER)
} lib;
static const struct sl_late_symbol symbols[] = {FUNCTIONS(SL_LATE_SYMBOL)};

static void assert_said(const char *text)
{
    ck_assert_msg(strstr(sl_error_message(), text), "%s", sl_error_message());
}

static struct sl_late_library of_files(const char *first, const char *second)
{
    return (struct sl_late_library){.name = "libfirst",
                                    .files = {first, second},
                                    .package = "libfirst1",
                                    .symbols = symbols,
                                    .n_symbols = SL_COUNT_OF(symbols)};
}

TEST(the_first_file_that_is_there_is_opened_once)
{
    struct sl_late_library l = of_files("libsluice_none.so.1", "libm.so.6");
    ck_assert_int_eq(sl_late_library_open(&l), SL_OK);
    ck_assert_double_eq(lib.hypot(3, 4), 5);
    ck_assert_double_eq(lib.fdim(5, 2), 3);
    lib.hypot = NULL;
    ck_assert_int_eq(sl_late_library_open(&l), SL_OK);
    ck_assert_ptr_null(lib.hypot);
}

TEST(what_is_not_there_is_named_with_its_package)
{
    struct sl_late_library l = of_files("libsluice_none.so.1", NULL);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sl_late_library_open(&l), SL_ENOENT);
        assert_said("libfirst is not there (libsluice_none.so.1");
        assert_said("install Debian's package libfirst1");
    }
}

TEST(a_library_without_a_function_is_refused)
{
    struct sl_late_library l = of_files("libsluice_none.so.1", "libm.so.6");
    static const struct sl_late_symbol more[] = {{"hypot", &lib.hypot}, {"sl_none", &lib.fdim}};
    l.symbols = more;
    ck_assert_int_eq(sl_late_library_open(&l), SL_EUNSUPPORTED);
    assert_said("libfirst has no sl_none(): install package libfirst1");
}

RUN_TESTS()
