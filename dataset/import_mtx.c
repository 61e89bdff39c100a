/*
 * Matrix Market files (the SuiteSparse collection, scipy.io.mmwrite): a sparse matrix as text.
 *
 *   %%MatrixMarket matrix coordinate FIELD SYMMETRY     the heading
 *   % ...                                               comments
 *   ROWS COLUMNS ENTRIES                                the size
 *   ROW COLUMN [VALUE]                                  an entry a line, numbers from 1
 *
 * An entry (i, j) is the edge from vertex i - 1 to vertex j - 1, its value the edge's weight. A
 * symmetric file has the entries of one triangle: each stands for both directions, one on the
 * diagonal for itself. The size says how many entries there are, so a file that was cut is noticed.
 */
#include "dataset/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/error.h"
#include "common/text/units.h"
#include "dataset/line_scan.h"
#include "dataset/import_vertices.h"

enum { HEADING_WORD_BYTES = 20 };

struct mtx {
    // Words of the heading, in small letters; "" before it was read.
    char field[HEADING_WORD_BYTES], symmetry[HEADING_WORD_BYTES];
    uint64_t n_nodes; // 0 before the size was read
    uint64_t n_entries;
};

// The words of a heading, and what is read of each: entries, entries without values, nothing.
enum reading { READ, WITHOUT_VALUES, NOT_READ };

struct word {
    const char *text;
    enum reading reading;
};

static const struct word formats[] = {{"coordinate", READ}, {"array", NOT_READ}, {0}};
static const struct word fields[] = {
    {"real", READ},
    {"integer", READ},
    {"unsigned-integer", READ}, // scipy's own, of uint32 and uint64
    {"pattern", READ},
    {"complex", WITHOUT_VALUES},
    {0}};
static const struct word symmetries[] = {{"general", READ},
                                         {"symmetric", READ},
                                         {"skew-symmetric", WITHOUT_VALUES},
                                         {"hermitian", WITHOUT_VALUES},
                                         {0}};

// The next word of the heading into `out`, which is one of `words`.
static int read_word(struct sl_import *im, const char **p, const struct word *words,
                     const char *what, char out[HEADING_WORD_BYTES])
{
    char wanted[160] = "";
    const struct word *w = words;
    *p += strspn(*p, " \t");
    size_t n = strcspn(*p, " \t\r\n");
    while (w->text && (strlen(w->text) != n || strncasecmp(w->text, *p, n) != 0))
        w++;
    if (!w->text || w->reading == NOT_READ || (w->reading == WITHOUT_VALUES && im->weights)) {
        for (const struct word *o = words; o->text; o++)
            if (o->reading == READ || (o->reading == WITHOUT_VALUES && !im->weights))
                snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s'%s'",
                         *wanted ? ", " : "", o->text);
        return sl_fail(SL_EFORMAT, "import %s: line 1: found %s '%.*s': wanted %s%s", im->source,
                       what, (int)(n < 40 ? n : 40), *p, wanted,
                       w->text && w->reading == WITHOUT_VALUES ? " (--no-weights leaves values out)"
                                                               : "");
    }
    snprintf(out, HEADING_WORD_BYTES, "%s", w->text);
    *p += n;
    return SL_OK;
}

static int read_heading(struct sl_import *im, struct mtx *m, const char *p)
{
    char format[HEADING_WORD_BYTES];
    const char *begin = p;
    p += strspn(p, "%"); // two, but there are writers of one
    size_t banner = strcspn(p, " \t\r\n");
    size_t percents = (size_t)(p - begin);
    const char *object = p + banner + strspn(p + banner, " \t");
    size_t n = strcspn(object, " \t\r\n");
    if (percents < 1 || percents > 2 || banner != 12 || strncasecmp(p, "MatrixMarket", 12) != 0 ||
        n != 6 || strncasecmp(object, "matrix", 6) != 0)
        return sl_import_fail_at(im, begin,
                                 "'%%MatrixMarket matrix coordinate FIELD SYMMETRY' (lines of "
                                 "edges without it: 'sluice import edgelist')");
    p = object + n;
    SL_TRY(read_word(im, &p, formats, "a matrix of kind", format));
    SL_TRY(read_word(im, &p, fields, "values of kind", m->field));
    SL_TRY(read_word(im, &p, symmetries, "a matrix that is", m->symmetry));
    im->edge_sink.both_ways = strcmp(m->symmetry, "general") != 0;
    sl_import_explain_direction(im, "the matrix is %s", m->symmetry);
    im->edge_sink.weighted = strcmp(m->field, "pattern") != 0 && im->weights;
    return SL_OK;
}

// A number from 1 to `limit`.
static int scan_number(const struct sl_import *im, const char **p, uint64_t limit, uint64_t *out)
{
    char wanted[80];
    bool fits;
    *p = sl_line_skip_gap(*p);
    const char *end = sl_line_scan_uint(*p, out, &fits);
    if (end && (sl_line_is_gap(*end) || *end == '\n') && fits && *out >= 1 && *out <= limit) {
        *p = end;
        return SL_OK;
    }
    snprintf(wanted, sizeof wanted, "a whole number from 1 to %" PRIu64, limit);
    return sl_import_fail_at(im, *p, wanted);
}

static int read_size(struct sl_import *im, struct mtx *m, const char *p)
{
    uint64_t columns;
    bool fits;
    SL_TRY(scan_number(im, &p, (uint64_t)SL_IMPORT_MAX_ID + 1, &m->n_nodes));
    SL_TRY(scan_number(im, &p, (uint64_t)SL_IMPORT_MAX_ID + 1, &columns));
    p = sl_line_skip_gap(p);
    if (!sl_line_scan_uint(p, &m->n_entries, &fits) || !fits)
        return sl_import_fail_at(im, p, "the number of entries");
    if (columns != m->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "import %s: line %" PRIu64 ": found %" PRIu64 " rows and %" PRIu64
                       " columns: wanted as many of each, one of each vertex",
                       im->source, im->line, m->n_nodes, columns);
    return sl_import_start_edges(im);
}

static int read_entry(struct sl_import *im, struct mtx *m, const char **line)
{
    const char *p = *line;
    uint64_t row = 0, column = 0;
    double weight = 0;
    if (im->edge_sink.n_read == m->n_entries)
        return sl_import_fail_at(im, p, "the end of the file, after as many entries as it says");
    SL_TRY(scan_number(im, &p, m->n_nodes, &row));
    SL_TRY(scan_number(im, &p, m->n_nodes, &column));
    p = sl_line_skip_gap(p);
    if (im->edge_sink.weighted) {
        struct sl_line_field value = {p, strcspn(p, " \t,;\r\n")};
        SL_TRY(sl_import_scan_weight(im, &value, &weight));
        p = sl_line_skip_gap(p + value.n);
    }
    if (*p != '\n' && im->weights)
        return sl_import_fail_at(im, p,
                                 im->edge_sink.weighted ? "no fourth column" : "two columns");
    *line = sl_import_next_line(p);
    return sl_edge_sink_put(&im->edge_sink, (uint32_t)(row - 1), (uint32_t)(column - 1), weight);
}

static int parse_block(struct sl_import *im, void *context, const char *p, const char *end)
{
    struct mtx *m = context;
    while (p < end) {
        bool nothing = *p == '%' || *sl_line_skip_gap(p) == '\n';
        if (++im->line > 1 && !nothing && m->n_nodes) {
            SL_TRY(read_entry(im, m, &p));
            continue;
        }
        if (im->line == 1)
            SL_TRY(read_heading(im, m, p));
        else if (!nothing)
            SL_TRY(read_size(im, m, p));
        p = sl_import_next_line(p);
    }
    return SL_OK;
}

static int read_mtx(struct sl_import *im, void *context)
{
    struct mtx *m = context;
    SL_TRY(sl_import_read_blocks(im, parse_block, m));
    if (!m->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "import %s: found no size in %" PRIu64 " lines: wanted a heading "
                       "and 'ROWS COLUMNS ENTRIES'",
                       im->source, im->line);
    if (im->edge_sink.n_read != m->n_entries)
        return sl_fail(SL_EFORMAT,
                       "import %s: found %" PRIu64 " entries: wanted %" PRIu64
                       ", as its size says: the file is cut",
                       im->source, im->edge_sink.n_read, m->n_entries);
    SL_TRY(sl_import_finish_edges(im, m->n_nodes));
    return sl_import_finish_vertices(im, m->n_nodes);
}

static void describe(const struct sl_import *im, const void *context, cJSON *source)
{
    const struct mtx *m = context;
    cJSON_AddStringToObject(source, "file", basename(im->source));
    cJSON_AddStringToObject(source, "field", m->field);
    cJSON_AddStringToObject(source, "symmetry", m->symmetry);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    const struct mtx *m = context;
    char n[SL_UNITS_BYTES];
    sl_table_row(t, "matrix|%s x %s, %s, %s", sl_units_grouped(n, m->n_nodes), n, m->field,
                 m->symmetry);
    sl_import_summarise_vertices(&im->vertices, t);
}

static const struct sl_option options[] = {{0}};

const struct sl_import_format sl_import_mtx = {
    .name = "mtx",
    .help = "a sparse matrix in Matrix Market's format (SuiteSparse, scipy), plain or gzip",
    .source = "SRC.mtx",
    .about = "Reads a square sparse matrix: row i, column j is an edge from vertex i - 1 to vertex "
             "j - 1, its value the edge's weight. An entry of a symmetric matrix stands for both "
             "directions. SRC.mtx may be gzip, or - for standard input.",
    .has_weights = true,
    .example = "sluice import mtx com-Orkut.mtx.gz --out data/orkut",
    .context_bytes = sizeof(struct mtx),
    .options = options,
    .read = read_mtx,
    .describe = describe,
    .summarise = summarise,
};
