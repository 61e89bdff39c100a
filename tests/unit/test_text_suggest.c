// Words that were meant.
#include "common/text/suggest.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

TEST(distance_counts_edits)
{
    ck_assert_uint_eq(sl_suggest_distance("", ""), 0);
    ck_assert_uint_eq(sl_suggest_distance("abc", ""), 3);
    ck_assert_uint_eq(sl_suggest_distance("", "ab"), 2);
    ck_assert_uint_eq(sl_suggest_distance("kitten", "sitting"), 3);
    ck_assert_uint_eq(sl_suggest_distance("generate", "genreate"), 1);
    ck_assert_uint_eq(sl_suggest_distance("run", "rnu"), 1);
}

TEST(only_a_near_word_is_suggested)
{
    const char *const words[] = {"run", "generate", "import", "inspect"};
    ck_assert_str_eq(sl_suggest_closest("genrate", words, 4), "generate");
    ck_assert_str_eq(sl_suggest_closest("inspekt", words, 4), "inspect");
    ck_assert_str_eq(sl_suggest_closest("gen", words, 4), "generate");
    ck_assert_str_eq(sl_suggest_closest("rnu", words, 4), "run");
    ck_assert_ptr_null(sl_suggest_closest("xylophone", words, 4));
    ck_assert_ptr_null(sl_suggest_closest("", words, 4));
    ck_assert_ptr_null(sl_suggest_closest("run", words, 0));
}

RUN_TESTS()
