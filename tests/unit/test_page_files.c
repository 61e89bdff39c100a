// The page's files: that they are in the program whole, and that one file of all of them stands by
// itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/page/page.h"
#include "tests/unit/suite.h"

enum { LOAD_MAX_BYTES = 112 << 10 };

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s: run the tests from the project's root", path);
    char *text = calloc(1, 1 << 20);
    ck_assert_ptr_nonnull(text);
    *n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    return text;
}

// The file ends in these; returns how much comes before them.
static size_t expect_end(const char *name, const char *const *paths, size_t n_paths)
{
    const struct sl_page_file *found = sl_page_find(name);
    ck_assert_ptr_nonnull(found);
    size_t at = found->n;
    for (size_t i = n_paths; i-- > 0;) {
        size_t n;
        char *wanted = read_file(paths[i], &n);
        ck_assert_uint_le(n, at);
        at -= n;
        ck_assert_int_eq(memcmp(found->bytes + at, wanted, n), 0);
        free(wanted);
    }
    ck_assert_int_eq(found->bytes[found->n], '\0');
    return at;
}

TEST(the_files_are_those_of_the_source)
{
    static const char *const html[] = {"broker/page/page.html"};
    static const char *const css[] = {"broker/page/page.css"};
    static const char *const js[] = {
        "broker/page/base.js",     "broker/page/job.js",    "broker/page/plot.js",
        "broker/page/pipeline.js", "broker/page/panels.js", "broker/page/timeline.js",
        "broker/page/steer.js",    "broker/page/live.js",
    };
    ck_assert_uint_eq(expect_end("/", html, 1), 0);
    ck_assert_uint_eq(expect_end("/page.css", css, 1), 0);
    expect_end("/page.js", js, sizeof js / sizeof *js);
}

TEST(tables_come_before_the_script)
{
    const char *text = sl_page_find("/page.js")->bytes;
    const char *script = strstr(text, "// The page draws");
    const char *const wanted[] = {"hit_rate: \"cache.hit_rate\"", "wait: \"stages.wait.busy\"",
                                  "accuracy: {name: \"accuracy\", less: 0, share: 1}",
                                  "mae: {name: \"MAE\", less: 1, share: 0}"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *found = strstr(text, wanted[i]);
        ck_assert_msg(found && found < script, "no '%s' in: %.500s", wanted[i], text);
    }
}

TEST(what_is_no_file_is_not_found)
{
    ck_assert_ptr_null(sl_page_find(""));
    ck_assert_ptr_null(sl_page_find("page.js"));
    ck_assert_ptr_null(sl_page_find("/page.js/"));
    ck_assert_ptr_null(sl_page_find("/../page.js"));
}

TEST(a_load_is_small)
{
    size_t n = sl_page_find("/")->n + sl_page_find("/page.css")->n + sl_page_find("/page.js")->n;
    ck_assert_uint_gt(n, 10000);
    ck_assert_uint_lt(n, LOAD_MAX_BYTES);
}

TEST(one_file_has_all_of_it_and_loads_nothing)
{
    char *text = sl_page_standalone("a <b>\n", "{\"schema\":\"sluice.describe/1\"}");
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_null(strstr(text, "<link rel=\"stylesheet\""));
    ck_assert_ptr_null(strstr(text, "src=\""));
    ck_assert_ptr_nonnull(strstr(text, "default-src 'none'"));
    ck_assert_ptr_nonnull(strstr(text, sl_page_find("/page.css")->bytes));
    ck_assert_ptr_nonnull(strstr(text, sl_page_find("/page.js")->bytes));
    ck_assert_ptr_nonnull(strstr(text, "<script type=\"application/json\" id=\"sluice-data\">"
                                       "{\"schema\":\"sluice.describe/1\"}</script>"));
    ck_assert_ptr_nonnull(
        strstr(text, "<body>\n<pre class=\"words\">a &lt;b&gt;\n</pre>\n<header"));
    ck_assert_ptr_nonnull(strstr(text, "</html>"));
    free(text);
}

// The script of the page looks for its data when it starts, so that must come before it.
TEST(the_data_comes_before_the_script)
{
    char *text = sl_page_standalone("read", "{}");
    char *data = strstr(text, "id=\"sluice-data\"");
    char *script = strstr(text, sl_page_find("/page.js")->bytes);
    ck_assert_ptr_nonnull(data);
    ck_assert(data < script);
    free(text);
}

TEST(no_text_of_a_job_ends_the_script)
{
    char *text = sl_page_standalone("read", "{\"job\":\"</script><script>alert(1)</script><!--\"}");
    ck_assert_ptr_null(strstr(text, "alert(1)</script"));
    ck_assert_ptr_null(strstr(text, "<!--"));
    ck_assert_ptr_nonnull(strstr(text, "{\"job\":\"\\u003c/script>\\u003cscript>alert(1)"
                                       "\\u003c/script>\\u003c!--\"}"));
    free(text);
}

RUN_TESTS()
