// What of a job is told to who only knows its model.
#include "cli/trainer_subprocess.h"
#include "common/base/error.h"
#include "config/config.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static struct sl_config config;

TEST(where_it_trained_is_no_matter)
{
    char *json = NULL;
    const char *job = "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\", \"weights\": \"w\"},"
                      " \"updates\": {\"batches_per_update\": 2, \"exchange\": \"nccl\"},"
                      " \"store\": {\"features\": \"memory\", \"prefer\": \"features\","
                      " \"placement\": \"cliques\", \"feature_ratio\": 0.5, \"graph_ratio\": 0.5},"
                      " \"devices\": [{\"kind\": \"cuda\", \"index\": 0},"
                      " {\"kind\": \"cuda\", \"index\": 1}, {\"kind\": \"cuda\", \"index\": 2}],"
                      " \"allocation\": {\"samplers\": 1, \"trainers\": 2, \"switching\": false}}";
    must(sl_trainer_subprocess_fit(job, "job.json", "elsewhere", &json));
    must(sl_config_parse(json, strlen(json), "fit", &config));
    free(json);
    ck_assert_str_eq(config.dataset, "elsewhere");
    ck_assert_str_eq(config.model.weights, "");
    ck_assert_uint_eq(sl_config_gpus(&config), 0);
    ck_assert_int_eq(config.updates.exchange, SL_EXCHANGE_BOARD);
    ck_assert_int_eq(config.store.prefer, SL_PREFER_AUTO);
    ck_assert_int_eq(config.store.features, SL_FEATURES_MEMORY);
    ck_assert_uint_eq(config.updates.batches_per_update, 2);
}

TEST(what_is_no_job_is_refused_in_the_parsers_words)
{
    char *json = NULL;
    ck_assert_int_eq(sl_trainer_subprocess_fit("[1]", "job.json", NULL, &json), SL_EINVAL);
    assert_message_has("job.json: found list");
    ck_assert_int_eq(sl_trainer_subprocess_fit("{", "job.json", NULL, &json), SL_EFORMAT);
    ck_assert_ptr_null(json);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
