/*
 * Edge lists: a line `source destination [weight]`, columns separated by white space, commas or
 * semicolons; lines that begin with # or % are comments. This covers SNAP, KONECT's `out.*` and
 * most hand-written files.
 *
 * Vertex ids are kept (a graph of ids 0 .. largest) unless --relabel makes them dense. A file whose
 * ids are so sparse that the offsets would dwarf the edges is refused with that advice.
 */
#include "dataset/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/memory.h"
#include "dataset/line_scan.h"
#include "common/text/units.h"
#include "dataset/import_vertices.h"
#include "dataset/line_fields.h"
#include "dataset/name_key.h"
#include "dataset/vertex_names.h"
#include "dataset/vertex_tables.h"

// Beyond this many vertices an id space with fewer than one edge in 64 ids is taken for sparse.
#define SPARSE_NODES UINT64_C(1000000)
#define SPARSE_RATIO 64

struct edgelist {
    bool undirected, relabel, no_weights;
    uint64_t n_nodes; // 0 = from the ids
    uint64_t skip_lines;

    struct sl_vertex_tables tables;
    struct sl_vertex_names names; // of --relabel
    struct sl_line_fields fields; // of a line with names
    uint64_t memory_bytes;
    uint64_t limit; // ids are below it
    uint64_t n_comments, n_blank;
    uint32_t n_columns; // of the first edge: 2 or 3
};

// ---- messages -----------------------------------------------------------------------------------

// An id that is not one: why, in the words of whoever has to fix the file.
static int fail_id(const struct sl_import *im, const char *p)
{
    if (*p == '-')
        return sl_import_fail_at(im, p,
                                 "vertex ids from 0: negative ids have to be renumbered first");
    return sl_import_fail_at(im, p,
                             "'source destination [weight]' with whole numbers as vertex ids "
                             "(--relabel takes any names; "
                             "--skip-lines 1 leaves out a heading)");
}

static int fail_limit(const struct sl_import *im, const struct edgelist *e, const char *p)
{
    char wanted[160];
    if (e->n_nodes)
        snprintf(wanted, sizeof wanted,
                 "vertex ids below --num-nodes %" PRIu64 ": give a larger one, or none",
                 e->n_nodes);
    else
        snprintf(wanted, sizeof wanted,
                 "vertex ids up to %" PRIu32 ": give --relabel, which takes any", SL_IMPORT_MAX_ID);
    return sl_import_fail_at(im, p, wanted);
}

// ---- lines --------------------------------------------------------------------------------------

static int scan_id(const struct sl_import *im, const struct edgelist *e, const char **p,
                   uint32_t *id)
{
    uint64_t x;
    bool fits;
    const char *end = sl_line_scan_uint(*p, &x, &fits);
    if (!end || (!sl_line_is_gap(*end) && *end != '\n'))
        return fail_id(im, *p);
    if (!fits || x >= e->limit)
        return fail_limit(im, e, *p);
    *id = (uint32_t)x;
    *p = end;
    return SL_OK;
}

// The first edge decides whether the file has weights, and with that what the sort carries.
static int decide_columns(struct sl_import *im, struct edgelist *e, const char *p)
{
    p = sl_line_skip_gap(p);
    bool third = *p != '\n';
    e->n_columns = third && !e->no_weights ? 3 : 2;
    im->intake.weighted = e->n_columns == 3;
    return e->relabel ? SL_OK : sl_import_start_edges(im);
}

static int check_name(const struct sl_import *im, const struct sl_field *f)
{
    return f->n >= 1 && f->n <= SL_NAME_MAX_BYTES
               ? SL_OK
               : sl_import_fail_at(im, f->text, "a vertex's name, of 1 to 4096 bytes");
}

// A line whose vertices are names.
static int parse_names(struct sl_import *im, struct edgelist *e, const char **line)
{
    const struct sl_field *at = e->fields.at;
    const char *p = *line;
    float weight = 0;
    int rc = sl_line_fields_split(&e->fields, p, line);
    if (rc == SL_EFORMAT)
        return sl_import_fail_at(im, *line, "a quote that its field closes");
    SL_TRY(rc);
    SL_TRY(check_name(im, &at[0]));
    SL_TRY(check_name(im, &at[1]));
    if (e->n_columns == 0)
        SL_TRY(decide_columns(im, e, at[2].text));
    if (e->n_columns == 3) {
        p = at[2].text;
        SL_TRY(sl_import_scan_weight(im, &p, &weight));
    }
    im->intake.n_read++;
    return sl_numbering_put_edge(e->names.numbering, at[0].text, at[0].n, at[1].text, at[1].n,
                                 weight);
}

static int parse_line(struct sl_import *im, struct edgelist *e, const char **line)
{
    const char *p = *line;
    uint32_t source = 0, destination = 0;
    float weight = 0;
    SL_TRY(scan_id(im, e, &p, &source));
    p = sl_line_skip_gap(p);
    SL_TRY(scan_id(im, e, &p, &destination));
    if (e->n_columns == 0)
        SL_TRY(decide_columns(im, e, p));
    p = sl_line_skip_gap(p);
    if (e->n_columns == 3) {
        SL_TRY(sl_import_scan_weight(im, &p, &weight));
        p = sl_line_skip_gap(p);
    }
    if (*p != '\n' && !e->no_weights)
        return sl_import_fail_at(
            im, p,
            e->n_columns == 3 ? "no fourth column (--no-weights reads only the first two)"
                              : "two columns as in the first edge (--no-weights reads only two)");
    *line = e->no_weights ? sl_import_next_line(p) : p + 1;
    return sl_edge_intake_put(&im->intake, source, destination, weight);
}

static int parse_block(struct sl_import *im, void *context, const char *p, const char *end)
{
    struct edgelist *e = context;
    while (p < end) {
        bool skipped = ++im->line <= e->skip_lines;
        p = sl_line_skip_gap(p);
        bool comment = *p == '#' || *p == '%';
        if (!skipped && !comment && *p != '\n') {
            SL_TRY(e->relabel ? parse_names(im, e, &p) : parse_line(im, e, &p));
            continue;
        }
        e->n_comments += !skipped && comment;
        e->n_blank += !skipped && !comment;
        p = sl_import_next_line(p);
    }
    return SL_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

// Ids 0 to the largest of the edges and the features, or as many as --num-nodes says.
static int count_nodes(const struct sl_import *im, const struct edgelist *e, uint64_t *n_nodes)
{
    char ids[SL_UNITS_BYTES], edges[SL_UNITS_BYTES];
    *n_nodes = SL_MAX((uint64_t)im->intake.max_id + 1, e->tables.n_rows);
    if (e->n_nodes) {
        *n_nodes = e->n_nodes;
        return SL_OK;
    }
    if (*n_nodes > SPARSE_NODES && *n_nodes / SPARSE_RATIO > im->intake.n_read &&
        *n_nodes > e->tables.n_rows)
        return sl_fail(SL_EFORMAT,
                       "import %s: the largest vertex id is %s, but there are only %s edges: give "
                       "--relabel to number the vertices anew, or --num-nodes to insist",
                       im->source, sl_units_grouped(ids, im->intake.max_id),
                       sl_units_grouped(edges, im->intake.n_read));
    return SL_OK;
}

static void describe(const struct sl_import *im, const void *context, cJSON *source)
{
    const struct edgelist *e = context;
    cJSON_AddStringToObject(source, "file", basename(im->source));
    cJSON_AddBoolToObject(source, "undirected", e->undirected);
    cJSON_AddBoolToObject(source, "relabelled", e->relabel);
    sl_vertex_tables_describe(&e->tables, source);
}

// What an importer holds besides the sort is a part of --memory, which is no more than there is.
static int begin(struct sl_import *im, struct edgelist *e)
{
    uint64_t most = sl_device_memory_available() / 4 * 3;
    e->memory_bytes = im->memory_bytes =
        SL_MAX(SL_MIN(im->memory_bytes, most), (uint64_t)SL_EDGE_SORT_MIN_BYTES);
    im->memory_held = e->relabel           ? e->memory_bytes / 2
                      : e->tables.features ? e->memory_bytes / 4
                                           : 0;
    e->fields.most = 3;
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
    if (im->intake.n_read == 0)
        return sl_fail(SL_EFORMAT,
                       "import %s: found no edge in %" PRIu64 " lines: wanted lines of 'source "
                       "destination [weight]'",
                       im->source, im->line);
    SL_TRY(e->relabel ? sl_vertex_names_finish(&e->names, im, &n_nodes)
                      : count_nodes(im, e, &n_nodes));
    SL_TRY(sl_vertex_tables_write(&e->tables, im, e->memory_bytes, n_nodes, names));
    SL_TRY(sl_import_finish_vertices(im, n_nodes));
    if (e->relabel) {
        im->intake.n_read = 0;
        SL_TRY(sl_import_start_edges(im));
        SL_TRY(sl_vertex_names_put_edges(&e->names, im));
    }
    return sl_import_finish_edges(im, n_nodes);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    const struct edgelist *e = context;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    sl_table_row(t, "lines|%s, of them %s comments, %s blank", sl_units_grouped(a, im->line),
                 sl_units_grouped(b, e->n_comments), sl_units_grouped(c, e->n_blank));
    sl_import_summarise_vertices(&im->vertices, t);
    sl_vertex_tables_summarise(&e->tables, t);
    if (e->relabel)
        sl_vertex_names_summarise(&e->names, t);
}

#define AT(kind, field) SL_OPTION_AT(kind, edgelist, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "undirected", AT(FLAG, undirected),
     .help = "each line stands for both directions; nothing else is merged"},
    {.name = "relabel", AT(FLAG, relabel),
     .help = "take any text as a vertex's name and number those that occur 0, 1, 2, ...: whole "
             "numbers by their value, then other names by their bytes; --features, --labels and "
             "--splits go by the same names"},
    {.name = "features", AT(TEXT, tables.features), .placeholder = "FILE",
     .help = "a line 'vertex number number ...' for every vertex, in any order (CSV, TSV, gzip), or "
             ".npy with a row for each; vertices may be more than those of the edges"},
    {.name = "labels", AT(TEXT, tables.labels), .placeholder = "FILE",
     .help = "lines 'vertex label', a class by number or name, or several columns of 0 and 1; or "
             ".npy; who is not there has none"},
    {.name = "task", AT(CHOICE, tables.task), .choices = sl_label_tasks,
     .help = "what the labels are; auto: one column classes, several a 0/1 matrix"},
    {.name = "splits", AT(TEXT, tables.splits), .placeholder = "FILE",
     .help = "lines 'vertex train|val|test' (valid, validation); or .npy of 0, 1, 2 or -1 (none)"},
    {.name = "num-nodes", AT(UINT, n_nodes), .placeholder = "N", .min = 1,
     .max = (double)SL_IMPORT_MAX_ID + 1, .no_default = true,
     .help = "number of vertices, else the largest id and one"},
    {.name = "no-weights", AT(FLAG, no_weights),
     .help = "read two columns, whatever stands behind them"},
    {.name = "skip-lines", AT(UINT, skip_lines), .placeholder = "N",
     .help = "leave out the first N lines"},
    {0},
};
// clang-format on

static int check(struct sl_import *im, void *context)
{
    struct edgelist *e = context;
    if (e->relabel && e->n_nodes)
        return sl_fail(SL_EINVAL, "import edgelist: --relabel and --num-nodes both given: the "
                                  "vertices are counted when they are renumbered: leave one out");
    if (e->undirected && im->symmetrise)
        return sl_fail(SL_EINVAL, "import edgelist: --undirected and --symmetrise both given: "
                                  "--symmetrise is --undirected with --dedup: leave one out");
    e->limit = e->n_nodes ? e->n_nodes : (uint64_t)SL_IMPORT_MAX_ID + 1;
    im->intake.both_ways = e->undirected;
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
    .about = "Reads text with one edge a line: source, destination and perhaps a weight, "
             "separated by blanks, tabs, commas or semicolons. # and % begin comments. SRC may "
             "be gzip, or - for standard input. An edge u v makes u an in-neighbour of v.",
    .example = "sluice import edgelist web-Google.txt.gz --relabel --out data/web-google\n"
               "sluice import edgelist edges.csv --skip-lines 1 --symmetrise --out data/mine",
    .has_features = true,
    .context_bytes = sizeof(struct edgelist),
    .options = options,
    .check = check,
    .read = read_edgelist,
    .describe = describe,
    .summarise = summarise,
    .close = close_edgelist,
};
