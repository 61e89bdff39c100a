#include "broker/rundir/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/json_print.h"
#include "common/data/atomic_file.h"
#include "common/text/text.h"

enum { PATH_BYTES = 4608, STATE_BYTES_MAX = 1 << 30, HASH_CHUNK = 1 << 20 };

static const char model_file[] = "model.safetensors", optimizer_file[] = "optimizer.safetensors",
                  best_file[] = "best.safetensors", pinned_file[] = "pinned.safetensors",
                  batches_file[] = "batches.bin", state_file[] = "state.json";

// Not inlined, or the compiler fears for the longest of all names.
__attribute__((noinline)) static char *join(char out[PATH_BYTES], const char *folder,
                                            const char *name)
{
    snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    return out;
}

// --- sums ----------------------------------------------------------------------------------------

static void to_hex(const unsigned char sum[crypto_hash_sha256_BYTES], char out[SL_SHA256_HEX_BYTES])
{
    sodium_bin2hex(out, SL_SHA256_HEX_BYTES, sum, crypto_hash_sha256_BYTES);
}

static void hash_text(const char *text, char out[SL_SHA256_HEX_BYTES])
{
    unsigned char sum[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(sum, (const unsigned char *)text, strlen(text));
    to_hex(sum, out);
}

static int hash_file(const char *path, uint64_t *bytes, char out[SL_SHA256_HEX_BYTES])
{
    unsigned char sum[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    unsigned char *chunk = malloc(HASH_CHUNK);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    int rc = SL_OK;
    if (fd < 0)
        rc = sl_fail_errno(errno == ENOENT ? SL_ENOENT : SL_EACCESS, errno, "'%s'", path);
    else if (!chunk)
        rc = sl_fail(SL_ENOMEM, "'%s': no memory", path);
    *bytes = 0;
    crypto_hash_sha256_init(&state);
    while (rc == SL_OK && (n = read(fd, chunk, HASH_CHUNK)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = sl_fail_errno(SL_EIO, errno, "reading '%s'", path);
            break;
        }
        crypto_hash_sha256_update(&state, chunk, (unsigned long long)n);
        *bytes += (uint64_t)n;
    }
    crypto_hash_sha256_final(&state, sum);
    to_hex(sum, out);
    if (fd >= 0)
        close(fd);
    free(chunk);
    return rc;
}

// --- directories ---------------------------------------------------------------------------------

static int sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sl_fail_errno(SL_EIO, errno, "checkpoint: opening '%s'", path);
    int rc = SL_OK;
    // File systems that cannot sync a directory answer EINVAL.
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        rc = sl_fail_errno(SL_EIO, errno, "checkpoint: fsync of '%s'", path);
    close(fd);
    return rc;
}

// A directory with files and no directories in it; what cannot be removed stays.
static void remove_folder(const char *path)
{
    char file[PATH_BYTES + 256];
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        unlink(file);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static bool is_name(const char *name)
{
    size_t n = strspn(name, "0123456789");
    return n >= 12 && n < SL_CHECKPOINT_NAME_BYTES && name[n] == '\0';
}

static int newest_first(const void *left, const void *right)
{
    const char *a = left, *b = right;
    size_t n = strlen(a), m = strlen(b);
    return n != m ? (n < m) - (n > m) : strcmp(b, a);
}

int sl_checkpoint_list(const char *run, struct sl_checkpoint_list *out)
{
    char folder[PATH_BYTES];
    const struct dirent *entry;
    memset(out, 0, sizeof *out);
    DIR *dir = opendir(join(folder, run, "checkpoints"));
    if (!dir && (errno == ENOENT || errno == ENOTDIR))
        return SL_OK;
    if (!dir)
        return sl_fail_errno(SL_EACCESS, errno, "reading directory '%s'", folder);
    int rc = SL_OK;
    while (rc == SL_OK && (entry = readdir(dir))) {
        if (!is_name(entry->d_name))
            continue;
        void *more = realloc(out->names, (out->n + 1) * sizeof *out->names);
        if (!more) {
            rc = sl_fail(SL_ENOMEM, "no memory for the list of '%s'", folder);
            break;
        }
        out->names = more;
        snprintf(out->names[out->n++], sizeof *out->names, "%.31s", entry->d_name);
    }
    closedir(dir);
    if (rc < 0)
        sl_checkpoint_list_fini(out);
    else if (out->n)
        qsort(out->names, out->n, sizeof *out->names, newest_first);
    return rc;
}

void sl_checkpoint_list_fini(struct sl_checkpoint_list *list)
{
    free(list->names);
    memset(list, 0, sizeof *list);
}

static bool is_leftover(const char *name)
{
    return name[0] == '.' && sl_text_ends_in(name, ".tmp");
}

static bool is_abandoned(const char *name)
{
    return sl_text_ends_in(name, SL_CHECKPOINT_ABANDONED);
}

static void remove_folders(const char *run, bool (*goes)(const char *name))
{
    char folder[PATH_BYTES], path[PATH_BYTES + 256];
    const struct dirent *entry;
    DIR *dir = opendir(join(folder, run, "checkpoints"));
    while (dir && (entry = readdir(dir))) {
        if (!goes(entry->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        remove_folder(path);
    }
    if (dir)
        closedir(dir);
}

void sl_checkpoint_clear_leftovers(const char *run)
{
    remove_folders(run, is_leftover);
}

int sl_checkpoint_abandon_newer(const char *run, const char *name, uint32_t *n)
{
    struct sl_checkpoint_list list;
    char folder[PATH_BYTES], from[PATH_BYTES], to[PATH_BYTES], aside[64];
    *n = 0;
    SL_TRY(sl_checkpoint_list(run, &list));
    join(folder, run, "checkpoints");
    int rc = SL_OK;
    // The newest first: after a crash on the way what is left is as if it had never been written.
    for (uint32_t i = 0; i < list.n && rc == SL_OK; i++) {
        if (newest_first(list.names[i], name) >= 0)
            break;
        snprintf(aside, sizeof aside, "%s" SL_CHECKPOINT_ABANDONED, list.names[i]);
        remove_folder(join(to, folder, aside));
        if (rename(join(from, folder, list.names[i]), to) != 0)
            rc = sl_fail_errno(SL_EIO, errno, "checkpoint: naming '%s' as '%s'", from, to);
        else
            ++*n;
    }
    sl_checkpoint_list_fini(&list);
    return rc < 0 || *n == 0 ? rc : sync_folder(folder);
}

// --- writing -------------------------------------------------------------------------------------

static const char *hex_of_digest(const uint8_t digest[SL_PHASES_DIGEST_BYTES],
                                 char out[2 * SL_PHASES_DIGEST_BYTES + 1])
{
    return sodium_bin2hex(out, 2 * SL_PHASES_DIGEST_BYTES + 1, digest, SL_PHASES_DIGEST_BYTES);
}

static void add_best(cJSON *state, const struct sl_snapshot *s)
{
    if (!s->best.has) {
        cJSON_AddNullToObject(state, "best");
        return;
    }
    cJSON *best = cJSON_AddObjectToObject(state, "best");
    cJSON_AddNumberToObject(best, "epoch", s->best.epoch);
    if (s->best.measure < SL_MEASURE_COUNT)
        cJSON_AddStringToObject(best, "metric", sl_measure_key(s->best.measure));
    cJSON_AddNumberToObject(best, "value", s->best.value);
    cJSON_AddNumberToObject(best, "mark", s->best.mark);
    cJSON_AddNumberToObject(best, "waited", s->best.waited);
}

static cJSON *make_state(const struct sl_checkpoint_content *c)
{
    const struct sl_snapshot *s = c->snapshot;
    char hex[2 * SL_PHASES_DIGEST_BYTES + 1];
    cJSON *state = cJSON_CreateObject();
    cJSON_AddStringToObject(state, "schema", SL_CHECKPOINT_SCHEMA);
    cJSON_AddStringToObject(state, "job", c->job);
    cJSON_AddStringToObject(state, "status", c->status);
    cJSON_AddNumberToObject(state, "version", (double)s->version);
    cJSON_AddNumberToObject(state, "epoch", s->epoch);
    cJSON_AddNumberToObject(state, "epochs", c->epochs);
    cJSON_AddNumberToObject(state, "batches_done", s->n_records - sl_snapshot_beside(s));
    if (sl_snapshot_beside(s))
        cJSON_AddNumberToObject(state, "batches_beside", sl_snapshot_beside(s));
    cJSON_AddNumberToObject(state, "batches", s->n_batches);
    add_best(state, s);
    if (s->has_digest)
        cJSON_AddStringToObject(state, "samples_digest", hex_of_digest(s->digest, hex));
    else
        cJSON_AddNullToObject(state, "samples_digest");
    if (c->samplers) {
        cJSON *split = cJSON_AddObjectToObject(state, "split");
        cJSON_AddNumberToObject(split, "samplers", c->samplers);
        cJSON_AddNumberToObject(split, "trainers", c->trainers);
    } else {
        cJSON_AddNullToObject(state, "split");
    }
    cJSON_AddNumberToObject(state, "seconds", c->seconds);
    // All 64 bits, which JSON's numbers do not have.
    snprintf(hex, sizeof hex, "%016" PRIx64, c->dataset_digest);
    cJSON_AddStringToObject(state, "dataset_digest", hex);
    cJSON_AddItemToObject(state, "config", cJSON_Parse(c->config_json));
    cJSON_AddItemToObject(state, "history", cJSON_Parse(c->history_json));
    cJSON_AddObjectToObject(state, "files");
    return state;
}

static int add_file(cJSON *state, const char *folder, const char *name)
{
    char path[PATH_BYTES], hex[SL_SHA256_HEX_BYTES];
    uint64_t bytes;
    SL_TRY(hash_file(join(path, folder, name), &bytes, hex));
    cJSON *file = cJSON_AddObjectToObject(cJSON_GetObjectItemCaseSensitive(state, "files"), name);
    cJSON_AddNumberToObject(file, "bytes", (double)bytes);
    cJSON_AddStringToObject(file, "sha256", hex);
    return SL_OK;
}

static int write_state(cJSON *state, const char *folder)
{
    char path[PATH_BYTES], hex[SL_SHA256_HEX_BYTES];
    char *bare = sl_json_line(state);
    if (!bare)
        return sl_fail(SL_ENOMEM, "checkpoint: no memory for its state");
    hash_text(bare, hex);
    free(bare);
    cJSON_AddStringToObject(state, "sha256", hex);
    char *text = sl_json_pages(state);
    if (!text)
        return sl_fail(SL_ENOMEM, "checkpoint: no memory for its state");
    int rc = sl_atomic_file_write(join(path, folder, state_file), text, strlen(text));
    free(text);
    return rc;
}

static int write_matrix(const char *folder, const struct sl_row_view *rows, const float *values,
                        const char *name, cJSON *state)
{
    char path[PATH_BYTES];
    SL_TRY(sl_row_file_save(&rows->shape, values, join(path, folder, name)));
    return add_file(state, folder, name);
}

// Learned rows, where there are any.
static int write_rows(const char *folder, const struct sl_snapshot *s, cJSON *state)
{
    const struct sl_row_view *rows = &s->rows;
    if (rows->shape.n_rows == 0)
        return SL_OK;
    SL_TRY(write_matrix(folder, rows, rows->values, SL_ROW_FILE_VALUES, state));
    for (uint32_t i = 0; i < rows->shape.n_state; i++)
        SL_TRY(write_matrix(folder, rows, rows->state[i],
                            sl_row_file_of_state(rows->shape.n_state, i), state));
    return s->best.has ? write_matrix(folder, rows, rows->best, SL_ROW_FILE_BEST, state) : SL_OK;
}

static int write_files(const char *folder, const struct sl_checkpoint_content *c, cJSON *state)
{
    const struct sl_snapshot *s = c->snapshot;
    const float *optimizer[SL_SNAPSHOT_STATES] = {s->state[0], s->state[1]};
    char path[PATH_BYTES], note[96];
    uint64_t batches = sl_snapshot_batches(s);
    snprintf(note, sizeof note, "after update %" PRIu64, s->version);
    SL_TRY(sl_params_save(c->params, s->params, batches, join(path, folder, model_file), c->job,
                          note));
    SL_TRY(add_file(state, folder, model_file));
    SL_TRY(sl_params_save_state(c->params, optimizer, s->n_state,
                                join(path, folder, optimizer_file), c->job, note));
    SL_TRY(add_file(state, folder, optimizer_file));
    SL_FAILPOINT(BROKER_CHECKPOINT);
    if (s->best.has) {
        snprintf(note, sizeof note, "epoch %u, the best validation", s->best.epoch + 1);
        uint64_t of_best = (uint64_t)(s->best.epoch + 1) * s->n_batches;
        SL_TRY(sl_params_save(c->params, s->best_params, of_best, join(path, folder, best_file),
                              c->job, note));
        SL_TRY(add_file(state, folder, best_file));
    }
    if (sl_snapshot_beside(s)) {
        snprintf(note, sizeof note, "epoch %u, which was being evaluated", s->epoch + 1);
        uint64_t of_epoch = (uint64_t)(s->epoch + 1) * s->n_batches;
        SL_TRY(sl_params_save(c->params, s->pinned_params, of_epoch,
                              join(path, folder, pinned_file), c->job, note));
        SL_TRY(add_file(state, folder, pinned_file));
    }
    SL_TRY(write_rows(folder, s, state));
    SL_TRY(sl_atomic_file_write(join(path, folder, batches_file), s->records,
                                s->n_records * sizeof *s->records));
    SL_TRY(add_file(state, folder, batches_file));
    return write_state(state, folder);
}

// Gives the finished directory its name; one that has it already goes away.
static int take_name(const char *temp, const char *final)
{
    if (rename(temp, final) == 0)
        return SL_OK;
    if (errno != EEXIST && errno != ENOTEMPTY)
        return sl_fail_errno(SL_EIO, errno, "checkpoint: naming '%s'", final);
    if (renameat2(AT_FDCWD, temp, AT_FDCWD, final, RENAME_EXCHANGE) != 0) {
        // A file system that cannot exchange: there is no checkpoint of this name for an instant.
        char aside[PATH_BYTES];
        size_t n = strlen(temp);
        snprintf(aside, sizeof aside, "%.*s.old.tmp", (int)SL_MIN(n, (size_t)PATH_BYTES - 16),
                 temp);
        if (rename(final, aside) != 0 || rename(temp, final) != 0)
            return sl_fail_errno(SL_EIO, errno, "checkpoint: naming '%s'", final);
        remove_folder(aside);
        return SL_OK;
    }
    remove_folder(temp);
    return SL_OK;
}

// All but `written` and the keep - 1 before it.
static void remove_old(const char *run, const char *folder, const char *written, uint32_t keep)
{
    struct sl_checkpoint_list list;
    char path[PATH_BYTES], hidden[PATH_BYTES], name[64];
    if (sl_checkpoint_list(run, &list) < 0)
        return; // they stay: the next checkpoint tries again
    uint32_t first = 0;
    while (first < list.n && newest_first(list.names[first], written) < 0)
        first++;
    for (uint32_t i = first + keep; i < list.n; i++) {
        snprintf(name, sizeof name, ".%s.%ld.old.tmp", list.names[i], (long)getpid());
        if (rename(join(path, folder, list.names[i]), join(hidden, folder, name)) == 0)
            remove_folder(hidden);
    }
    sl_checkpoint_list_fini(&list);
    remove_folders(run, is_abandoned);
}

int sl_checkpoint_write(const char *run, const struct sl_checkpoint_content *c, uint32_t keep)
{
    char folder[PATH_BYTES], temp[PATH_BYTES], final[PATH_BYTES], name[64], hidden[96];
    if (sodium_init() < 0)
        return sl_fail(SL_ESYS, "checkpoint: sodium_init");
    if (strlen(run) > 4096)
        return sl_fail(SL_EINVAL, "checkpoint: a directory's name of %zu characters", strlen(run));
    join(folder, run, "checkpoints");
    if (mkdir(folder, 0777) == 0)
        SL_TRY(sync_folder(run));
    else if (errno != EEXIST)
        return sl_fail_errno(SL_EIO, errno, "checkpoint: creating '%s'", folder);
    snprintf(name, sizeof name, "%012" PRIu64, c->snapshot->version);
    join(final, folder, name);
    snprintf(hidden, sizeof hidden, ".%s.%ld.tmp", name, (long)getpid());
    join(temp, folder, hidden);
    remove_folder(temp);
    if (mkdir(temp, 0777) != 0)
        return sl_fail_errno(SL_EIO, errno, "checkpoint: creating '%s'", temp);
    cJSON *state = make_state(c);
    int rc = write_files(temp, c, state);
    cJSON_Delete(state);
    if (rc == SL_OK)
        rc = sync_folder(temp);
    if (rc == SL_OK)
        rc = take_name(temp, final);
    if (rc < 0) {
        remove_folder(temp);
        return rc;
    }
    SL_TRY(sync_folder(folder));
    SL_FAILPOINT(BROKER_CHECKPOINT_NAMED);
    remove_old(run, folder, name, keep);
    return SL_OK;
}

// --- reading -------------------------------------------------------------------------------------

static int bad(const struct sl_checkpoint *c, const char *what)
{
    return sl_fail(SL_EFORMAT, "%s/%s: %s", c->path, state_file, what);
}

// The whole of a file, NUL-terminated (owned).
static int read_text(const char *path, char **out)
{
    struct stat st;
    *out = NULL;
    FILE *f = fopen(path, "re");
    if (!f || fstat(fileno(f), &st) != 0) {
        int err = errno;
        if (f)
            fclose(f);
        return sl_fail_errno(err == ENOENT ? SL_ENOENT : SL_EACCESS, err, "'%s'", path);
    }
    int rc = SL_OK;
    if (st.st_size <= 0 || st.st_size > STATE_BYTES_MAX)
        rc = sl_fail(SL_EFORMAT, "%s: found %lld bytes, wanted 1 to %d", path,
                     (long long)st.st_size, STATE_BYTES_MAX);
    else if (!(*out = calloc((size_t)st.st_size + 1, 1)))
        rc = sl_fail(SL_ENOMEM, "reading '%s': no memory", path);
    else if (fread(*out, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        rc = sl_fail(SL_EIO, "reading '%s': it ended early", path);
    fclose(f);
    return rc;
}

// A whole number from 0 to max of the state.
static bool get_number(const cJSON *from, const char *key, double max, uint64_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > max ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *out = (uint64_t)item->valuedouble;
    return true;
}

static bool get_u32(const cJSON *from, const char *key, uint32_t *out)
{
    uint64_t x = 0;
    bool ok = get_number(from, key, UINT32_MAX, &x);
    *out = (uint32_t)x;
    return ok;
}

// state.json says of itself what it is and that it is whole.
static int check_state(const struct sl_checkpoint *c)
{
    char hex[SL_SHA256_HEX_BYTES];
    const char *schema = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c->state, "schema"));
    if (!schema || strcmp(schema, SL_CHECKPOINT_SCHEMA) != 0)
        return sl_fail(SL_EFORMAT, "%s/%s: schema: found %s%.64s%s, wanted \"%s\"", c->path,
                       state_file, schema ? "\"" : "", schema ? schema : "none", schema ? "\"" : "",
                       SL_CHECKPOINT_SCHEMA);
    cJSON *sum = cJSON_DetachItemFromObjectCaseSensitive(c->state, "sha256");
    char *bare = sl_json_line(c->state);
    if (bare)
        hash_text(bare, hex);
    bool same = bare && cJSON_IsString(sum) && strcmp(sum->valuestring, hex) == 0;
    free(bare);
    cJSON_Delete(sum);
    return same ? SL_OK
                : bad(c, "its SHA-256 is not the one that it says: it was damaged or edited");
}

// SL_MEASURE_COUNT where it does not say: an older version did not.
static enum sl_measure measure_of(const cJSON *best)
{
    const char *key = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(best, "metric"));
    enum sl_measure m = 0;
    while (m < SL_MEASURE_COUNT && !(key && strcmp(key, sl_measure_key(m)) == 0))
        m++;
    return m;
}

static bool take_best(struct sl_checkpoint *c)
{
    const cJSON *best = cJSON_GetObjectItemCaseSensitive(c->state, "best");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(best, "value");
    const cJSON *mark = cJSON_GetObjectItemCaseSensitive(best, "mark");
    c->best.has = cJSON_IsObject(best);
    if (!c->best.has)
        return cJSON_IsNull(best);
    c->best.measure = measure_of(best);
    c->best.value = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    c->best.mark = cJSON_IsNumber(mark) ? mark->valuedouble : NAN;
    if (!get_u32(best, "epoch", &c->best.epoch) || !get_u32(best, "waited", &c->best.waited))
        return false;
    if (isnan(c->best.value)) // an older version took the first evaluation, whatever its value
        c->best = (struct sl_early_stopping){0};
    return true;
}

static bool take_digests(struct sl_checkpoint *c)
{
    const cJSON *samples = cJSON_GetObjectItemCaseSensitive(c->state, "samples_digest");
    const char *data =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c->state, "dataset_digest"));
    size_t n;
    char *end;
    if (!data || strlen(data) != 16)
        return false;
    c->dataset_digest = strtoull(data, &end, 16);
    c->has_digest = cJSON_IsString(samples);
    if (*end || !c->has_digest)
        return !*end && cJSON_IsNull(samples);
    return strlen(samples->valuestring) == 2 * sizeof c->digest &&
           sodium_hex2bin(c->digest, sizeof c->digest, samples->valuestring, 2 * sizeof c->digest,
                          NULL, &n, NULL) == 0 &&
           n == sizeof c->digest;
}

static bool take_split(struct sl_checkpoint *c)
{
    const cJSON *split = cJSON_GetObjectItemCaseSensitive(c->state, "split");
    if (cJSON_IsNull(split))
        return true;
    return get_u32(split, "samplers", &c->samplers) && get_u32(split, "trainers", &c->trainers);
}

// Batches of the next epoch, which not every checkpoint has.
static bool take_beside(struct sl_checkpoint *c)
{
    uint32_t beside;
    if (!cJSON_HasObjectItem(c->state, "batches_beside"))
        return c->n_records <= c->n_batches;
    if (!get_u32(c->state, "batches_beside", &beside) || beside == 0 || beside > c->n_batches ||
        c->n_records != c->n_batches)
        return false;
    c->n_records += beside;
    return true;
}

static int take_state(struct sl_checkpoint *c)
{
    const cJSON *state = c->state;
    const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(state, "seconds");
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(state, "status"));
    char name[SL_CHECKPOINT_NAME_BYTES];
    bool ok = status && cJSON_IsNumber(seconds) &&
              get_number(state, "version", 9007199254740991.0, &c->version) &&
              get_u32(state, "epoch", &c->epoch) && get_u32(state, "epochs", &c->epochs) &&
              get_u32(state, "batches_done", &c->n_records) &&
              get_u32(state, "batches", &c->n_batches) && take_beside(c) && take_best(c) &&
              take_digests(c) && take_split(c) &&
              cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(state, "config")) &&
              cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(state, "history"));
    if (!ok)
        return bad(c, "a key is missing or makes no sense");
    snprintf(c->status, sizeof c->status, "%s", status);
    c->seconds = seconds->valuedouble;
    snprintf(name, sizeof name, "%012" PRIu64, c->version);
    if (strcmp(name, c->name) != 0)
        return sl_fail(SL_EFORMAT,
                       "%s/%s: version: found %" PRIu64
                       ", wanted the directory's: it has been renamed or copied over another one",
                       c->path, state_file, c->version);
    return SL_OK;
}

static int check_file(const struct sl_checkpoint *c, const char *name)
{
    char path[PATH_BYTES], hex[SL_SHA256_HEX_BYTES];
    const cJSON *file =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(c->state, "files"), name);
    const char *sum = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(file, "sha256"));
    uint64_t wanted, bytes;
    if (!sum || !get_number(file, "bytes", 9007199254740991.0, &wanted))
        return sl_fail(SL_EFORMAT, "%s/%s: files: '%s' is missing", c->path, state_file, name);
    SL_TRY(hash_file(join(path, c->path, name), &bytes, hex));
    if (bytes != wanted)
        return sl_fail(SL_EFORMAT, "%s: found %" PRIu64 " bytes, wanted %" PRIu64, path, bytes,
                       wanted);
    if (strcmp(hex, sum) != 0)
        return sl_fail(SL_EFORMAT, "%s: found SHA-256 %.16s..., wanted %.16s...: it was damaged",
                       path, hex, sum);
    return SL_OK;
}

static int read_records(struct sl_checkpoint *c)
{
    char path[PATH_BYTES];
    size_t bytes = c->n_records * sizeof *c->records;
    SL_TRY(check_file(c, batches_file));
    c->records = malloc(bytes + 1);
    if (!c->records)
        return sl_fail(SL_ENOMEM, "no memory for %u batches", c->n_records);
    FILE *f = fopen(join(path, c->path, batches_file), "re");
    bool ok = f && fread(c->records, 1, bytes + 1, f) == bytes;
    if (f)
        fclose(f);
    bool any = sl_checkpoint_is_async(c);
    for (uint32_t i = 0; i < c->n_records && ok; i++) {
        uint32_t of_epoch = i % c->n_batches; // the next epoch's begin anew
        ok = any ? c->records[i].cell < c->n_batches &&
                       (of_epoch == 0 || c->records[i].cell > c->records[i - 1].cell)
                 : c->records[i].cell == of_epoch;
    }
    return ok ? SL_OK
              : sl_fail(SL_EFORMAT, "%s: wanted %s %u batches of %u, rising", path,
                        any ? "any" : "the first", c->n_records, c->n_batches);
}

// Learned rows, of which not every checkpoint has any.
static int check_rows(const struct sl_checkpoint *c)
{
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(c->state, "files");
    for (int i = 0; i < SL_ROW_FILES; i++)
        if (cJSON_HasObjectItem(of, sl_row_files[i]))
            SL_TRY(check_file(c, sl_row_files[i]));
    return SL_OK;
}

static int read_all(struct sl_checkpoint *c)
{
    char path[PATH_BYTES], *text;
    SL_TRY(read_text(join(path, c->path, state_file), &text));
    c->state = cJSON_ParseWithOpts(text, NULL, true); // nothing may follow
    free(text);
    if (!cJSON_IsObject(c->state))
        return bad(c, "it is no JSON: it was cut short or damaged");
    SL_TRY(check_state(c));
    SL_TRY(take_state(c));
    SL_TRY(sl_checkpoint_check_counters(c));
    SL_TRY(check_file(c, model_file));
    SL_TRY(check_file(c, optimizer_file));
    if (c->best.has)
        SL_TRY(check_file(c, best_file));
    if (c->n_records > c->n_batches)
        SL_TRY(check_file(c, pinned_file));
    SL_TRY(check_rows(c));
    return read_records(c);
}

int sl_checkpoint_open(const char *run, const char *name, struct sl_checkpoint *out)
{
    memset(out, 0, sizeof *out);
    if (sodium_init() < 0)
        return sl_fail(SL_ESYS, "checkpoint: sodium_init");
    if (!is_name(name))
        return sl_fail(SL_EINVAL, "'%s' names no checkpoint: they are named by 12 digits", name);
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->path, sizeof out->path, "%s/checkpoints/%s", run, name);
    int rc = read_all(out);
    if (rc < 0)
        sl_checkpoint_close(out);
    return rc;
}

void sl_checkpoint_close(struct sl_checkpoint *c)
{
    cJSON_Delete(c->state);
    free(c->records);
    memset(c, 0, sizeof *c);
}

int sl_checkpoint_load(const struct sl_checkpoint *c, const struct sl_params *params, float *values,
                       float *const *state, uint32_t n_state, float *best, float *pinned)
{
    char path[PATH_BYTES];
    SL_TRY(sl_params_load(params, join(path, c->path, model_file), values));
    SL_TRY(sl_params_load_state(params, join(path, c->path, optimizer_file), state, n_state));
    if (c->best.has)
        SL_TRY(sl_params_load(params, join(path, c->path, best_file), best));
    if (c->n_records > c->n_batches)
        SL_TRY(sl_params_load(params, join(path, c->path, pinned_file), pinned));
    return SL_OK;
}

int sl_checkpoint_load_rows(const struct sl_checkpoint *c, struct sl_row_table *t,
                            const atomic_bool *cancel)
{
    const struct sl_row_table_shape *shape = &t->shape;
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(c->state, "files");
    char path[PATH_BYTES];
    if (!cJSON_HasObjectItem(of, SL_ROW_FILE_VALUES))
        return bad(c, "it has no learned rows, which the job has");
    SL_TRY(sl_row_file_load(shape, join(path, c->path, SL_ROW_FILE_VALUES), t->values, cancel));
    SL_FAILPOINT(BROKER_ROWS_FILL);
    for (uint32_t i = 0; i < shape->n_state; i++)
        SL_TRY(sl_row_file_load(shape, join(path, c->path, sl_row_file_of_state(shape->n_state, i)),
                                t->state[i], cancel));
    const char *best = c->best.has ? SL_ROW_FILE_BEST : SL_ROW_FILE_VALUES;
    SL_TRY(sl_row_file_load(shape, join(path, c->path, best), t->best, cancel));
    sl_row_table_restore(t, c->version);
    return SL_OK;
}

struct sl_resume_point sl_checkpoint_resume_point(const struct sl_checkpoint *c)
{
    struct sl_resume_point point = {
        .epoch = c->epoch,
        .n_records = c->n_records,
        .records = c->records,
        .best = c->best,
    };
    memcpy(point.digest, c->digest, sizeof point.digest);
    return point;
}
