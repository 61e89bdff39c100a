// `--set path=value`: what it may change, and what its messages say.
#include "config/config.h"

#include "common/text/synonyms.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static struct sl_config config;

static void setup(void)
{
    dir_begin();
    write_text("job.json", "{\"name\": \"job\", \"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"},"
                           " \"devices\": [{\"kind\": \"cpu\", \"cores\": \"0\"}], \"epochs\": 3}");
}

static int load(const char *a, const char *b)
{
    struct sl_config_override sets[] = {{a}, {b}};
    return sl_config_load(in_dir("job.json"), sets, b ? 2 : 1, &config);
}

static void must_load(const char *a, const char *b)
{
    ck_assert_msg(load(a, b) == SL_OK, "%s", sl_error_message());
}

TEST(a_number_replaces_what_the_file_says)
{
    must_load("epochs=5", NULL);
    ck_assert_uint_eq(config.epochs, 5);
}

TEST(missing_objects_are_made)
{
    must_load("optimizer.lr=0.25", "evaluate.fanout=[1,2,-1]");
    ck_assert(config.optimizer.lr == 0.25);
    ck_assert(!config.evaluate.full);
    ck_assert_int_eq(config.evaluate.fanout[2], -1);
}

TEST(a_bare_word_is_text)
{
    must_load("dataset=data/other set", "model.kind=graphsage");
    ck_assert_str_eq(config.dataset, "data/other set");
    ck_assert_int_eq(config.model.kind, SL_MODEL_GRAPHSAGE);
}

TEST(a_quoted_word_is_text)
{
    must_load("dataset=\"a b\"", "precision=\"bf16\"");
    ck_assert_str_eq(config.dataset, "a b");
    ck_assert_int_eq(config.precision, SL_CONFIG_BF16);
}

TEST(a_number_is_text_where_text_is_wanted)
{
    must_load("name=7", "dataset=true");
    ck_assert_str_eq(config.name, "7");
    ck_assert_str_eq(config.dataset, "true");
    ck_assert_str_eq(config.output, "runs/7");
}

TEST(a_value_may_hold_an_equals_sign)
{
    must_load("dataset=a=b", NULL);
    ck_assert_str_eq(config.dataset, "a=b");
}

TEST(an_object_replaces_an_object)
{
    must_load("model={\"kind\": \"graphsage\", \"hidden\": 8}", NULL);
    ck_assert_int_eq(config.model.kind, SL_MODEL_GRAPHSAGE);
    ck_assert_uint_eq(config.model.hidden, 8);
}

TEST(the_last_one_counts)
{
    must_load("epochs=5", "epochs=6");
    ck_assert_uint_eq(config.epochs, 6);
}

TEST(a_later_one_mends_an_earlier_one)
{
    must_load("model.layers=2", "sampler.fanout=[4, 4]");
    ck_assert_uint_eq(config.model.layers, 2);
}

TEST(devices_can_be_set)
{
    must_load("devices=auto", NULL);
    ck_assert(config.devices_auto);
    must_load("devices=[{\"kind\": \"cpu\", \"cores\": 0}, {\"kind\": \"cpu\", \"cores\": 0}]",
              NULL);
    ck_assert_uint_eq(config.n_devices, 2);
}

TEST(an_entry_of_a_list_can_be_reached)
{
    must_load("devices[0].memory=64MiB", NULL);
    ck_assert_uint_eq(config.devices[0].memory_bytes, 64 << 20);
}

TEST(class_weights_can_be_set)
{
    ck_assert_int_eq(load("loss.class_weights=[2,0.5]", NULL), SL_OK);
    ck_assert_int_eq(config.loss.class_weights, SL_CLASS_WEIGHTS_LIST);
    ck_assert(config.loss.n_class_weights == 2 && config.loss.class_weight[0] == 2);
    ck_assert_int_eq(load("loss.class_weights=balanced", NULL), SL_OK);
    ck_assert_int_eq(config.loss.class_weights, SL_CLASS_WEIGHTS_BALANCED);
}

TEST(a_schedule_can_be_set_and_changed)
{
    must_load("devices=auto", "schedule=[{\"epoch\": 1, \"samplers\": 2, \"trainers\": 3}]");
    ck_assert_uint_eq(config.n_schedule, 1);
    ck_assert_uint_eq(config.schedule[0].trainers, 3);
    struct sl_config_override sets[] = {
        {"devices=auto"},
        {"schedule=[{\"epoch\": 1, \"samplers\": 2, \"trainers\": 3}]"},
        {"schedule[0].batch=5"},
    };
    ck_assert_int_eq(sl_config_load(in_dir("job.json"), sets, 3, &config), SL_OK);
    ck_assert_uint_eq(config.schedule[0].batch, 5);
}

static const struct {
    const char *set, *parts[3];
} mistakes[] = {
    {"epochs", {"--set epochs: ", "no \"=\"", "wanted path=value"}},
    {"=5", {"--set =5: ", "no path"}},
    {"", {"no \"=\""}},
    {"epoch=5", {"with --set epoch=5: ", "epoch: unknown key", "did you mean epochs?"}},
    {"loss.class_weights=[1, x]", {"loss.class_weights: found string", "a list of 1 to 256"}},
    {"loss.class_weights=[1, -1]", {"with --set loss.class_weights=[1, -1]", "entry 1: found"}},
    {"model.layer=5", {"model.layer: unknown key", "did you mean model.layers?"}},
    {"modle.layers=5", {"did you mean model?"}},
    {"opt.lr=5", {"did you mean optimizer.lr?"}},
    {"lr=5", {"did you mean optimizer.lr?"}},
    {"model.layers.x=5", {"unknown key"}},
    {"model..layers=5", {"unknown key"}},
    {".model=5", {"unknown key"}},
    {"devices[].kind=cpu", {"devices[].kind"}},
    {"devices[7].kind=cpu", {"devices[7].kind", "wanted a list that has this entry"}},
    {"devices[0].cpu=5", {"unknown key", "the keys of devices[] are kind, index, cores, memory"}},
    {"devices[99999999999999999999].kind=cpu", {"wanted a list that has this entry"}},
    {"schedule[0].epoch=1", {"schedule[0].epoch", "wanted a list that has this entry", "schedule"}},
    {"schedule[0].epochs=1", {"unknown key", "did you mean schedule[].epoch?"}},
    {"schedule[].epoch=1", {"schedule[].epoch: unknown key"}},
    {"schedule=[1]", {"with --set schedule=[1]: schedule[0]: found number 1", "an object"}},
    {"cache.presample_epochs=0", {"with --set cache.presample_epochs=0", "from 1 to"}},
    {"allocation.trainers=0", {"with --set allocation.trainers=0", "from 1 to 64"}},
    {"allocation.trainers=1", {"allocation: found 1 sampler and 1 trainer", "on 1 device"}},
    {"allocation.switching=false", {"with --set allocation.switching=false", "found false"}},
    {"sampler.fanout[0]=5", {"did you mean sampler.fanout?"}},
    {"model={\"kind\": \"gcn\", \"x\": 1}", {"--set model={", "model.x: unknown key"}},
    {"model={\"kind\": \"gcn\", \"kind\": \"gcn\"}", {"model.kind: found twice"}},
    {"model=5", {"with --set model=5: model: found number 5", "wanted an object"}},
    {"epochs=many", {"with --set epochs=many: epochs: found string \"many\"", "a whole number"}},
    {"epochs=0", {"with --set epochs=0: epochs: found number 0", "from 1 to 1000000"}},
    {"epochs=", {"with --set epochs=: epochs: found string \"\""}},
    {"sampler.fanout=[5,5", {"found string \"[5,5\"", "a list"}},
    {"sampler.fanout=[5,5]", {"with --set sampler.fanout=[5,5]: ", "found 2 entries, wanted 3"}},
    {"model.layers=2", {"sampler.fanout: missing"}},
    {"dataset=", {"with --set dataset=: dataset: found string \"\""}},
    {"dataset=\xff", {"--set ", "not UTF-8"}},
    {"optimizer.momentum=0.5", {"only with \"sgd\""}},
    {"devices[0].cores=1000", {"with --set devices[0].cores=1000: devices[0].cores"}},
    // what users of PyTorch Geometric and DGL write
    {"hidden_channels=64", {"did you mean model.hidden?"}},
    {"num_layers=2", {"did you mean model.layers?"}},
    {"num_neighbors=[5]", {"did you mean sampler.fanout?"}},
    {"fanouts=[5]", {"did you mean sampler.fanout?"}},
    {"fan_out=[5]", {"did you mean sampler.fanout?"}},
    {"batch_size=64", {"did you mean sampler.batch_size?"}},
    {"num_workers=4", {"did you mean allocation.samplers?"}},
    {"weight_decay=0", {"did you mean optimizer.weight_decay?"}},
    {"learning_rate=1", {"did you mean optimizer.lr?"}},
    {"num_epochs=3", {"did you mean epochs?"}},
    {"patience=3", {"did you mean early_stopping.patience?"}},
    {"device=cuda", {"did you mean devices?"}},
    {"in_channels=16", {"the data set says how many features there are"}},
    {"loss.kind=ce", {"the data set's task says which loss it is"}},
    {"train=1", {"optimizer, updates, epochs and early_stopping"}},
    {"model.kind=sage", {"did you mean \"graphsage\"?"}},
    {"model.kind=SAGEConv", {"did you mean \"graphsage\"?"}},
    {"model.kind=GATConv", {"did you mean \"gat\"?"}},
    {"optimizer.kind=Adam", {"did you mean \"adam\"?"}},
    {"devices=gpu", {"[{\"kind\": \"cuda\", \"index\": 0}]", "'sluice doctor'"}},
    {"devices=cuda:5", {"[{\"kind\": \"cuda\", \"index\": 5}]", "'sluice doctor'"}},
};

LOOP_TEST(a_mistake_is_explained, 0, sizeof mistakes / sizeof mistakes[0])
{
    int rc = load(mistakes[_i].set, NULL);
    ck_assert_msg(rc == SL_EINVAL, "%s: %s", mistakes[_i].set, sl_strerror(rc));
    ck_assert_msg(strncmp(sl_error_message(), dir, strlen(dir)) == 0, "no file's name: %s",
                  sl_error_message());
    for (int i = 0; i < 3 && mistakes[_i].parts[i]; i++)
        ck_assert_msg(strstr(sl_error_message(), mistakes[_i].parts[i]) != NULL,
                      "\"%s\" is not in: %s", mistakes[_i].parts[i], sl_error_message());
}

TEST(the_message_names_the_override_that_decided)
{
    ck_assert_int_eq(load("epochs=0", "epochs=-1"), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "with --set epochs=-1: epochs: found"));
    ck_assert_int_eq(load("seed=5", "model.layers=99"), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "with --set model.layers=99: "));
    ck_assert_int_eq(load("optimizer.lr=1", "model.layers=2"), SL_EINVAL);
    ck_assert_ptr_null(strstr(sl_error_message(), "--set")); // the fanout was not set
}

TEST(a_long_path_is_refused)
{
    char text[4096];
    memset(text, 'a', sizeof text);
    strcpy(text + sizeof text - 3, "=5");
    ck_assert_int_eq(load(text, NULL), SL_EINVAL);
    memcpy(text, "model.", 6);
    ck_assert_int_eq(load(text, NULL), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "unknown key"));
}

// --- words of other tools ------------------------------------------------------------------------

static bool says(const char *part)
{
    return strstr(sl_error_message(), part) != NULL;
}

// The n-th word of a row, as a user would write it: '#' is a number, an entry one that is there.
static bool take_word(const char *words, int n, char out[64])
{
    for (; n > 0 && words; n--)
        words = strchr(words, ' ') ? strchr(words, ' ') + 1 : NULL;
    if (!words)
        return false;
    snprintf(out, 64, "%.*s", (int)strcspn(words, " "), words);
    char *entry = strstr(out, "[]"), *number = strchr(out, '#');
    if (number)
        *number = '3';
    if (entry) {
        memmove(entry + 3, entry + 2, strlen(entry + 2) + 1);
        memcpy(entry, "[0]", 3);
    }
    return true;
}

static void check_key(const struct sl_synonym *s, const char *word)
{
    char set[160], advice[160];
    snprintf(set, sizeof set, "%s=1", word);
    ck_assert_int_eq(load(set, NULL), SL_EINVAL);
    if (!s->means) {
        ck_assert_msg(says(s->why), "%s: %s", word, sl_error_message());
        return;
    }
    snprintf(advice, sizeof advice, "unknown key: did you mean %s?", s->means);
    ck_assert_msg(says(advice), "%s: %s", word, sl_error_message());
    // Followed: it is a key, even if the value was not meant for it.
    char meant[64];
    take_word(s->means, 0, meant);
    snprintf(set, sizeof set, "%s=null", meant);
    ck_assert_msg(load(set, NULL) == SL_OK || says("found null"), "%s: %s", set,
                  sl_error_message());
}

static void check_value(const struct sl_synonym *s, const char *word)
{
    char set[160], means[SL_SYNONYM_BYTES], key[64];
    ck_assert_ptr_eq(sl_synonym_find(SL_SYNONYM_VALUE, s->key, word, means), s);
    take_word(s->key, 0, key);
    const char *beside = strcmp(key, "model.aggregator") == 0 ? "model.kind=graphsage"
                         : strncmp(key, "task.", 5) == 0 && strcmp(key, "task.kind") != 0
                             ? "task.kind=link"
                             : NULL;
    snprintf(set, sizeof set, "%s=%s", key, word);
    ck_assert_msg(load(set, beside) == SL_EINVAL && says(means), "%s: %s", set, sl_error_message());
    ck_assert_msg(s->why != sl_synonym_gpu || says("'sluice doctor'"), "%s: %s", set,
                  sl_error_message());
    const char *index = strcmp(key, "devices[0].kind") == 0 // which a GPU's device needs
                            ? "devices=[{\"kind\": \"cpu\", \"cores\": \"0\", \"index\": 0}]"
                            : NULL;
    snprintf(set, sizeof set, "%s=%s", key, means);
    int rc = index ? load(index, set) : load(set, beside);
    ck_assert_msg(rc == SL_OK, "%s: %s", set, sl_error_message());
}

LOOP_TEST(a_word_of_another_tool_leads_to_what_is_meant, 0, (int)sl_n_synonyms)
{
    char word[64];
    const struct sl_synonym *s = &sl_synonyms[_i];
    for (int n = 0; s->of != SL_SYNONYM_COMMAND && take_word(s->words, n, word); n++) {
        if (s->of == SL_SYNONYM_KEY)
            check_key(s, word);
        else
            check_value(s, word);
    }
}

TEST(a_word_of_another_tool_is_searched_for_in_its_object_first)
{
    ck_assert_int_eq(load("evaluate.fanouts=[1]", NULL), SL_EINVAL);
    ck_assert(says("did you mean evaluate.fanout?"));
    ck_assert_int_eq(load("training.learning_rate=1", NULL), SL_EINVAL);
    ck_assert(says("did you mean optimizer.lr?"));
    ck_assert_int_eq(load("optimizer=Adam", NULL), SL_EINVAL);
    ck_assert(says("did you mean {\"kind\": \"adam\"}?"));
    must_load("optimizer={\"kind\": \"adam\"}", NULL);
    ck_assert_int_eq(load("model=SAGEConv", NULL), SL_EINVAL);
    ck_assert(says("did you mean {\"kind\": \"graphsage\"}?"));
}

// ---- nodes --------------------------------------------------------------------------------------

static const struct {
    const char *set[2];
    uint32_t n;
    const char *said; // NULL: it can run
} on_nodes[] = {
    {{"nodes=1"}, 1, NULL},
    {{"nodes=1"}, 2, "nodes: found 1, and 2 are started"},
    {{"nodes=3"}, 1, "nodes: found 3, and 1 are started"},
    {{"nodes=auto"}, 1, NULL},
    {{"nodes=auto"}, 2, "updates.batches_per_update: found 1, wanted at least 2"},
    {{"nodes=auto", "updates.batches_per_update=3"}, 4, "found 3, wanted at least 4"},
    {{"nodes=auto", "updates.batches_per_update=4"}, 4, NULL},
    {{"nodes=2", "updates.mode=async"}, 2, "updates.mode: found \"async\" with 2 nodes"},
};

LOOP_TEST(jobs_that_nodes_cannot_run_are_refused, 0, SL_COUNT_OF(on_nodes))
{
    must_load(on_nodes[_i].set[0], on_nodes[_i].set[1]);
    const int rc = sl_config_check_nodes(&config, on_nodes[_i].n);
    ck_assert_int_eq(rc, on_nodes[_i].said ? SL_EINVAL : SL_OK);
    ck_assert(!on_nodes[_i].said || says(on_nodes[_i].said));
}

static int take_key(void *ctx, const char *path, const char *value)
{
    static const char *const may_differ[] = {
        "name", "dataset", "output", "devices", "nodes", "throttle.train", "allocation.samplers"};
    uint32_t *n = ctx;
    for (size_t i = 0; i < SL_COUNT_OF(may_differ); i++)
        ck_assert_str_ne(path, may_differ[i]);
    *n += strcmp(path, "model.kind") == 0 && strcmp(value, "\"gcn\"") == 0;
    *n += strcmp(path, "seed") == 0 && strcmp(value, "0") == 0;
    return SL_OK;
}

TEST(nodes_agree_on_what_the_result_depends_on)
{
    uint32_t n = 0;
    must_load("seed=0", NULL);
    char *json = sl_config_to_json(&config);
    ck_assert_int_eq(sl_config_each_shared(json, take_key, &n), SL_OK);
    ck_assert_uint_eq(n, 2);
    free(json);
}

TEST(an_option_may_be_a_key)
{
    char key[SL_CONFIG_KEY_BYTES];
    ck_assert(sl_config_find_key("learning-rate", key));
    ck_assert_str_eq(key, "optimizer.lr");
    ck_assert(sl_config_find_key("weight-decay", key));
    ck_assert_str_eq(key, "optimizer.weight_decay");
    ck_assert(sl_config_find_key("epochs", key));
    ck_assert_str_eq(key, "epochs");
    ck_assert(!sl_config_find_key("kind", key));  // several
    ck_assert(!sl_config_find_key("model", key)); // has no value
    ck_assert(!sl_config_find_key("in-channels", key));
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 20)
