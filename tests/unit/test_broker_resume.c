// Whether a job may go on with a checkpoint, above all with one that an older sluice has written.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <cjson/cJSON.h>

#include "broker/rundir/resume.h"
#include "config/config.h"

static struct sl_config config;
static char run[1100];

static void setup(void)
{
    static const char name[] = "job";
    char job[4096];
    dir_begin();
    snprintf(run, sizeof run, "%s/run", dir);
    ck_assert_int_eq(mkdir(run, 0777), 0);
    snprintf(job, sizeof job,
             "{\"dataset\": \"data\", \"model\": {\"kind\": \"graphsage\"},"
             " \"devices\": [{\"kind\": \"cpu\", \"cores\": \"0\"}], \"epochs\": 9,"
             " \"output\": \"%s\"}",
             run);
    must(sl_config_parse(job, strlen(job), name, &config));
}

static char *resolved(const struct sl_config *of)
{
    char *text = sl_config_to_json(of);
    ck_assert_ptr_nonnull(text);
    return text;
}

// A checkpoint after update 4 of the job that `json` says.
static void write_checkpoint(const char *json)
{
    static float values[4];
    static struct sl_params params;
    Sl__Control__Hello hello;
    Sl__Control__Tensor tensor, *list[1] = {&tensor};
    uint64_t shape[] = {2, 2};
    sl__control__hello__init(&hello);
    sl__control__tensor__init(&tensor);
    tensor.name = "convs.0.lin.weight";
    tensor.shape = shape;
    tensor.n_shape = 2;
    hello.tensors = list;
    hello.n_tensors = 1;
    must(sl_params_from_hello(&params, &hello));
    struct sl_snapshot snapshot = {
        .version = 4, .epoch = 2, .n_batches = 2, .n_params = 4, .params = values, .n_state = 0};
    struct sl_checkpoint_content content = {.snapshot = &snapshot,
                                            .params = &params,
                                            .job = "job",
                                            .status = "running",
                                            .config_json = json,
                                            .epochs = 9,
                                            .history_json =
                                                "{\"epochs\": [{\"epoch\": 0}, {\"epoch\": 1}]}"};
    must(sl_checkpoint_write(run, &content, 2));
    sl_params_fini(&params);
}

// What the job is told in the directory of a run of `had`; the checkpoint's update when it may.
static int find(const char *had, uint64_t *version)
{
    struct sl_resume resume;
    char *now = resolved(&config);
    write_checkpoint(had);
    int rc = sl_resume_find(&config, now, NULL, NULL, &resume);
    *version = rc == SL_OK ? resume.checkpoint.version : 0;
    if (rc == SL_OK)
        sl_resume_fini(&resume);
    free(now);
    return rc;
}

// The job as a sluice wrote it that did not know `keys` yet, and had `extra` instead.
static char *older(const char *const *keys, size_t n, const char *extra)
{
    char *text = resolved(&config);
    cJSON *json = cJSON_Parse(text);
    free(text);
    for (size_t i = 0; i < n; i++) {
        char above[64];
        const char *dot = strchr(keys[i], '.');
        snprintf(above, sizeof above, "%.*s", dot ? (int)(dot - keys[i]) : 0, keys[i]);
        cJSON *object = dot ? cJSON_GetObjectItemCaseSensitive(json, above) : json;
        const char *name = dot ? dot + 1 : keys[i];
        ck_assert_msg(cJSON_HasObjectItem(object, name), "%s", keys[i]);
        cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    }
    if (extra)
        cJSON_AddTrueToObject(json, extra);
    text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

static const char *const later[] = {"updates.exchange", "stall_seconds", "digest",
                                    "optimizer.clip_norm"};

TEST(keys_that_came_later_have_their_defaults)
{
    uint64_t version;
    char *had = older(later, SL_COUNT_OF(later), NULL);
    must(find(had, &version));
    ck_assert_uint_eq(version, 4);
    free(had);
}

TEST(another_value_than_the_default_is_a_difference)
{
    uint64_t version;
    char *had = older(later, SL_COUNT_OF(later), NULL);
    config.optimizer.clip_norm = 2;
    ck_assert_int_eq(find(had, &version), SL_EEXIST);
    assert_message_has("1 difference: optimizer.clip_norm: found 2, the run has 0");
    free(had);
}

TEST(devices_that_are_not_here_are_no_obstacle)
{
    uint64_t version;
    char *had = older(later, SL_COUNT_OF(later), NULL), *at = strstr(had, "\"cores\":\"0\"");
    ck_assert_ptr_nonnull(at);
    memcpy(at, "\"cores\":\"9\"", strlen("\"cores\":\"9\""));
    must(find(had, &version));
    ck_assert_uint_eq(version, 4);
    free(had);
}

TEST(a_key_that_nobody_knows_is_named)
{
    uint64_t version;
    char *had = older(NULL, 0, "marvels");
    ck_assert_int_eq(find(had, &version), SL_EEXIST);
    assert_message_has("1 difference: marvels: found nothing, the run has true");
    free(had);
}

TEST(gradients_may_go_another_way)
{
    uint64_t version;
    char *had = resolved(&config), *at = strstr(had, "\"board\"");
    ck_assert_ptr_nonnull(at);
    memcpy(at, "\"nccl\" ", strlen("\"nccl\" "));
    must(find(had, &version));
    ck_assert_uint_eq(version, 4);
    free(had);
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 30)
