#include "dataset/typed_import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/narrow.h"
#include "common/text/units.h"
#include "dataset/csv_rows.h"
#include "dataset/edge_facts.h"
#include "dataset/edge_features.h"
#include "dataset/import_vertices.h"
#include "dataset/line_scan.h"

// ---- the table ----------------------------------------------------------------------------------

static int check_name(const char *from, const char *what, const char *name)
{
    if (name && sl_typed_is_name(name))
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: found %s '%.80s': wanted 1 to %d letters, digits, '_' and '-' as a "
                   "name: rename it there",
                   from, what, name ? name : "", SL_TYPE_NAME_BYTES - 1);
}

uint32_t sl_typed_import_find(const struct sl_typed_import *t, const char *name)
{
    for (uint32_t i = 0; i < t->n_types; i++)
        if (strcmp(t->type[i].name, name) == 0)
            return i;
    return SL_TYPES_MAX;
}

int sl_typed_import_add_type(struct sl_import *im, const char *from, const char *name, uint64_t n,
                             struct sl_import_type **out)
{
    struct sl_typed_import *t = im->typed;
    SL_TRY(check_name(from, "type", name));
    if (sl_typed_import_find(t, name) < SL_TYPES_MAX)
        return sl_fail(SL_EFORMAT, "import %s: found type '%s' twice: wanted a name for each", from,
                       name);
    if (t->n_types == SL_TYPES_MAX)
        return sl_fail(SL_EUNSUPPORTED, "import %s: found more than %d types", from, SL_TYPES_MAX);
    t->n_nodes += n;
    if (n > (uint64_t)SL_IMPORT_MAX_ID + 1 || t->n_nodes > (uint64_t)SL_IMPORT_MAX_ID + 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: found %" PRIu64 " vertices with those of type %s: wanted at "
                       "most %" PRIu32 " of all types",
                       from, t->n_nodes, name, SL_IMPORT_MAX_ID + 1);
    struct sl_import_type *type = *out = &t->type[t->n_types++];
    strcpy(type->name, name);
    type->n = n;
    return SL_OK;
}

static int find_end(const struct sl_typed_import *t, const char *from, const char *relation,
                    const char *end, const char *name, uint32_t *out)
{
    *out = name ? sl_typed_import_find(t, name) : SL_TYPES_MAX;
    if (*out < SL_TYPES_MAX)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: relation '%.80s': found %s '%.80s': wanted the name of a type", from,
                   relation, end, name ? name : "");
}

static uint32_t find_relation(const struct sl_typed_import *t, uint32_t source, const char *name,
                              uint32_t target)
{
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_import_relation *r = &t->relation[i];
        if (r->source == source && r->target == target && strcmp(r->name, name) == 0)
            return i;
    }
    return SL_NO_RELATION;
}

static int add_relation(struct sl_typed_import *t, const char *from, uint32_t source,
                        const char *name, uint32_t target, struct sl_import_relation **out)
{
    if (find_relation(t, source, name, target) != SL_NO_RELATION)
        return sl_fail(SL_EFORMAT,
                       "import %s: found relation %s -%s-> %s twice: wanted a name for each", from,
                       t->type[source].name, name, t->type[target].name);
    if (t->n_relations == SL_RELATIONS_MAX)
        return sl_fail(SL_EUNSUPPORTED, "import %s: found more than %d relations", from,
                       SL_RELATIONS_MAX);
    struct sl_import_relation *r = *out = &t->relation[t->n_relations++];
    *r = (struct sl_import_relation){
        .source = source, .target = target, .n_wanted = UINT64_MAX, .reverse_of = SL_NO_RELATION};
    strcpy(r->name, name);
    return SL_OK;
}

int sl_typed_import_add_relation(struct sl_import *im, const char *from, const char *source,
                                 const char *name, const char *target,
                                 struct sl_import_relation **out)
{
    struct sl_typed_import *t = im->typed;
    uint32_t s, d;
    SL_TRY(check_name(from, "relation", name));
    SL_TRY(find_end(t, from, name, "source", source, &s));
    SL_TRY(find_end(t, from, name, "target", target, &d));
    SL_TRY(add_relation(t, from, s, name, d, out));
    t->n_files = t->n_relations;
    return SL_OK;
}

static bool ends_in(const char *name, const char *suffix)
{
    const size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

int sl_typed_import_set_file(struct sl_import_file *file, const char *dir, const char *name)
{
    const bool whole = !dir || name[0] == '/';
    *file = (struct sl_import_file){.text = !ends_in(name, ".npy")};
    if (asprintf(&file->path, "%s%s%s", whole ? "" : dir, whole ? "" : "/", name) < 0) {
        file->path = NULL;
        return sl_fail(SL_ENOMEM, "import: no memory for a path");
    }
    return SL_OK;
}

int sl_typed_import_set_member(struct sl_import_file *file, const struct sl_zip *zip,
                               const char *key)
{
    const char *path = sl_zip_path(zip);
    *file = (struct sl_import_file){.zip = zip};
    if (asprintf(&file->path, "%s: %s", path, key) < 0) {
        file->path = NULL;
        return sl_fail(SL_ENOMEM, "import: no memory for a path");
    }
    file->key = file->path + strlen(path) + 2;
    return SL_OK;
}

void sl_typed_import_put_first(struct sl_typed_import *t, uint32_t type)
{
    const struct sl_import_type moved = t->type[type];
    memmove(&t->type[1], &t->type[0], type * sizeof moved);
    t->type[0] = moved;
    for (uint32_t i = 0; i < t->n_relations; i++) {
        uint32_t *ends[] = {&t->relation[i].source, &t->relation[i].target};
        for (int e = 0; e < 2; e++)
            *ends[e] = *ends[e] == type ? 0 : *ends[e] + (*ends[e] < type);
    }
    t->has_labels = true;
}

// ---- vertices -----------------------------------------------------------------------------------

static struct sl_array_place place_of(const struct sl_import_file *file)
{
    if (file->zip)
        return (struct sl_array_place){.zip = file->zip, .key = file->key};
    return (struct sl_array_place){.path = file->path, .raw = file->raw.ndim ? &file->raw : NULL};
}

int sl_typed_import_labels(struct sl_import *im, const struct sl_import_file *file,
                           enum sl_task task)
{
    const struct sl_array_place place = place_of(file);
    return file->text ? sl_csv_put_labels(im, file->path, im->typed->type[0].n, task)
                      : sl_array_put_labels(im, &place, im->typed->type[0].n, task);
}

int sl_typed_import_list(struct sl_import *im, const struct sl_import_file *file,
                         enum sl_split split)
{
    const struct sl_array_place place = place_of(file);
    struct sl_array_reader *r;
    if (file->text)
        return sl_csv_put_list(im, file->path, split, im->typed->type[0].n);
    SL_TRY(sl_array_open(&place, &r));
    int rc = sl_array_put_list(im, r, split, im->typed->type[0].n);
    sl_array_close(r);
    return rc;
}

void sl_typed_import_begin_features(struct sl_import *im, const struct sl_import_type *type)
{
    struct sl_typed_import *t = im->typed;
    snprintf(t->feature_file, sizeof t->feature_file, "node_feat.%s.npy", type->name);
    im->feature_file = t->feature_file;
    t->n_flushed = im->vertices.n_flushed;
    im->vertices.n_flushed = 0; // of this type,
    im->vertices.feat_dim = 0;  // which may turn out to have none
}

int sl_typed_import_end_features(struct sl_import *im, struct sl_import_type *type, int rc)
{
    struct sl_import_vertices *found = &im->vertices;
    im->feature_file = NULL;
    type->feat_dim = found->feat_dim;
    type->half = found->half;
    found->n_flushed += im->typed->n_flushed;
    return rc;
}

static int read_features(struct sl_import *im, struct sl_import_type *type)
{
    const struct sl_array_place place = place_of(&type->feat);
    if (!type->feat.path || type->n == 0)
        return SL_OK;
    sl_typed_import_begin_features(im, type);
    return sl_typed_import_end_features(im, type,
                                        type->feat.text
                                            ? sl_csv_put_features(im, type->feat.path, type->n)
                                            : sl_array_put_features(im, &place, type->n, false));
}

// ---- edges --------------------------------------------------------------------------------------

static int parse_edge(struct sl_csv *c, const char **p)
{
    const struct sl_import_relation *r = c->context;
    const struct sl_typed_import *t = c->im->typed;
    const struct sl_edge_ends ends = {t->type[r->source].n, t->type[r->target].n};
    uint64_t source, target;
    double weight = 1;
    if (c->line == 1 && r->edges.heading) {
        *p = sl_import_next_line(*p);
        return SL_OK;
    }
    if (!r->weighted || r->weights.path)
        return sl_csv_put_edge(c, p, ends, 1);
    SL_TRY(sl_csv_scan_below(c, p, ends.n_sources, "a vertex", &source));
    *p = sl_line_skip_gap(*p);
    SL_TRY(sl_csv_scan_below(c, p, ends.n_targets, "a vertex", &target));
    *p = sl_line_skip_gap(*p);
    const char *end = sl_line_scan_real(*p, &weight);
    if (!end || !(sl_line_is_gap(*end) || *end == '\n') || !sl_import_is_weight(weight))
        return sl_csv_fail(
            c, *p, "a weight from 0 to " SL_FLOAT32_LARGEST " (float32; --no-weights reads none)");
    *p = end;
    SL_TRY(sl_csv_end_line(c, p, "three columns: source,target,weight"));
    return sl_edge_sink_put(&c->im->edge_sink, (uint32_t)source, (uint32_t)target, weight);
}

static int read_text(struct sl_import *im, struct sl_import_relation *r)
{
    struct sl_csv c = {.im = im, .context = r};
    snprintf(c.path, sizeof c.path, "%s", r->edges.path);
    SL_TRY(sl_import_start_edges(im));
    return sl_csv_read(&c, "edges", parse_edge);
}

static int read_edges(struct sl_import *im, struct sl_import_relation *r)
{
    const struct sl_typed_import *t = im->typed;
    const struct sl_array_place edges = place_of(&r->edges), weights = place_of(&r->weights);
    const struct sl_edge_ends ends = {t->type[r->source].n, t->type[r->target].n};
    if (r->read)
        return r->read(im, r->of);
    if (r->edges.text)
        return read_text(im, r);
    return sl_array_put_edges(im, &edges, r->weights.path ? &weights : NULL, r->shape, ends);
}

// The files that a relation's edges are in: its own, or those of the one whose reverse it is.
static struct sl_import_relation *source_of(struct sl_typed_import *t, struct sl_import_relation *r)
{
    return r->swapped ? &t->relation[r->reverse_of] : r;
}

// Whether a relation's own files have some, or those of the one whose reverse it is.
static bool has_facts(const struct sl_import_relation *r)
{
    return r->times.path || r->feat.path || r->put_features;
}

// Features of a relation's edges as an array that can be mapped, in the order of the source.
static int stage_features(struct sl_import *im, struct sl_import_relation *r)
{
    const struct sl_array_place place = place_of(&r->feat);
    const bool mapped = r->feat.path && !r->feat.text && !r->feat.zip;
    const bool empty = !r->put_features && r->n_wanted == 0;
    struct sl_edge_feature_stage stage;
    char name[48], path[SL_STAGING_PATH_BYTES];
    if (mapped || (!r->feat.path && !r->put_features))
        return SL_OK;
    snprintf(name, sizeof name, "edge_feat.%u.read.npy", (unsigned)(r - im->typed->relation));
    sl_edge_features_begin(im, name, &stage);
    int rc = empty             ? SL_OK
             : r->put_features ? r->put_features(im, r->of)
             : r->feat.text    ? sl_csv_put_features(im, r->feat.path, r->n_wanted)
                               : sl_array_put_features(im, &place, r->n_wanted, false);
    rc = sl_edge_features_end(im, &stage, rc, &r->staged);
    free(r->feat.path);
    r->feat = (struct sl_import_file){0};
    r->put_features = NULL;
    if (!r->staged)
        return rc;
    return sl_typed_import_set_file(&r->feat, NULL, sl_staging_file(&im->making.st, name, path));
}

static int drop_staged(const struct sl_typed_import *t)
{
    for (uint32_t i = 0; i < t->n_files; i++)
        if (t->relation[i].staged && unlink(t->relation[i].feat.path) != 0)
            return sl_fail_errno(SL_EIO, errno, "remove %s", t->relation[i].feat.path);
    return SL_OK;
}

static int check_count(const struct sl_import_relation *r, uint64_t found)
{
    if (r->n_wanted == UINT64_MAX || r->n_wanted == found)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: found %" PRIu64 " edges: wanted %" PRIu64 ": get the data set again",
                   r->edges.path, found, r->n_wanted);
}

// The edges of relation i, sorted, behind those that are there.
static int put_relation(struct sl_import *im, uint32_t i, const uint64_t *first,
                        struct sl_csc_files *files)
{
    struct sl_typed_import *t = im->typed;
    struct sl_import_relation *r = &t->relation[i], *from = source_of(t, r);
    struct sl_edge_sink *in = &im->edge_sink;
    const uint64_t n_read = in->n_read, n_loops = in->n_self_loops, n_lost = in->n_underflows,
                   n_before = im->csc.n_edges;
    const bool within = r->source == r->target;
    in->numbered = has_facts(from);
    in->number = 0;
    in->weighted = (from->weighted && im->weights) || in->numbered;
    in->both_ways = r->reverse_of == i && im->reverse;
    in->swapped = r->swapped;
    in->of_two = !within;
    SL_TRY(read_edges(im, from));
    from->n_read = in->n_read - n_read;
    SL_TRY(check_count(from, from->n_read));
    if (in->numbered && from->n_read >= SL_SINK_NUMBERS)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: found %" PRIu64 " edges that have times or features, wanted "
                       "fewer than %" PRIu32,
                       from->edges.path ? from->edges.path : im->source, from->n_read,
                       SL_SINK_NUMBERS);
    SL_TRY(sl_edge_sink_flush(in));
    SL_TRY(sl_edge_sort_finish(in->sort));
    sl_progress_begin(&im->making.progress, r->name, in->n_read - n_read, "edges");
    const struct sl_csc_plan plan = {
        .n_nodes = t->type[r->target].n,
        .first_source = first[r->source],
        .duplicates = sl_import_keeps_once(im) || in->both_ways
                          ? SL_DUPLICATES_FIRST + (enum sl_duplicates)im->duplicates
                          : SL_DUPLICATES_KEEP,
        .add_self_loops = im->add_self_loops && within,
    };
    SL_TRY(sl_csc_put(files, in->sort, &plan, &im->making.progress));
    sl_edge_sort_destroy(in->sort);
    in->sort = NULL;
    r->n_edges = im->csc.n_edges - n_before;
    if (r->swapped) { // these were counted before
        in->n_read = n_read;
        in->n_self_loops = n_loops;
        in->n_underflows = n_lost;
    }
    return SL_OK;
}

// Times and features of edges, some of which were sorted with their numbers.
static int put_facts(struct sl_import *im, const uint64_t *first, bool numbered, bool weighted)
{
    struct sl_typed_import *t = im->typed;
    struct sl_edge_facts *facts = calloc(t->n_relations, sizeof *facts);
    if (!facts)
        return sl_fail(SL_ENOMEM, "import %s: no memory for %u relations", im->source,
                       t->n_relations);
    for (uint32_t i = 0; i < t->n_relations; i++) {
        struct sl_import_relation *r = &t->relation[i];
        const struct sl_import_relation *from = source_of(t, r);
        const struct sl_import_type *source = &t->type[r->source];
        facts[i] = (struct sl_edge_facts){.times = from->times.path,
                                          .feat = from->feat.path,
                                          .source_times = source->times.path,
                                          .n_read = from->n_read,
                                          .first_source = first[r->source],
                                          .n_sources = source->n,
                                          .n_rows = t->type[r->target].n,
                                          .n_edges = r->n_edges};
        snprintf(facts[i].key, sizeof facts[i].key, "%s.%s.%s", source->name, r->name,
                 t->type[r->target].name);
    }
    const struct sl_edge_facts_spec spec = {facts, t->n_relations, im->csc.max_degree, numbered,
                                            weighted};
    int rc = sl_edge_facts_write(&im->making.st, &spec, &im->csc.has_weights, &im->making.progress);
    free(facts);
    return rc;
}

static int put_relations(struct sl_import *im)
{
    struct sl_typed_import *t = im->typed;
    struct sl_csc_files *files = NULL;
    bool weighted = false, numbered = false, timed = false;
    uint64_t first[SL_TYPES_MAX], n = 0;
    for (uint32_t i = 0; i < t->n_types; n += t->type[i++].n)
        first[i] = n;
    for (uint32_t i = 0; i < t->n_relations; i++) {
        t->n_rows += t->type[t->relation[i].target].n;
        weighted |= t->relation[i].weighted && im->weights;
        numbered |= has_facts(&t->relation[i]);
    }
    int rc = sl_csc_open(&im->making.st, t->n_rows, n, weighted || numbered, &im->csc, &files);
    for (uint32_t i = 0; i < t->n_relations && rc == SL_OK; i++)
        rc = put_relation(im, i, first, files);
    SL_TRY(sl_csc_close(files, rc));
    im->edge_sink.numbered = false;
    im->edge_sink.weighted = weighted;
    for (uint32_t i = 0; i < t->n_types; i++)
        timed |= t->type[i].times.path != NULL;
    if (numbered || timed)
        SL_TRY(put_facts(im, first, numbered, weighted));
    SL_TRY(drop_staged(t));
    im->edge_sink.both_ways = false;
    im->unit_weights = false; // of one relation
    return sl_import_drop_units(im);
}

// ---- relations the other way --------------------------------------------------------------------

static int add_reverses(struct sl_import *im)
{
    struct sl_typed_import *t = im->typed;
    for (uint32_t i = 0; i < t->n_files && im->reverse; i++) {
        const struct sl_import_relation of = t->relation[i];
        struct sl_import_relation *r;
        char name[SL_TYPE_NAME_BYTES + 8];
        if (of.reverse_of != SL_NO_RELATION)
            return sl_fail(SL_EINVAL,
                           "import %s: relation '%s' is the reverse of another one already: leave "
                           "--reverse out",
                           im->source, of.name);
        if (of.source == of.target) {
            t->relation[i].reverse_of = i;
            t->n_symmetric++;
            continue;
        }
        snprintf(name, sizeof name, "rev_%s", of.name);
        if (strlen(name) >= SL_TYPE_NAME_BYTES)
            return sl_fail(SL_EINVAL,
                           "import %s: relation '%s': its reverse '%s' is too long a name",
                           im->source, of.name, name);
        SL_TRY(add_relation(t, im->source, of.target, name, of.source, &r));
        r->swapped = true;
        r->reverse_of = i;
        r->weighted = of.weighted;
    }
    return SL_OK;
}

// Weights that a relation's files have, if they are read at all.
static int check_weights(const struct sl_import *im)
{
    const struct sl_typed_import *t = im->typed;
    for (uint32_t i = 0; i < t->n_files; i++)
        if (t->relation[i].weights.path && t->relation[i].edges.text && im->weights)
            return sl_fail(SL_EINVAL,
                           "import %s: relation %s: edges are lines of text (%s) and weights an "
                           "array: wanted the weights as a third column, or the edges as an array",
                           im->source, t->relation[i].name, t->relation[i].edges.path);
    return SL_OK;
}

// What times and features of edges do not go with.
static int check_facts(const struct sl_import *im)
{
    const struct sl_typed_import *t = im->typed;
    const char *odd = sl_edge_features_forbidden(im);
    for (uint32_t i = 0; i < t->n_types; i++)
        if (t->type[i].times.text)
            return sl_fail(SL_EINVAL,
                           "import %s: type %s: found %s, wanted times as a .npy array with one "
                           "for each vertex: numpy.save() makes one",
                           im->source, t->type[i].name, t->type[i].times.path);
    for (uint32_t i = 0; i < t->n_files; i++) {
        const struct sl_import_relation *r = &t->relation[i];
        if (!has_facts(r))
            continue;
        if (odd)
            return sl_fail(SL_EINVAL,
                           "import %s: relation %s has times or features of edges, found %s: leave "
                           "it out",
                           im->source, r->name, odd);
        if (r->weighted && im->weights)
            return sl_fail(SL_EINVAL,
                           "import %s: relation %s has weights beside times or features of edges: "
                           "wanted weights alone, or none: leave one out (--no-weights), or make "
                           "the weights a column of the features",
                           im->source, r->name);
        if (r->times.text || (r->feat.text && r->n_wanted == UINT64_MAX))
            return sl_fail(SL_EINVAL,
                           "import %s: relation %s: found %s, wanted times and features of edges "
                           "as .npy arrays with a row for each edge: numpy.save() makes one",
                           im->source, r->name, r->times.text ? r->times.path : r->feat.path);
    }
    return SL_OK;
}

int sl_typed_import_finish(struct sl_import *im)
{
    struct sl_typed_import *t = im->typed;
    uint32_t feat_dim = 0;
    if (t->n_types == 0 || t->n_relations == 0)
        return sl_fail(SL_EFORMAT, "import %s: found %u types and %u relations: wanted some",
                       im->source, t->n_types, t->n_relations);
    SL_TRY(check_weights(im));
    SL_TRY(check_facts(im));
    for (uint32_t i = 0; i < t->n_files; i++)
        SL_TRY(stage_features(im, &t->relation[i]));
    SL_TRY(add_reverses(im));
    SL_TRY(put_relations(im));
    for (uint32_t i = 0; i < t->n_types; i++) {
        SL_TRY(read_features(im, &t->type[i]));
        feat_dim = SL_MAX(feat_dim, t->type[i].feat_dim);
    }
    im->vertices.feat_dim = feat_dim; // whether there are any
    SL_TRY(sl_import_finish_vertices(im, t->type[0].n));
    im->vertices.feat_dim = 0;
    return SL_OK;
}

// ---- what is said of it -------------------------------------------------------------------------

static void describe(const struct sl_import *im, cJSON *root)
{
    const struct sl_typed_import *t = im->typed;
    cJSON *types = cJSON_AddArrayToObject(root, "types");
    for (uint32_t i = 0; i < t->n_types; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", t->type[i].name);
        cJSON_AddNumberToObject(o, "count", (double)t->type[i].n);
        if (t->type[i].feat_dim)
            cJSON_AddNumberToObject(o, "feat_dim", t->type[i].feat_dim);
        cJSON_AddItemToArray(types, o);
    }
    cJSON *relations = cJSON_AddArrayToObject(root, "relations");
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_import_relation *r = &t->relation[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "source", t->type[r->source].name);
        cJSON_AddStringToObject(o, "name", r->name);
        cJSON_AddStringToObject(o, "target", t->type[r->target].name);
        cJSON_AddNumberToObject(o, "edges", (double)r->n_edges);
        if (r->reverse_of != SL_NO_RELATION)
            cJSON_AddStringToObject(o, "reverse_of", t->relation[r->reverse_of].name);
        cJSON_AddItemToArray(relations, o);
    }
    if (t->has_labels)
        cJSON_AddStringToObject(root, "label_type", t->type[0].name);
}

static void summarise(const struct sl_import *im, struct sl_table *table)
{
    char a[SL_UNITS_BYTES];
    const struct sl_typed_import *t = im->typed;
    if (im->reverse)
        sl_table_row(table, "reverse relations|%u added, %u made symmetric (--reverse)",
                     t->n_relations - t->n_files, t->n_symmetric);
    for (uint32_t i = 0; i < t->n_types; i++) {
        const struct sl_import_type *type = &t->type[i];
        char feat[64] = "";
        if (type->feat_dim)
            snprintf(feat, sizeof feat, ", %" PRIu32 " x float%s", type->feat_dim,
                     type->half ? "16" : "32");
        sl_table_row(table, "%s %s|%s%s", i ? "      " : "types ", type->name,
                     sl_units_grouped(a, type->n), feat);
    }
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_import_relation *r = &t->relation[i];
        sl_table_row(table, "%s %s -%s-> %s|%s", i ? "      " : "edges ", t->type[r->source].name,
                     r->name, t->type[r->target].name, sl_units_grouped(a, r->n_edges));
    }
}

static void close_typed(struct sl_import *im)
{
    struct sl_typed_import *t = im->typed;
    for (uint32_t i = 0; i < t->n_types; i++)
        free(t->type[i].feat.path), free(t->type[i].times.path);
    for (uint32_t i = 0; i < t->n_files; i++) {
        free(t->relation[i].edges.path);
        free(t->relation[i].weights.path);
        free(t->relation[i].times.path);
        free(t->relation[i].feat.path);
    }
    free(t);
}

// ---- the beginning ------------------------------------------------------------------------------

static const struct sl_import_typed of_typed = {describe, summarise, close_typed};

int sl_typed_import_begin(struct sl_import *im)
{
    static const char *const why = "is for graphs of one type";
    const char *option = im->symmetrise ? "symmetrise" : im->holdout ? "holdout" : NULL;
    if (option)
        return sl_fail(SL_EINVAL, "import %s %s: --%s %s, and this one has several: %s",
                       im->format->name, im->source, option, why,
                       im->symmetrise ? "--reverse adds relations the other way" : "leave it out");
    im->of_typed = &of_typed;
    im->typed = calloc(1, sizeof *im->typed);
    return im->typed ? SL_OK : sl_fail(SL_ENOMEM, "import %s: no memory", im->source);
}
