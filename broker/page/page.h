// page.h - the page's files, inside the program.
#ifndef SL_BROKER_PAGE_PAGE_H
#define SL_BROKER_PAGE_PAGE_H

#include <stddef.h>

struct sl_page_file {
    const char *name; // "/", "/page.js", "/page.css"
    const char *type; // of its content
    const char *bytes;
    size_t n;
};

// NULL when there is none of that name.
const struct sl_page_file *sl_page_find(const char *name);

/*
 * One self-contained HTML text (owned: free()): the page with its scripts and styles inline, and
 * `data_json` (sluice.describe/1 of a run that is over, "report" in it) in
 * <script type="application/json" id="sluice-data">, from which it draws without a server. Where no
 * script runs, `words` (plain text) stand in place of the panels. NULL without memory.
 */
char *sl_page_standalone(const char *words, const char *data_json);

#endif
