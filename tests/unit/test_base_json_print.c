// JSON trees as text: every number comes back as it was, and everything else is as cJSON prints it.
#include "common/base/json_print.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/philox.h"
#include "tests/unit/suite.h"

enum { NUMBERS = 4096 };

// Random bits are doubles of every size; those of no finite number are left out.
static double random_double(uint32_t i)
{
    double x;
    for (uint32_t n = 0;; n++) {
        struct sl_rng_block block = sl_philox(7, i, n, 0, 0);
        uint64_t bits = (uint64_t)block.w[0] << 32 | block.w[1];
        memcpy(&x, &bits, sizeof x);
        if (isfinite(x))
            return x;
    }
}

// A loss, a time: between 0 and 1.
static double random_fraction(uint32_t i)
{
    struct sl_rng_block block = sl_philox(8, i, 0, 0, 0);
    return (double)((uint64_t)block.w[0] << 21 | block.w[1] >> 11) / 9007199254740992.0;
}

static double below_2_53(uint32_t i)
{
    return 9007199254740991.0 - i;
}

static double (*const kinds[])(uint32_t) = {random_double, random_fraction, below_2_53};

static cJSON *list_of(double (*number)(uint32_t))
{
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 0; i < NUMBERS; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(number(i)));
    return list;
}

// How many of the numbers are others in the text.
static uint32_t changed(double (*number)(uint32_t), const char *text)
{
    cJSON *back = cJSON_Parse(text);
    uint32_t n = 0, bad = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, back)
    {
        ck_assert(cJSON_IsNumber(item));
        bad += item->valuedouble != number(n++);
    }
    ck_assert_uint_eq(n, NUMBERS);
    cJSON_Delete(back);
    return bad;
}

LOOP_TEST(every_number_comes_back_as_it_was, 0, (int)(sizeof kinds / sizeof *kinds))
{
    cJSON *list = list_of(kinds[_i]);
    char *line = sl_json_line(list), *pages = sl_json_pages(list);
    ck_assert_uint_eq(changed(kinds[_i], line), 0);
    ck_assert_uint_eq(changed(kinds[_i], pages), 0);
    free(line);
    free(pages);
    cJSON_Delete(list);
}

TEST(numbers_are_as_short_as_they_can_be)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "0"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {1e15, "1000000000000000"},
        {9007199254740991, "9007199254740991"},
        {-9007199254740991, "-9007199254740991"},
        {1e22, "1e+22"},
        {1e-5, "1e-05"},
        {4294967296, "4294967296"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {DBL_TRUE_MIN, "4.94065645841247e-324"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[SL_NUMBER_TEXT_BYTES];
        sl_number_text(cases[i].value, text);
        ck_assert_str_eq(text, cases[i].text);
        ck_assert(strtod(text, NULL) == cases[i].value);
    }
}

TEST(all_but_numbers_is_as_cjson_has_it)
{
    static const char text[] = "{\"a\":[1,-2,0.5,[],{}],\"b\":{\"c\":null,\"d\":true,\"e\":"
                               "\"\\\"\\n\\u00e4\"},\"\":false}";
    cJSON *tree = cJSON_Parse(text);
    cJSON_AddNumberToObject(tree, "not a number", NAN);
    cJSON_AddItemToObjectCS(tree, "key of the caller's", cJSON_CreateNumber(INFINITY));
    cJSON_AddItemToObjectCS(tree, "another", cJSON_CreateNumber(3));
    char *line = sl_json_line(tree), *theirs = cJSON_PrintUnformatted(tree);
    char *pages = sl_json_pages(tree), *their_pages = cJSON_Print(tree);
    ck_assert_str_eq(line, theirs);
    ck_assert_str_eq(pages, their_pages);
    ck_assert_ptr_nonnull(strstr(line, "\"not a number\":null"));
    ck_assert_ptr_null(sl_json_line(NULL));
    ck_assert_ptr_null(sl_json_pages(NULL));
    // The tree is as it was.
    ck_assert(cJSON_IsNumber(cJSON_GetObjectItem(tree, "another")));
    free(line);
    free(theirs);
    free(pages);
    free(their_pages);
    cJSON_Delete(tree);
}

TEST(all_bits_of_a_whole_number_are_printed)
{
    cJSON *tree = cJSON_CreateObject();
    sl_json_put_whole(tree, "most", UINT64_MAX);
    sl_json_put_whole(tree, "none", 0);
    sl_json_put_whole(tree, "seed", (UINT64_C(1) << 53) + 1);
    char *line = sl_json_line(tree);
    ck_assert_str_eq(line, "{\"most\":18446744073709551615,\"none\":0,\"seed\":9007199254740993}");
    free(line);
    cJSON_Delete(tree);
}

RUN_TESTS()
