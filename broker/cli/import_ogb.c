/*
 * OGB node property prediction, as downloaded and unpacked:
 *
 *   SRC/raw/num-node-list.csv.gz, num-edge-list.csv.gz   one number: the graph's size
 *   SRC/raw/edge.csv.gz                                  source,destination
 *   SRC/raw/node-feat.csv.gz                             one row of numbers a vertex   (optional)
 *   SRC/raw/node-label.csv.gz                            one class a vertex            (optional)
 *   SRC/split/SCHEME/{train,valid,test}.csv.gz           one vertex a line             (optional)
 *
 * Each file may also be there without .gz. An edge u,v makes u an in-neighbour of v. The sizes
 * are checked against what the files hold, so an incomplete download is found here.
 */
#include "broker/cli/import.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/npy.h"
#include "broker/cli/command.h"
#include "broker/cli/line_scan.h"
#include "broker/cli/units.h"

enum { SPLITS = 3, PATH_BYTES = 4352, CLASSES_MAX = 1000000, DIM_MAX = 65536 };

static const char *const split_files[SPLITS] = {"train", "valid", "test"};
static const char *const split_outputs[SPLITS] = {"train_idx.npy", "val_idx.npy", "test_idx.npy"};

struct ogb {
    const char *split; // scheme, NULL = the only one
    uint64_t n_nodes, n_edges;
    uint32_t feat_dim;
    uint32_t n_classes;
    uint64_t n_unlabelled;
    uint64_t n_split[SPLITS];
    bool has_split;
    char scheme[256];
};

// One csv file being read.
struct csv {
    struct sl_import *im;
    struct ogb *ogb;
    char path[PATH_BYTES];
    uint64_t line;
    struct sl_npy_writer *w; // of the file that is made from it
    float *row;              // (feat_dim)
};

// ---- files --------------------------------------------------------------------------------------

static int fail_at(const struct csv *c, const char *found, const char *wanted)
{
    char text[64];
    return sl_fail(SL_EFORMAT, "import %s: line %" PRIu64 ": found '%s': wanted %s", c->path,
                   c->line, sl_line_excerpt(found, text, sizeof text), wanted);
}

// SRC/name.csv.gz or SRC/name.csv into c->path; false when neither is there.
static bool find_csv(struct csv *c, const char *name)
{
    static const char *const suffixes[] = {"csv", "csv.gz"};
    for (size_t i = 0; i < SL_COUNT_OF(suffixes); i++) {
        snprintf(c->path, sizeof c->path, "%s/%s.%s", c->im->source, name, suffixes[i]);
        if (access(c->path, F_OK) == 0)
            return true;
    }
    return false;
}

static int need_csv(struct csv *c, const char *name)
{
    if (find_csv(c, name))
        return SL_OK;
    char npz[PATH_BYTES];
    snprintf(npz, sizeof npz, "%s/raw/data.npz", c->im->source);
    if (access(npz, F_OK) == 0)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: it is OGB's binary layout (raw/data.npz): wanted the csv.gz one",
                       c->im->source);
    return sl_fail(SL_ENOENT,
                   "import %s: there is no %s.csv.gz: wanted the unpacked directory of an OGB node "
                   "data set, the one with raw/ and split/ in it",
                   c->im->source, name);
}

/*
 * Calls parse(c, &p) for every line, which leaves p behind the line's newline. A blank line is
 * skipped at the end of a file only: elsewhere it would shift rows.
 */
static int read_csv(struct csv *c, const char *what, int (*parse)(struct csv *c, const char **p))
{
    struct sl_text_reader *r;
    const char *p, *end;
    uint64_t blank = 0;
    SL_TRY(sl_text_reader_open(c->path, &r));
    sl_import_begin_stage(c->im, what, r);
    int rc = SL_OK;
    c->line = 0;
    while (rc == SL_OK) {
        rc = sl_text_reader_next(r, &p, &end);
        if (rc < 0 || p == end)
            break;
        while (p < end && rc == SL_OK) {
            c->line++;
            const char *q = sl_line_skip_gap(p);
            if (*q == '\n') {
                blank++;
                p = q + 1;
                continue;
            }
            rc = blank ? fail_at(c, p, "no line behind a blank one") : parse(c, &p);
        }
        sl_progress_set(&c->im->progress, sl_text_reader_position(r));
        if (rc == SL_OK)
            rc = sl_interrupt_check();
    }
    c->line -= blank; // rows
    sl_text_reader_close(r);
    return rc;
}

static int end_of_line(struct csv *c, const char **p, const char *wanted)
{
    const char *q = sl_line_skip_gap(*p);
    if (*q != '\n')
        return fail_at(c, q, wanted);
    *p = q + 1;
    return SL_OK;
}

static int scan_below(struct csv *c, const char **p, uint64_t limit, const char *what,
                      uint64_t *out)
{
    char wanted[128];
    bool fits;
    const char *end = sl_line_scan_uint(*p, out, &fits);
    if (end && fits && *out < limit && (sl_line_is_gap(*end) || *end == '\n')) {
        *p = end;
        return SL_OK;
    }
    snprintf(wanted, sizeof wanted, "%s from 0 to %" PRIu64, what, limit - 1);
    return fail_at(c, *p, wanted);
}

// ---- sizes and edges ----------------------------------------------------------------------------

static int parse_size(struct csv *c, const char **p, uint64_t limit, uint64_t *out)
{
    if (c->line > 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: several graphs: wanted a node property prediction data set, "
                       "which has one",
                       c->path);
    SL_TRY(scan_below(c, p, limit, "a size", out));
    return end_of_line(c, p, "one number");
}

static int parse_n_nodes(struct csv *c, const char **p)
{
    return parse_size(c, p, (uint64_t)SL_IMPORT_MAX_ID + 2, &c->ogb->n_nodes);
}

static int parse_n_edges(struct csv *c, const char **p)
{
    return parse_size(c, p, UINT64_C(1) << 50, &c->ogb->n_edges);
}

static int parse_edge(struct csv *c, const char **p)
{
    uint64_t source, destination;
    SL_TRY(scan_below(c, p, c->ogb->n_nodes, "a vertex", &source));
    *p = sl_line_skip_gap(*p);
    SL_TRY(scan_below(c, p, c->ogb->n_nodes, "a vertex", &destination));
    SL_TRY(end_of_line(c, p, "two columns: source,destination"));
    return sl_edge_intake_put(&c->im->intake, (uint32_t)source, (uint32_t)destination, 0);
}

static int read_topology(struct csv *c)
{
    struct ogb *ogb = c->ogb;
    SL_TRY(need_csv(c, "raw/num-node-list"));
    SL_TRY(read_csv(c, "sizes", parse_n_nodes));
    if (ogb->n_nodes == 0)
        return sl_fail(SL_EFORMAT, "import %s: found no vertices: wanted the number of them",
                       c->path);
    SL_TRY(need_csv(c, "raw/num-edge-list"));
    SL_TRY(read_csv(c, "sizes", parse_n_edges));
    SL_TRY(need_csv(c, "raw/edge"));
    SL_TRY(sl_import_start_edges(c->im));
    SL_TRY(read_csv(c, "edges", parse_edge));
    if (c->im->intake.n_read != ogb->n_edges)
        return sl_fail(SL_EFORMAT,
                       "import %s: found %" PRIu64 " edges: wanted %" PRIu64
                       " (num-edge-list): get the data set again",
                       c->path, c->im->intake.n_read, ogb->n_edges);
    return sl_import_finish_edges(c->im, ogb->n_nodes, NULL);
}

// ---- vertices -----------------------------------------------------------------------------------

static int check_rows(struct csv *c)
{
    if (c->line == c->ogb->n_nodes)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: found %" PRIu64 " rows: wanted one for each of the %" PRIu64
                   " vertices: get the data set again",
                   c->path, c->line, c->ogb->n_nodes);
}

// Commits or aborts c->w.
static int close_output(struct csv *c, int rc)
{
    struct sl_npy_writer *w = c->w;
    c->w = NULL;
    if (rc == SL_OK)
        return sl_npy_writer_commit(w);
    sl_npy_writer_abort(w);
    return rc;
}

// The first row says how many columns there are.
static int start_features(struct csv *c, const char *p)
{
    char path[SL_STAGING_PATH_BYTES];
    uint32_t columns = 0;
    for (p = sl_line_skip_gap(p); *p != '\n' && columns <= DIM_MAX; p = sl_line_skip_gap(p)) {
        while (*p != '\n' && !sl_line_is_gap(*p))
            p++;
        columns++;
    }
    if (columns > DIM_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: found more than %d columns: wanted at most that", c->path,
                       DIM_MAX);
    c->ogb->feat_dim = columns;
    c->row = malloc(columns * sizeof *c->row);
    if (!c->row)
        return sl_fail(SL_ENOMEM, "import %s: no memory for a row", c->path);
    uint64_t shape[2] = {c->ogb->n_nodes, columns};
    return sl_npy_writer_open(sl_staging_file(&c->im->st, "node_feat.npy", path), SL_DTYPE_F32, 2,
                              shape, &c->w);
}

static int parse_features(struct csv *c, const char **p)
{
    char wanted[96];
    if (!c->row)
        SL_TRY(start_features(c, *p));
    if (c->line > c->ogb->n_nodes)
        return check_rows(c);
    for (uint32_t d = 0; d < c->ogb->feat_dim; d++) {
        double x;
        *p = sl_line_skip_gap(*p);
        const char *end = sl_line_scan_real(*p, &x);
        if (!end || !(sl_line_is_gap(*end) || *end == '\n') || !isfinite((float)x)) {
            snprintf(wanted, sizeof wanted, "a finite number in column %" PRIu32 " of %" PRIu32,
                     d + 1, c->ogb->feat_dim);
            return fail_at(c, *p, wanted);
        }
        c->row[d] = (float)x;
        *p = end;
    }
    SL_TRY(end_of_line(c, p, "as many columns as in the first row"));
    return sl_npy_writer_append(c->w, c->row, c->ogb->feat_dim * sizeof *c->row);
}

static int read_features(struct csv *c)
{
    if (!find_csv(c, "raw/node-feat"))
        return SL_OK;
    int rc = read_csv(c, "features", parse_features);
    free(c->row);
    c->row = NULL;
    if (rc == SL_OK)
        rc = check_rows(c);
    return close_output(c, rc);
}

static int parse_label(struct csv *c, const char **p)
{
    int32_t label = -1;
    double x;
    if (c->line > c->ogb->n_nodes)
        return check_rows(c);
    const char *q = sl_line_skip_gap(*p);
    if (strncasecmp(q, "nan", 3) == 0) {
        q += 3;
        c->ogb->n_unlabelled++;
    } else {
        const char *end = sl_line_scan_real(q, &x);
        if (!end || !(x >= 0 && x < CLASSES_MAX) || x != floor(x))
            return fail_at(c, q, "a class from 0, or nan for a vertex without one");
        label = (int32_t)x;
        q = end;
    }
    *p = q;
    if (*sl_line_skip_gap(q) != '\n')
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: line %" PRIu64 ": found several columns: wanted one class a "
                       "vertex (multi-label data sets can not be imported yet)",
                       c->path, c->line);
    SL_TRY(end_of_line(c, p, "one class"));
    c->ogb->n_classes = SL_MAX(c->ogb->n_classes, (uint32_t)(label + 1));
    return sl_npy_writer_append(c->w, &label, sizeof label);
}

static int read_labels(struct csv *c)
{
    char path[SL_STAGING_PATH_BYTES];
    if (!find_csv(c, "raw/node-label"))
        return SL_OK;
    SL_TRY(sl_npy_writer_open(sl_staging_file(&c->im->st, "node_label.npy", path), SL_DTYPE_I32, 1,
                              &c->ogb->n_nodes, &c->w));
    int rc = read_csv(c, "labels", parse_label);
    if (rc == SL_OK)
        rc = check_rows(c);
    if (rc == SL_OK && c->ogb->n_classes == 0)
        rc =
            sl_fail(SL_EFORMAT, "import %s: no vertex has a label: wanted classes from 0", c->path);
    return close_output(c, rc);
}

// ---- the split ----------------------------------------------------------------------------------

// The scheme's directory below split/: the one asked for, or the only one there is.
static int choose_scheme(const struct sl_import *im, struct ogb *ogb)
{
    char path[PATH_BYTES], found[512] = "";
    int n = 0;
    snprintf(path, sizeof path, "%s/split", im->source);
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || e->d_type == DT_REG)
            continue;
        size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, "%s%s", n++ ? ", " : "", e->d_name);
        if (!ogb->split || strcmp(ogb->split, e->d_name) == 0)
            snprintf(ogb->scheme, sizeof ogb->scheme, "%s", e->d_name);
    }
    if (d)
        closedir(d);
    if (ogb->split && !ogb->scheme[0])
        return sl_fail(SL_ENOENT, "import %s: --split '%s': wanted one of: %s", im->source,
                       ogb->split, n ? found : "none (there is no split/)");
    if (!ogb->split && n > 1)
        return sl_fail(SL_EINVAL, "import %s: it has %d splits: give --split with one of: %s",
                       im->source, n, found);
    ogb->has_split = n > 0;
    return SL_OK;
}

static int parse_split(struct csv *c, const char **p)
{
    uint64_t v;
    SL_TRY(scan_below(c, p, c->ogb->n_nodes, "a vertex", &v));
    SL_TRY(end_of_line(c, p, "one vertex"));
    if (c->ogb->n_nodes > INT32_MAX)
        return sl_npy_writer_append(c->w, &v, sizeof v);
    int32_t narrow = (int32_t)v;
    return sl_npy_writer_append(c->w, &narrow, sizeof narrow);
}

static int read_split(struct csv *c)
{
    struct ogb *ogb = c->ogb;
    for (int i = 0; i < SPLITS && ogb->has_split; i++) {
        char name[320], path[SL_STAGING_PATH_BYTES];
        uint64_t later = SL_NPY_ROWS_LATER;
        snprintf(name, sizeof name, "split/%s/%s", ogb->scheme, split_files[i]);
        SL_TRY(need_csv(c, name));
        SL_TRY(sl_npy_writer_open(sl_staging_file(&c->im->st, split_outputs[i], path),
                                  ogb->n_nodes > INT32_MAX ? SL_DTYPE_I64 : SL_DTYPE_I32, 1, &later,
                                  &c->w));
        SL_TRY(close_output(c, read_csv(c, "split", parse_split)));
        ogb->n_split[i] = c->line;
    }
    return SL_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

static int write_metadata(struct sl_import *im, const struct ogb *ogb)
{
    const struct sl_metadata m = {
        .name = im->name ? im->name : im->st.name,
        .n_nodes = im->csc.n_nodes,
        .n_edges = im->csc.n_edges,
        .feat_dim = ogb->feat_dim,
        .n_classes = ogb->n_classes,
        .directed = !im->intake.both_ways,
    };
    cJSON *root = sl_metadata_to_json(&m);
    cJSON *source = cJSON_AddObjectToObject(root, "source");
    cJSON_AddStringToObject(source, "format", "ogb");
    cJSON_AddNumberToObject(source, "edges_read", (double)im->intake.n_read);
    cJSON_AddBoolToObject(source, "symmetrised", im->symmetrise);
    cJSON_AddBoolToObject(source, "dedup", im->dedup || im->symmetrise);
    if (ogb->has_split)
        cJSON_AddStringToObject(source, "split", ogb->scheme);
    return sl_metadata_write(&im->st, root);
}

static int read_ogb(struct sl_import *im, void *context)
{
    struct ogb *ogb = context;
    struct csv *c = calloc(1, sizeof *c);
    if (!c)
        return sl_fail(SL_ENOMEM, "import ogb: no memory");
    c->im = im;
    c->ogb = ogb;
    int rc;
    SL_TRY_OUT(choose_scheme(im, ogb));
    SL_TRY_OUT(read_topology(c));
    SL_TRY_OUT(read_features(c));
    SL_TRY_OUT(read_labels(c));
    SL_TRY_OUT(read_split(c));
    SL_TRY_OUT(write_metadata(im, ogb));
out:
    free(c);
    return rc;
}

static void summarise(struct sl_import *im, void *context, struct sl_table *t)
{
    const struct ogb *ogb = context;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    if (ogb->feat_dim)
        sl_table_row(t, "features|%" PRIu32 " x float32", ogb->feat_dim);
    if (ogb->n_classes)
        sl_table_row(t, "classes|%" PRIu32 "%s%s%s", ogb->n_classes, ogb->n_unlabelled ? ", " : "",
                     ogb->n_unlabelled ? sl_units_grouped(a, ogb->n_unlabelled) : "",
                     ogb->n_unlabelled ? " vertices without" : "");
    if (ogb->has_split)
        sl_table_row(t, "split '%s'|%s train, %s validation, %s test", ogb->scheme,
                     sl_units_grouped(a, ogb->n_split[0]), sl_units_grouped(b, ogb->n_split[1]),
                     sl_units_grouped(c, ogb->n_split[2]));
    if (!im->symmetrise)
        sl_table_row(t, "direction|as in the file (--symmetrise adds the reverse edges)");
}

int sl_import_ogb(int argc, char **argv)
{
    struct ogb ogb = {0};
    struct sl_import *im = malloc(sizeof *im);
    if (!im)
        return sl_fail(SL_ENOMEM, "import ogb: no memory");
    sl_import_init(im);
    struct sl_option options[SL_IMPORT_MAX_OPTIONS];
    size_t n = sl_import_common_options(im, options);
    options[n++] = (struct sl_option){.name = "split",
                                      .type = SL_OPTION_TEXT,
                                      .value = &ogb.split,
                                      .placeholder = "SCHEME",
                                      .help = "which directory of split/, where there are several"};
    const struct sl_operand operand = {"SRC", &im->source, false};
    const struct sl_command_usage usage = {
        .command = "import ogb",
        .about = "Reads a node property prediction data set of OGB: SRC is its unpacked directory "
                 "with raw/ and split/ in it. --symmetrise does what OGB calls add_inverse_edge.",
        .example = "sluice import ogb dataset/ogbn_products --symmetrise --out data/products",
        .operands = &operand,
        .n_operands = 1,
        .options = options,
        .n_options = n,
    };
    int rc = sl_options_parse(&usage, argc, argv);
    if (rc == SL_OK)
        rc = sl_import_execute(im, &ogb, read_ogb, summarise);
    free(im);
    return rc == SL_OPTIONS_HELP ? SL_EXIT_OK : rc;
}
