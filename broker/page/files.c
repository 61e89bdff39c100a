/*
 * files.c - the page's files, put into the program by the assembler, and the tables before the
 * script.
 *
 * `.incbin` needs no tool and no generated source. The Makefile knows that this object depends on
 * them; the compiler does not.
 */
#include "broker/page/page.h"

#include <pthread.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/data/measure_kind.h"
#include "common/schema/history.h"
#include "common/text/text.h"

// Read-only bytes from sl_page_<what> up to sl_page_<what>_end. Paths are from the project's root,
// where the compiler runs.
#define INCLUDE_FILES(what, lines)                                                                 \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global sl_page_" #what "\n"                                                          \
            ".global sl_page_" #what "_end\n"                                                      \
            "sl_page_" #what ":\n" lines "sl_page_" #what "_end:\n"                                \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char sl_page_##what[] __attribute__((visibility("hidden")));                      \
    extern const char sl_page_##what##_end[] __attribute__((visibility("hidden")))
#define INCLUDE(path) ".incbin \"broker/page/" path "\"\n"
#define PART(name)    INCLUDE(name ".js")

INCLUDE_FILES(html, INCLUDE("page.html"));
INCLUDE_FILES(css, INCLUDE("page.css"));
// The script is one file to a browser, and its parts behind one another here.
INCLUDE_FILES(js, PART("base") PART("job") PART("plot") PART("pipeline") PART("panels")
                      PART("timeline") PART("steer") PART("live"));

static struct sl_page_file files[] = {
    {.name = "/", .type = "text/html; charset=utf-8", .bytes = sl_page_html},
    {.name = "/page.css", .type = "text/css; charset=utf-8", .bytes = sl_page_css},
    {.name = "/page.js", .type = "text/javascript; charset=utf-8", .bytes = sl_page_js},
};
enum { JS = 2 };

// What the scripts read by, from the project's tables.
static void put_tables(struct sl_text *t)
{
#define COLUMN(name, path) #name ": \"" path "\", "
    sl_text_printf(t, "const HISTORY = {lines: %d, setBack: %d};\n", SL_HISTORY_LINES,
                   SL_HISTORY_SET_BACK_S);
    sl_text_puts(t, "const COLUMNS = {" SL_HISTORY_COLUMNS(COLUMN) "};\nconst MEASURES = {");
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++) {
        const struct sl_measure_kind *k = &sl_measure_kinds[m];
        sl_text_printf(t, "%s: {name: \"%s\", less: %d, share: %d}, ", k->key, k->name,
                       k->less_is_better, k->is_share);
    }
    sl_text_puts(t, "};\n");
}

// The sizes are differences of addresses, which the linker knows and C cannot write in a constant.
static void put_together(void)
{
    static const char no_memory[] = "";
    const char *const ends[] = {sl_page_html_end, sl_page_css_end, sl_page_js_end};
    struct sl_text script = {0};
    put_tables(&script);
    for (size_t i = 0; i < SL_COUNT_OF(files); i++)
        files[i].n = (size_t)(ends[i] - files[i].bytes);
    sl_text_add(&script, files[JS].bytes, files[JS].n);
    files[JS].n = script.n;
    files[JS].bytes = sl_text_take(&script); // for as long as the process lives
    if (!files[JS].bytes)
        files[JS].bytes = no_memory, files[JS].n = 0;
}

const struct sl_page_file *sl_page_find(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, put_together);
    for (size_t i = 0; i < SL_COUNT_OF(files); i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}
