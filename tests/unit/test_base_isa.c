// SLUICE_ISA: what it accepts, and that it only ever takes away.
#include "common/base/isa.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "tests/unit/suite.h"

// Tests run in processes of their own, so the environment and the level are fresh.
static int init_with(const char *value)
{
    setenv("SLUICE_ISA", value, 1);
    return sl_isa_init();
}

TEST(without_a_limit_the_best_is_used)
{
    unsetenv("SLUICE_ISA");
    ck_assert_int_eq(sl_isa(), sl_isa_of_processor());
    ck_assert_int_eq(init_with(""), SL_OK);
    ck_assert_int_eq(sl_isa(), sl_isa_of_processor());
}

TEST(each_name_is_a_limit)
{
    for (enum sl_isa isa = SL_ISA_BASELINE; isa <= SL_ISA_AMX; isa++) {
        const enum sl_isa best = sl_isa_of_processor();
        ck_assert_int_eq(init_with(sl_isa_name(isa)), SL_OK);
        ck_assert_int_eq(sl_isa(), isa < best ? isa : best);
        if (isa < SL_ISA_AVX512)
            ck_assert_int_eq(sl_isa_has_bf16(), 0);
    }
}

TEST(the_limit_is_read_by_whoever_asks_first)
{
    setenv("SLUICE_ISA", "baseline", 1);
    ck_assert_int_eq(sl_isa(), SL_ISA_BASELINE);
}

TEST(another_value_is_an_error_that_says_which_there_are)
{
    ck_assert_int_eq(init_with("AVX2"), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "'AVX2'"));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "baseline, avx2, avx512 or amx"));
}

RUN_TESTS(.timeout_s = 60)
