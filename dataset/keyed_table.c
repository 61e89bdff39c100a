#include "dataset/keyed_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "dataset/line_scan.h"
#include "dataset/name_key.h"

enum { ROWS_PER_LOOK = 4096, SHOWN = 60, NUMBER_BYTES = 24 };

int sl_keyed_table_open(struct sl_keyed_table *t, struct sl_import *im, const char *path,
                        uint64_t memory_bytes)
{
    t->csv.im = im;
    t->csv.context = t;
    t->fields.most = 2;
    if (snprintf(t->csv.path, sizeof t->csv.path, "%s", path) >= (int)sizeof t->csv.path)
        return sl_fail(SL_EINVAL, "import %s: the name is too long", path);
    return sl_record_sort_create(im->making.st.dir, memory_bytes, &t->rows);
}

void sl_keyed_table_close(struct sl_keyed_table *t)
{
    sl_record_sort_destroy(t->rows);
    sl_line_fields_fini(&t->fields);
    free(t->kept);
    t->rows = NULL;
    t->kept = NULL;
}

int sl_keyed_table_keep(struct sl_keyed_table *t, const void *data, size_t n)
{
    if (n > t->capacity - t->n_kept) {
        size_t capacity = SL_MAX(t->capacity * 2, t->n_kept + n + 256);
        char *kept = realloc(t->kept, capacity);
        if (!kept)
            return sl_fail(SL_ENOMEM, "import %s: no memory for a row", t->csv.path);
        t->kept = kept;
        t->capacity = capacity;
    }
    memcpy(t->kept + t->n_kept, data, n);
    t->n_kept += n;
    return SL_OK;
}

// ---- lines --------------------------------------------------------------------------------------

static bool scan_id(const struct sl_line_field *f, uint64_t *id)
{
    bool fits;
    const char *end = f->n ? sl_line_scan_uint(f->text, id, &fits) : NULL;
    return end == f->text + f->n && fits && *id <= SL_IMPORT_MAX_ID;
}

// Where the key is among the names, by halving; names->n: nowhere.
static int find_name(const struct sl_names *names, const unsigned char *key, uint32_t n_key,
                     uint64_t *out)
{
    uint64_t low = 0, high = names->n;
    *out = names->n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        unsigned char other[SL_NAME_KEY_BYTES];
        const char *name;
        size_t n;
        SL_TRY(sl_names_get(names, middle, &name, &n));
        uint32_t n_other = sl_name_key(name, n, other);
        int order = sl_name_key_compare(other, n_other, key, n_key);
        if (order == 0) {
            *out = middle;
            return SL_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SL_OK;
}

// The first line is a heading where it can be no row: no values, or the vertex is none.
static int decide_heading(const struct sl_keyed_table *t, const unsigned char *key, uint32_t n_key,
                          bool *heading)
{
    uint64_t at = 0;
    *heading = n_key == 0; // no vertex
    if (t->kind->is_heading) {
        *heading = *heading || t->kind->is_heading(t);
    } else if (t->names && n_key) {
        SL_TRY(find_name(t->names, key, n_key, &at));
        *heading = at == t->names->n;
    }
    return SL_OK;
}

static int parse_line(struct sl_csv *c, const char **p)
{
    struct sl_keyed_table *t = c->context;
    const struct sl_line_field *name = &t->fields.at[0];
    unsigned char key[SL_NAME_KEY_BYTES];
    char number[NUMBER_BYTES];
    const char *line = *p;
    const uint64_t number_of_line = c->line;
    uint64_t id = 0;
    bool is_first = t->n_rows == 0 && !t->heading[0], heading = false;
    if (*line == '#' || *line == '%') {
        *p = sl_import_next_line(line);
        return SL_OK;
    }
    if (is_first) { // names have commas inside rather than tabs
        const char *end = rawmemchr(line, '\n');
        bool tab = memchr(line, '\t', (size_t)(end - line));
        t->fields.separator = tab ? '\t' : sl_line_separator(line, true);
    }
    int rc = sl_line_fields_split(&t->fields, line, p);
    if (rc == SL_EFORMAT)
        return sl_csv_fail(c, *p, "a quote that its field closes");
    SL_TRY(rc);
    if (name->n == 0 || name->n > SL_NAME_MAX_BYTES)
        return sl_csv_fail_field(c, name, "a vertex, of 1 to 4096 bytes, in the first column");
    bool is_id = scan_id(name, &id);
    uint32_t n_key = 0;
    if (t->named)
        n_key = sl_name_key(name->text, name->n, key);
    else if (is_id)
        n_key = sl_name_key(number, (size_t)snprintf(number, sizeof number, "%" PRIu64, id), key);
    if (is_first)
        SL_TRY(decide_heading(t, key, n_key, &heading));
    if (heading) {
        const char *end = rawmemchr(line, '\n');
        snprintf(t->heading, sizeof t->heading, "%.*s", (int)SL_MIN(end - line, (ptrdiff_t)SHOWN),
                 line);
        return SL_OK;
    }
    if (n_key == 0)
        return sl_csv_fail_field(
            c, name,
            "a vertex from 0 to 4294967293 in the first column (with --relabel any "
            "name)");
    t->n_kept = 0;
    SL_TRY(sl_keyed_table_keep(t, &number_of_line, sizeof number_of_line));
    SL_TRY(t->kind->parse(t));
    if (t->n_kept > UINT32_MAX)
        return sl_csv_fail_field(c, name, "a row below 4 GiB");
    SL_TRY(
        sl_record_sort_add(t->rows, &(struct sl_record){key, t->kept, n_key, (uint32_t)t->n_kept}));
    if (t->numbering)
        SL_TRY(sl_numbering_put_vertex(t->numbering, name->text, name->n));
    t->n_rows++;
    t->max_id = SL_MAX(t->max_id, id);
    return SL_OK;
}

int sl_keyed_table_read(struct sl_keyed_table *t)
{
    SL_TRY(sl_csv_read(&t->csv, t->kind->what, parse_line));
    if (t->n_rows == 0)
        return sl_fail(SL_EFORMAT, "import %s: found no row: wanted a vertex and its %s a line",
                       t->csv.path, t->kind->what);
    return sl_record_sort_finish(t->rows);
}

// ---- rows by vertex -----------------------------------------------------------------------------

// The vertices in their order, beside the rows.
struct walk {
    const struct sl_names *names;
    uint64_t n, vertex;
    char number[NUMBER_BYTES];
    unsigned char key[SL_NAME_KEY_BYTES];
    uint32_t n_key; // of the vertex; 0: it is not known yet
};

static int load_vertex(struct walk *w)
{
    const char *name = w->number;
    size_t n;
    if (w->n_key)
        return SL_OK;
    if (w->names)
        SL_TRY(sl_names_get(w->names, w->vertex, &name, &n));
    else
        n = (size_t)snprintf(w->number, sizeof w->number, "%" PRIu64, w->vertex);
    w->n_key = sl_name_key(name, n, w->key);
    return SL_OK;
}

static uint64_t line_of(const struct sl_record *r)
{
    uint64_t line;
    memcpy(&line, r->payload, sizeof line);
    return line;
}

// "'alice'" for messages.
static const char *shown(const void *key, uint32_t n_key, char text[SHOWN + 3])
{
    size_t n;
    const char *name = sl_name_of_key(key, n_key, &n);
    snprintf(text, SHOWN + 3, "'%.*s'", (int)SL_MIN(n, (size_t)SHOWN), name);
    return text;
}

static int fail_missing(const struct sl_keyed_table *t, const struct walk *w)
{
    char text[SHOWN + 3];
    return sl_fail(SL_EFORMAT,
                   "import %s: found %" PRIu64 " rows, none of vertex %s: wanted one for each of "
                   "the %" PRIu64 " vertices",
                   t->csv.path, t->n_rows, shown(w->key, w->n_key, text), w->n);
}

// Leads to the vertex that the row is of.
static int find_vertex(const struct sl_keyed_table *t, struct walk *w, const struct sl_record *r,
                       bool all)
{
    char text[SHOWN + 3];
    for (; w->vertex < w->n; w->vertex++, w->n_key = 0) {
        SL_TRY(load_vertex(w));
        int order = sl_name_key_compare(w->key, w->n_key, r->key, r->key_bytes);
        if (order == 0)
            return SL_OK;
        if (order > 0)
            break;
        if (all)
            return fail_missing(t, w);
    }
    return sl_fail(SL_EFORMAT, "import %s: line %" PRIu64 ": found %s: wanted a vertex%s",
                   t->csv.path, line_of(r), shown(r->key, r->key_bytes, text),
                   w->names ? " of an edge or of --features"
                            : " below the largest of the edges and --features (--num-nodes makes "
                              "more)");
}

int sl_keyed_table_walk(struct sl_keyed_table *t, uint64_t n_nodes, const struct sl_names *names,
                        bool all, sl_keyed_row_fn *take, void *context)
{
    struct walk w = {.names = names, .n = n_nodes};
    char text[SHOWN + 3];
    struct sl_record r;
    uint64_t line = 0; // of the row before, when it is of this vertex
    for (uint64_t row = 0;; row++) {
        bool more;
        SL_TRY(sl_record_sort_next(t->rows, &r, &more));
        if (!more)
            break;
        if (row % ROWS_PER_LOOK == 0)
            SL_TRY(sl_interrupt_check());
        if (line && sl_name_key_compare(w.key, w.n_key, r.key, r.key_bytes) == 0)
            return sl_fail(SL_EFORMAT,
                           "import %s: line %" PRIu64
                           ": found %s a second time, after line %" PRIu64
                           ": wanted one row a vertex",
                           t->csv.path, line_of(&r), shown(r.key, r.key_bytes, text), line);
        if (line) {
            w.vertex++;
            w.n_key = 0;
        }
        SL_TRY(find_vertex(t, &w, &r, all));
        line = line_of(&r);
        int rc = take(context, w.vertex, (const char *)r.payload + sizeof line,
                      r.payload_bytes - sizeof line);
        if (rc < 0)
            return sl_fail_prefix(rc, "line %" PRIu64 ", vertex %s", line,
                                  shown(r.key, r.key_bytes, text));
    }
    w.vertex += line != 0;
    w.n_key = 0;
    if (!all || w.vertex == w.n)
        return SL_OK;
    SL_TRY(load_vertex(&w));
    return fail_missing(t, &w);
}
