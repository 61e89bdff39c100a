/*
 * The record of a passed validation, so that the second open of a data set is quick, and so that
 * whoever opens it for a job opens what was validated: the process that did hands its record to
 * those that it starts (sl_dataset_open_recorded).
 *
 * On disk it is one small JSON file for each data set, named by a hash of its canonical path, in
 * $SLUICE_CACHE_DIR, else $XDG_CACHE_HOME/sluice, else ~/.cache/sluice; never in the data set's
 * own directory, which may be read-only or shared. It holds what was known of every file when it
 * was mapped (size, modification and change time, inode), a hash of metadata.json and a digest of
 * headers, metadata.json and the first and last 4 KiB of each file. Any difference, any doubt and
 * any damage to the record on disk mean the same: check again.
 *
 * A file changed within one tick of the kernel's clock after it was mapped keeps its times. Files
 * that are younger than that when they are opened are therefore checked and not remembered (git
 * calls such files "racily clean").
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/base/log.h"
#include "common/base/open_file.h"
#include "common/data/atomic_file.h"
#include "common/data/dataset_internal.h"

enum { RECORD_FORMAT = 7, ENDS_BYTES = 4096, MAX_RECORD_BYTES = 1 << 20 };

// Twice the tick of the slowest usual kernel (HZ = 100).
static const uint64_t racy_ns = 20000000;

static void add_ends(XXH3_state_t *state, const struct sl_npy *npy)
{
    const char *bytes = npy->map;
    uint64_t head = SL_MIN(npy->file_bytes, SL_MAX(npy->head.data_offset, ENDS_BYTES));
    uint64_t tail = SL_MIN(npy->file_bytes, ENDS_BYTES);
    XXH3_64bits_update(state, bytes, head);
    XXH3_64bits_update(state, bytes + npy->file_bytes - tail, tail);
}

uint64_t sl_dataset_digest(const struct sl_dataset *ds, const struct sl_dataset_metadata *m)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return 0;
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, m->text, m->n_text);
    for (int f = 0; f < SL_FILE_COUNT; f++) {
        const struct sl_npy *npy = &ds->files->npy[f];
        // A data set without one keeps the digest that it had before there were such files.
        if (f >= SL_FILE_VERTEX_MAP && !npy->map)
            continue;
        uint64_t sizes[2] = {(uint64_t)f, npy->file_bytes};
        XXH3_64bits_update(state, sizes, sizeof sizes);
        if (!npy->map)
            continue;
        add_ends(state, npy);
    }
    for (uint32_t t = 0; t < ds->files->n_typed; t++) {
        const struct sl_npy *npy = &ds->files->typed[t].npy;
        uint64_t sizes[3] = {SL_FILE_FEAT, t, npy->file_bytes};
        if (t >= ds->typed.n_types && !npy->map)
            continue;
        XXH3_64bits_update(state, sizes, sizeof sizes);
        if (npy->map)
            add_ends(state, npy);
    }
    uint64_t digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return digest;
}

enum { WINDOWS = 256, WINDOW = 512 };

// Where window w of n numbers begins; the last one ends with them.
static uint64_t window_at(uint64_t n, uint64_t w)
{
    const uint64_t rest = n - SL_MIN(n, (uint64_t)WINDOW);
    return w + 1 < WINDOWS ? rest / WINDOWS * w : rest;
}

uint64_t sl_dataset_topology_digest(const struct sl_dataset *ds)
{
    const uint64_t n_offsets = ds->n_nodes + 1;
    const uint64_t sizes[2] = {ds->n_nodes, ds->n_edges};
    uint64_t sum = XXH3_64bits(sizes, sizeof sizes);
    for (uint64_t w = 0; w < WINDOWS; w++) {
        const uint64_t v = window_at(n_offsets, w), e = window_at(ds->n_edges, w);
        const uint64_t offsets = SL_MIN((uint64_t)WINDOW, n_offsets - v);
        const uint64_t edges = SL_MIN((uint64_t)WINDOW, ds->n_edges - e);
        uint32_t sources[WINDOW];
        for (uint64_t i = 0; i < edges; i++)
            sources[i] = sl_dataset_source(ds, e + i);
        sum = XXH3_64bits_withSeed(ds->indptr + v, offsets * sizeof *ds->indptr, sum);
        sum = XXH3_64bits_withSeed(sources, edges * sizeof *sources, sum);
    }
    return sum;
}

char *sl_dataset_cache_dir(void)
{
    const char *own = getenv("SLUICE_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char *dir = NULL;
    int n = -1;
    if (own && own[0])
        n = asprintf(&dir, "%s", own);
    else if (xdg && xdg[0] == '/') // a relative one is to be ignored, its specification says
        n = asprintf(&dir, "%s/sluice", xdg);
    else if (home && home[0])
        n = asprintf(&dir, "%s/.cache/sluice", home);
    return n < 0 ? NULL : dir;
}

// With features of edges it is another record: jobs with and without take turns.
static char *record_path(const char *dir, const struct sl_dataset *ds)
{
    XXH128_hash_t h = XXH3_128bits(ds->path, strlen(ds->path));
    const bool edges = ds->typed.n_types > 0 ? sl_dataset_edge_feat_file(ds, 0) != NULL
                                             : ds->files->npy[SL_FILE_EDGE_FEAT].map != NULL;
    char *path;
    int n = asprintf(&path, "%s/dataset-%016" PRIx64 "%016" PRIx64 "%s.json", dir,
                     (uint64_t)h.high64, (uint64_t)h.low64, edges ? "-edges" : "");
    return n < 0 ? NULL : path;
}

// Times and inodes need all 64 bits, which JSON numbers do not have: they are written as text.
static void add_number(cJSON *to, const char *key, uint64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, x);
    cJSON_AddStringToObject(to, key, text);
}

static bool read_number(const cJSON *from, const char *key, uint64_t *out)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(from, key));
    char *end;
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static struct sl_dataset_facts facts_of(const struct sl_dataset *ds)
{
    return (struct sl_dataset_facts){.max_degree = ds->max_degree,
                                     .loop_free = ds->loop_free,
                                     .lists_rise = ds->lists_rise,
                                     .times_rise = ds->times_rise,
                                     .feat_checked = ds->feat_checked,
                                     .weightless_edges = ds->weightless_edges,
                                     .weightless_vertices = ds->weightless_vertices};
}

static void take_facts(struct sl_dataset *ds, const struct sl_dataset_facts *facts)
{
    ds->max_degree = facts->max_degree;
    ds->loop_free = facts->loop_free == 1;
    ds->lists_rise = facts->lists_rise == 1;
    ds->times_rise = facts->times_rise == 1;
    ds->feat_checked = facts->feat_checked;
    ds->weightless_edges = facts->weightless_edges;
    ds->weightless_vertices = facts->weightless_vertices;
}

static bool are_possible(const struct sl_dataset *ds, const struct sl_dataset_facts *facts)
{
    return facts->max_degree <= ds->n_edges && facts->loop_free <= 1 && facts->lists_rise <= 1 &&
           facts->times_rise <= sl_dataset_has_times(ds) &&
           facts->feat_checked <= sl_dataset_feat_plan(ds, true) &&
           facts->weightless_edges <= (ds->edge_weight ? ds->n_edges : 0) &&
           facts->weightless_vertices <= SL_MIN(facts->weightless_edges, sl_dataset_lists(ds));
}

// Everything that must be equal, as the text of a record.
static char *format_record(const struct sl_dataset *ds, const struct sl_dataset_facts *facts)
{
    struct sl_dataset_part parts[SL_DATASET_PARTS_MAX];
    const uint32_t n = sl_dataset_parts(ds, parts);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "format", RECORD_FORMAT);
    cJSON_AddStringToObject(json, "path", ds->path);
    add_number(json, "digest", ds->digest);
    add_number(json, "metadata", ds->files->metadata_hash);
    add_number(json, "max_degree", facts->max_degree);
    add_number(json, "loop_free", facts->loop_free);
    add_number(json, "lists_rise", facts->lists_rise);
    add_number(json, "times_rise", facts->times_rise);
    add_number(json, "feat_checked", facts->feat_checked);
    add_number(json, "weightless_edges", facts->weightless_edges);
    add_number(json, "weightless_vertices", facts->weightless_vertices);
    cJSON *files = cJSON_AddArrayToObject(json, "files");
    for (uint32_t i = 0; i < n; i++) {
        cJSON *file = cJSON_CreateObject();
        cJSON_AddStringToObject(file, "name", parts[i].name);
        add_number(file, "bytes", parts[i].id->bytes);
        add_number(file, "inode", parts[i].id->inode);
        add_number(file, "mtime_ns", parts[i].id->mtime_ns);
        add_number(file, "ctime_ns", parts[i].id->ctime_ns);
        cJSON_AddItemToArray(files, file);
    }
    // Where memory ran out above, the text lacks something and equals no record.
    char *text = sl_json_pages(json);
    cJSON_Delete(json);
    return text;
}

char *sl_dataset_record(const struct sl_dataset *ds)
{
    const struct sl_dataset_facts facts = facts_of(ds);
    return format_record(ds, &facts);
}

// ---- a record, read -----------------------------------------------------------------------------

static bool read_file(const cJSON *json, const char **name, struct sl_file_id *id)
{
    *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "name"));
    return *name && read_number(json, "bytes", &id->bytes) &&
           read_number(json, "inode", &id->inode) && read_number(json, "mtime_ns", &id->mtime_ns) &&
           read_number(json, "ctime_ns", &id->ctime_ns);
}

static bool read_record(struct sl_dataset_known *out)
{
    const cJSON *json = out->json, *file;
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(json, "files");
    struct sl_dataset_facts *facts = &out->facts;
    if (!read_number(json, "digest", &out->digest) ||
        !read_number(json, "metadata", &out->metadata) ||
        !read_number(json, "max_degree", &facts->max_degree) ||
        !read_number(json, "loop_free", &facts->loop_free) ||
        !read_number(json, "lists_rise", &facts->lists_rise) ||
        !read_number(json, "times_rise", &facts->times_rise) ||
        !read_number(json, "feat_checked", &facts->feat_checked) ||
        !read_number(json, "weightless_edges", &facts->weightless_edges) ||
        !read_number(json, "weightless_vertices", &facts->weightless_vertices))
        return false;
    cJSON_ArrayForEach(file, files)
    {
        if (out->files.n == SL_DATASET_PARTS_MAX ||
            !read_file(file, &out->files.file[out->files.n].name,
                       &out->files.file[out->files.n].id))
            return false;
        out->files.n++;
    }
    return cJSON_IsArray(files); // empty where the data set is described alone
}

int sl_dataset_known_read(const char *record, struct sl_dataset_known *out)
{
    *out = (struct sl_dataset_known){.json = cJSON_Parse(record)};
    if (read_record(out))
        return SL_OK;
    sl_dataset_known_fini(out);
    return sl_fail(SL_EFORMAT, "the record of a data set's validation is damaged");
}

void sl_dataset_known_fini(struct sl_dataset_known *known)
{
    cJSON_Delete(known->json);
    *known = (struct sl_dataset_known){0};
}

int sl_dataset_known_take(const struct sl_dataset_known *known, struct sl_dataset *ds)
{
    if (known->digest != ds->digest || !are_possible(ds, &known->facts))
        return sl_fail(SL_ECHANGED,
                       "data set %s: was changed since it was checked (found digest %016" PRIx64
                       ", wanted %016" PRIx64 "): " SL_FILE_ID_ADVICE,
                       ds->path, ds->digest, known->digest);
    take_facts(ds, &known->facts);
    return SL_OK;
}

// ---- records on disk ----------------------------------------------------------------------------

bool sl_dataset_record_load(struct sl_dataset *ds)
{
    bool same = false;
    char *dir = sl_dataset_cache_dir(), *path = dir ? record_path(dir, ds) : NULL;
    char *found = NULL, *wanted = NULL;
    struct sl_dataset_known known = {0};
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    // The record of these files, with what was found in them, has one spelling: compare all of it.
    if (fd >= 0 && sl_read_whole_file(fd, path, MAX_RECORD_BYTES, &found, NULL) == SL_OK &&
        sl_dataset_known_read(found, &known) == SL_OK && are_possible(ds, &known.facts)) {
        wanted = format_record(ds, &known.facts);
        same = wanted && strcmp(found, wanted) == 0;
    }
    if (same)
        take_facts(ds, &known.facts);
    else if (found)
        sl_log_debug("data set %s: %s is of other files or damaged: validating again", ds->path,
                     path);
    if (fd >= 0)
        close(fd);
    sl_dataset_known_fini(&known);
    free(wanted);
    free(found);
    free(path);
    free(dir);
    return same;
}

// Whether a file was changed so shortly before it was mapped that a change just after it might
// carry the same times.
static bool is_racy(const struct sl_dataset *ds)
{
    struct sl_dataset_part parts[SL_DATASET_PARTS_MAX];
    const uint32_t n = sl_dataset_parts(ds, parts);
    const uint64_t opened_ns = ds->files->opened_ns;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t changed_ns = SL_MAX(parts[i].id->mtime_ns, parts[i].id->ctime_ns);
        // A time in the future comes from another machine's clock and says nothing.
        if (changed_ns <= opened_ns && opened_ns - changed_ns < racy_ns)
            return true;
    }
    return false;
}

// mkdir -p: a parent that exists or cannot be made shows when the last one is made.
static int make_dirs(char *dir)
{
    for (char *p = dir + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(dir, 0700);
        *p = '/';
    }
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return sl_fail_errno(SL_EIO, errno, "make directory %s", dir);
    return SL_OK;
}

void sl_dataset_record_save(const struct sl_dataset *ds)
{
    char *dir = sl_dataset_cache_dir(), *path = dir ? record_path(dir, ds) : NULL;
    char *text = path && !ds->files->temporary ? sl_dataset_record(ds) : NULL;
    int rc;
    if (is_racy(ds))
        sl_log_debug("data set %s: changed a moment ago: validation not remembered", ds->path);
    else if (!text)
        sl_log_debug("data set %s: %s: validation not remembered", ds->path,
                     ds->files->temporary ? "temporary" : "no cache directory");
    else if ((rc = make_dirs(dir)) < 0 || (rc = sl_atomic_file_write(path, text, strlen(text))) < 0)
        sl_log_debug("data set %s: validation not remembered: %s", ds->path, sl_error_message());
    free(text);
    free(path);
    free(dir);
}
