#include "dataset/csv_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/line_scan.h"
#include "dataset/text_reader.h"

// ---- lines --------------------------------------------------------------------------------------

static int split(struct sl_csv_table *t, const char **p)
{
    const char *line = *p;
    int rc = sl_line_fields_split(&t->fields, line, p);
    return rc == SL_EFORMAT
               ? sl_csv_fail(&t->csv, *p, "a quote that is closed in its line, before a separator")
               : rc;
}

static int keep_heading(struct sl_csv_table *t)
{
    const struct sl_line_fields *f = &t->fields;
    if (f->n == f->most)
        return sl_fail(SL_EUNSUPPORTED, "import %s: found more than %d columns: wanted fewer",
                       t->csv.path, SL_FIELDS_MAX - 1);
    t->names = calloc((size_t)SL_MAX(f->n, 1), sizeof *t->names);
    for (; t->names && t->n_columns < f->n; t->n_columns++) {
        const struct sl_line_field *field = &f->at[t->n_columns];
        t->names[t->n_columns] = strndup(field->text, field->n);
        if (!t->names[t->n_columns])
            break;
    }
    return t->names && t->n_columns == f->n
               ? SL_OK
               : sl_fail(SL_ENOMEM, "import %s: no memory", t->csv.path);
}

static int read_heading(struct sl_csv_table *t)
{
    struct sl_text_reader *r;
    const char *p, *end;
    SL_TRY(sl_text_reader_open(t->csv.path, &r));
    int rc = sl_text_reader_next(r, &p, &end);
    if (rc == SL_OK && p == end)
        rc = sl_fail(SL_EFORMAT, "import %s: is empty: wanted a first line that names its columns",
                     t->csv.path);
    t->csv.line = 1;
    if (rc == SL_OK)
        rc = split(t, &p);
    if (rc == SL_OK)
        rc = keep_heading(t);
    sl_text_reader_close(r);
    return rc;
}

int sl_csv_table_open(struct sl_csv_table *t, struct sl_import *im, const char *dir,
                      const char *file, char separator)
{
    const bool whole = file[0] == '/';
    const int n = snprintf(t->csv.path, sizeof t->csv.path, "%s%s%s", whole ? "" : dir,
                           whole ? "" : "/", file);
    if (n >= (int)sizeof t->csv.path)
        return sl_fail(SL_EINVAL, "import %s: the path of %.80s is too long", dir, file);
    t->csv.im = im;
    t->csv.context = t;
    t->fields.separator = separator;
    t->fields.most = SL_FIELDS_MAX;
    return read_heading(t);
}

void sl_csv_table_close(struct sl_csv_table *t)
{
    for (int i = 0; i < t->n_columns; i++)
        free(t->names[i]);
    free(t->names);
    t->names = NULL;
    t->n_columns = 0;
    sl_line_fields_fini(&t->fields);
}

int sl_csv_table_find(const struct sl_csv_table *t, const char *name)
{
    for (int i = 0; i < t->n_columns; i++)
        if (strcmp(t->names[i], name) == 0)
            return i;
    return -1;
}

static int parse(struct sl_csv *c, const char **p)
{
    struct sl_csv_table *t = c->context;
    char wanted[96];
    SL_TRY(split(t, p));
    if (c->line == 1)
        return SL_OK;
    if (t->fields.n == t->n_columns)
        return t->row(t);
    snprintf(wanted, sizeof wanted, "%d columns, as the first line has", t->n_columns);
    const int behind = SL_MIN(t->fields.n, t->n_columns);
    return sl_csv_fail_field(c, &t->fields.at[behind], wanted);
}

int sl_csv_table_read(struct sl_csv_table *t, const char *what, int (*row)(struct sl_csv_table *t),
                      void *context)
{
    t->row = row;
    t->context = context;
    t->fields.most = t->n_columns + 1;
    return sl_csv_read(&t->csv, what, parse);
}

// ---- fields -------------------------------------------------------------------------------------

int sl_csv_table_fail(const struct sl_csv_table *t, int column, const char *wanted)
{
    char text[256];
    snprintf(text, sizeof text, "%s in column %.80s", wanted, t->names[column]);
    return sl_csv_fail_field(&t->csv, &t->fields.at[column], text);
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && sl_line_is_blank(*p))
        p++;
    return p;
}

// Behind the number at p, NULL where there is none.
static const char *scan_number(const char *p, const char *end, double *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"nan", NAN}, {"true", 1}, {"false", 0}};
    for (size_t i = 0; i < SL_COUNT_OF(words); i++) {
        const size_t n = strlen(words[i].text);
        if ((size_t)(end - p) >= n && strncasecmp(p, words[i].text, n) == 0) {
            *out = words[i].value;
            return p + n;
        }
    }
    return p < end ? sl_line_scan_real(p, out) : NULL;
}

int sl_csv_table_numbers(const struct sl_csv_table *t, int column, uint32_t most, double *out,
                         uint32_t *n)
{
    static const char *const wanted = "a number, or numbers between commas,";
    const struct sl_line_field *f = &t->fields.at[column];
    const char *end = f->text + f->n, *p = skip_blanks(f->text, end);
    while (end > p && sl_line_is_blank(end[-1]))
        end--;
    *n = 0;
    if (end - p >= 2 && ((*p == '[' && end[-1] == ']') || (*p == '(' && end[-1] == ')'))) {
        p = skip_blanks(p + 1, end);
        for (end--; end > p && sl_line_is_blank(end[-1]); end--)
            ;
    }
    while (p < end) {
        if (*n == most)
            return sl_csv_table_fail(t, column, "fewer numbers");
        p = scan_number(p, end, &out[(*n)++]);
        p = p && p <= end ? skip_blanks(p, end) : NULL;
        if (!p || (p < end && *p != ','))
            return sl_csv_table_fail(t, column, wanted);
        p = p < end ? skip_blanks(p + 1, end) : p;
    }
    return SL_OK;
}
