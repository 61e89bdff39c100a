/*
 * A checkpoint's state.json and batches.bin: the bytes before the first zero, and those behind it.
 *
 * A state carries its own SHA-256 and those of the other files, past which no fuzzer gets. So what
 * parses gets the right sums: this is the checkpoint of somebody who has sums made for nonsense.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "broker/rundir/history.h"
#include "broker/rundir/resume.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "tests/fuzz/fuzz.h"

enum { STATE, RECORDS };

static const char name[] = "000000000012";
static const char *const file_names[] = {"state.json", "batches.bin", "model.safetensors",
                                         "optimizer.safetensors", "best.safetensors"};
static char run[64], folder[128];

static char *path_of(const char *file, char out[256])
{
    snprintf(out, 256, "%s/%s", folder, file);
    return out;
}

static void remove_run(void)
{
    char path[256];
    for (size_t i = 0; i < sizeof file_names / sizeof *file_names; i++)
        unlink(path_of(file_names[i], path));
    rmdir(folder);
    snprintf(path, sizeof path, "%s/checkpoints", run);
    rmdir(path);
    rmdir(run);
}

static void make_run(void)
{
    const char *temp = getenv("TMPDIR");
    char path[256];
    snprintf(run, sizeof run, "%.40s/sluice-fuzz-XXXXXX", temp ? temp : "/tmp");
    FUZZ_WANT(mkdtemp(run) && sodium_init() >= 0);
    snprintf(folder, sizeof folder, "%s/checkpoints", run);
    FUZZ_WANT(mkdir(folder, 0700) == 0);
    snprintf(folder, sizeof folder, "%s/checkpoints/%s", run, name);
    FUZZ_WANT(mkdir(folder, 0700) == 0);
    // The two that change are in memory; the others have nothing in them.
    FUZZ_WANT(symlink(fuzz_file(STATE, "", 0), path_of("state.json", path)) == 0);
    FUZZ_WANT(symlink(fuzz_file(RECORDS, "", 0), path_of("batches.bin", path)) == 0);
    for (size_t i = 2; i < sizeof file_names / sizeof *file_names; i++)
        FUZZ_WANT(mknod(path_of(file_names[i], path), S_IFREG | 0600, 0) == 0);
    atexit(remove_run);
}

static void put_sum(cJSON *into, const char *key, const void *bytes, size_t n)
{
    unsigned char sum[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof sum + 1];
    crypto_hash_sha256(sum, bytes, n);
    sodium_bin2hex(hex, sizeof hex, sum, sizeof sum);
    cJSON_DeleteItemFromObjectCaseSensitive(into, key);
    cJSON_AddStringToObject(into, key, hex);
}

static void put_file(cJSON *files, const char *key, const void *bytes, size_t n)
{
    cJSON *file = cJSON_CreateObject();
    cJSON_AddNumberToObject(file, "bytes", (double)n);
    put_sum(file, "sha256", bytes, n);
    cJSON_AddItemToObject(files, key, file);
}

// The state with the sums that it needs; NULL when it is no JSON.
static char *sign(const char *text, size_t n, const void *records, size_t n_records)
{
    cJSON *state = cJSON_ParseWithLength(text, n);
    if (!cJSON_IsObject(state)) {
        cJSON_Delete(state);
        return NULL;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(state, "files");
    cJSON *files = cJSON_AddObjectToObject(state, "files");
    put_file(files, "model.safetensors", "", 0);
    put_file(files, "optimizer.safetensors", "", 0);
    put_file(files, "best.safetensors", "", 0);
    put_file(files, "batches.bin", records, n_records);
    cJSON_DeleteItemFromObjectCaseSensitive(state, "sha256");
    char *bare = sl_json_line(state);
    put_sum(state, "sha256", bare, strlen(bare));
    free(bare);
    char *whole = sl_json_pages(state);
    cJSON_Delete(state);
    return whole;
}

static void use(const struct sl_checkpoint *c)
{
    struct sl_resume_point at = sl_checkpoint_resume_point(c);
    struct sl_report report = {0};
    char text[256];
    FUZZ_WANT(at.n_records == c->n_records && c->n_records <= c->n_batches);
    for (uint32_t i = 0; i < at.n_records; i++)
        FUZZ_WANT(at.records[i].cell < c->n_batches);
    FUZZ_WANT(sl_resume_text(c, text, sizeof text) == text);
    const cJSON *history = cJSON_GetObjectItemCaseSensitive(c->state, "history");
    FUZZ_WANT(sl_report_init(&report) == SL_OK);
    if (sl_history_read(&report, history) == SL_OK) {
        sl_report_seconds_before(report.resumes);
        free(sl_history_write(&report));
    }
    free(sl_history_metrics(history));
    sl_report_fini(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sl_checkpoint c;
    if (!*run)
        make_run();
    const uint8_t *zero = n ? memchr(data, 0, n) : NULL;
    size_t n_text = zero ? (size_t)(zero - data) : n, n_records = zero ? n - n_text - 1 : 0;
    const uint8_t *records = zero ? zero + 1 : data;
    char *state = sign((const char *)data, n_text, records, n_records);
    fuzz_file(STATE, state ? state : (const char *)data, state ? strlen(state) : n_text);
    fuzz_file(RECORDS, records, n_records);
    free(state);
    if (sl_checkpoint_open(run, name, &c) == SL_OK) {
        use(&c);
        sl_checkpoint_close(&c);
    }
    return 0;
}
