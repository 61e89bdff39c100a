/*
 * files.c - the page's files, put into the program by the assembler.
 *
 * `.incbin` needs no tool and no generated source. The Makefile knows that this object depends on
 * them; the compiler does not.
 */
#include "broker/page/page.h"

#include <string.h>

#include "common/base/bits.h"

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

// The sizes are differences of addresses, which the linker knows and C cannot write in a constant:
// they are filled in before main(), when there is one thread.
__attribute__((constructor)) static void fill_sizes(void)
{
    const char *const ends[] = {sl_page_html_end, sl_page_css_end, sl_page_js_end};
    for (size_t i = 0; i < SL_COUNT_OF(files); i++)
        files[i].n = (size_t)(ends[i] - files[i].bytes);
}

const struct sl_page_file *sl_page_find(const char *name)
{
    for (size_t i = 0; i < SL_COUNT_OF(files); i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}
