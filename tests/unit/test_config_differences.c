// With which other values of its keys a run may go on: as each row of the table of keys says.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "config/config.h"
#include "config/keys_internal.h"

#define CPU  "{\"kind\": \"cpu\", \"cores\": \"0\"}"
#define GPU  "{\"kind\": \"cuda\", \"index\": 0}"
#define GPUS "devices=[" CPU ", " GPU "]"
#define HARD "task={\"kind\": \"link\", \"per_positive\": 4, \"hard\": {\"kind\": \"walks\"}}"

static const char job[] = "{\"dataset\": \"data\", \"model\": {\"kind\": \"graphsage\"},"
                          " \"devices\": [" CPU ", " CPU ", " CPU ", " CPU "], \"epochs\": 9}";

// Another value of every key than `job` has, for --set, and what else that takes: in both jobs (but
// for the word that the key's row asks for beside it), and only where the key has the value.
static const struct other {
    const char *path, *value, *beside, *with;
} others[] = {
    {.path = "name", .value = "other"},
    {.path = "dataset", .value = "elsewhere"},
    {.path = "task.kind", .value = "link"},
    {.path = "task.relation", .value = "writes", .beside = "task.kind=link"},
    {.path = "task.dim", .value = "32"},
    {.path = "task.decoder", .value = "mlp"},
    {.path = "task.combine", .value = "concat", .beside = "task.kind=link"},
    {.path = "task.hidden", .value = "32", .beside = "task.kind=link"},
    {.path = "task.loss", .value = "margin"},
    {.path = "task.margin", .value = "0.5", .beside = "task.kind=link"},
    {.path = "task.negatives", .value = "batch"},
    {.path = "task.per_positive", .value = "4"},
    {.path = "task.hard.kind", .value = "walks", .beside = "task.kind=link"},
    {.path = "task.hard.per_positive", .value = "2", .beside = HARD},
    {.path = "task.hard.from_epoch", .value = "3", .beside = HARD},
    {.path = "task.hard.first_rank", .value = "2", .beside = HARD},
    {.path = "task.hard.last_rank", .value = "60", .beside = HARD},
    {.path = "task.hard.paths", .value = "64", .beside = HARD},
    {.path = "task.hard.length", .value = "5", .beside = HARD},
    {.path = "task.hard.restart", .value = "0.5", .beside = HARD},
    {.path = "task.strict", .value = "all"},
    {.path = "task.exclude", .value = "self"},
    {.path = "model.kind", .value = "gin"},
    {.path = "model.layers", .value = "2", .with = "sampler.fanout=[5,5]"},
    {.path = "model.hidden", .value = "32"},
    {.path = "model.dropout", .value = "0.25"},
    {.path = "model.input_dropout", .value = "0.25"},
    {.path = "model.activation", .value = "elu"},
    {.path = "model.norm", .value = "layer"},
    {.path = "model.jumping", .value = "cat"},
    {.path = "model.aggregator", .value = "max"},
    {.path = "model.heads", .value = "4"},
    {.path = "model.attention_dropout", .value = "0.25"},
    {.path = "model.residual", .value = "true"},
    {.path = "model.eps", .value = "0.5"},
    {.path = "model.train_eps", .value = "true"},
    {.path = "model.self_loops", .value = "false"},
    {.path = "model.degrees", .value = "block"},
    {.path = "model.relations", .value = "mean"},
    {.path = "model.share_weights", .value = "true"},
    {.path = "model.edge_features", .value = "true"},
    {.path = "model.bases", .value = "4"},
    {.path = "model.blocks", .value = "4"},
    {.path = "model.weights", .value = "other.safetensors"},
    {.path = "features.kind", .value = "learned"},
    {.path = "features.dim", .value = "32"},
    {.path = "features.place", .value = "file"},
    {.path = "loss.class_weights", .value = "balanced"},
    {.path = "input.split", .value = "val"},
    {.path = "sampler.kind", .value = "labor"},
    {.path = "sampler.fanout", .value = "[5,5,4]"},
    {.path = "sampler.expand", .value = "new"},
    {.path = "sampler.replace", .value = "true"},
    {.path = "sampler.edge_ids", .value = "true"},
    {.path = "sampler.subgraph", .value = "induced", .beside = "sampler.expand=new"},
    {.path = "sampler.disjoint", .value = "true"},
    {.path = "sampler.time", .value = "latest", .beside = "evaluate.fanout=[5,5,5]"},
    {.path = "sampler.time_strict", .value = "true", .beside = "evaluate.fanout=[5,5,5]"},
    {.path = "sampler.batch_size", .value = "32"},
    {.path = "sampler.paths", .value = "4"},
    {.path = "sampler.length", .value = "4"},
    {.path = "sampler.restart", .value = "0.25"},
    {.path = "sampler.metapaths", .value = "{\"a\": [\"b\"]}"},
    {.path = "optimizer.kind", .value = "sgd"},
    {.path = "optimizer.lr", .value = "0.01"},
    {.path = "optimizer.weight_decay", .value = "0.5"},
    {.path = "optimizer.decay_on", .value = "first_layer"},
    {.path = "optimizer.clip_norm", .value = "2"},
    {.path = "optimizer.momentum", .value = "0.5"},
    {.path = "optimizer.beta1", .value = "0.5"},
    {.path = "optimizer.beta2", .value = "0.5"},
    {.path = "optimizer.eps", .value = "1e-6"},
    {.path = "optimizer.schedule", .value = "step"},
    {.path = "optimizer.warmup_epochs", .value = "2"},
    {.path = "optimizer.step_epochs", .value = "2"},
    {.path = "optimizer.gamma", .value = "0.5"},
    {.path = "optimizer.min_lr", .value = "0.001"},
    {.path = "updates.mode", .value = "async"},
    {.path = "updates.batches_per_update", .value = "2"},
    {.path = "updates.staleness", .value = "2"},
    {.path = "updates.exchange", .value = "nccl", .beside = GPUS},
    {.path = "order.kind", .value = "proximity"},
    {.path = "order.sequences", .value = "2"},
    {.path = "order.excess_error", .value = "0.5"},
    {.path = "order.epochs_per_pass", .value = "3"},
    {.path = "store.features", .value = "memory"},
    {.path = "store.cache", .value = "1MiB"},
    {.path = "store.window", .value = "2"},
    {.path = "store.placement", .value = "alone", .beside = GPUS},
    {.path = "store.feature_ratio", .value = "0.5", .beside = GPUS},
    {.path = "store.graph_ratio", .value = "0.5", .beside = GPUS},
    {.path = "store.prefer", .value = "graph", .beside = GPUS},
    {.path = "cache.policy", .value = "degree"},
    {.path = "cache.presample_epochs", .value = "2"},
    {.path = "cache.ratio", .value = "0.5"},
    {.path = "cache.report_optimal", .value = "true"},
    {.path = "devices", .value = "[" CPU ", " GPU "]"},
    {.path = "allocation.samplers", .value = "2"},
    {.path = "allocation.trainers", .value = "2"},
    {.path = "allocation.switching", .value = "false"},
    {.path = "allocation.cores", .value = "pool"},
    {.path = "allocation.balance", .value = "dynamic"},
    {.path = "nodes", .value = "auto"},
    {.path = "schedule", .value = "[{\"epoch\": 1, \"samplers\": 2, \"trainers\": 2}]"},
    {.path = "throttle.sample", .value = "0.5"},
    {.path = "throttle.train", .value = "0.5"},
    {.path = "throttle.standby", .value = "0.5"},
    {.path = "arena.memory", .value = "1MiB"},
    {.path = "arena.activations", .value = "file"},
    {.path = "epochs", .value = "12"},
    {.path = "seed", .value = "1"},
    {.path = "precision", .value = "bf16"},
    {.path = "stall_seconds", .value = "60"},
    {.path = "memory", .value = "1GiB"},
    {.path = "digest", .value = "true"},
    {.path = "evaluate.every", .value = "2"},
    {.path = "evaluate.fanout", .value = "[5,5,5]"},
    {.path = "evaluate.batch_size", .value = "32"},
    {.path = "evaluate.k", .value = "20"},
    {.path = "evaluate.negatives", .value = "100"},
    {.path = "evaluate.val_edges_as_input", .value = "true"},
    {.path = "evaluate.metric", .value = "macro_f1"},
    {.path = "evaluate.test", .value = "each"},
    {.path = "evaluate.overlap", .value = "false"},
    {.path = "early_stopping.patience", .value = "2"},
    {.path = "early_stopping.min_delta", .value = "0.5"},
    {.path = "early_stopping.target", .value = "0.5"},
    {.path = "checkpoint.every_updates", .value = "2"},
    {.path = "checkpoint.every_seconds", .value = "2"},
    {.path = "checkpoint.keep", .value = "3"},
    {.path = "resume", .value = "auto"},
    {.path = "output", .value = "runs/other"},
};

static char path_of_job[1024];

static void setup(void)
{
    dir_begin();
    write_text("job.json", job);
    snprintf(path_of_job, sizeof path_of_job, "%s", in_dir("job.json"));
}

static const struct other *find_other(const char *path)
{
    for (size_t i = 0; i < SL_COUNT_OF(others); i++)
        if (strcmp(others[i].path, path) == 0)
            return &others[i];
    return NULL;
}

// The resolved text of the job with these settings; NULLs are none.
static char *resolved(const char *const *settings, size_t n)
{
    static struct sl_config config;
    struct sl_config_override set[4] = {{NULL}};
    size_t n_set = 0;
    for (size_t i = 0; i < n; i++)
        if (settings[i])
            set[n_set++].text = settings[i];
    must(sl_config_load(path_of_job, set, n_set, &config));
    char *text = sl_config_to_json(&config);
    ck_assert_ptr_nonnull(text);
    return text;
}

// "optimizer.kind=sgd", the first word beside which the key means something; NULL where any is.
static const char *needed_word(const struct sl_key *key, char *buf, size_t bytes)
{
    const struct sl_key *only = key->only_key ? sl_key_find(key->only_key) : NULL;
    for (unsigned i = 0; only && only->words[i]; i++) {
        if (!sl_key_goes_with(key, i))
            continue;
        snprintf(buf, bytes, "%s=%s", only->path, only->words[i]);
        return buf;
    }
    return NULL;
}

// What a run of `had` says of a job that is `wanted`.
static void compare(const char *wanted, const char *had, struct sl_config_differences *out)
{
    cJSON *tree = cJSON_Parse(had);
    ck_assert_ptr_nonnull(tree);
    must(sl_config_compare(wanted, tree, out));
    cJSON_Delete(tree);
}

static void check_key(const struct sl_key *key, const struct other *o)
{
    char set[512], word[128];
    snprintf(set, sizeof set, "%s=%s", key->path, o->value);
    const char *const settings[] = {needed_word(key, word, sizeof word), o->beside, set, o->with};
    char *one = resolved(settings, 2), *other = resolved(settings, 4);
    ck_assert_msg(strcmp(one, other) != 0, "%s has the default: another value is wanted", set);
    struct sl_config_differences there, back;
    compare(other, one, &there);
    compare(one, other, &back);
    if (key->change == SL_CHANGE_REFUSED) {
        snprintf(set, sizeof set, "%s: found ", key->path);
        ck_assert_msg(there.n > 0 && strstr(there.text, set), "%s another value: %s", set,
                      there.text);
        ck_assert_msg(back.n > 0 && strstr(back.text, set), "%s the first value: %s", set,
                      back.text);
    } else {
        ck_assert_msg(there.n == 0 && back.n == 0, "%s: %s", set, there.text);
    }
    free(one);
    free(other);
}

TEST(every_row_says_whether_its_key_changes_results)
{
    for (size_t i = 0; i < sl_n_keys; i++) {
        const struct sl_key *key = &sl_keys[i];
        if (key->type == SL_KEY_OBJECT || key->type == SL_KEY_NOTE)
            ck_assert_msg(key->change == SL_CHANGE_UNSAID,
                          "key %s: it has no value that could change", key->path);
        else
            ck_assert_msg(key->change != SL_CHANGE_UNSAID,
                          "key %s: say whether it changes results: give its row in config/keys.c "
                          "FIXED (parameters, samples or validation depend on it), FREE (not a "
                          "bit of them does) or ONWARD (a run may go on with another value "
                          "although it does)",
                          key->path);
    }
}

TEST(a_run_goes_on_with_other_values_of_those_keys_alone)
{
    for (size_t i = 0; i < sl_n_keys; i++) {
        const struct sl_key *key = &sl_keys[i];
        if (key->change == SL_CHANGE_UNSAID || strstr(key->path, "[]"))
            continue;
        const struct other *o = find_other(key->path);
        ck_assert_msg(o,
                      "key %s: say whether it changes results: `others` of this test has no second "
                      "value of it to try",
                      key->path);
        check_key(key, o);
    }
    for (size_t i = 0; i < SL_COUNT_OF(others); i++)
        ck_assert_msg(sl_key_find(others[i].path), "%s is no key any more", others[i].path);
}

// It is compared as one value, so it is as strict as the strictest of its entries' keys.
TEST(a_list_is_as_strict_as_its_entries)
{
    for (size_t i = 0; i < sl_n_keys; i++) {
        char list[SL_KEY_PATH_BYTES];
        sl_key_parent(&sl_keys[i], list);
        char *end = strstr(list, "[]");
        if (!end)
            continue;
        *end = '\0';
        enum sl_key_change whole = sl_key_find(list)->change, part = sl_keys[i].change;
        ck_assert_msg((part == SL_CHANGE_FREE || whole == part) ||
                          (part == SL_CHANGE_ONWARD && whole == SL_CHANGE_REFUSED),
                      "key %s: %s is not that strict", sl_keys[i].path, list);
    }
}

// An object that is a value is one value, also beside a list.
TEST(fanouts_by_relation_are_compared_as_a_whole)
{
    static const char *const fanouts[] = {
        "sampler.fanout=[5,5,4]", "sampler.fanout={\"a\": [5,5,4], \"*\": [5,5,4]}",
        "sampler.fanout={\"a\": [5,5,3], \"*\": [5,5,4]}", "sampler.fanout={\"a\": [5,5,4]}"};
    for (size_t i = 0; i < SL_COUNT_OF(fanouts); i++)
        for (size_t k = 0; k < SL_COUNT_OF(fanouts); k++) {
            struct sl_config_differences d;
            char *one = resolved(&fanouts[i], 1), *other = resolved(&fanouts[k], 1);
            compare(one, other, &d);
            ck_assert_uint_eq(d.n, i != k);
            ck_assert(i == k || strncmp(d.text, "sampler.fanout: found ", 22) == 0);
            free(one);
            free(other);
        }
}

TEST(objects_that_one_of_both_lacks_are_looked_into)
{
    struct sl_config_differences d;
    char *now = resolved(NULL, 0);
    cJSON *had = cJSON_Parse(now);
    cJSON_DeleteItemFromObjectCaseSensitive(had, "arena");
    cJSON_DeleteItemFromObjectCaseSensitive(had, "order");
    must(sl_config_compare(now, had, &d));
    ck_assert_msg(d.n == 0, "%s", d.text);
    // This cannot be read as a job of today, so it is compared as it stands.
    cJSON_AddTrueToObject(cJSON_AddObjectToObject(had, "magic"), "wand");
    must(sl_config_compare(now, had, &d));
    ck_assert_str_eq(d.text, "order.kind: found \"shuffled\", the run has nothing; "
                             "order.epochs_per_pass: found 1, the run has nothing; "
                             "magic.wand: found nothing, the run has true");
    ck_assert_uint_eq(d.n, 3);
    cJSON_Delete(had);
    free(now);
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 30)
