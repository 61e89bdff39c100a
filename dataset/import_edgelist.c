/*
 * Edge lists: a line `source target [weight]`, columns separated by white space, commas or
 * semicolons; lines that begin with # or % are comments, and those in front of the edges may say
 * what the graph is (edge_heading.h). This covers SNAP, KONECT's `out.*` and most hand-written
 * files; --columns reads tables in which they stand elsewhere (edge_columns.h).
 *
 * Vertex ids are kept (a graph of ids 0 .. largest) unless --relabel takes them as names and
 * numbers those that occur (vertex_names.h). A file whose ids are so sparse that the offsets would
 * dwarf the edges is refused with that advice. Features, labels and splits may come along in files
 * of their own, by the same ids or names (vertex_tables.h).
 */
#include "dataset/import.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/text/units.h"
#include "dataset/edge_columns.h"
#include "dataset/edge_heading.h"
#include "dataset/import_vertices.h"
#include "dataset/line_fields.h"
#include "dataset/line_scan.h"
#include "dataset/name_key.h"
#include "dataset/vertex_names.h"
#include "dataset/vertex_tables.h"

// Beyond this many vertices an id space with fewer than one edge in 64 ids is taken for sparse.
#define SPARSE_NODES UINT64_C(1000000)
#define SPARSE_RATIO 64

// Whole numbers of nine digits and more are rather seconds since 1970 than weights.
#define LIKE_TIMES 1e8

// The choices of --separator, and what of struct sl_line_fields they are.
static const char *const separators[] = {"auto", "blanks", "comma", "semicolon", "tab", NULL};
static const char separator_of[] = {'\0', '\0', ',', ';', '\t'};

struct edgelist {
    bool undirected, undirected_given, relabel;
    uint64_t n_nodes; // 0 = from the ids
    uint64_t skip_lines;
    const char *columns_text; // --columns; NULL: the first edge says
    int separator;
    // Vertices of the first side, where each side is numbered alone; 0: ids are of one numbering.
    uint64_t bipartite;
    bool bipartite_given;
    bool by_time, times;

    struct sl_vertex_tables tables;
    struct sl_vertex_names names; // of --relabel
    uint64_t memory_bytes;
    uint64_t limit; // ids are below it
    uint64_t n_comments, n_blank;

    struct sl_edge_heading heading;
    struct sl_edge_columns columns;
    struct sl_line_fields fields;
    bool third_unread;     // by the heading, which says that edges have no weights
    bool begun;            // the first edge was met: columns and separator are known
    bool plain;            // they are the first columns: numbers are read as they stand
    bool id_0, id_last;    // of two sides: ids 0 and `bipartite` occur
    uint64_t n_like_times; // of the weights
    // Of names: lines on which neither is a number; the first of them is one, and says so.
    uint64_t n_text_lines;
    bool begins_with_text;
    char first_names[64];
};

// ---- messages -----------------------------------------------------------------------------------

// An id that is not one: why, in the words of whoever has to fix the file.
static int fail_id(const struct sl_import *im, const struct edgelist *e,
                   const struct sl_line_field *f)
{
    bool several = false;
    for (size_t i = 0; i < f->n; i++)
        several |= sl_line_is_gap(f->text[i]);
    if (f->n && *f->text == '-')
        return sl_import_fail_field(im, f,
                                    "vertex ids from 0: negative ids have to be renumbered first");
    if (several && e->fields.separator && e->separator == 0)
        return sl_import_fail_field(im, f,
                                    "columns between separators as in the first line (--separator "
                                    "blanks takes any of them)");
    if (e->bipartite && e->relabel)
        return sl_import_fail_field(
            im, f,
            "whole numbers: the vertices of two sides are numbered side by side, even with "
            "--relabel (--bipartite 0 makes one side, of any names)");
    return sl_import_fail_field(
        im, f,
        "'source target [weight]' with whole numbers as vertex ids (--relabel takes any names; of "
        "a heading row, --columns takes the names, or --skip-lines 1 leaves it out)");
}

static int fail_limit(const struct sl_import *im, const struct edgelist *e,
                      const struct sl_line_field *f)
{
    char wanted[160];
    if (e->n_nodes)
        snprintf(wanted, sizeof wanted,
                 "vertex ids below --num-nodes %" PRIu64 ": give a larger one, or none",
                 e->n_nodes);
    else
        snprintf(wanted, sizeof wanted,
                 "vertex ids up to %" PRIu32 ": give --relabel, which takes any", SL_IMPORT_MAX_ID);
    return sl_import_fail_field(im, f, wanted);
}

static int fail_side(const struct sl_import *im, const struct edgelist *e, uint64_t id)
{
    char wanted[160], text[24];
    struct sl_line_field found = {text, (size_t)snprintf(text, sizeof text, "%" PRIu64, id)};
    snprintf(wanted, sizeof wanted,
             "ids of the first side from %s: it has %" PRIu64 " vertices (--bipartite N says "
             "otherwise)",
             e->id_0 ? "0, as there is one" : "1", e->bipartite);
    return sl_import_fail_field(im, &found, wanted);
}

// ---- edges --------------------------------------------------------------------------------------

// A vertex by its field.
static int scan_id(const struct sl_import *im, const struct edgelist *e,
                   const struct sl_line_field *f, uint64_t *id)
{
    bool fits = false;
    const char *end = f->n ? sl_line_scan_uint(f->text, id, &fits) : NULL;
    if (end != f->text + f->n)
        return fail_id(im, e, f);
    return fits && *id < e->limit ? SL_OK : fail_limit(im, e, f);
}

// Each side of a bipartite graph is numbered alone, from 0 or from 1: the second's ids go behind
// the first's.
static int join_sides(const struct sl_import *im, struct edgelist *e, uint64_t source,
                      uint64_t *target)
{
    e->id_0 |= source == 0 || *target == 0;
    e->id_last |= source == e->bipartite;
    if (source > e->bipartite || (e->id_0 && e->id_last))
        return fail_side(im, e, source);
    *target += e->bipartite;
    if (*target < e->limit)
        return SL_OK;
    char text[24];
    struct sl_line_field found = {text, (size_t)snprintf(text, sizeof text, "%" PRIu64, *target)};
    return fail_limit(im, e, &found);
}

static int check_name(const struct sl_import *im, const struct sl_line_field *f)
{
    return f->n >= 1 && f->n <= SL_NAME_MAX_BYTES
               ? SL_OK
               : sl_import_fail_field(im, f, "a vertex's name, of 1 to 4096 bytes");
}

// What names a column rather than a vertex.
static bool is_column_name(const struct sl_line_field *f)
{
    static const char *const names[] = {"source", "src",      "from",  "fromnodeid", "node1",
                                        "id1",    "target",   "tgt",   "dst",        "dest",
                                        "to",     "tonodeid", "node2", "id2",        "destination"};
    for (size_t i = 0; i < SL_COUNT_OF(names); i++)
        if (f->n == strlen(names[i]) && strncasecmp(f->text, names[i], f->n) == 0)
            return true;
    return false;
}

// A heading row that --columns does not say would become an edge between the columns' names.
static int look_at_names(struct sl_import *im, struct edgelist *e,
                         const struct sl_line_field *source, const struct sl_line_field *target)
{
    bool text =
        !sl_name_is_number(source->text, source->n) && !sl_name_is_number(target->text, target->n);
    bool first = im->edge_sink.n_read == 0;
    e->n_text_lines += text;
    if (!first || e->columns_text)
        return SL_OK;
    e->begins_with_text = text;
    snprintf(e->first_names, sizeof e->first_names, "%.*s %.*s", (int)SL_MIN(source->n, (size_t)30),
             source->text, (int)SL_MIN(target->n, (size_t)30), target->text);
    return is_column_name(source) && is_column_name(target)
               ? sl_import_fail_field(im, source,
                                      "an edge, not a heading row (--columns with its names reads "
                                      "it, --skip-lines 1 leaves it out; --columns 1,2 takes it "
                                      "for an edge)")
               : SL_OK;
}

static int fail_text_line(const struct sl_import *im, const struct edgelist *e)
{
    return sl_fail(SL_EFORMAT,
                   "import %s: the first edge is '%s', all others are numbers: wanted no heading "
                   "row: --columns with its names reads it, --skip-lines %" PRIu64
                   " leaves it out, --columns 1,2 takes it for an edge",
                   im->source, e->first_names, e->skip_lines + 1);
}

static int put_names(struct sl_import *im, struct edgelist *e, const struct sl_line_field *source,
                     const struct sl_line_field *target, double weight)
{
    SL_TRY(check_name(im, source));
    SL_TRY(check_name(im, target));
    SL_TRY(look_at_names(im, e, source, target));
    im->edge_sink.n_read++;
    return sl_numbering_put_edge(e->names.numbering, source->text, source->n, target->text,
                                 target->n, weight);
}

static int put_edge(struct sl_import *im, struct edgelist *e, uint64_t source, uint64_t target,
                    double weight)
{
    if (e->bipartite)
        SL_TRY(join_sides(im, e, source, &target));
    if (!e->relabel)
        return sl_edge_sink_put(&im->edge_sink, (uint32_t)source, (uint32_t)target, weight);
    // The two sides' numbers are different names now.
    char text[2][24];
    const struct sl_line_field names[2] = {
        {text[0], (size_t)snprintf(text[0], sizeof text[0], "%" PRIu64, source)},
        {text[1], (size_t)snprintf(text[1], sizeof text[1], "%" PRIu64, target)}};
    return put_names(im, e, &names[0], &names[1], weight);
}

// ---- lines --------------------------------------------------------------------------------------

// The separator behind a number and what may stand beside it; NULL when something else does.
static const char *skip_separator(const char *p, char separator)
{
    if (!separator)
        return sl_line_is_gap(*p) ? sl_line_skip_gap(p) : NULL;
    p = sl_line_skip_blanks(p, separator);
    return *p == separator ? sl_line_skip_blanks(p + 1, separator) : NULL;
}

// The quick way, for a line of nothing but numbers in the first columns; moves *line behind it.
// False: it is for its fields to be read, or explained.
static bool scan_plain(const struct edgelist *e, const char **line, uint64_t *source,
                       uint64_t *target, double *weight)
{
    const char separator = e->fields.separator;
    const char *p = sl_line_skip_blanks(*line, separator), *end;
    bool fits, fits_too;
    if (!(p = sl_line_scan_uint(p, source, &fits)) || !(p = skip_separator(p, separator)) ||
        !(p = sl_line_scan_uint(p, target, &fits_too)))
        return false;
    if (e->columns.weight >= 0 &&
        (!(p = skip_separator(p, separator)) || !(p = sl_line_scan_real(p, weight)) ||
         !sl_import_is_weight(*weight)))
        return false;
    if (!fits || !fits_too || *source >= e->limit || *target >= e->limit)
        return false;
    end = separator ? sl_line_skip_blanks(p, separator) : sl_line_skip_gap(p);
    bool more = separator ? *end == separator : end > p;
    if (*end != '\n' && !(more && e->columns.n_most == SL_FIELDS_MAX))
        return false;
    *line = sl_import_next_line(end);
    return true;
}

// Each side of a bipartite graph is numbered alone, so its vertices are numbers in any case.
static bool takes_names(const struct edgelist *e)
{
    return e->relabel && !e->bipartite;
}

static int split(struct sl_import *im, struct edgelist *e, const char *line, const char **next)
{
    int rc = sl_line_fields_split(&e->fields, line, next);
    if (rc == SL_EFORMAT)
        return sl_import_fail_at(im, *next,
                                 "a quote that is closed in its line, before a separator");
    return rc;
}

static int fail_time(const struct sl_import *im, const struct sl_line_field *f)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted,
             "as an edge's time a whole number from 0, below %" PRIu32
             ", such as seconds since 1970 (milliseconds: divide by 1000)%s",
             SL_EDGE_SPLIT_TIME_END, im->line == 1 ? SL_IMPORT_HEADING : "");
    return sl_import_fail_field(im, f, wanted);
}

static int scan_time(const struct sl_import *im, const struct sl_line_field *f, double *time)
{
    const char *end = f->n ? sl_line_scan_real(f->text, time) : NULL;
    return end == f->text + f->n && *time >= 0 ? SL_OK : fail_time(im, f);
}

// A time travels in the weight's place until edges are held out by it.
static int take_time(const struct sl_import *im, double *weight)
{
    char text[32];
    if (*weight == floor(*weight) && *weight < SL_EDGE_SPLIT_TIME_END) {
        *weight = (double)sl_edge_split_time((uint32_t)*weight);
        return SL_OK;
    }
    const struct sl_line_field found = {text,
                                        (size_t)snprintf(text, sizeof text, "%.17g", *weight)};
    return fail_time(im, &found);
}

static int scan_fields(struct sl_import *im, struct edgelist *e, const char **line,
                       uint64_t *source, uint64_t *target, double *weight)
{
    const struct sl_edge_columns *c = &e->columns;
    const struct sl_line_field *at = e->fields.at;
    SL_TRY(split(im, e, *line, line));
    if (!takes_names(e)) {
        SL_TRY(scan_id(im, e, &at[c->source], source));
        SL_TRY(scan_id(im, e, &at[c->target], target));
    }
    if (c->weight >= 0)
        SL_TRY(im->timed ? scan_time(im, &at[c->weight], weight)
                         : sl_import_scan_weight(im, &at[c->weight], weight));
    if (e->fields.n > c->n_most && at[c->n_most].n > 0) {
        char wanted[120];
        snprintf(wanted, sizeof wanted,
                 "%d columns as in the first edge (--columns says which are read)", c->n_most);
        return sl_import_fail_field(im, &at[c->n_most], wanted);
    }
    return SL_OK;
}

static int decide_columns(struct sl_import *im, struct edgelist *e, const char *line,
                          bool *is_heading)
{
    const struct sl_edge_heading *h = &e->heading;
    const char *next;
    e->fields.separator = separator_of[e->separator];
    if (e->separator == 0 && !h->konect)
        e->fields.separator = sl_line_separator(line, e->columns_text || e->relabel);
    e->fields.most = SL_FIELDS_MAX;
    SL_TRY(split(im, e, line, &next));
    bool weights =
        im->timed || (im->weights && (im->weights_given || e->columns_text || !h->unweighted));
    if (e->columns_text)
        SL_TRY(sl_edge_columns_choose(im, e->columns_text, &e->fields, &e->columns, is_heading));
    else if (weights)
        SL_TRY(sl_edge_columns_default(im, h->konect || im->timed, &e->fields, &e->columns));
    else
        e->columns = (struct sl_edge_columns){.source = 0, .target = 1};
    e->third_unread = im->weights && !weights && e->fields.n > 2;
    if (!weights)
        sl_edge_columns_drop_weight(&e->columns);
    if (h->dynamic && e->columns.weight >= 0 && !e->columns_text)
        return sl_fail(SL_EFORMAT,
                       "import %s: line %" PRIu64 ": found '%s', whose third column says whether "
                       "an edge is added or removed: wanted a graph that stays: --no-weights "
                       "imports every edge that was ever added",
                       im->source, h->line, h->text);
    e->fields.most = sl_edge_columns_width(&e->columns);
    e->plain =
        !e->relabel && e->columns.source == 0 && e->columns.target == 1 && e->columns.weight < 3;
    return SL_OK;
}

// What the heading says of the two sides and the direction, unless an option does.
static int decide_direction(struct sl_import *im, struct edgelist *e)
{
    const struct sl_edge_heading *h = &e->heading;
    if (h->bipartite && !e->bipartite_given && h->first_side == 0)
        return sl_fail(
            SL_EFORMAT,
            "import %s: line %" PRIu64 ": found '%s', where each side is numbered from "
            "1, without the line '%% EDGES FIRST SECOND' behind it: wanted the number "
            "of vertices of the first side: --bipartite N (0: both sides share their ids)",
            im->source, h->line, h->text);
    if (h->bipartite && !e->bipartite_given)
        e->bipartite = h->first_side;
    if (!e->undirected_given)
        e->undirected = h->direction == SL_HEADING_UNDIRECTED;
    im->edge_sink.both_ways = e->undirected;
    if (e->undirected_given)
        sl_import_explain_direction(im, e->undirected ? "--undirected" : "--no-undirected");
    else if (h->direction != SL_HEADING_SILENT)
        sl_import_explain_direction(
            im, "'%s' in line %" PRIu64 "%s", h->text, h->line,
            e->undirected ? "; --no-undirected stores lines as they are written" : "");
    return SL_OK;
}

// The first line that is neither comment nor blank, perhaps a heading row.
static int begin_edges(struct sl_import *im, struct edgelist *e, const char *line, bool *is_heading)
{
    if (e->heading.matrix)
        return sl_fail(SL_EFORMAT,
                       "import %s: found a heading of Matrix Market's: wanted an edge list: give "
                       "it to 'sluice import mtx'",
                       im->source);
    e->begun = true;
    SL_TRY(decide_columns(im, e, line, is_heading));
    SL_TRY(decide_direction(im, e));
    im->edge_sink.weighted = e->columns.weight >= 0;
    return e->relabel ? SL_OK : sl_import_start_edges(im);
}

static int parse_line(struct sl_import *im, struct edgelist *e, const char **line)
{
    uint64_t source = 0, target = 0;
    double weight = 0;
    bool is_heading = false;
    if (!e->begun)
        SL_TRY(begin_edges(im, e, *line, &is_heading));
    if (is_heading) {
        *line = sl_import_next_line(*line);
        return SL_OK;
    }
    if (!e->plain || !scan_plain(e, line, &source, &target, &weight))
        SL_TRY(scan_fields(im, e, line, &source, &target, &weight));
    if (im->timed)
        SL_TRY(take_time(im, &weight));
    else
        e->n_like_times += weight >= LIKE_TIMES && weight == floor(weight);
    return takes_names(e) ? put_names(im, e, &e->fields.at[e->columns.source],
                                      &e->fields.at[e->columns.target], weight)
                          : put_edge(im, e, source, target, weight);
}

static int parse_block(struct sl_import *im, void *context, const char *line, const char *end)
{
    struct edgelist *e = context;
    while (line < end) {
        bool skipped = ++im->line <= e->skip_lines;
        const char *p = sl_line_skip_gap(line);
        bool comment = *p == '#' || *p == '%';
        if (!skipped && !comment && *p != '\n') {
            SL_TRY(parse_line(im, e, &line));
            continue;
        }
        if (!skipped && comment && !e->begun)
            sl_edge_heading_read(&e->heading, p, im->line);
        e->n_comments += !skipped && comment;
        e->n_blank += !skipped && !comment;
        line = sl_import_next_line(p);
    }
    return SL_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

// Ids 0 to the largest of the edges and the features, or as many as --num-nodes says.
static int count_nodes(const struct sl_import *im, const struct edgelist *e, uint64_t *n_nodes)
{
    char ids[SL_UNITS_BYTES], edges[SL_UNITS_BYTES];
    *n_nodes = SL_MAX((uint64_t)im->edge_sink.max_id + 1, e->tables.n_rows);
    if (e->n_nodes) {
        *n_nodes = e->n_nodes;
        return SL_OK;
    }
    if (*n_nodes > SPARSE_NODES && *n_nodes / SPARSE_RATIO > im->edge_sink.n_read &&
        *n_nodes > e->tables.n_rows)
        return sl_fail(SL_EFORMAT,
                       "import %s: the largest vertex id is %s, but there are only %s edges: give "
                       "--relabel to number the vertices anew, or --num-nodes to insist",
                       im->source, sl_units_grouped(ids, im->edge_sink.max_id),
                       sl_units_grouped(edges, im->edge_sink.n_read));
    return SL_OK;
}

static void describe(const struct sl_import *im, const void *context, cJSON *source)
{
    const struct edgelist *e = context;
    cJSON_AddStringToObject(source, "file", basename(im->source));
    cJSON_AddBoolToObject(source, "undirected", e->undirected);
    cJSON_AddBoolToObject(source, "relabelled", e->relabel);
    if (e->columns_text)
        cJSON_AddStringToObject(source, "columns", e->columns_text);
    if (e->heading.line)
        cJSON_AddStringToObject(source, "heading", e->heading.text);
    if (e->bipartite)
        cJSON_AddNumberToObject(source, "first_side", (double)e->bipartite);
    if (e->relabel)
        cJSON_AddStringToObject(source, "vertex_names", "vertex_names.npy");
    sl_vertex_tables_describe(&e->tables, source);
}

// Names and tables take their part of --memory, which is no more than there is.
static int begin(struct sl_import *im, struct edgelist *e)
{
    const struct sl_vertex_tables *t = &e->tables;
    uint64_t most = sl_device_memory_available() / 4 * 3;
    e->memory_bytes = im->memory_bytes =
        SL_MAX(SL_MIN(im->memory_bytes, most), (uint64_t)SL_EDGE_SORT_MIN_BYTES);
    bool tables = t->features || t->labels || t->splits || t->times;
    im->memory_held = e->relabel ? e->memory_bytes / 2 : tables ? e->memory_bytes / 4 : 0;
    if (e->relabel)
        SL_TRY(sl_numbering_create(im->making.st.dir, e->memory_bytes, &e->names.numbering));
    return sl_vertex_tables_read_features(&e->tables, im, e->memory_bytes, e->names.numbering);
}

static int read_edgelist(struct sl_import *im, void *context)
{
    struct edgelist *e = context;
    const struct sl_names *names = e->relabel ? &e->names.names : NULL;
    uint64_t n_nodes;
    SL_TRY(begin(im, e));
    SL_TRY(sl_import_read_blocks(im, parse_block, e));
    if (im->edge_sink.n_read == 0)
        return sl_fail(SL_EFORMAT,
                       "import %s: found no edge in %" PRIu64 " lines: wanted lines of 'source "
                       "target [weight]'",
                       im->source, im->line);
    if (e->bipartite && !e->relabel)
        im->first_side = e->bipartite + e->id_last; // numbered from 1 it has that id, too
    if (e->begins_with_text && e->n_text_lines == 1 && im->edge_sink.n_read > 2)
        return fail_text_line(im, e);
    SL_TRY(e->relabel ? sl_vertex_names_finish(&e->names, im, &n_nodes)
                      : count_nodes(im, e, &n_nodes));
    SL_TRY(sl_vertex_tables_write(&e->tables, im, e->memory_bytes, n_nodes, names));
    SL_TRY(sl_import_finish_vertices(im, n_nodes));
    if (e->relabel) {
        im->edge_sink.n_read = 0; // they come again
        SL_TRY(sl_import_start_edges(im));
        SL_TRY(sl_vertex_names_put_edges(&e->names, im));
    }
    return sl_import_finish_edges(im, n_nodes);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    const struct edgelist *e = context;
    const struct sl_edge_heading *h = &e->heading;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    sl_table_row(t, "lines|%s, of them %s comments, %s blank", sl_units_grouped(a, im->line),
                 sl_units_grouped(b, e->n_comments), sl_units_grouped(c, e->n_blank));
    if (h->n_edges && h->n_edges != im->edge_sink.n_read)
        sl_table_row(t, "edges by the heading|%s, but %s were read: is the file whole?",
                     sl_units_grouped(a, h->n_edges), sl_units_grouped(b, im->edge_sink.n_read));
    if (e->bipartite)
        sl_table_row(t, "two sides|ids of the second are stored higher by %s, the first's size",
                     sl_units_grouped(a, e->bipartite));
    if (e->third_unread)
        sl_table_row(t,
                     "weights|none, by '%s' in line %" PRIu64 " (--weights reads the third "
                     "column)",
                     h->text, h->line);
    if (e->n_like_times * 2 > im->edge_sink.n_read)
        sl_table_row(t,
                     "weights|column %d looks like times: %s are whole numbers of nine digits and "
                     "more (--no-weights leaves them out)",
                     e->columns.weight + 1, sl_units_grouped(a, e->n_like_times));
    sl_import_summarise_vertices(&im->vertices, t);
    sl_vertex_tables_summarise(&e->tables, t);
    if (e->relabel)
        sl_vertex_names_summarise(&e->names, t);
}

#define AT(kind, field) SL_OPTION_AT(kind, edgelist, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "columns", AT(TEXT, columns_text), .placeholder = "SOURCE,TARGET[,WEIGHT]",
     .help = "the columns to read, by their numbers from 1 or their names in a heading row, as in "
             "1,3 or user,item,rating; default: two columns, or three with weights"},
    {.name = "separator", AT(CHOICE, separator), .choices = separators,
     .help = "between columns; blanks: any run of blanks, tabs, commas and semicolons; auto: comma "
             "or semicolon where the first line has one, with --columns or --relabel tab, else "
             "blanks"},
    {.name = "undirected", AT(FLAG, undirected), SL_OPTION_GIVEN(edgelist, undirected_given),
     .no_default = true,
     .help = "each line stands for both directions; repeated edges are kept (default: as a heading "
             "of KONECT or SNAP says)"},
    {.name = "bipartite", AT(UINT, bipartite), SL_OPTION_GIVEN(edgelist, bipartite_given),
     .placeholder = "N", .max = SL_IMPORT_MAX_ID, .no_default = true,
     .help = "sources and targets have numbers of their own: add N, the number of vertices of the "
             "first side, to the targets' ids (default: as a heading of KONECT says; 0: nothing)"},
    {.name = "relabel", AT(FLAG, relabel),
     .help = "take any text as a vertex's name, and number names 0, 1, 2, ...: whole numbers by "
             "their value, then other names by their bytes; --features, --labels and --splits use "
             "the same names"},
    {.name = "by-time", AT(FLAG, by_time),
     .help = "--holdout takes the latest pairs for the test, and the latest of the others for the "
             "validation: the last column is the time, a whole number, and there are no weights"},
    {.name = "times", AT(FLAG, times),
     .help = "keeps the time of each edge, the last column, a whole number, in edge_time.npy, for "
             "sampler.time: each vertex's edges are put in its order, and there are no weights"},
    {.name = "node-times", AT(TEXT, tables.times), .placeholder = "FILE",
     .help = "times of vertices as seeds, for sampler.time: lines 'vertex time', a whole number, "
             "or .npy; of every vertex"},
    {.name = "features", AT(TEXT, tables.features), .placeholder = "FILE",
     .help = "a line 'vertex number number ...' for every vertex, in any order (CSV, TSV, gzip), "
             "or .npy with a row for each; it may have vertices without edges"},
    {.name = "labels", AT(TEXT, tables.labels), .placeholder = "FILE",
     .help = "lines 'vertex label', a class by number or name, or several columns of 0 and 1; or "
             ".npy; a vertex that is missing has no label"},
    {.name = "task", AT(CHOICE, tables.task), .choices = sl_label_tasks,
     .help = "what the labels are; auto: one column is classes, several are a 0/1 matrix"},
    {.name = "splits", AT(TEXT, tables.splits), .placeholder = "FILE",
     .help = "lines 'vertex train|val|test' (valid, validation); or .npy of 0, 1, 2 or -1 (none)"},
    {.name = "num-nodes", AT(UINT, n_nodes), .placeholder = "N", .min = 1,
     .max = (double)SL_IMPORT_MAX_ID + 1, .no_default = true,
     .help = "number of vertices; default: the largest id plus one"},
    {.name = "skip-lines", AT(UINT, skip_lines), .placeholder = "N",
     .help = "leave out the first N lines"},
    {0},
};
// clang-format on

// Times travel as weights, of which the latest one counts.
static int check_times(struct sl_import *im)
{
    if (im->duplicates_given || (im->weights_given && im->weights))
        return sl_fail(SL_EINVAL,
                       "import edgelist: --%s and --%s both given: the last column is the time, "
                       "and there are no weights: leave one out",
                       im->keep_times ? "times" : "by-time",
                       im->duplicates_given ? "duplicates" : "weights");
    if (im->keep_times && im->add_self_loops)
        return sl_fail(SL_EINVAL, "import edgelist: --times and --add-self-loops both given: the "
                                  "edges that are added have no time: leave one out");
    im->duplicates = SL_DUPLICATES_MAX - SL_DUPLICATES_FIRST;
    im->weights_given = true; // even those that are all 1
    return SL_OK;
}

static int check(struct sl_import *im, void *context)
{
    struct edgelist *e = context;
    if (e->relabel && e->n_nodes)
        return sl_fail(SL_EINVAL, "import edgelist: --relabel and --num-nodes both given: the "
                                  "vertices are counted when they are renumbered: leave one out");
    if (e->undirected && im->symmetrise)
        return sl_fail(SL_EINVAL, "import edgelist: --undirected and --symmetrise both given: "
                                  "--symmetrise is --undirected with --dedup: leave one out");
    if (e->columns_text)
        SL_TRY(sl_edge_columns_check(e->columns_text));
    im->held.by_time = e->by_time;
    im->keep_times = e->times;
    im->timed = e->by_time || e->times;
    if (im->timed)
        SL_TRY(check_times(im));
    e->limit = e->n_nodes ? e->n_nodes : (uint64_t)SL_IMPORT_MAX_ID + 1;
    return sl_vertex_tables_check(&e->tables, im, e->relabel);
}

static void close_edgelist(void *context)
{
    struct edgelist *e = context;
    sl_vertex_names_fini(&e->names);
    sl_vertex_tables_fini(&e->tables);
    sl_line_fields_fini(&e->fields);
}

const struct sl_import_format sl_import_edgelist = {
    .name = "edgelist",
    .help = "text with one edge a line (SNAP, KONECT and others), plain or gzip",
    .source = "SRC",
    .about = "Reads text with one edge a line: source, target and perhaps a weight, separated by "
             "blanks, tabs, commas or semicolons. # and % begin comments; those of KONECT and "
             "SNAP at the beginning say whether the graph is directed. SRC may be gzip, or - for "
             "standard "
             "input. An edge u v makes u an in-neighbour of v.",
    .example = "sluice import edgelist web-Google.txt.gz --relabel --out data/web-google\n"
               "sluice import edgelist ratings.csv --columns user,item,rating --out data/mine\n"
               "sluice import edgelist follows.csv --relabel --features people.csv --labels "
               "groups.csv --splits parts.csv --out data/people",
    .has_features = true,
    .has_weights = true,
    .context_bytes = sizeof(struct edgelist),
    .options = options,
    .check = check,
    .read = read_edgelist,
    .describe = describe,
    .summarise = summarise,
    .close = close_edgelist,
};
