#include "dataset/vertex_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/text/units.h"
#include "dataset/array_sink.h"
#include "dataset/line_scan.h"
#include "dataset/name_key.h"
#include "dataset/name_table.h"
#include "dataset/vertex_sink.h"

enum { BATCH = 4096, SHOWN_CLASSES = 8 };

static bool is_array(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".npy") == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int sl_vertex_tables_check(const struct sl_vertex_tables *v, const struct sl_import *im, bool named)
{
    const struct {
        const char *option, *path;
    } files[] = {{"features", v->features},
                 {"labels", v->labels},
                 {"splits", v->splits},
                 {"node-times", v->times}};
    for (size_t i = 0; i < SL_COUNT_OF(files); i++)
        if (named && files[i].path && is_array(files[i].path))
            return sl_fail(SL_EINVAL,
                           "import edgelist: --relabel and --%s %s: the rows of an array have no "
                           "names: wanted text whose first column is the vertex's name, or no "
                           "--relabel",
                           files[i].option, files[i].path);
    if (v->splits && im->split)
        return sl_fail(SL_EINVAL, "import edgelist: --splits and --split both given: the first "
                                  "reads the split from a file, the second draws one: leave one "
                                  "out");
    if (v->task != SL_TASK_NONE && !v->labels)
        return sl_fail(SL_EINVAL, "import edgelist: --task without --labels: leave it out, or name "
                                  "the file with the labels");
    return SL_OK;
}

// Text of the source in a row of the summary, which a bar would split.
static void make_plain(char *text)
{
    for (; *text; text++)
        *text = (unsigned char)*text < 0x20 || *text == 0x7f || *text == '|' ? '?' : *text;
}

static void note_heading(struct sl_vertex_tables *v, const struct sl_keyed_table *t)
{
    size_t used = strlen(v->headings);
    if (t->heading[0])
        snprintf(v->headings + used, sizeof v->headings - used, "%s'%s' of %s", used ? ", " : "",
                 t->heading, base_name(t->csv.path));
    make_plain(v->headings + used);
}

static int open_table(struct sl_keyed_table **out, struct sl_import *im,
                      const struct sl_keyed_kind *kind, const char *path, uint64_t memory_bytes,
                      void *context)
{
    struct sl_keyed_table *t = *out = calloc(1, sizeof *t); // large
    if (!t)
        return sl_fail(SL_ENOMEM, "import %s: no memory", path);
    t->kind = kind;
    t->context = context;
    return sl_keyed_table_open(t, im, path, memory_bytes / 4);
}

static void close_table(struct sl_keyed_table *t)
{
    if (t)
        sl_keyed_table_close(t);
    free(t);
}

void sl_vertex_tables_fini(struct sl_vertex_tables *v)
{
    close_table(v->open);
    v->open = NULL;
}

static bool is_word(const struct sl_line_field *f, const char *word)
{
    return f->n == strlen(word) && strncasecmp(f->text, word, f->n) == 0;
}

// A number that is all of the field; nan, and nothing at all, are NAN.
static bool scan_number(const struct sl_line_field *f, double *out)
{
    *out = NAN;
    if (f->n == 0 || is_word(f, "nan"))
        return true;
    const char *end = sl_line_scan_real(f->text, out);
    return end == f->text + f->n;
}

/*
 * The next number of a line; false at its end. SL_EFORMAT for another word. The block ends in a
 * newline, so the scan needs no end.
 */
static int next_number(const struct sl_keyed_table *t, const char **p, double *x, bool *more)
{
    *p = sl_line_skip_gap(*p);
    *more = **p != '\n';
    if (!*more)
        return SL_OK;
    const struct sl_line_field word = {*p, strcspn(*p, " \t,;\r\n")};
    if (!scan_number(&word, x))
        return sl_csv_fail(&t->csv, *p, "a number");
    *p += word.n;
    return SL_OK;
}

// ---- features -----------------------------------------------------------------------------------

static int parse_features(struct sl_keyed_table *t)
{
    struct sl_vertex_tables *v = t->context;
    const char *p = t->fields.at[1].text;
    char wanted[96];
    uint32_t n = 0;
    for (bool more = true; more;) {
        double x;
        const char *at = sl_line_skip_gap(p);
        SL_TRY(next_number(t, &p, &x, &more));
        if (!more)
            break;
        float value = (float)x;
        if (!isfinite(value))
            return sl_csv_fail(&t->csv, at,
                               "a finite number that float32 holds (at most 3.4e38): replace it "
                               "first");
        if (++n > SL_SINK_MAX_DIM)
            return sl_csv_fail(&t->csv, at, "at most 65536 features");
        SL_TRY(sl_keyed_table_keep(t, &value, sizeof value));
    }
    if (t->n_rows == 0)
        v->dim = n;
    if (n > 0 && n == v->dim)
        return SL_OK;
    snprintf(wanted, sizeof wanted, "%" PRIu32 " features, as in the first row, not %" PRIu32,
             v->dim, n);
    return sl_csv_fail_field(&t->csv, n ? &t->fields.at[0] : &t->fields.at[1],
                             v->dim ? wanted : "features behind the vertex");
}

static bool features_have_heading(const struct sl_keyed_table *t)
{
    double x;
    const char *p = t->fields.at[1].text;
    const struct sl_line_field word = {p, strcspn(p, " \t,;\r\n")};
    return word.n > 0 && !scan_number(&word, &x);
}

static const struct sl_keyed_kind feature_kind = {"features", parse_features,
                                                  features_have_heading};

int sl_vertex_tables_read_features(struct sl_vertex_tables *v, struct sl_import *im,
                                   uint64_t memory_bytes, struct sl_numbering *numbering)
{
    struct sl_array_reader *r;
    if (!v->features)
        return SL_OK;
    if (is_array(v->features)) {
        SL_TRY(sl_array_open_file(v->features, &r));
        v->n_rows = sl_array_header(r)->ndim ? sl_array_header(r)->shape[0] : 0;
        sl_array_close(r);
        return SL_OK;
    }
    SL_TRY(open_table(&v->open, im, &feature_kind, v->features, memory_bytes, v));
    v->open->named = numbering != NULL;
    v->open->numbering = numbering;
    SL_TRY(sl_keyed_table_read(v->open));
    note_heading(v, v->open);
    v->n_rows = numbering ? v->open->n_rows : v->open->max_id + 1;
    return SL_OK;
}

struct feature_rows {
    struct sl_feature_sink in;
    const char *path;
};

static int take_features(void *context, uint64_t vertex, const char *kept, size_t n)
{
    struct feature_rows *f = context;
    (void)vertex; // in their order, none left out
    memcpy(f->in.values, kept, n);
    return sl_feature_sink_put(&f->in, f->in.values, f->path);
}

static int write_features(struct sl_vertex_tables *v, struct sl_import *im, uint64_t n_nodes,
                          const struct sl_names *names)
{
    struct feature_rows f = {.path = v->features};
    if (!v->features)
        return SL_OK;
    if (is_array(v->features))
        return sl_array_put_features(im, &(struct sl_array_place){.path = v->features}, n_nodes,
                                     false);
    int rc = sl_feature_sink_open(&f.in, im, n_nodes, v->dim, false, f.path);
    if (rc == SL_OK)
        rc = sl_keyed_table_walk(v->open, n_nodes, names, true, take_features, &f);
    rc = sl_feature_sink_close(&f.in, rc, f.path);
    sl_vertex_tables_fini(v);
    return rc;
}

// ---- labels -------------------------------------------------------------------------------------

struct label_rows {
    struct sl_import *im;
    const char *path;
    enum sl_task task;
    uint32_t n_columns;
    // Of one column: its different texts, while they fit.
    struct sl_name_table classes;
    bool too_many;
    uint64_t text_line;     // the first that has no number; 0: all have
    char text[64];          // it
    uint32_t *class_number; // (classes.n) in the order of their names; NULL: labels are numbers
    struct sl_label_sink in;
};

static bool is_unlabelled(const struct sl_line_field *f)
{
    return f->n == 0 || is_word(f, "nan") || is_word(f, "-1");
}

// One label, which may be text.
static int parse_label(struct sl_keyed_table *t, struct label_rows *l)
{
    const struct sl_line_field *f = &t->fields.at[1];
    uint32_t number;
    bool full = false;
    double x;
    if (f->n > SL_NAME_MAX_BYTES)
        return sl_csv_fail_field(&t->csv, f, "a label of at most 4096 bytes");
    if (!scan_number(f, &x) && !l->text_line) {
        l->text_line = t->csv.line;
        snprintf(l->text, sizeof l->text, "%.*s", (int)SL_MIN(f->n, (size_t)40), f->text);
    }
    if (!is_unlabelled(f) && !l->too_many)
        SL_TRY(sl_name_table_put(&l->classes, f->text, f->n, &number, &full));
    l->too_many = l->too_many || full || l->classes.n > SL_SINK_MAX_CLASSES;
    return sl_keyed_table_keep(t, f->text, f->n);
}

static int parse_labels(struct sl_keyed_table *t)
{
    struct label_rows *l = t->context;
    const char *p = t->fields.at[1].text;
    char wanted[96];
    uint32_t n = 0;
    if (t->n_rows == 0)
        l->n_columns = t->fields.n <= 2 ? 1 : 0;
    if (l->n_columns == 1 && t->fields.n <= 2)
        return parse_label(t, l);
    for (bool more = true; more && n <= SL_SINK_MAX_DIM; n += more) {
        double x;
        SL_TRY(next_number(t, &p, &x, &more));
        if (more)
            SL_TRY(sl_keyed_table_keep(t, &x, sizeof x));
    }
    if (t->n_rows == 0)
        l->n_columns = n;
    snprintf(wanted, sizeof wanted, "%s, as in the first row, not %" PRIu32,
             SL_PLURAL(l->n_columns, "label column"), n);
    return n == l->n_columns ? SL_OK : sl_csv_fail_field(&t->csv, &t->fields.at[0], wanted);
}

static const struct sl_keyed_kind label_kind = {"labels", parse_labels, NULL};

// The text's classes are numbered in the order of their names, which are kept.
static int number_class(struct sl_vertex_tables *v, struct label_rows *l, struct sl_names_writer *w,
                        const struct sl_record *r)
{
    size_t n, used = strlen(v->class_names);
    uint32_t number;
    const char *name = sl_name_of_key(r->key, r->key_bytes, &n);
    memcpy(&number, r->payload, sizeof number);
    l->class_number[number] = v->n_class_names;
    if (v->n_class_names < SHOWN_CLASSES && used < sizeof v->class_names - 64)
        snprintf(v->class_names + used, sizeof v->class_names - used, "%s%" PRIu32 " = %.*s",
                 used ? ", " : "", v->n_class_names, (int)SL_MIN(n, (size_t)40), name);
    make_plain(v->class_names + used);
    v->n_class_names++;
    return sl_names_writer_put(w, name, n);
}

static int sort_classes(struct sl_vertex_tables *v, struct label_rows *l, uint64_t memory_bytes,
                        struct sl_names_writer *w)
{
    struct sl_record_sort *sort;
    struct sl_record r;
    unsigned char key[SL_NAME_KEY_BYTES];
    const char *name;
    size_t at = 0, n;
    bool more = true;
    SL_TRY(sl_record_sort_create(l->im->making.st.dir, memory_bytes / 8, &sort));
    int rc = SL_OK;
    for (uint32_t i = 0; rc == SL_OK && sl_name_table_next(&l->classes, &at, &name, &n); i++) {
        uint32_t n_key = sl_name_key(name, n, key);
        rc = sl_record_sort_add(sort, &(struct sl_record){key, &i, n_key, sizeof i});
    }
    if (rc == SL_OK)
        rc = sl_record_sort_finish(sort);
    while (rc == SL_OK && more) {
        rc = sl_record_sort_next(sort, &r, &more);
        if (rc == SL_OK && more)
            rc = number_class(v, l, w, &r);
    }
    sl_record_sort_destroy(sort);
    return rc;
}

static int number_classes(struct sl_vertex_tables *v, struct label_rows *l, uint64_t memory_bytes)
{
    struct sl_names_writer w = {0};
    if (l->task != SL_TASK_NONE && l->task != SL_TASK_MULTICLASS)
        return sl_fail(SL_EFORMAT, "import %s: line %" PRIu64 ": found '%s': wanted a number (%s)",
                       l->path, l->text_line, l->text, sl_label_tasks[l->task]);
    if (l->too_many)
        return sl_fail(
            SL_EFORMAT,
            "import %s: line %" PRIu64 ": found '%s', and more than %" PRIu32
            " other labels: wanted numbers, or names of at most 1000000 classes that fit "
            "--memory",
            l->path, l->text_line, l->text, l->classes.n);
    l->class_number = malloc(((size_t)l->classes.n + 1) * sizeof *l->class_number);
    if (!l->class_number)
        return sl_fail(SL_ENOMEM, "import %s: no memory for %" PRIu32 " classes", l->path,
                       l->classes.n);
    int rc = sl_names_writer_open(&w, l->im->making.st.dir, SL_NAMES_CLASS);
    if (rc == SL_OK)
        rc = sort_classes(v, l, memory_bytes, &w);
    return sl_names_writer_close(&w, rc);
}

static int take_label(void *context, uint64_t vertex, const char *kept, size_t n)
{
    struct label_rows *l = context;
    char text[SL_NAME_MAX_BYTES + 1];
    uint32_t number;
    if (l->n_columns > 1) {
        memcpy(l->in.values, kept, n);
        return sl_label_sink_put(&l->in, vertex, l->in.values, l->path);
    }
    memcpy(text, kept, n);
    text[n] = '\n'; // where a scan ends
    const struct sl_line_field f = {text, n};
    if (!l->class_number)
        scan_number(&f, l->in.values);
    else if (!is_unlabelled(&f) && sl_name_table_find(&l->classes, text, n, &number))
        l->in.values[0] = l->class_number[number];
    else
        l->in.values[0] = NAN;
    return sl_label_sink_put(&l->in, vertex, l->in.values, l->path);
}

static int read_labels(struct sl_vertex_tables *v, struct label_rows *l, uint64_t memory_bytes,
                       uint64_t n_nodes, const struct sl_names *names)
{
    struct sl_keyed_table *t;
    int rc;
    SL_TRY_OUT(open_table(&t, l->im, &label_kind, l->path, memory_bytes, l));
    SL_TRY_OUT(sl_name_table_init(&l->classes, memory_bytes / 8));
    t->fields.most = 3; // whether there are several
    t->named = names != NULL;
    t->names = names;
    SL_TRY_OUT(sl_keyed_table_read(t));
    note_heading(v, t);
    if (l->text_line)
        SL_TRY_OUT(number_classes(v, l, memory_bytes));
    rc = sl_label_sink_open(&l->in, l->im, n_nodes, l->n_columns, l->task, l->path);
    if (rc == SL_OK)
        rc = sl_keyed_table_walk(t, n_nodes, names, false, take_label, l);
    rc = sl_label_sink_close(&l->in, rc, l->path);
out:
    close_table(t);
    sl_name_table_fini(&l->classes);
    free(l->class_number);
    return rc;
}

static int write_labels(struct sl_vertex_tables *v, struct sl_import *im, uint64_t memory_bytes,
                        uint64_t n_nodes, const struct sl_names *names)
{
    struct label_rows l = {.im = im, .path = v->labels, .task = (enum sl_task)v->task};
    if (!v->labels)
        return SL_OK;
    if (is_array(v->labels))
        return sl_array_put_labels(im, &(struct sl_array_place){.path = v->labels}, n_nodes,
                                   l.task);
    return read_labels(v, &l, memory_bytes, n_nodes, names);
}

// ---- splits -------------------------------------------------------------------------------------

struct split_rows {
    struct sl_list_sink list[SL_SPLIT_COUNT];
    const char *path;
};

static const struct {
    const char *word;
    enum sl_split split;
} split_words[] = {
    {"train", SL_SPLIT_TRAIN},    {"val", SL_SPLIT_VAL},   {"valid", SL_SPLIT_VAL},
    {"validation", SL_SPLIT_VAL}, {"test", SL_SPLIT_TEST}, {"", SL_SPLIT_COUNT},
};

static const char splits_wanted[] = "train, val (valid, validation), test, or nothing";

static bool find_split(const struct sl_line_field *f, unsigned char *split)
{
    for (size_t i = 0; i < SL_COUNT_OF(split_words); i++)
        if (is_word(f, split_words[i].word)) {
            *split = (unsigned char)split_words[i].split;
            return true;
        }
    return false;
}

static int parse_split(struct sl_keyed_table *t)
{
    unsigned char split = 0;
    const struct sl_line_field *f = &t->fields.at[1];
    if (!find_split(f, &split))
        return sl_csv_fail_field(&t->csv, f, splits_wanted);
    return sl_keyed_table_keep(t, &split, 1);
}

static bool splits_have_heading(const struct sl_keyed_table *t)
{
    unsigned char split;
    return !find_split(&t->fields.at[1], &split);
}

static const struct sl_keyed_kind split_kind = {"splits", parse_split, splits_have_heading};

static int take_split(void *context, uint64_t vertex, const char *kept, size_t n)
{
    struct split_rows *s = context;
    (void)n;
    return *kept == SL_SPLIT_COUNT
               ? SL_OK
               : sl_list_sink_put(&s->list[(int)*kept], (int64_t)vertex, s->path);
}

static int put_split(void *context, uint64_t vertex, int64_t split)
{
    struct split_rows *s = context;
    if (split < -1 || split >= SL_SPLIT_COUNT)
        return sl_fail(SL_EFORMAT,
                       "import %s: row %" PRIu64 ": found %" PRId64
                       ": wanted 0 (train), 1 (val), 2 (test) or -1 (none)",
                       s->path, vertex, split);
    return split < 0 ? SL_OK : sl_list_sink_put(&s->list[split], (int64_t)vertex, s->path);
}

// Whole numbers of an array, one for each vertex.
static int read_array(const char *path, uint64_t n_nodes,
                      int (*put)(void *context, uint64_t vertex, int64_t value), void *context)
{
    struct sl_array_reader *r;
    char shape[128];
    int64_t values[BATCH];
    SL_TRY(sl_array_open_file(path, &r));
    const struct sl_npy_header *head = sl_array_header(r);
    int rc = SL_OK;
    if (sl_array_count(r) != n_nodes || head->shape[0] != n_nodes)
        rc = sl_fail(SL_EFORMAT,
                     "import %s: found shape %s: wanted (%" PRIu64 "), a number for each vertex",
                     path, sl_npy_shape_text(head, shape, sizeof shape), n_nodes);
    for (uint64_t vertex = 0; rc == SL_OK && vertex < n_nodes;) {
        uint64_t n = SL_MIN(n_nodes - vertex, (uint64_t)BATCH);
        rc = sl_interrupt_check();
        if (rc == SL_OK)
            rc = sl_array_read_integers(r, n, values);
        for (uint64_t i = 0; rc == SL_OK && i < n; i++, vertex++)
            rc = put(context, vertex, values[i]);
    }
    sl_array_close(r);
    return rc;
}

// A table that is read once the vertices' names are known.
struct table_of {
    const struct sl_keyed_kind *kind;
    const char *path;
    bool all; // vertices have a row
    sl_keyed_row_fn *take;
    void *context;
};

static int read_table(struct sl_vertex_tables *v, const struct table_of *of, struct sl_import *im,
                      uint64_t memory_bytes, uint64_t n_nodes, const struct sl_names *names)
{
    struct sl_keyed_table *t;
    int rc = open_table(&t, im, of->kind, of->path, memory_bytes, of->context);
    if (rc == SL_OK) {
        t->named = names != NULL;
        rc = sl_keyed_table_read(t);
        note_heading(v, t);
    }
    if (rc == SL_OK)
        rc = sl_keyed_table_walk(t, n_nodes, names, of->all, of->take, of->context);
    close_table(t);
    return rc;
}

static int write_splits(struct sl_vertex_tables *v, struct sl_import *im, uint64_t memory_bytes,
                        uint64_t n_nodes, const struct sl_names *names)
{
    struct split_rows s = {.path = v->splits};
    const struct table_of of = {&split_kind, s.path, false, take_split, &s};
    int rc = SL_OK;
    if (!v->splits)
        return SL_OK;
    for (int i = 0; i < SL_SPLIT_COUNT && rc == SL_OK; i++)
        rc = sl_list_sink_open(&s.list[i], im, (enum sl_split)i, n_nodes);
    if (rc == SL_OK)
        rc = is_array(s.path) ? read_array(s.path, n_nodes, put_split, &s)
                              : read_table(v, &of, im, memory_bytes, n_nodes, names);
    for (int i = 0; i < SL_SPLIT_COUNT; i++)
        rc = sl_list_sink_close(&s.list[i], rc, (enum sl_split)i);
    return rc;
}

// ---- times --------------------------------------------------------------------------------------

struct time_rows {
    const char *path;
    struct sl_npy_writer *to;
};

static bool scan_whole(const struct sl_line_field *f, int64_t *out)
{
    char text[32], *end;
    if (f->n == 0 || f->n >= sizeof text)
        return false;
    memcpy(text, f->text, f->n);
    text[f->n] = '\0';
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end == text + f->n;
}

static int parse_time(struct sl_keyed_table *t)
{
    int64_t time;
    if (!scan_whole(&t->fields.at[1], &time))
        return sl_csv_fail_field(&t->csv, &t->fields.at[1],
                                 "a time, a whole number such as seconds since 1970");
    return sl_keyed_table_keep(t, &time, sizeof time);
}

static bool times_have_heading(const struct sl_keyed_table *t)
{
    int64_t time;
    return !scan_whole(&t->fields.at[1], &time);
}

static const struct sl_keyed_kind time_kind = {"times", parse_time, times_have_heading};

static int take_time(void *context, uint64_t vertex, const char *kept, size_t n)
{
    struct time_rows *s = context;
    (void)vertex; // in their order, none left out
    return sl_npy_writer_append(s->to, kept, n);
}

static int put_time(void *context, uint64_t vertex, int64_t time)
{
    struct time_rows *s = context;
    (void)vertex;
    return sl_npy_writer_append(s->to, &time, sizeof time);
}

static int write_times(struct sl_vertex_tables *v, struct sl_import *im, uint64_t memory_bytes,
                       uint64_t n_nodes, const struct sl_names *names)
{
    struct time_rows s = {.path = v->times};
    char path[SL_STAGING_PATH_BYTES];
    if (!v->times)
        return SL_OK;
    SL_TRY(sl_npy_writer_open(sl_staging_file(&im->making.st, "node_time.npy", path), SL_DTYPE_I64,
                              1, &n_nodes, &s.to));
    const struct table_of of = {&time_kind, s.path, true, take_time, &s};
    const int rc = is_array(s.path) ? read_array(s.path, n_nodes, put_time, &s)
                                    : read_table(v, &of, im, memory_bytes, n_nodes, names);
    return sl_npy_writer_close(&s.to, rc);
}

// ---- all of them --------------------------------------------------------------------------------

int sl_vertex_tables_write(struct sl_vertex_tables *v, struct sl_import *im, uint64_t memory_bytes,
                           uint64_t n_nodes, const struct sl_names *names)
{
    SL_TRY(write_features(v, im, n_nodes, names));
    SL_TRY(write_labels(v, im, memory_bytes, n_nodes, names));
    SL_TRY(write_splits(v, im, memory_bytes, n_nodes, names));
    return write_times(v, im, memory_bytes, n_nodes, names);
}

void sl_vertex_tables_describe(const struct sl_vertex_tables *v, cJSON *source)
{
    if (v->features)
        cJSON_AddStringToObject(source, "features", base_name(v->features));
    if (v->labels)
        cJSON_AddStringToObject(source, "labels", base_name(v->labels));
    if (v->splits)
        cJSON_AddStringToObject(source, "splits", base_name(v->splits));
    if (v->times)
        cJSON_AddStringToObject(source, "node_times", base_name(v->times));
    if (v->n_class_names)
        cJSON_AddStringToObject(source, "class_names", "class_names.npy");
}

void sl_vertex_tables_summarise(const struct sl_vertex_tables *v, struct sl_table *t)
{
    if (v->n_class_names)
        sl_table_row(t, "class names|%s%s, in class_names.npy", v->class_names,
                     v->n_class_names > SHOWN_CLASSES ? ", ..." : "");
    if (v->headings[0])
        sl_table_row(t, "headings left out|%s", v->headings);
}
