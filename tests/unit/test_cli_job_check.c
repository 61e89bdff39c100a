// Jobs that cannot run: what `sluice run` and `sluice submit` say before anything is started.
#include <cjson/cJSON.h>
#include <ctype.h>
#include <sched.h>

#include "cli/command.h"
#include "cli/job_check.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

enum { NODES = 1500, TRAIN = 750, DIM = 16, CLASSES = 4, WORDS = 5 };

// A change of a job that can run, by keys with dots (a key may be "@gone"; "@" is a core that this
// process may use), or a --set, and what the message must say; of "a|b" either.
struct refusal {
    const char *change, *set;
    const char *words[WORDS];
};

static const struct refusal refusals[] = {
    // keys, types, ranges, words
    {"{\"epoch\": 3}", NULL, {"job.json", "epoch", "did you mean", "epochs"}},
    {"{\"sampler.fan_out\": [5, 5]}",
     NULL,
     {"job.json", "sampler.fan_out", "did you mean", "fanout"}},
    {"{\"model.hiden\": 16}", NULL, {"job.json", "model.hiden", "did you mean", "hidden"}},
    {"{\"optimizer.learning_rate\": 0.1}", NULL, {"job.json", "optimizer.learning_rate"}},
    {"{\"evaluate.fanouts\": \"full\"}",
     NULL,
     {"job.json", "evaluate.fanouts", "did you mean", "fanout"}},
    {"{\"epochs\": \"three\"}", NULL, {"job.json", "epochs"}},
    {"{\"epochs\": 2.5}", NULL, {"job.json", "epochs"}},
    {"{\"epochs\": null}", NULL, {"job.json", "epochs"}},
    {"{\"seed\": \"x\"}", NULL, {"job.json", "seed"}},
    {"{\"model\": 5}", NULL, {"job.json", "model"}},
    {"{\"model.kind\": 5}", NULL, {"job.json", "model.kind"}},
    {"{\"model.hidden\": \"16\"}", NULL, {"job.json", "model.hidden"}},
    {"{\"model.dropout\": \"none\"}", NULL, {"job.json", "model.dropout"}},
    {"{\"sampler.fanout\": 5}", NULL, {"job.json", "sampler.fanout"}},
    {"{\"sampler.fanout\": [5, \"5\"]}", NULL, {"job.json", "sampler.fanout"}},
    {"{\"sampler.batch_size\": [64]}", NULL, {"job.json", "sampler.batch_size"}},
    {"{\"optimizer.lr\": true}", NULL, {"job.json", "optimizer.lr"}},
    {"{\"digest\": 1}", NULL, {"job.json", "digest"}},
    {"{\"dataset\": 7}", NULL, {"job.json", "dataset"}},
    {"{\"devices\": 4}", NULL, {"job.json", "devices"}},
    {"{\"allocation.samplers\": 1.5}", NULL, {"job.json", "allocation.samplers"}},
    {"{\"evaluate.fanout\": \"half\"}", NULL, {"job.json", "evaluate.fanout"}},
    {"{\"epochs\": 0}", NULL, {"job.json", "epochs"}},
    {"{\"epochs\": -1}", NULL, {"job.json", "epochs"}},
    {"{\"epochs\": 1000000000000.0}", NULL, {"job.json", "epochs"}},
    {"{\"seed\": -1}", NULL, {"job.json", "seed"}},
    {"{\"model.layers\": 0}", NULL, {"job.json", "layers"}},
    {"{\"model.layers\": 100}", NULL, {"job.json", "layers"}},
    {"{\"model.hidden\": 0}", NULL, {"job.json", "hidden"}},
    {"{\"model.dropout\": 1.0}", NULL, {"job.json", "dropout"}},
    {"{\"model.dropout\": -0.1}", NULL, {"job.json", "dropout"}},
    {"{\"model.input_dropout\": 1.5}", NULL, {"job.json", "input_dropout"}},
    {"{\"sampler.batch_size\": 0}", NULL, {"job.json", "batch_size"}},
    {"{\"sampler.batch_size\": -64}", NULL, {"job.json", "batch_size"}},
    {"{\"sampler.fanout\": [5, 0]}", NULL, {"job.json", "fanout"}},
    {"{\"sampler.fanout\": [5, -2]}", NULL, {"job.json", "fanout"}},
    {"{\"optimizer.lr\": -1}", NULL, {"job.json", "lr"}},
    {"{\"optimizer.lr\": 0}", NULL, {"job.json", "lr"}},
    {"{\"optimizer.weight_decay\": -1}", NULL, {"job.json", "weight_decay"}},
    {"{\"updates.batches_per_update\": 0}", NULL, {"job.json", "batches_per_update"}},
    {"{\"allocation.samplers\": 0}", NULL, {"job.json", "samplers"}},
    {"{\"allocation.trainers\": 0}", NULL, {"job.json", "trainers"}},
    {"{\"allocation.trainers\": 100000}", NULL, {"job.json", "trainers"}},
    {"{\"evaluate.every\": -1}", NULL, {"job.json", "every"}},
    {"{\"evaluate.fanout\": [4, 0]}", NULL, {"job.json", "fanout"}},
    {"{\"model.kind\": \"transformer\"}",
     NULL,
     {"job.json", "model.kind", "transformer", "graphsage"}},
    {"{\"sampler.kind\": \"khopp\"}", NULL, {"job.json", "sampler.kind", "khopp", "khop"}},
    {"{\"optimizer.kind\": \"adm\"}", NULL, {"job.json", "optimizer.kind", "adm", "adam"}},
    {"{\"updates.mode\": \"orderd\"}", NULL, {"job.json", "updates.mode", "orderd", "ordered"}},
    {"{\"precision\": \"fp8\"}", NULL, {"job.json", "precision", "fp8", "fp32"}},
    {"{\"sampler.fanout\": [5]}", NULL, {"fanout", "layers|2"}},
    {"{\"sampler.fanout\": [5, 5, 5]}", NULL, {"fanout", "layers|2"}},
    {"{\"sampler.fanout\": []}", NULL, {"fanout", "layers|2"}},
    {"{\"evaluate.fanout\": [4]}", NULL, {"evaluate.fanout", "layers|2"}},
    {"{}", "epochs", {"epochs"}},
    {"{}", "epochs=0", {"epochs"}},
    {"{}", "epocs=1", {"epocs"}},
    {"{}", "epochs=many", {"epochs"}},
    {"{}", "model.dropout=2", {"model.dropout"}},
    {"{}", "model.dropout.rate=2", {"model.dropout.rate"}},
    {"{\"dataset\": \"@gone\"}", NULL, {"job.json", "dataset"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"1000\"}]}", NULL, {"job.json", "cores"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"5000\"}]}", NULL, {"job.json", "cores"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"-1\"}]}", NULL, {"job.json", "cores"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"x\"}]}", NULL, {"job.json", "cores"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"\"}]}", NULL, {"job.json", "cores"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"3-1\"}]}", NULL, {"job.json", "cores"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"@\"}, {\"kind\": \"cpu\", \"cores\": "
     "\"1000\"}, {\"kind\": \"cpu\", \"cores\": \"@\"}, {\"kind\": \"cpu\", \"cores\": \"@\"}]}",
     NULL,
     {"devices[1].cores", "1000"}},
    {"{\"devices\": [{\"kind\": \"tpu\", \"cores\": \"@\"}]}", NULL, {"job.json", "kind", "tpu"}},
    {"{\"devices\": []}", NULL, {"job.json", "devices"}},
    // models, losses, optimizers
    {"{\"model.kind\": \"gat\", \"model.heads\": 3}",
     NULL,
     {"model.hidden", "3 heads", "15 or 18"}},
    {"{\"model.kind\": \"gat\", \"model.heads\": 32}", NULL, {"model.hidden", "take 32"}},
    {"{\"model.kind\": \"gcn\", \"model.residual\": true}", NULL, {"model.residual", "gcn", "gat"}},
    {"{\"model.kind\": \"gat\", \"model.aggregator\": \"max\"}", NULL, {"model.aggregator"}},
    {"{\"model.eps\": 1}", NULL, {"model.eps", "graphsage", "gin"}},
    {"{\"model.degrees\": \"block\"}", NULL, {"model.degrees", "gcn"}},
    {"{\"model.layers\": 9}", NULL, {"model.layers", "9", "1 to 8"}},
    {"{\"model.layers\": 8}", NULL, {"sampler.fanout", "2 entries", "wanted 8"}},
    {"{\"model.kind\": \"GAT\"}", NULL, {"model.kind", "\"GAT\"", "did you mean \"gat\""}},
    {"{\"model.norm\": \"instance\"}", NULL, {"model.norm", "instance", "\"batch\" or \"layer\""}},
    {"{\"model.activation\": \"gelu\"}", NULL, {"model.activation", "gelu", "leaky_relu"}},
    {"{\"model.jumping\": \"lstm\"}", NULL, {"model.jumping", "lstm", "\"cat\" or \"max\""}},
    {"{\"model.kind\": \"gat\", \"model.attention_dropout\": 1}",
     NULL,
     {"model.attention_dropout", "below 1"}},
    {"{\"optimizer.momentum\": 0.9}", NULL, {"optimizer.momentum", "adam", "sgd"}},
    {"{\"optimizer.gamma\": 0.5}", NULL, {"optimizer.gamma", "constant", "step"}},
    {"{\"optimizer.schedule\": \"cosine\", \"optimizer.min_lr\": 1}",
     NULL,
     {"optimizer.min_lr", "optimizer.lr 0.01"}},
    {"{\"optimizer.warmup_epochs\": 5}", NULL, {"optimizer.warmup_epochs", "3 epochs"}},
    {"{\"optimizer.clip_norm\": -1}", NULL, {"optimizer.clip_norm", "-1"}},
    {"{\"optimizer.decay_on\": \"first\"}", NULL, {"optimizer.decay_on", "first_layer"}},
    {"{\"evaluate.every\": 0, \"early_stopping\": {\"patience\": 3}}",
     NULL,
     {"early_stopping.patience", "evaluate.every"}},
    {"{\"evaluate.metric\": \"f1\"}", NULL, {"evaluate.metric", "f1", "macro_f1"}},
    {"{\"evaluate.metric\": \"roc_auc\"}",
     NULL,
     {"evaluate.metric", "roc_auc", "4 classes",
      "take \"accuracy\", \"micro_f1\", \"macro_f1\" or \"loss\""}},
    {"{\"loss\": {\"class_weights\": [1, -2, 3, 4]}}",
     NULL,
     {"loss.class_weights", "entry 1", "-2"}},
    {"{\"loss\": {\"class_weights\": [1, 2]}}",
     NULL,
     {"loss.class_weights", "2 numbers", "wanted 4"}},
    {"{\"loss\": {\"class_weights\": []}}", NULL, {"loss.class_weights", "[]", "balanced"}},
    {"{\"loss\": {\"class_weights\": [0, 0, 0, 0]}}",
     NULL,
     {"loss.class_weights", "all 0", "none"}},
    {"{\"loss\": {\"class_weights\": \"even\"}}", NULL, {"loss.class_weights", "even", "balanced"}},
    {"{\"sampler.kind\": \"weighted\"}", NULL, {"edge_weight.npy"}},
    {"{\"sampler.paths\": 5}", NULL, {"sampler.paths", "khop", "walk"}},
    // splits, caches, schedules
    {"{\"cache\": {\"policy\": \"presc\", \"presample_epochs\": 0}}",
     NULL,
     {"job.json", "presample_epochs", "0", "1"}},
    {"{\"cache\": {\"policy\": \"presc\", \"presample_epochs\": 0.5}}",
     NULL,
     {"job.json", "presample_epochs", "0.5"}},
    {"{\"cache\": {\"policy\": \"presc\", \"presample_epochs\": 3}}",
     NULL,
     {"job.json", "presample_epochs", "most 2"}},
    {"{\"cache\": {\"policy\": \"degree\", \"presample_epochs\": 2}}", NULL, {"job.json", "presc"}},
    {"{\"cache\": {\"policy\": \"presc\", \"ratio\": 0}}",
     NULL,
     {"job.json", "cache.ratio", "above 0", "auto"}},
    {"{\"cache\": {\"policy\": \"presc\", \"ratio\": 10}}",
     NULL,
     {"job.json", "cache.ratio", "10", "at most 1"}},
    {"{\"cache\": {\"policy\": \"presc\", \"ratio\": \"10%\"}}",
     NULL,
     {"job.json", "cache.ratio", "10%"}},
    {"{\"cache\": {\"ratio\": 0.1}}", NULL, {"job.json", "cache.ratio", "policy", "auto", "presc"}},
    {"{\"cache\": {\"report_optimal\": true}}",
     NULL,
     {"job.json", "cache.report_optimal", "policy"}},
    {"{\"cache\": {\"policy\": \"prescc\"}}",
     NULL,
     {"job.json", "cache.policy", "did you mean", "presc"}},
    {"{\"epochs\": 1, \"cache\": {\"policy\": \"presc\"}}",
     NULL,
     {"presample_epochs", "1 epoch", "raise epochs"}},
    {"{\"updates.mode\": \"async\", \"updates.batches_per_update\": 4}",
     NULL,
     {"job.json", "batches_per_update", "ordered"}},
    {"{\"updates.staleness\": 2, \"updates.batches_per_update\": \"@gone\"}",
     NULL,
     {"job.json", "staleness", "async"}},
    {"{\"updates.mode\": \"async\", \"updates.staleness\": -1, \"updates.batches_per_update\": "
     "\"@gone\"}",
     NULL,
     {"job.json", "staleness", "-1"}},
    {"{\"updates.mode\": \"async\", \"updates.staleness\": 100000, \"updates.batches_per_update\": "
     "\"@gone\"}",
     NULL,
     {"job.json", "staleness", "1024"}},
    {"{\"sampler.paths\": 4}", NULL, {"job.json", "sampler.paths", "walk"}},
    {"{\"sampler.kind\": \"walk\", \"sampler.paths\": 0}",
     NULL,
     {"job.json", "sampler.paths", "0"}},
    {"{\"sampler.kind\": \"walk\", \"sampler.length\": 0}",
     NULL,
     {"job.json", "sampler.length", "0"}},
    {"{\"sampler.kind\": \"walk\", \"sampler.restart\": 1}",
     NULL,
     {"job.json", "sampler.restart", "below 1"}},
    {"{\"sampler.kind\": \"wheighted\"}",
     NULL,
     {"job.json", "sampler.kind", "did you mean", "weighted"}},
    {"{\"throttle\": {\"sample\": -1}}", NULL, {"job.json", "throttle.sample"}},
    {"{\"throttle\": {\"train\": 11}}", NULL, {"job.json", "throttle.train"}},
    {"{\"throttle\": {\"standby\": \"1s\"}}", NULL, {"job.json", "throttle.standby"}},
    {"{\"allocation.samplers\": 3, \"allocation.trainers\": 2}",
     NULL,
     {"job.json", "allocation", "list more devices", "3 samplers and 2 trainers",
      "at most 4 roles on 4 devices"}},
    {"{\"allocation.samplers\": 4, \"allocation.trainers\": \"auto\"}",
     NULL,
     {"job.json", "allocation", "list more devices", "4 samplers and at least 1 trainer",
      "4 devices"}},
    {"{\"allocation.samplers\": \"auto\", \"allocation.trainers\": 4}",
     NULL,
     {"job.json", "allocation", "list more devices", "1 sampler and 4 trainers", "4 devices"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"@\"}]}",
     NULL,
     {"job.json", "allocation", "list more devices", "1 sampler and 1 trainer", "1 device"}},
    {"{\"devices\": \"auto\", \"allocation.samplers\": 40, \"allocation.trainers\": 40}",
     NULL,
     {"allocation", "40 samplers and 40 trainers", "64"}},
    {"{\"devices\": [{\"kind\": \"cpu\", \"cores\": \"@\"}], \"allocation.switching\": false, "
     "\"allocation.samplers\": \"@gone\", \"allocation.trainers\": \"@gone\"}",
     NULL,
     {"allocation.switching", "1 device", "second device"}},
    {"{\"allocation.samplers\": 0}", NULL, {"allocation.samplers", "0", "from 1"}},
    {"{}", "allocation.samplers=0", {"allocation.samplers"}},
    {"{\"allocation.trainers\": 0}", NULL, {"allocation.trainers", "0", "from 1"}},
    {"{}", "allocation.trainers=0", {"allocation.trainers"}},
    {"{\"schedule\": {\"epoch\": 1, \"samplers\": 1, \"trainers\": 2}}",
     NULL,
     {"job.json", "schedule", "list"}},
    {"{\"schedule\": [3]}", NULL, {"job.json", "schedule[0]", "object", "epoch"}},
    {"{\"schedule\": [{}]}", NULL, {"job.json", "schedule[0].epoch", "missing"}},
    {"{\"schedule\": [{\"epoch\": 1, \"samplers\": 1}]}",
     NULL,
     {"job.json", "schedule[0].trainers", "missing"}},
    {"{\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 2, \"trainer\": 1}]}",
     NULL,
     {"job.json", "schedule[0].trainer", "did you mean"}},
    {"{\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 2}, {\"epoch\": 2, "
     "\"samplers\": 1, \"trainers\": 0}]}",
     NULL,
     {"job.json", "schedule[1].trainers", "0"}},
    {"{\"schedule\": [{\"epoch\": 1, \"samplers\": 0, \"trainers\": 2}]}",
     NULL,
     {"job.json", "schedule[0].samplers", "0"}},
    {"{\"schedule\": [{\"epoch\": -1, \"samplers\": 1, \"trainers\": 2}]}",
     NULL,
     {"job.json", "schedule[0].epoch", "-1"}},
    {"{\"schedule\": [{\"epoch\": 1.5, \"samplers\": 1, \"trainers\": 2}]}",
     NULL,
     {"job.json", "schedule[0].epoch", "1.5"}},
    {"{\"schedule\": [{\"epoch\": 3, \"samplers\": 1, \"trainers\": 2}]}",
     NULL,
     {"job.json", "schedule[0].epoch", "3 epochs", "most 2"}},
    {"{\"schedule\": [{\"epoch\": 2, \"samplers\": 1, \"trainers\": 2}, {\"epoch\": 1, "
     "\"samplers\": 1, \"trainers\": 2}]}",
     NULL,
     {"job.json", "schedule[1]", "epoch 1", "epoch 2", "ascending"}},
    {"{\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 2}, {\"epoch\": 1, "
     "\"samplers\": 1, \"trainers\": 1}]}",
     NULL,
     {"job.json", "schedule[1]", "ascending"}},
    {"{\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 4}]}",
     NULL,
     {"job.json", "schedule[0]", "1 sampler and 4 trainers", "4 devices"}},
    {"{\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 2, \"batch\": \"first\"}]}",
     NULL,
     {"job.json", "schedule[0].batch", "first"}},
    {"{\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 2, \"batch\": 13}]}",
     NULL,
     {"schedule[0].batch", "13", "12"}},
    {"{}",
     "schedule=[{\"epoch\": 1, \"samplers\": 9, \"trainers\": 9}]",
     {"schedule[0]", "9 samplers", "4 devices"}},
};

// --- a job that can run --------------------------------------------------------------------------

static char core[16];

static void make_small_dataset(void)
{
    static int64_t indptr[NODES + 1], label[NODES], ids[NODES];
    static int32_t indices[NODES];
    static float feat[NODES * DIM];
    char text[256];
    for (int i = 0; i < NODES; i++) {
        indptr[i + 1] = i + 1;
        indices[i] = (i + 1) % NODES;
        label[i] = i % CLASSES;
        ids[i] = i;
    }
    snprintf(text, sizeof text,
             "{\"name\": \"small\", \"num_nodes\": %d, \"num_edges\": %d, \"feat_dim\": %d, "
             "\"num_classes\": %d, \"task\": \"multiclass\"}",
             NODES, NODES, DIM, CLASSES);
    write_text("metadata.json", text);
    write_list("indptr.npy", SL_DTYPE_I64, NODES + 1, indptr);
    write_list("indices.npy", SL_DTYPE_I32, NODES, indices);
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){NODES, DIM}, feat);
    write_list("node_label.npy", SL_DTYPE_I64, NODES, label);
    write_list("train_idx.npy", SL_DTYPE_I64, TRAIN, ids);
    write_list("val_idx.npy", SL_DTYPE_I64, 375, ids + TRAIN);
    write_list("test_idx.npy", SL_DTYPE_I64, 375, ids + TRAIN + 375);
}

static void setup(void)
{
    cpu_set_t cores;
    int first = 0;
    dir_begin();
    make_small_dataset();
    ck_assert_int_eq(sched_getaffinity(0, sizeof cores, &cores), 0);
    while (!CPU_ISSET(first, &cores))
        first++;
    snprintf(core, sizeof core, "\"%d\"", first);
}

static cJSON *good_job(void)
{
#define DEVICE "{\"kind\": \"cpu\", \"cores\": \"@\"}"
    cJSON *job = cJSON_Parse(
        "{\"name\": \"test\","
        " \"model\": {\"kind\": \"graphsage\", \"layers\": 2, \"hidden\": 16, \"dropout\": 0.3},"
        " \"sampler\": {\"kind\": \"khop\", \"fanout\": [5, 5], \"batch_size\": 64},"
        " \"optimizer\": {\"kind\": \"adam\", \"lr\": 0.01, \"weight_decay\": 1e-4},"
        " \"updates\": {\"mode\": \"ordered\", \"batches_per_update\": 1},"
        " \"devices\": [" DEVICE ", " DEVICE ", " DEVICE ", " DEVICE "],"
        " \"allocation\": {\"samplers\": 1, \"trainers\": 1}, \"epochs\": 3, \"seed\": 7,"
        " \"digest\": true, \"evaluate\": {\"every\": 1, \"fanout\": \"full\"}}");
    ck_assert_ptr_nonnull(job);
    cJSON_AddStringToObject(job, "dataset", dir);
    cJSON_AddStringToObject(job, "output", in_dir("out"));
    return job;
}

// Sets what a key with dots names.
static void set_key(cJSON *job, const cJSON *item)
{
    char path[128], *key = path, *dot;
    snprintf(path, sizeof path, "%s", item->string);
    for (; (dot = strchr(key, '.')); key = dot + 1) {
        *dot = '\0';
        cJSON *below = cJSON_GetObjectItemCaseSensitive(job, key);
        job = below ? below : cJSON_AddObjectToObject(job, key);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(job, key);
    if (!cJSON_IsString(item) || strcmp(item->valuestring, "@gone") != 0)
        cJSON_AddItemToObject(job, key, cJSON_Duplicate(item, true));
}

// Writes the job with a change; a core that may be used for each "@".
static void write_job(const char *change)
{
    cJSON *job = good_job(), *changes = cJSON_Parse(change);
    static char out[1 << 16];
    const cJSON *item;
    size_t n = 0;
    ck_assert_msg(changes != NULL, "no JSON: %s", change);
    cJSON_ArrayForEach(item, changes) set_key(job, item);
    char *text = cJSON_PrintUnformatted(job);
    for (const char *at = text, *mark; *at; at = mark ? mark + 3 : at + strlen(at)) {
        mark = strstr(at, "\"@\"");
        n += (size_t)snprintf(out + n, sizeof out - n, "%.*s%s",
                              mark ? (int)(mark - at) : (int)strlen(at), at, mark ? core : "");
    }
    write_text("job.json", out);
    free(text);
    cJSON_Delete(job);
    cJSON_Delete(changes);
}

static int check_job(const char *change, const char *set)
{
    struct sl_job_check check = {.job = in_dir("job.json"), .quiet = true};
    const char *const sets[] = {set};
    write_job(change);
    if (set) {
        check.set.items = (const char **)sets;
        check.set.n = 1;
    }
    int rc = sl_job_check_run(&check, false);
    check.set.items = NULL;
    sl_job_check_fini(&check);
    return rc;
}

TEST(a_job_that_can_run_is_not_refused)
{
    ck_assert_msg(check_job("{}", NULL) == SL_OK, "%s", sl_error_message());
}

// --- what is refused -----------------------------------------------------------------------------

// `words` may have alternatives; the case of letters does not count.
static bool says(const char *message, const char *words)
{
    char any[128], *save = NULL;
    snprintf(any, sizeof any, "%s", words);
    for (char *one = strtok_r(any, "|", &save); one; one = strtok_r(NULL, "|", &save))
        if (strcasestr(message, one))
            return true;
    return false;
}

LOOP_TEST(is_refused, 0, SL_COUNT_OF(refusals))
{
    const struct refusal *r = &refusals[_i];
    int rc = check_job(r->change, r->set);
    const char *message = sl_error_message(), *set = r->set ? r->set : "";
    ck_assert_msg(rc < 0, "it is taken: %s %s", r->change, set);
    ck_assert_int_eq(sl_exit_status(rc), SL_EXIT_USAGE);
    ck_assert_msg(strchr(message, '\n') == NULL, "more than one line: %s", message);
    for (int i = 0; i < WORDS && r->words[i]; i++)
        ck_assert_msg(says(message, r->words[i]), "%s %s: '%s' is not in: %s", r->change, set,
                      r->words[i], message);
    ck_assert_msg(!exists("out"), "its output directory was made");
}

static const char *const wrong_keys[] = {
    "dataset=/nope", "model.weights=/nope", "loss.class_weights=[1,2]",
    "schedule=[{\"epoch\": 1, \"samplers\": 1, \"trainers\": 1, \"batch\": 99}]"};

TEST(a_wrong_key_comes_before_a_directory_that_is_taken)
{
    char name[64];
    ck_assert_int_eq(mkdir(in_dir("out"), 0700), 0);
    write_text("out/report.json", "{}"); // of a run that is over
    ck_assert_int_lt(check_job("{}", NULL), 0);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "output: "));
    for (size_t i = 0; i < SL_COUNT_OF(wrong_keys); i++) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(wrong_keys[i], "="), wrong_keys[i]);
        ck_assert_int_lt(check_job("{}", wrong_keys[i]), 0);
        ck_assert_msg(says(sl_error_message(), i ? name : "data set /nope"), "%s: %s",
                      wrong_keys[i], sl_error_message());
        ck_assert_ptr_null(strstr(sl_error_message(), "output"));
    }
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
