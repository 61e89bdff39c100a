// A screen in memory: clipping, wide characters, both alphabets, charts, numbers.
#include <locale.h>

#include "cli/top/charts.h"
#include "cli/top/screen.h"
#include "common/base/utf8.h"
#include "tests/unit/suite.h"
#include "tests/unit/top_fixture.h"

static struct sl_screen screen;
static struct sl_area all;

static void use(int width, int height, bool ascii)
{
    ck_assert_int_eq(sl_screen_init(&screen, width, height, ascii), 0);
    all = sl_screen_area(&screen);
}

// The screen as text; row(0) is its first line.
static const char *row(int y)
{
    static char *text;
    static char line[4096];
    size_t n;
    free(text);
    FILE *out = open_memstream(&text, &n);
    sl_screen_print(&screen, false, out);
    fclose(out);
    const char *at = text;
    for (; y > 0; y--)
        at = strchr(at, '\n') + 1;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

TEST(text_that_does_not_fit_says_so)
{
    use(8, 1, false);
    ck_assert_int_eq(sl_area_text(all, 0, 0, 0, "12345678"), 8);
    ck_assert_str_eq(row(0), "12345678");
    use(8, 1, false);
    ck_assert_int_eq(sl_area_text(all, 0, 0, 0, "123456789"), 8);
    ck_assert_str_eq(row(0), "1234567…");
}

TEST(nothing_leaves_an_area)
{
    use(10, 4, true);
    struct sl_area part = sl_area_part(all, 3, 1, 4, 2);
    sl_area_fill(part, 0, '#');
    sl_area_text(part, -2, 0, 0, "abcdefghijkl");
    sl_area_text(part, 1, 5, 0, "below");
    sl_area_glyph(part, 4, 0, 0, 'X');
    sl_area_glyph(part, 0, -1, 0, 'X');
    ck_assert_str_eq(row(0), "");
    ck_assert_str_eq(row(1), "   cde~");
    ck_assert_str_eq(row(2), "   ####");
    ck_assert_str_eq(row(3), "");
    struct sl_area outside = sl_area_part(part, 9, 9, 5, 5);
    ck_assert_int_eq(outside.w, 0);
    ck_assert_int_eq(outside.h, 0);
    sl_area_frame(outside, 0, 0, "nowhere");
    sl_area_wrap(outside, 0, "nowhere either");
}

TEST(a_wide_character_takes_two_columns)
{
    use(6, 1, false);
    ck_assert_int_eq(sl_text_columns("図a"), 3);
    ck_assert_int_eq(sl_area_text(all, 0, 0, 0, "図図図"), 6);
    ck_assert_str_eq(row(0), "図図図");
    use(6, 1, false);
    sl_area_text(all, 0, 0, 0, "a図図図");
    ck_assert_str_eq(row(0), "a図図…");
    // Half of one that is overwritten is blank.
    sl_area_glyph(all, 2, 0, 0, 'x');
    ck_assert_str_eq(row(0), "a x図…");
    sl_area_glyph(all, 3, 0, 0, 'y');
    ck_assert_str_eq(row(0), "a xy …");
}

static const struct {
    uint32_t glyph;
    int columns;
} widths[] = {
    {0, 1},      {'a', 1},    {0xad, 1},   {0x301, 0},   {0x200b, 0},  {0x1160, 0},   {0x2500, 1},
    {0x256d, 1}, {0x25b6, 1}, {0x2588, 1}, {0x2026, 1},  {0x26a1, 2},  {0x303f, 1},   {0x56f3, 2},
    {0xd7a3, 2}, {0xe000, 1}, {0xfe0f, 0}, {0x1f600, 2}, {0x20000, 2}, {0x10ffff, 1},
};

TEST(a_character_is_as_wide_in_any_locale)
{
    static const char *const locales[] = {"C", "C.UTF-8"};
    for (size_t l = 0; l < sizeof locales / sizeof *locales; l++) {
        setlocale(LC_CTYPE, locales[l]);
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            ck_assert_msg(sl_glyph_columns(widths[i].glyph) == widths[i].columns, "U+%X in %s: %d",
                          widths[i].glyph, locales[l], sl_glyph_columns(widths[i].glyph));
    }
}

TEST(a_wide_character_does_not_hang_over_the_edge)
{
    use(3, 1, false);
    sl_area_glyph(all, 2, 0, 0, 0x56f3);
    ck_assert_str_eq(row(0), "  ?");
}

TEST(odd_bytes_and_control_characters_are_harmless)
{
    use(20, 1, false);
    sl_area_text(all, 0, 0, 0, "a\033[31m\xff\xc3\n\xe5\x9bz");
    ck_assert_str_eq(row(0), "a?[31m????\?z");
    use(20, 1, false);
    sl_area_text(all, 0, 0, 0, "\xed\xa0\x80|\xf4\x90\x80\x80|\xc0\xaf|e\xcc\x81");
    ck_assert_str_eq(row(0), "?|?|??|e");
}

TEST(utf8_goes_both_ways)
{
    static const uint32_t glyphs[] = {'a', 0xe9, 0x2588, 0x56f3, 0x1f600, 0x10ffff};
    for (size_t i = 0; i < sizeof glyphs / sizeof *glyphs; i++) {
        char bytes[5] = "";
        const char *at = bytes;
        int n = sl_utf8_put(glyphs[i], bytes);
        ck_assert_uint_eq(sl_utf8_next(&at), glyphs[i]);
        ck_assert_int_eq(at - bytes, n);
    }
}

TEST(without_unicode_all_is_ascii)
{
    use(30, 4, true);
    struct sl_area in = sl_area_frame(all, 0, 0, "título");
    sl_area_text(in, 0, 0, 0, "é図…");
    sl_chart_bar(in, 0, 1, 10, 0, 0.5);
    for (int y = 0; y < 4; y++)
        for (const char *p = row(y); *p; p++)
            ck_assert_msg(*p >= ' ' && *p <= '~', "row %d: '%s'", y, row(y));
    ck_assert_str_eq(row(0), "+- t?tulo -------------------+");
    ck_assert_str_eq(row(2), "| #####.....                 |");
}

TEST(text_is_broken_at_blanks)
{
    use(10, 3, true);
    ck_assert_int_eq(sl_area_wrap(all, 0, "the first and the second line"), 4);
    ck_assert_str_eq(row(0), "the first");
    ck_assert_str_eq(row(1), "and the");
    ck_assert_str_eq(row(2), "second li~");
    use(10, 3, true);
    ck_assert_int_eq(sl_area_wrap(all, 0, "incomprehensible"), 2);
    ck_assert_str_eq(row(0), "incomprehe");
    ck_assert_str_eq(row(1), "nsible");
}

TEST(a_bar_never_lies_at_its_ends)
{
    use(10, 1, true);
    sl_chart_bar(all, 0, 0, 10, 0, 0);
    ck_assert_str_eq(row(0), "..........");
    sl_chart_bar(all, 0, 0, 10, 0, 0.001);
    ck_assert_str_eq(row(0), "#.........");
    sl_chart_bar(all, 0, 0, 10, 0, 0.98);
    ck_assert_str_eq(row(0), "#########.");
    sl_chart_bar(all, 0, 0, 10, 0, 1);
    ck_assert_str_eq(row(0), "##########");
    sl_chart_bar(all, 0, 0, 10, 0, 17);
    ck_assert_str_eq(row(0), "##########");
    sl_chart_bar(all, 0, 0, 10, 0, NAN);
    ck_assert_str_eq(row(0), "..........");
}

TEST(a_curve_ends_at_the_newest_value)
{
    const double values[] = {0, 1, NAN, 2, 4};
    const struct sl_curve_values v = {.values = values, .n = 5, .low = 0, .high = 4};
    use(8, 1, false);
    sl_chart_curve(all, 0, &v);
    ck_assert_str_eq(row(0), "   ▁▃ ▅█");
    use(3, 2, false);
    sl_chart_curve(all, 0, &v);
    ck_assert_str_eq(row(0), " ▁█");
    ck_assert_str_eq(row(1), " ██");
}

TEST(groups_of_a_long_curve_stay_where_they_are)
{
    // 9 values in 4 columns: pairs, which begin at even numbers whatever the oldest one is.
    const double values[] = {9, 9, 0, 0, 4, 4, 0, 0, 4};
    struct sl_curve_values v = {.values = values, .n = 9, .low = 0, .high = 4};
    ck_assert_uint_eq(sl_chart_group(4, 7), 1);
    ck_assert_uint_eq(sl_chart_group(4, 8), 2);
    ck_assert_uint_eq(sl_chart_group(4, 9), 2);
    ck_assert_uint_eq(sl_chart_group(4, 16), 4);
    use(4, 1, false);
    sl_chart_curve(all, 0, &v);
    ck_assert_str_eq(row(0), "▁█▁█");
    v.values++;
    v.n--;
    v.first = 1;
    use(4, 1, false);
    sl_chart_curve(all, 0, &v);
    ck_assert_str_eq(row(0), "▁█▁█");
}

TEST(a_histogram_shows_the_smallest_count)
{
    const double counts[] = {1, 0, 1000, NAN};
    use(8, 2, false);
    sl_chart_histogram(all, 0, counts, 4, 2);
    ck_assert_str_eq(row(0), "    ██");
    ck_assert_str_eq(row(1), "▁▁  ██");
}

RUN_TESTS(.timeout_s = 60)
