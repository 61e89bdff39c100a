#include "partition/shards.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/dataset_contents.h"
#include "common/data/features_kind.h"
#include "common/text/units.h"
#include "dataset/metadata.h"

enum {
    TOGETHER = 64,     // parts whose rows are written in one pass: a buffer of 1 MiB each
    BEHIND = 64 << 20, // of features that stay in memory once they are read
    PATH_BYTES = SL_STAGING_PATH_BYTES + 300,
};

const char *const sl_shards_topologies[] = {"link", "copy", NULL};

struct work {
    struct sl_shards *s;
    const struct sl_parts_task *t;
    const struct sl_dataset *ds;
    const uint16_t *part;
    uint64_t *n_rows;      // (tables, n_parts): a table of all vertices, or one of each type
    struct dirent **entry; // files that all shards have
    int n_entries;
    uint64_t partition;
};

static char *path_in(const struct work *w, uint32_t shard, const char *name, char *out)
{
    snprintf(out, PATH_BYTES, "%s/%u/%s", w->s->st.dir, shard, name);
    return out;
}

// ---- what is the same in all shards -------------------------------------------------------------

// Arrays by all vertices or edges, known to sluice or not, and names; no other node's features.
static int is_shared(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    const char *const own[] = {"node_feat.", "node_part.npy", "node_row.npy"};
    for (size_t i = 0; i < SL_COUNT_OF(own); i++)
        if (strncmp(e->d_name, own[i], strlen(own[i])) == 0)
            return 0;
    return e->d_name[0] != '.' && dot && strcmp(dot, ".npy") == 0;
}

static const struct sl_file_id *validated(const struct work *w, const char *name)
{
    struct sl_dataset_part parts[SL_DATASET_PARTS_MAX];
    const uint32_t n = sl_dataset_parts(w->ds, parts);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(parts[i].name, name) == 0)
            return parts[i].id;
    return NULL; // a file that a data set may have and sluice does not read
}

static int share_entry(struct work *w, uint32_t shard, const char *name)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    struct stat st;
    snprintf(from, sizeof from, "%s/%s", w->ds->path, name);
    SL_TRY(sl_file_share(&w->s->shared, from, path_in(w, shard, name, to)));
    if (stat(from, &st) != 0)
        return sl_fail_errno(SL_EIO, errno, "%s: cannot be looked at again", from);
    return sl_file_id_check(from, validated(w, name), &st);
}

static int list_entries(struct work *w)
{
    w->n_entries = scandir(w->ds->path, &w->entry, is_shared, alphasort);
    if (w->n_entries < 0)
        return sl_fail_errno(SL_EIO, errno, "%s: cannot be listed", w->ds->path);
    return SL_OK;
}

// ---- tables of features -------------------------------------------------------------------------

static uint32_t tables_of(const struct work *w)
{
    return SL_MAX(w->ds->typed.n_types, 1u);
}

// Rows of a table by part (n_parts).
static uint64_t *rows_of(const struct work *w, uint32_t t)
{
    return w->n_rows + (uint64_t)t * w->t->n_parts;
}

// ---- places -------------------------------------------------------------------------------------

static int append_places(struct work *w, struct sl_npy_writer *to)
{
    sl_progress_begin(w->t->progress, "places", w->ds->n_nodes, "vertices");
    uint32_t t = 0;
    for (uint64_t v = 0; v < w->ds->n_nodes; v++) {
        while (t + 1 < tables_of(w) && v >= w->ds->typed.type[t + 1].first)
            t++;
        const uint32_t row = (uint32_t)rows_of(w, t)[w->part[v]]++;
        SL_TRY(sl_npy_writer_append(to, &row, sizeof row));
        SL_TRY(sl_parts_tick(w->t->progress, v));
    }
    return SL_OK;
}

// Of the first shard; counts the rows of all.
static int write_places(struct work *w)
{
    char path[PATH_BYTES];
    struct sl_npy_writer *writer;
    struct sl_npy part;
    SL_TRY(sl_parts_write(path_in(w, 0, "node_part.npy", path), w->t->n_parts, w->ds->n_nodes,
                          w->part));
    SL_TRY(sl_npy_open(path, &part));
    w->partition = XXH3_64bits(part.data, part.head.data_bytes);
    w->s->bytes += part.file_bytes + w->ds->n_nodes * sizeof(uint32_t);
    sl_npy_close(&part);
    SL_TRY(sl_npy_writer_open(path_in(w, 0, "node_row.npy", path), SL_DTYPE_U32, 1, &w->ds->n_nodes,
                              &writer));
    return sl_npy_writer_close(&writer, append_places(w, writer));
}

static int share_places(struct work *w, uint32_t shard)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    SL_TRY(sl_file_share(&w->s->shared, path_in(w, 0, "node_part.npy", from),
                         path_in(w, shard, "node_part.npy", to)));
    return sl_file_share(&w->s->shared, path_in(w, 0, "node_row.npy", from),
                         path_in(w, shard, "node_row.npy", to));
}

// ---- features -----------------------------------------------------------------------------------

// Of a table, and of the parts from `first` on, writer by writer.
struct rows {
    uint32_t t, first, n;
    struct sl_feature_table table;
    struct sl_npy_writer *writer[TOGETHER];
};

static int open_rows(struct work *w, struct rows *r)
{
    char path[PATH_BYTES];
    const struct sl_vertex_type *type = w->ds->typed.n_types ? &w->ds->typed.type[r->t] : NULL;
    const enum sl_dtype dtype = type ? type->feat_dtype : w->ds->feat_dtype;
    const uint64_t dim = type ? type->feat_dim : w->ds->feat_dim;
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t p = r->first + i;
        path_in(w, p, type ? w->ds->files->typed[r->t].name : "node_feat.npy", path);
        SL_TRY(sl_npy_writer_open(path, dtype, 2, (uint64_t[]){rows_of(w, r->t)[p], dim},
                                  &r->writer[i]));
        SL_TRY(sl_npy_writer_reserve(r->writer[i]));
    }
    return SL_OK;
}

static int append_rows(struct work *w, struct rows *r)
{
    const uint64_t bytes = r->table.row_bytes;
    const uint64_t stretch = BEHIND / bytes + 1;
    const uint16_t *part = w->part + r->table.first;
    const char *row = r->table.rows;
    sl_progress_begin(w->t->progress, "features", r->table.n, "vertices");
    for (uint64_t v = 0; v < r->table.n; v++, row += bytes) {
        const uint32_t i = part[v] - r->first; // of a part before it large, too
        if (i < r->n)
            SL_TRY(sl_npy_writer_append(r->writer[i], row, bytes));
        if (v % stretch == stretch - 1)
            sl_advise(row - (stretch - 1) * bytes, stretch * bytes, MADV_DONTNEED);
        SL_TRY(sl_parts_tick(w->t->progress, v));
    }
    return SL_OK;
}

static int write_table(struct work *w, uint32_t t)
{
    const struct sl_feature_table table = sl_dataset_table(w->ds, t);
    int rc = SL_OK;
    if (!table.rows || table.row_bytes == 0)
        return SL_OK;
    sl_advise(table.rows, table.n * table.row_bytes, MADV_SEQUENTIAL);
    for (uint32_t p = 0; p < w->t->n_parts && rc == SL_OK; p += TOGETHER) {
        struct rows r = {
            .t = t, .first = p, .n = SL_MIN(w->t->n_parts - p, (uint32_t)TOGETHER), .table = table};
        rc = open_rows(w, &r);
        if (rc == SL_OK)
            rc = append_rows(w, &r);
        for (uint32_t i = 0; i < r.n; i++)
            rc = sl_npy_writer_close(&r.writer[i], rc);
    }
    w->s->bytes += table.n * table.row_bytes;
    return rc;
}

static int write_features(struct work *w)
{
    for (uint32_t t = 0; t < tables_of(w); t++)
        SL_TRY(write_table(w, t));
    return SL_OK;
}

// ---- metadata -----------------------------------------------------------------------------------

static void add_digest(cJSON *to, const char *key, uint64_t digest)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    cJSON_AddStringToObject(to, key, text);
}

// Of the contents of the whole data set, and of who has which vertex.
static int make_digest(struct work *w)
{
    struct sl_dataset_content content[SL_DATASET_PARTS_MAX + 1];
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return sl_fail(SL_ENOMEM, "partition: no memory for a digest");
    XXH3_64bits_reset(state);
    const uint64_t partition[] = {w->t->n_parts, w->partition};
    XXH3_64bits_update(state, partition, sizeof partition);
    const uint32_t n = sl_dataset_contents(w->ds, content);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t numbers[] = {content[i].bytes, content[i].digest};
        XXH3_64bits_update(state, content[i].name, strlen(content[i].name) + 1);
        XXH3_64bits_update(state, numbers, sizeof numbers);
    }
    w->s->digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return SL_OK;
}

// How many rows the shard has, and of each type.
static void add_rows(struct work *w, uint32_t shard, cJSON *to)
{
    cJSON *by_type = w->ds->typed.n_types ? cJSON_AddArrayToObject(to, "type_rows") : NULL;
    uint64_t n = 0;
    for (uint32_t t = 0; t < tables_of(w); t++) {
        n += rows_of(w, t)[shard];
        if (by_type)
            cJSON_AddItemToArray(by_type, cJSON_CreateNumber((double)rows_of(w, t)[shard]));
    }
    cJSON_AddNumberToObject(to, "rows", (double)n);
}

// The keys that the data set has, its user's own among them.
static int write_metadata(struct work *w, uint32_t shard)
{
    char path[PATH_BYTES];
    cJSON *root = sl_metadata_read(w->ds->path);
    if (!root)
        return SL_EIO;
    cJSON *type;
    cJSON_DeleteItemFromObjectCaseSensitive(root, "feat_stripes"); // features are one file now
    cJSON_ArrayForEach(type, cJSON_GetObjectItemCaseSensitive(root, "types"))
    {
        cJSON_DeleteItemFromObjectCaseSensitive(type, "feat_stripes");
    }
    cJSON_DeleteItemFromObjectCaseSensitive(root, "name");
    cJSON_AddStringToObject(root, "name", w->ds->name);
    cJSON_DeleteItemFromObjectCaseSensitive(root, "shard");
    cJSON *o = cJSON_AddObjectToObject(root, "shard");
    cJSON_AddNumberToObject(o, "index", shard);
    cJSON_AddNumberToObject(o, "count", w->t->n_parts);
    add_rows(w, shard, o);
    cJSON_AddStringToObject(o, "of", w->ds->path);
    add_digest(o, "whole", w->ds->digest);
    add_digest(o, "digest", w->s->digest);
    add_digest(o, "partition", w->partition);
    return sl_metadata_save(path_in(w, shard, "metadata.json", path), root);
}

static int write_parent(struct work *w)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "name", w->ds->name);
    cJSON_AddNumberToObject(root, "num_nodes", (double)w->ds->n_nodes);
    cJSON_AddNumberToObject(root, "num_edges", (double)w->ds->n_edges);
    cJSON_AddNumberToObject(root, "shards", w->t->n_parts);
    cJSON_AddStringToObject(root, "of", w->ds->path);
    return sl_metadata_write(&w->s->st, root);
}

// ---- all of it ----------------------------------------------------------------------------------

static bool can_link(struct work *w)
{
    char from[PATH_BYTES], to[SL_STAGING_PATH_BYTES];
    snprintf(from, sizeof from, "%s/indptr.npy", w->ds->path);
    return sl_file_share_can_link(from, sl_staging_file(&w->s->st, "indptr.npy", to));
}

static int check_room(struct work *w)
{
    char path[PATH_BYTES], a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const bool asked = w->s->topology == SL_SHARDS_COPY, copies = asked || !can_link(w);
    const uint64_t places = w->ds->n_nodes * (sizeof(uint32_t) + (w->t->n_parts > 256 ? 2 : 1));
    uint64_t wanted = sl_features_bytes(w->ds) + places * (asked ? w->t->n_parts : 1);
    struct statvfs fs;
    struct stat st;
    for (int i = 0; copies && i < w->n_entries; i++) {
        snprintf(path, sizeof path, "%s/%s", w->ds->path, w->entry[i]->d_name);
        if (stat(path, &st) == 0)
            wanted += (uint64_t)st.st_size * w->t->n_parts;
    }
    if (statvfs(w->s->st.dir, &fs) != 0)
        return sl_fail_errno(SL_EIO, errno, "write %s: ask for room", w->s->st.final);
    const uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (wanted <= room)
        return SL_OK;
    return sl_fail(SL_EIO, "write %s: found room for %s, wanted %s%s: choose another --out",
                   w->s->st.final, sl_units_bytes(a, (double)room),
                   sl_units_bytes(b, (double)wanted),
                   copies ? ", as each shard has a copy of the graph" : "");
}

static int begin_shard(struct work *w, uint32_t shard)
{
    char path[PATH_BYTES];
    path_in(w, shard, "", path);
    if (mkdir(path, 0777) != 0)
        return sl_fail_errno(SL_EIO, errno, "write %s: make a directory of it", path);
    for (int i = 0; i < w->n_entries; i++) {
        SL_TRY(sl_interrupt_check());
        SL_TRY(share_entry(w, shard, w->entry[i]->d_name));
    }
    return SL_OK;
}

static int write_all(struct work *w)
{
    SL_TRY(list_entries(w));
    SL_TRY(check_room(w));
    SL_TRY(begin_shard(w, 0));
    SL_TRY(write_places(w));
    SL_TRY(make_digest(w));
    for (uint32_t p = 1; p < w->t->n_parts; p++) {
        SL_TRY(begin_shard(w, p));
        SL_TRY(share_places(w, p));
    }
    SL_TRY(write_features(w));
    for (uint32_t p = 0; p < w->t->n_parts; p++)
        SL_TRY(write_metadata(w, p));
    SL_TRY(write_parent(w));
    SL_TRY(sl_interrupt_check());
    return sl_staging_commit(&w->s->st);
}

int sl_shards_open(struct sl_shards *s, const char *out, bool force)
{
    return sl_staging_open(out, force, &s->st);
}

int sl_shards_write(struct sl_shards *s, const struct sl_parts_task *t, const uint16_t *part)
{
    struct work w = {.s = s, .t = t, .ds = t->ds, .part = part};
    w.n_rows = calloc((size_t)t->n_parts * tables_of(&w), sizeof *w.n_rows);
    s->shared.copies = s->topology == SL_SHARDS_COPY;
    int rc =
        w.n_rows ? write_all(&w) : sl_fail(SL_ENOMEM, "partition: no memory for a number a shard");
    for (int i = 0; i < w.n_entries; i++)
        free(w.entry[i]);
    free(w.entry);
    s->bytes += s->shared.bytes;
    sl_file_share_fini(&s->shared);
    free(w.n_rows);
    return rc;
}

void sl_shards_abort(struct sl_shards *s)
{
    sl_staging_abort(&s->st);
}
