// Text that may come from anywhere.
#include "common/base/utf8.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_cleaned(const char *from, const char *want)
{
    char text[64];
    snprintf(text, sizeof text, "%s", from);
    sl_utf8_clean(text);
    ck_assert_str_eq(text, want);
    sl_utf8_clean(text);
    ck_assert_str_eq(text, want); // what is clean stays as it is
}

TEST(characters_come_back_as_they_were)
{
    static const uint32_t glyphs[] = {' ', '~', 0xa0, 0x7ff, 0x800, 0xfffd, 0x10000, 0x10ffff};
    for (size_t i = 0; i < sizeof glyphs / sizeof *glyphs; i++) {
        char bytes[5] = "";
        const char *at = bytes;
        int n = sl_utf8_put(glyphs[i], bytes);
        ck_assert_uint_eq(sl_utf8_next(&at), glyphs[i]);
        ck_assert_ptr_eq(at, bytes + n);
        ck_assert_uint_eq(sl_utf8_next(&at), 0);
    }
}

TEST(good_text_is_left_alone)
{
    assert_cleaned("", "");
    assert_cleaned("job 'a'", "job 'a'");
    assert_cleaned("Stra\xc3\x9f"
                   "e \xe2\x86\x92 \xf0\x9f\x98\x80",
                   "Stra\xc3\x9f"
                   "e \xe2\x86\x92 \xf0\x9f\x98\x80");
    sl_utf8_clean((char *)""); // a constant is not written to
}

TEST(what_moves_a_terminal_becomes_a_blank)
{
    assert_cleaned("a\tb\r\nc", "a b  c");
    assert_cleaned("\x1b[2Jgone\x7f", " [2Jgone ");
    assert_cleaned("\xc2\x9b"
                   "2J",
                   "?2J"); // a control sequence in one character
}

TEST(what_is_malformed_becomes_a_sign)
{
    assert_cleaned("ab\xc3", "ab?"); // cut off
    assert_cleaned("\xe2\x86", "??");
    assert_cleaned("\xff\xfe", "??");
    assert_cleaned("\xc0\xaf", "??");        // a slash, in too many bytes
    assert_cleaned("\xed\xa0\x80", "?");     // half of a surrogate pair
    assert_cleaned("\xf4\x90\x80\x80", "?"); // beyond the last one
    assert_cleaned("\xc3(", "?(");
}

TEST(another_encoding_is_known_by_its_first_bytes)
{
    static const struct {
        const char *text;
        size_t n;
        const char *name; // NULL: it may be UTF-8
    } texts[] = {{"", 0, NULL},
                 {"\xff", 1, NULL},
                 {"0 1\n", 4, NULL},
                 {"a\0b", 3, NULL},
                 {"\xef\xbb\xbf{", 4, NULL},
                 {"\xff\xfe", 2, "UTF-16 "},
                 {"\xfe\xff\0000", 4, "UTF-16 "},
                 {"\xff\xfe\0\0", 4, "UTF-32 "},
                 {"\0\0\xfe\xff", 4, "UTF-32 "},
                 {"{\0\"\0", 4, "UTF-16LE "},
                 {"\0{\0\"", 4, "UTF-16BE "}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char why[SL_UTF8_WHY_BYTES] = "";
        bool other = sl_utf8_is_other(texts[i].text, texts[i].n, why);
        ck_assert_msg(other == (texts[i].name != NULL), "%zu: %s", i, why);
        ck_assert_msg(!other || strstr(why, texts[i].name), "%zu: %s", i, why);
    }
    ck_assert_uint_eq(sl_utf8_mark("\xef\xbb\xbf", 3), 3);
    ck_assert_uint_eq(sl_utf8_mark("\xef\xbb", 2), 0);
}

RUN_TESTS()
