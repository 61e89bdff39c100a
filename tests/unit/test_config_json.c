// The resolved configuration as JSON, and the schema: both say what the table says.
#include "config/config.h"

#include <cjson/cJSON.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "tests/unit/suite.h"

static void parse(const char *text, struct sl_config *config)
{
    int rc = sl_config_parse(text, strlen(text), "t.json", config);
    ck_assert_msg(rc == SL_OK, "%s\n%s", sl_error_message(), text);
}

static const char *const jobs[] = {
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}}",
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"optimizer\": {\"kind\": \"sgd\"}}",
    "{\"name\": \"\\u00e4 \\\"b\\\" \\\\\", \"dataset\": \"d\\n\\u0001/\\ud83d\\ude00\","
    " \"model\": {\"kind\": \"graphsage\", \"layers\": 1, \"dropout\": 0.1,"
    "             \"input_dropout\": 0.30000000000000004},"
    " \"sampler\": {\"fanout\": [-1], \"batch_size\": 2147483648},"
    " \"optimizer\": {\"lr\": 1e-17, \"weight_decay\": 0.0005, \"beta2\": 0.9999999999999999},"
    " \"devices\": [{\"kind\": \"cpu\", \"cores\": \"0\", \"memory\": 4097},"
    "               {\"kind\": \"cpu\", \"cores\": 0, \"memory\": \"3GiB\"},"
    "               {\"kind\": \"cpu\", \"cores\": 0}],"
    " \"allocation\": {\"samplers\": 2}, \"arena\": {\"memory\": 1125899906842623},"
    " \"seed\": 9007199254740991, \"precision\": \"bf16\", \"digest\": true,"
    " \"evaluate\": {\"every\": 0, \"fanout\": [3], \"batch_size\": 1}, \"output\": \"o\"}",
    // every key of scheduling and caching
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"},"
    " \"sampler\": {\"kind\": \"walk\", \"paths\": 4, \"length\": 7, \"restart\": 0.1},"
    " \"updates\": {\"mode\": \"async\", \"staleness\": 0},"
    " \"cache\": {\"policy\": \"presc\", \"presample_epochs\": 2, \"ratio\": 0.1,"
    "             \"report_optimal\": true},"
    " \"devices\": [{\"kind\": \"cpu\", \"cores\": 0}, {\"kind\": \"cpu\", \"cores\": 0},"
    "               {\"kind\": \"cpu\", \"cores\": 0}],"
    " \"allocation\": {\"trainers\": 2, \"switching\": false},"
    " \"schedule\": [{\"epoch\": 0, \"batch\": 3, \"samplers\": 2, \"trainers\": 1},"
    "                {\"epoch\": 9, \"samplers\": 1, \"trainers\": 1}],"
    " \"throttle\": {\"sample\": 0.001, \"train\": 0.1, \"standby\": 10}}",
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"sampler\": {\"kind\": \"weighted\"},"
    " \"cache\": {\"policy\": \"optimal\", \"ratio\": \"auto\"}, \"schedule\": []}",
    // every key of models and training
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gat\", \"hidden\": 64, \"heads\": 4,"
    "   \"attention_dropout\": 0.1, \"residual\": true, \"activation\": \"leaky_relu\","
    "   \"norm\": \"batch\", \"jumping\": \"max\", \"weights\": \"w\"},"
    " \"loss\": {\"class_weights\": [0.1, 1e-9, 1000000]},"
    " \"optimizer\": {\"kind\": \"adamw\", \"decay_on\": \"first_layer\", \"clip_norm\": 0.1,"
    "   \"schedule\": \"cosine\", \"min_lr\": 1e-7, \"warmup_epochs\": 1.5},"
    " \"evaluate\": {\"metric\": \"roc_auc\"},"
    " \"early_stopping\": {\"patience\": 3, \"min_delta\": 0.001},"
    " \"checkpoint\": {\"every_updates\": 9007199254740991, \"every_seconds\": 0, \"keep\": 9}}",
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gin\", \"eps\": 0.1, \"train_eps\": true},"
    " \"loss\": {\"class_weights\": \"balanced\"},"
    " \"optimizer\": {\"schedule\": \"step\", \"gamma\": 0.3, \"step_epochs\": 7}}",
    // devices that the split and the schedule make
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"cache\": {\"policy\": \"random\"},"
    " \"allocation\": {\"samplers\": 5},"
    " \"schedule\": [{\"epoch\": 1, \"samplers\": 7, \"trainers\": 9}]}",
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"},"
    " \"schedule\": [{\"epoch\": 1, \"samplers\": 7, \"trainers\": 9}]}",
    // one device
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"},"
    " \"devices\": [{\"kind\": \"cpu\", \"cores\": 0}]}",
    // GPUs, with and without what may be left out
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"precision\": \"tf32\","
    " \"devices\": [{\"kind\": \"cpu\", \"cores\": 0}, {\"kind\": \"cuda\", \"index\": 3},"
    " {\"kind\": \"cuda\", \"index\": 63, \"cores\": 0, \"memory\": \"8GiB\"}]}",
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"devices\": \"cpu\"}",
    // fanouts by relation
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\", \"layers\": 2},"
    " \"sampler\": {\"fanout\": {\"a -\\\"b-> c\": [5, 0], \"*\": [-1, 65535], \"d\": [2, 2]}},"
    " \"evaluate\": {\"fanout\": {\"d\": [0, 0], \"e\": [1, 1]}}}",
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\", \"layers\": 2},"
    " \"sampler\": {\"fanout\": {\"*\": [0, 2]}}}",
    // metapaths
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"rsage\"}, \"sampler\": {\"kind\": \"walk\","
    " \"metapaths\": {\"z\": [\"a -\\\"b-> c\", \"d\"], \"y\": [\"e\"], \"a\": [\"f\"]}}}",
};

LOOP_TEST(the_resolved_job_parses_back_to_the_same, 0, sizeof jobs / sizeof jobs[0])
{
    static struct sl_config first, second;
    parse(jobs[_i], &first);
    char *text = sl_config_to_json(&first);
    ck_assert_ptr_nonnull(text);
    parse(text, &second);
    char *again = sl_config_to_json(&second);
    ck_assert_str_eq(text, again);
    // the only things that a resolved text cannot say
    ck_assert(!second.devices_auto && !second.devices_cpu);
    second.devices_auto = first.devices_auto;
    second.devices_cpu = first.devices_cpu;
    ck_assert_mem_eq(&first, &second, sizeof first);
    free(text);
    free(again);
}

TEST(devices_are_listed_and_the_split_stays_open)
{
    static struct sl_config config;
    parse(jobs[0], &config);
    char *text = sl_config_to_json(&config);
    cJSON *tree = cJSON_Parse(text);
    ck_assert_ptr_nonnull(tree);
    cJSON *devices = cJSON_GetObjectItem(tree, "devices");
    ck_assert(cJSON_IsArray(devices));
    ck_assert_int_eq(cJSON_GetArraySize(devices), 1); // the pool
    cJSON *samplers = cJSON_GetObjectItem(cJSON_GetObjectItem(tree, "allocation"), "samplers");
    ck_assert_str_eq(cJSON_GetStringValue(samplers), "auto");
    cJSON_Delete(tree);
    free(text);
}

// What means nothing beside the other keys is left out; what does is there.
TEST(keys_stand_where_they_mean_something)
{
    static struct sl_config config;
    parse(jobs[0], &config);
    char *text = sl_config_to_json(&config);
    ck_assert_ptr_null(strstr(text, "paths"));
    ck_assert_ptr_null(strstr(text, "staleness"));
    ck_assert_ptr_null(strstr(text, "\"ratio\""));
    ck_assert_ptr_nonnull(strstr(text, "batches_per_update"));
    ck_assert_ptr_nonnull(strstr(text, "\"schedule\": []"));
    free(text);
    parse(jobs[3], &config);
    text = sl_config_to_json(&config);
    ck_assert_ptr_nonnull(strstr(text, "\"paths\": 4"));
    ck_assert_ptr_nonnull(strstr(text, "\"staleness\": 0"));
    ck_assert_ptr_nonnull(strstr(text, "\"ratio\": 0.1"));
    ck_assert_ptr_null(strstr(text, "batches_per_update"));
    ck_assert_ptr_nonnull(
        strstr(text, "{\"epoch\": 0, \"batch\": 3, \"samplers\": 2, \"trainers\": 1}"));
    free(text);
}

TEST(numbers_have_a_point_in_every_locale)
{
    static struct sl_config config;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!found) {
        printf("SKIP: no locale with a decimal comma is installed\n");
        return;
    }
    parse(jobs[0], &config);
    char *text = sl_config_to_json(&config);
    ck_assert_ptr_nonnull(strstr(text, "\"lr\": 0.003"));
    parse(text, &config);
    ck_assert(config.optimizer.lr == 0.003);
    free(text);
}

TEST(the_schema_in_the_tree_is_the_table)
{
    char *schema = sl_config_schema();
    ck_assert_ptr_nonnull(schema);
    FILE *file = fopen("config/job.schema.json", "r");
    ck_assert_msg(file != NULL, "config/job.schema.json cannot be opened: run this from the "
                                "project's root");
    size_t n = strlen(schema);
    char *text = calloc(1, n + 2);
    size_t got = fread(text, 1, n + 1, file);
    fclose(file);
    ck_assert_msg(got == n && memcmp(text, schema, n) == 0,
                  "config/job.schema.json is not what config/keys.c says; write it again: "
                  "build/bin/sluice schema > config/job.schema.json");
    free(text);
    free(schema);
}

static void expect_explained(const char *word, const char *wanted)
{
    char *text = NULL;
    ck_assert_msg(sl_config_explain(word, &text) == SL_OK, "%s", sl_error_message());
    ck_assert_str_eq(text, wanted);
    free(text);
}

TEST(a_key_is_explained_by_any_of_its_names)
{
    static const char lr[] = "optimizer.lr: number, above 0 to 1000; default: 0.003\n"
                             "    Learning rate.\n";
    expect_explained("optimizer.lr", lr);
    expect_explained("lr", lr);
    expect_explained("learning-rate", lr);
    expect_explained(
        "order.kind",
        "order.kind: \"shuffled\", \"proximity\", \"listed\", \"parts\"; default: "
        "\"shuffled\"\n"
        "    Order of the training vertices in an epoch. shuffled: a uniform shuffle.\n"
        "    proximity: neighbouring vertices are in the same mini-batch and share what\n"
        "    they read. listed: that of the list. parts: each mini-batch has vertices of\n"
        "    one part of the data set's partition, so that a node of several draws\n"
        "    around vertices of its own part.\n");
}

// A part has its own keys and no others, however they begin.
TEST(a_part_of_the_job_is_explained_with_all_its_keys)
{
    char *all = NULL, *part = NULL;
    ck_assert_int_eq(sl_config_explain("store", &part), SL_OK);
    ck_assert_int_eq(sl_config_explain(NULL, &all), SL_OK);
    ck_assert(strncmp(part, "store: object\n", 14) == 0);
    ck_assert_ptr_nonnull(strstr(part, "\nstore.features: "));
    ck_assert_ptr_null(strstr(part, "\nsampler"));
    const char *at = strstr(all, part);
    ck_assert_ptr_nonnull(at);
    ck_assert(strncmp(at + strlen(part), "store", 5) != 0);
    free(part);
    ck_assert_int_eq(sl_config_explain("devices", &part), SL_OK);
    ck_assert_ptr_nonnull(strstr(part, "\ndevices[].cores: "));
    free(part);
    free(all);
}

TEST(what_is_no_key_is_answered_with_the_nearest_one)
{
    char *text = NULL;
    ck_assert_int_eq(sl_config_explain("modle", &text), SL_EINVAL);
    ck_assert_msg(strstr(sl_error_message(), "'modle': did you mean model?"), "%s",
                  sl_error_message());
    ck_assert_ptr_null(text);
}

// Every default in the schema is one that the parser takes, and an object admits no other keys.
static void check_object(const cJSON *object, int *n_defaults)
{
    ck_assert(cJSON_IsFalse(cJSON_GetObjectItem(object, "additionalProperties")));
    const cJSON *property;
    cJSON_ArrayForEach(property, cJSON_GetObjectItem(object, "properties"))
    {
        const char *doc = cJSON_GetStringValue(cJSON_GetObjectItem(property, "description"));
        ck_assert_msg(doc && doc[0], "%s has no description", property->string);
        *n_defaults += cJSON_HasObjectItem(property, "default");
        if (cJSON_HasObjectItem(property, "properties"))
            check_object(property, n_defaults);
    }
}

TEST(the_schema_describes_every_key)
{
    char *text = sl_config_schema();
    cJSON *schema = cJSON_Parse(text);
    ck_assert_ptr_nonnull(schema);
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(schema, "$schema")),
                     "https://json-schema.org/draft/2020-12/schema");
    int n_defaults = 0;
    check_object(schema, &n_defaults);
    ck_assert_int_gt(n_defaults, 20);
    cJSON *required = cJSON_GetObjectItem(schema, "required");
    ck_assert_int_eq(cJSON_GetArraySize(required), 2);
    cJSON_Delete(schema);
    free(text);
}

RUN_TESTS(.timeout_s = 20)
