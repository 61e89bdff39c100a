/*
 * The record of a passed validation, so that the second open of a data set is quick.
 *
 * One small JSON file for each data set, named by a hash of its canonical path, in
 * $SLUICE_CACHE_DIR, else $XDG_CACHE_HOME/sluice, else ~/.cache/sluice; never in the data set's
 * own directory, which may be read-only or shared. It holds what was known of every file when it
 * was mapped (size, modification and change time, inode) and a digest of headers, metadata.json and
 * the first and last 4 KiB of each file. Any difference, any doubt and any damage to the record
 * mean the same: check again.
 *
 * A file changed within one tick of the kernel's clock after it was mapped keeps its times. Files
 * that are younger than that when they are opened are therefore checked and not remembered (git
 * calls such files "racily clean").
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/data/atomic_file.h"
#include "common/data/dataset_internal.h"

enum { RECORD_FORMAT = 3, ENDS_BYTES = 4096, MAX_RECORD_BYTES = 65536 };

// Twice the tick of the slowest usual kernel (HZ = 100).
static const uint64_t racy_ns = 20000000;

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
        if (f == SL_FILE_VERTEX_MAP && !npy->map)
            continue;
        uint64_t sizes[2] = {(uint64_t)f, npy->file_bytes};
        XXH3_64bits_update(state, sizes, sizeof sizes);
        if (!npy->map)
            continue;
        const char *bytes = npy->map;
        uint64_t head = SL_MIN(npy->file_bytes, SL_MAX(npy->head.data_offset, ENDS_BYTES));
        uint64_t tail = SL_MIN(npy->file_bytes, ENDS_BYTES);
        XXH3_64bits_update(state, bytes, head);
        XXH3_64bits_update(state, bytes + npy->file_bytes - tail, tail);
    }
    uint64_t digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return digest;
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

static char *record_path(const char *dir, const struct sl_dataset *ds)
{
    XXH128_hash_t h = XXH3_128bits(ds->path, strlen(ds->path));
    char *path;
    int n = asprintf(&path, "%s/dataset-%016" PRIx64 "%016" PRIx64 ".json", dir, (uint64_t)h.high64,
                     (uint64_t)h.low64);
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

// What a pass has found.
struct found {
    uint64_t max_degree, loop_free, feat_checked;
};

// Everything that must be equal, as the text of a record.
static char *format_record(const struct sl_dataset *ds, const struct found *found)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "format", RECORD_FORMAT);
    cJSON_AddStringToObject(json, "path", ds->path);
    add_number(json, "digest", ds->digest);
    add_number(json, "max_degree", found->max_degree);
    add_number(json, "loop_free", found->loop_free);
    add_number(json, "feat_checked", found->feat_checked);
    cJSON *files = cJSON_AddArrayToObject(json, "files");
    for (int f = 0; f < SL_FILE_COUNT; f++) {
        const struct sl_npy *npy = &ds->files->npy[f];
        if (!npy->map)
            continue;
        cJSON *file = cJSON_CreateObject();
        cJSON_AddStringToObject(file, "name", sl_dataset_file_name((enum sl_dataset_file)f));
        add_number(file, "bytes", npy->file_bytes);
        add_number(file, "inode", npy->inode);
        add_number(file, "mtime_ns", npy->mtime_ns);
        add_number(file, "ctime_ns", npy->ctime_ns);
        cJSON_AddItemToArray(files, file);
    }
    // Where memory ran out above, the text lacks something and equals no record.
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    return text;
}

bool sl_dataset_record_load(struct sl_dataset *ds)
{
    bool same = false;
    char *dir = sl_dataset_cache_dir(), *path = dir ? record_path(dir, ds) : NULL;
    char *found = malloc(MAX_RECORD_BYTES), *wanted = NULL;
    cJSON *json = NULL;
    FILE *f = path && found ? fopen(path, "re") : NULL;
    size_t n = f ? fread(found, 1, MAX_RECORD_BYTES - 1, f) : 0;
    struct found of;
    if (f)
        fclose(f);
    if (n == 0)
        goto out;
    found[n] = '\0';
    json = cJSON_Parse(found);
    if (!json || !read_number(json, "max_degree", &of.max_degree) || of.max_degree > ds->n_edges ||
        !read_number(json, "loop_free", &of.loop_free) || of.loop_free > 1 ||
        !read_number(json, "feat_checked", &of.feat_checked) ||
        of.feat_checked > sl_dataset_feat_plan(ds, true))
        goto out;
    // The record of these files, with what was found in them, has one spelling: compare all of it.
    wanted = format_record(ds, &of);
    same = wanted && strcmp(found, wanted) == 0;
    if (same) {
        ds->max_degree = of.max_degree;
        ds->loop_free = of.loop_free == 1;
        ds->feat_checked = of.feat_checked;
    }
out:
    if (n > 0 && !same)
        sl_log_debug("data set %s: %s is of other files or damaged: validating again", ds->path,
                     path);
    cJSON_Delete(json);
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
    for (int f = 0; f < SL_FILE_COUNT; f++) {
        const struct sl_npy *npy = &ds->files->npy[f];
        uint64_t changed_ns = SL_MAX(npy->mtime_ns, npy->ctime_ns);
        uint64_t opened_ns = ds->files->opened_ns;
        // A time in the future comes from another machine's clock and says nothing.
        if (npy->map && changed_ns <= opened_ns && opened_ns - changed_ns < racy_ns)
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
    const struct found found = {ds->max_degree, ds->loop_free, ds->feat_checked};
    char *text = path ? format_record(ds, &found) : NULL;
    int rc;
    if (is_racy(ds))
        sl_log_debug("data set %s: changed a moment ago: validation not remembered", ds->path);
    else if (!text)
        sl_log_debug("data set %s: no cache directory: validation not remembered", ds->path);
    else if ((rc = make_dirs(dir)) < 0 || (rc = sl_atomic_file_write(path, text, strlen(text))) < 0)
        sl_log_debug("data set %s: validation not remembered: %s", ds->path, sl_error_message());
    free(text);
    free(path);
    free(dir);
}
