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
#include "common/data/npy.h"
#include "dataset/line_scan.h"
#include "common/text/units.h"
#include "dataset/import_vertices.h"
#include "dataset/vertex_intake.h"

// Beyond this many vertices an id space with fewer than one edge in 64 ids is taken for sparse.
#define SPARSE_NODES UINT64_C(1000000)
#define SPARSE_RATIO 64

struct edgelist {
    bool undirected, relabel, no_weights;
    uint64_t n_nodes; // 0 = from the ids
    uint64_t skip_lines;

    struct sl_id_map map;
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
    return sl_import_fail_at(
        im, p,
        "'source destination [weight]' with whole numbers as vertex ids (--skip-lines 1 "
        "leaves out a heading)");
}

static int fail_limit(const struct sl_import *im, const struct edgelist *e, const char *p)
{
    char wanted[160];
    if (e->n_nodes)
        snprintf(wanted, sizeof wanted,
                 "vertex ids below --num-nodes %" PRIu64 ": give a larger one, or none",
                 e->n_nodes);
    else
        snprintf(wanted, sizeof wanted, "vertex ids up to %" PRIu32 ": renumber the vertices first",
                 SL_IMPORT_MAX_ID);
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
    return sl_import_start_edges(im);
}

static int parse_line(struct sl_import *im, struct edgelist *e, const char **line)
{
    const char *p = *line;
    uint32_t source = 0, destination = 0;
    double weight = 0;
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
            SL_TRY(parse_line(im, e, &p));
            continue;
        }
        e->n_comments += !skipped && comment;
        e->n_blank += !skipped && !comment;
        p = sl_import_next_line(p);
    }
    return SL_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

// node_id.npy: the file's id of every vertex.
static int write_node_ids(struct sl_import *im, const struct sl_id_map *map)
{
    char path[SL_STAGING_PATH_BYTES];
    struct sl_npy_writer *w;
    int rc = SL_OK;
    SL_TRY(sl_npy_writer_open(sl_staging_file(&im->making.st, "node_id.npy", path), SL_DTYPE_I64, 1,
                              &map->n_ids, &w));
    for (uint64_t word = 0; word < map->n_words && rc == SL_OK; word++)
        for (uint64_t bits = map->bits[word]; bits && rc == SL_OK; bits &= bits - 1)
            rc = sl_npy_writer_append_id(w, word * 64 + (uint64_t)__builtin_ctzll(bits));
    return sl_npy_writer_close(&w, rc);
}

static int count_nodes(const struct sl_import *im, const struct edgelist *e, uint64_t *n_nodes)
{
    char ids[SL_UNITS_BYTES], edges[SL_UNITS_BYTES];
    if (e->relabel || e->n_nodes) {
        *n_nodes = e->relabel ? e->map.n_ids : e->n_nodes;
        return SL_OK;
    }
    *n_nodes = (uint64_t)im->intake.max_id + 1;
    if (*n_nodes > SPARSE_NODES && *n_nodes / SPARSE_RATIO > im->intake.n_read)
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
}

static int read_edgelist(struct sl_import *im, void *context)
{
    struct edgelist *e = context;
    uint64_t n_nodes;
    SL_TRY(sl_import_read_blocks(im, parse_block, e));
    if (im->intake.n_read == 0)
        return sl_fail(SL_EFORMAT,
                       "import %s: found no edge in %" PRIu64 " lines: wanted lines of 'source "
                       "destination [weight]'",
                       im->source, im->line);
    if (e->relabel)
        SL_TRY(sl_id_map_finish(&e->map));
    SL_TRY(count_nodes(im, e, &n_nodes));
    SL_TRY(sl_import_finish_edges(im, n_nodes, e->relabel ? &e->map : NULL));
    if (e->relabel)
        SL_TRY(write_node_ids(im, &e->map));
    return sl_import_finish_vertices(im, n_nodes);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    const struct edgelist *e = context;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    sl_table_row(t, "lines|%s, of them %s comments, %s blank", sl_units_grouped(a, im->line),
                 sl_units_grouped(b, e->n_comments), sl_units_grouped(c, e->n_blank));
    sl_import_summarise_vertices(&im->vertices, t);
    if (e->relabel)
        sl_table_row(t, "renumbered|the file's ids are in node_id.npy");
}

#define AT(kind, field) SL_OPTION_AT(kind, edgelist, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "undirected", AT(FLAG, undirected),
     .help = "each line stands for both directions; nothing else is merged"},
    {.name = "relabel", AT(FLAG, relabel),
     .help = "number the vertices that occur 0, 1, 2, ... in the order of their ids"},
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
    im->intake.map = e->relabel ? &e->map : NULL;
    return SL_OK;
}

static void close_edgelist(void *context)
{
    struct edgelist *e = context;
    sl_id_map_fini(&e->map);
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
    .context_bytes = sizeof(struct edgelist),
    .options = options,
    .check = check,
    .read = read_edgelist,
    .describe = describe,
    .summarise = summarise,
    .close = close_edgelist,
};
