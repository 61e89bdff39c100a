// A good job, its defaults, what is resolved from the machine, and files that cannot be read.
#include "config/config.h"

#include <sched.h>

#include "common/data/dataset.h"
#include "common/device/cores.h"
#include "config/parse_internal.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#define MINIMAL "{\"dataset\": \"data/x\", \"model\": {\"kind\": \"gcn\"}}"
#define FIXED                                                                                      \
    "{\"dataset\": \"data/x\", \"model\": {\"kind\": \"gcn\"}, \"allocation\": {\"cores\": "       \
    "\"fixed\"}}"

static struct sl_config config;

static const char *path(void)
{
    return in_dir("little.json");
}

static void write_job(const char *text, size_t bytes)
{
    write_file("little.json", text, bytes);
}

static void parse(const char *text)
{
    int rc = sl_config_parse(text, strlen(text), "jobs/little.json", &config);
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

TEST(every_key_reaches_its_field)
{
    parse("{"
          "\"$schema\": \"config/job.schema.json\","
          "\"name\": \"a job\", \"dataset\": \"data/products\","
          "\"model\": {\"kind\": \"graphsage\", \"layers\": 2, \"hidden\": 64, \"dropout\": 0.25,"
          "            \"input_dropout\": 0.125},"
          "\"sampler\": {\"kind\": \"walk\", \"fanout\": [10, -1], \"batch_size\": 2147483648,"
          "              \"paths\": 1024, \"length\": 64, \"restart\": 0.75},"
          "\"optimizer\": {\"kind\": \"sgd\", \"lr\": 0.1, \"weight_decay\": 5e-4,"
          "                \"momentum\": 0.9},"
          "\"updates\": {\"mode\": \"ordered\", \"batches_per_update\": 4,"
          " \"exchange\": \"board\"},"
          "\"cache\": {\"policy\": \"presc\", \"presample_epochs\": 999999, \"ratio\": 0.0625,"
          "            \"report_optimal\": true},"
          "\"devices\": [{\"kind\": \"cpu\", \"cores\": \"0\", \"memory\": \"1.5MiB\"},"
          "              {\"kind\": \"cpu\", \"cores\": 0, \"memory\": 1000000},"
          "              {\"kind\": \"cpu\", \"cores\": 0}],"
          "\"allocation\": {\"samplers\": 1, \"trainers\": 2, \"switching\": false},"
          "\"schedule\": [{\"epoch\": 0, \"batch\": 4294967295, \"samplers\": 2,"
          "                \"trainers\": 1},"
          "               {\"trainers\": 1, \"samplers\": 1, \"epoch\": 999999}],"
          "\"throttle\": {\"sample\": 0.5, \"train\": 10, \"standby\": 1e-3},"
          "\"arena\": {\"memory\": \"2 GB\"},"
          "\"epochs\": 1000000, \"seed\": 9007199254740991, \"precision\": \"bf16\","
          "\"digest\": true,"
          "\"evaluate\": {\"every\": 0, \"fanout\": [7, 8], \"batch_size\": 9,"
          "               \"test\": \"never\"},"
          "\"output\": \"somewhere/else\"}");
    ck_assert_str_eq(config.name, "a job");
    ck_assert_str_eq(config.dataset, "data/products");
    ck_assert_int_eq(config.model.kind, SL_MODEL_GRAPHSAGE);
    ck_assert_uint_eq(config.model.layers, 2);
    ck_assert_uint_eq(config.model.hidden, 64);
    ck_assert(config.model.dropout == 0.25 && config.model.input_dropout == 0.125);
    ck_assert_int_eq(config.sampler.kind, SL_SAMPLER_WALK);
    ck_assert_uint_eq(config.sampler.paths, 1024);
    ck_assert_uint_eq(config.sampler.length, 64);
    ck_assert(config.sampler.restart == 0.75);
    ck_assert_uint_eq(config.sampler.n_fanout, 2);
    ck_assert_int_eq(config.sampler.fanout[0], 10);
    ck_assert_int_eq(config.sampler.fanout[1], -1);
    ck_assert_uint_eq(config.sampler.batch_size, 2147483648u);
    ck_assert_int_eq(config.optimizer.kind, SL_OPTIMIZER_SGD);
    ck_assert(config.optimizer.lr == 0.1 && config.optimizer.weight_decay == 5e-4);
    ck_assert(config.optimizer.momentum == 0.9);
    ck_assert_uint_eq(config.updates.batches_per_update, 4);
    ck_assert_int_eq(config.updates.exchange, SL_EXCHANGE_BOARD);
    ck_assert(!config.devices_auto);
    ck_assert_int_eq(config.cache.policy, SL_CACHE_PRESC);
    ck_assert_uint_eq(config.cache.presample_epochs, 999999);
    ck_assert(!config.cache.ratio_auto && config.cache.ratio == 0.0625);
    ck_assert(config.cache.report_optimal);
    ck_assert_uint_eq(config.n_devices, 3);
    ck_assert_uint_eq(config.devices[0].memory_bytes, 3 << 19);
    ck_assert_uint_eq(config.devices[1].memory_bytes, 1000000);
    ck_assert_uint_eq(config.devices[1].n_cores, 1);
    ck_assert_uint_eq(config.devices[1].cores[0], 0);
    ck_assert_uint_eq(config.allocation.samplers, 1);
    ck_assert_uint_eq(config.allocation.trainers, 2);
    ck_assert(!config.allocation.samplers_auto && !config.allocation.trainers_auto);
    ck_assert(!config.allocation.switching);
    ck_assert_uint_eq(config.n_schedule, 2);
    ck_assert_uint_eq(config.schedule[0].epoch, 0);
    ck_assert_uint_eq(config.schedule[0].batch, 4294967295u);
    ck_assert_uint_eq(config.schedule[0].samplers, 2);
    ck_assert_uint_eq(config.schedule[0].trainers, 1);
    ck_assert_uint_eq(config.schedule[1].epoch, 999999);
    ck_assert_uint_eq(config.schedule[1].batch, 0);
    ck_assert(config.throttle.sample == 0.5 && config.throttle.train == 10);
    ck_assert(config.throttle.standby == 1e-3);
    ck_assert_uint_eq(config.arena_bytes, 2000000000u);
    ck_assert_uint_eq(config.epochs, 1000000);
    ck_assert_uint_eq(config.seed, 9007199254740991u);
    ck_assert_int_eq(config.precision, SL_CONFIG_BF16);
    ck_assert(config.digest);
    ck_assert(config.evaluate.every == 0);
    ck_assert(!config.evaluate.full);
    ck_assert_uint_eq(config.evaluate.n_fanout, 2);
    ck_assert_int_eq(config.evaluate.fanout[1], 8);
    ck_assert_uint_eq(config.evaluate.batch_size, 9);
    ck_assert_int_eq(config.evaluate.test, SL_TEST_NEVER);
    ck_assert_str_eq(config.output, "somewhere/else");
}

TEST(a_fraction_of_evaluations_divides_epochs)
{
    static const char job[] = "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"epochs\": 2, "
                              "\"optimizer\": {\"schedule\": \"step\", \"warmup_epochs\": 0.5}, "
                              "\"evaluate\": {\"every\": 0.05}, \"schedule\": "
                              "[{\"epoch\": 1, \"samplers\": 1, \"trainers\": 1}]}";
    ck_assert_int_eq(sl_config_parse(job, sizeof job - 1, "job.json", &config), SL_OK);
    ck_assert(config.evaluate.every == 1 && config.evaluate.fraction == 0.05);
    ck_assert_uint_eq(config.order.epochs_per_pass, 20);
    ck_assert_uint_eq(config.epochs, 40);
    ck_assert(config.optimizer.warmup_epochs == 10);
    ck_assert_uint_eq(config.optimizer.step_epochs, 200);
    ck_assert_uint_eq(config.cache.presample_epochs, 1);
    ck_assert_uint_eq(config.schedule[0].epoch, 20);
}

TEST(every_key_of_models_and_training_reaches_its_field)
{
    parse("{\"dataset\": \"d\", \"model\": {\"kind\": \"gat\", \"hidden\": 64, \"heads\": 4,"
          "   \"attention_dropout\": 0.25, \"residual\": true, \"activation\": \"elu\","
          "   \"norm\": \"layer\", \"jumping\": \"cat\", \"weights\": \"a.safetensors\"},"
          " \"loss\": {\"class_weights\": [1, 0.5, 1e6]},"
          " \"optimizer\": {\"kind\": \"adamw\", \"beta1\": 0.8, \"decay_on\": \"first_layer\","
          "   \"clip_norm\": 2.5, \"schedule\": \"cosine\", \"min_lr\": 0.001,"
          "   \"warmup_epochs\": 0.5},"
          " \"evaluate\": {\"metric\": \"macro_f1\"},"
          " \"early_stopping\": {\"patience\": 7, \"min_delta\": 0.125},"
          " \"checkpoint\": {\"every_updates\": 100, \"every_seconds\": 0.5, \"keep\": 3}}");
    ck_assert_int_eq(config.model.kind, SL_MODEL_GAT);
    ck_assert_uint_eq(config.model.heads, 4);
    ck_assert(config.model.attention_dropout == 0.25 && config.model.residual);
    ck_assert_int_eq(config.model.activation, SL_CONFIG_ELU);
    ck_assert_int_eq(config.model.norm, SL_NORM_LAYER);
    ck_assert_int_eq(config.model.jumping, SL_JUMPING_CAT);
    ck_assert_str_eq(config.model.weights, "a.safetensors");
    ck_assert_int_eq(config.loss.class_weights, SL_CLASS_WEIGHTS_LIST);
    ck_assert_uint_eq(config.loss.n_class_weights, 3);
    ck_assert(config.loss.class_weight[1] == 0.5 && config.loss.class_weight[2] == 1e6);
    ck_assert_int_eq(config.optimizer.kind, SL_OPTIMIZER_ADAMW);
    ck_assert(config.optimizer.beta1 == 0.8 && config.optimizer.clip_norm == 2.5);
    ck_assert_int_eq(config.optimizer.decay_on, SL_DECAY_FIRST_LAYER);
    ck_assert_int_eq(config.optimizer.schedule, SL_LR_COSINE);
    ck_assert(config.optimizer.min_lr == 0.001 && config.optimizer.warmup_epochs == 0.5);
    ck_assert_int_eq(config.evaluate.metric, SL_METRIC_MACRO_F1);
    ck_assert_uint_eq(config.early_stopping.patience, 7);
    ck_assert(config.early_stopping.min_delta == 0.125);
    ck_assert_uint_eq(config.checkpoint.every_updates, 100);
    ck_assert(config.checkpoint.every_seconds == 0.5);
    ck_assert_uint_eq(config.checkpoint.keep, 3);
    parse("{\"dataset\": \"d\", \"model\": {\"kind\": \"gin\", \"eps\": -0.5,"
          "   \"train_eps\": true}, \"loss\": {\"class_weights\": \"balanced\"},"
          " \"optimizer\": {\"schedule\": \"step\", \"step_epochs\": 5, \"gamma\": 0.5}}");
    ck_assert(config.model.eps == -0.5 && config.model.train_eps);
    ck_assert_int_eq(config.loss.class_weights, SL_CLASS_WEIGHTS_BALANCED);
    ck_assert_uint_eq(config.loss.n_class_weights, 0);
    ck_assert_uint_eq(config.optimizer.step_epochs, 5);
    ck_assert(config.optimizer.gamma == 0.5);
    parse("{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\", \"self_loops\": false,"
          "   \"degrees\": \"block\"}}");
    ck_assert(!config.model.self_loops);
    ck_assert_int_eq(config.model.degrees, SL_DEGREES_BLOCK);
}

TEST(attention_is_dropped_like_the_rest_unless_it_is_said)
{
    parse("{\"dataset\": \"d\", \"model\": {\"kind\": \"gat\", \"dropout\": 0.25}}");
    ck_assert(config.model.attention_dropout == 0.25);
    parse("{\"dataset\": \"d\", \"model\": {\"kind\": \"gat\", \"dropout\": 0.25,"
          " \"attention_dropout\": 0}}");
    ck_assert(config.model.attention_dropout == 0);
}

TEST(left_out_keys_have_their_defaults)
{
    parse(MINIMAL);
    ck_assert_str_eq(config.name, "little");
    ck_assert_str_eq(config.output, "runs/little");
    ck_assert_int_eq(config.model.kind, SL_MODEL_GCN);
    ck_assert_uint_eq(config.model.layers, 3);
    ck_assert_uint_eq(config.model.hidden, 256);
    ck_assert(config.model.dropout == 0.5 && config.model.input_dropout == 0);
    ck_assert_uint_eq(config.sampler.n_fanout, 3);
    ck_assert_int_eq(config.sampler.fanout[0], 15);
    ck_assert_int_eq(config.sampler.fanout[1], 10);
    ck_assert_int_eq(config.sampler.fanout[2], 5);
    ck_assert_uint_eq(config.sampler.batch_size, 1024);
    ck_assert_int_eq(config.optimizer.kind, SL_OPTIMIZER_ADAM);
    ck_assert(config.optimizer.lr == 0.003 && config.optimizer.weight_decay == 0);
    ck_assert(config.optimizer.beta1 == 0.9 && config.optimizer.beta2 == 0.999);
    ck_assert(config.optimizer.eps == 1e-8 && config.optimizer.momentum == 0);
    ck_assert_int_eq(config.updates.mode, SL_UPDATE_ORDERED);
    ck_assert_uint_eq(config.updates.batches_per_update, 1);
    ck_assert_uint_eq(config.updates.staleness, 4);
    ck_assert_int_eq(config.cache.policy, SL_CACHE_AUTO);
    ck_assert_uint_eq(config.cache.presample_epochs, 1);
    ck_assert(config.cache.ratio_auto && config.cache.ratio == 0);
    ck_assert(!config.cache.report_optimal);
    ck_assert_int_eq(config.sampler.kind, SL_SAMPLER_KHOP);
    ck_assert_uint_eq(config.sampler.paths, 10);
    ck_assert_uint_eq(config.sampler.length, 3);
    ck_assert(config.sampler.restart == 0.5);
    ck_assert(config.devices_auto);
    ck_assert(config.allocation.samplers_auto && config.allocation.trainers_auto);
    ck_assert(config.allocation.switching);
    ck_assert_uint_eq(config.n_schedule, 0);
    ck_assert(config.throttle.sample == 0 && config.throttle.train == 0);
    ck_assert(config.throttle.standby == 0);
    ck_assert_uint_eq(config.arena_bytes, 0);
    ck_assert(config.epochs_auto && config.epochs == 0);
    ck_assert_uint_eq(config.seed, 0);
    ck_assert_int_eq(config.precision, SL_CONFIG_PRECISION_AUTO);
    ck_assert(!config.digest);
    ck_assert(config.evaluate.every == 1);
    ck_assert(config.evaluate.full);
    ck_assert_uint_eq(config.evaluate.batch_size, 1024);
    ck_assert_int_eq(config.evaluate.metric, SL_METRIC_AUTO);
    ck_assert_int_eq(config.evaluate.test, SL_TEST_FINAL);
    ck_assert_int_eq(config.model.activation, SL_CONFIG_RELU);
    ck_assert_int_eq(config.model.norm, SL_NORM_NONE);
    ck_assert_int_eq(config.model.jumping, SL_JUMPING_NONE);
    ck_assert_int_eq(config.model.degrees, SL_DEGREES_GRAPH);
    ck_assert(config.model.self_loops);
    ck_assert_str_eq(config.model.weights, "");
    ck_assert_int_eq(config.loss.class_weights, SL_CLASS_WEIGHTS_NONE);
    ck_assert_int_eq(config.optimizer.schedule, SL_LR_CONSTANT);
    ck_assert_int_eq(config.optimizer.decay_on, SL_DECAY_ALL);
    ck_assert(config.optimizer.clip_norm == 0 && config.optimizer.warmup_epochs == 0);
    ck_assert(config.early_stopping.patience_auto && config.early_stopping.patience == 0);
    ck_assert_uint_eq(config.checkpoint.every_updates, 0);
    ck_assert(config.checkpoint.every_seconds == 300);
    ck_assert_uint_eq(config.checkpoint.keep, 2);
}

TEST(the_name_decides_the_run_directory)
{
    parse("{\"name\": \"abc\", \"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"}}");
    ck_assert_str_eq(config.output, "runs/abc");
}

TEST(auto_devices_are_the_physical_cores)
{
    struct sl_cores physical;
    ck_assert_int_eq(sl_cores_physical(&physical), SL_OK);
    sl_cores_keep_quota(&physical, sl_cores_quota());
    parse(FIXED);
    uint32_t cores = 0, n = sl_cores_count(&physical);
    for (uint32_t d = 0; d < config.n_devices; d++) {
        ck_assert_int_eq(config.devices[d].kind, SL_DEVICE_CPU);
        for (uint32_t i = 0; i < config.devices[d].n_cores; i++, cores++)
            ck_assert(sl_cores_has(&physical, config.devices[d].cores[i]));
    }
    ck_assert_uint_eq(cores, n);

    // A pool: all of them on each device, of which there are enough for a sampler and a trainer of
    // each core, whatever an update lets work at once.
    parse(MINIMAL);
    ck_assert_int_eq(config.allocation.cores, SL_CORES_POOL);
    ck_assert_uint_eq(config.n_devices, SL_MIN(2 * n, (uint32_t)SL_CONFIG_MAX_DEVICES));
    for (uint32_t d = 0; d < config.n_devices; d++) {
        ck_assert_int_eq(config.devices[d].kind, SL_DEVICE_CPU);
        ck_assert_uint_eq(config.devices[d].n_cores, n);
    }
}

// The process on one core: "auto" is one device.
static void use_one_core(uint16_t *core)
{
    struct sl_cores allowed;
    uint16_t cores[SL_CORES_MAX];
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    uint32_t n = sl_cores_list(&allowed, cores, SL_CORES_MAX);
    *core = cores[n - 1];
    ck_assert_int_eq(sl_device_pin(core, 1), SL_OK);
}

TEST(auto_devices_stay_inside_the_affinity)
{
    uint16_t core;
    use_one_core(&core);
    parse(FIXED);
    ck_assert_uint_eq(config.n_devices, 1);
    ck_assert_uint_eq(config.devices[0].n_cores, 1);
    ck_assert_uint_eq(config.devices[0].cores[0], core);
    ck_assert_uint_eq(config.allocation.samplers, 1);
    ck_assert_uint_eq(config.allocation.trainers, 0);
    parse(MINIMAL);
    ck_assert_uint_eq(config.n_devices, 2);
    ck_assert_uint_eq(config.devices[1].cores[0], core);
    ck_assert_uint_eq(config.allocation.trainers, 1);
}

// Who lists cores may give them to the broker too; who says something of switching has devices.
TEST(which_cores_are_a_pool)
{
    uint16_t core;
    char text[512];
    use_one_core(&core);
    snprintf(text, sizeof text,
             "{\"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"},"
             " \"devices\": [{\"kind\": \"cpu\", \"cores\": \"%u\"}]",
             core);
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "}");
    parse(text);
    ck_assert_int_eq(config.allocation.cores, SL_CORES_FIXED);
    snprintf(text + n, sizeof text - n,
             ", \"allocation\": {\"cores\": \"pool\"},"
             " \"updates\": {\"batches_per_update\": 8}}");
    parse(text);
    ck_assert_int_eq(config.allocation.cores, SL_CORES_POOL);
    ck_assert_uint_eq(config.n_devices, 2);
    parse("{\"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"},"
          " \"allocation\": {\"switching\": true}}");
    ck_assert_int_eq(config.allocation.cores, SL_CORES_FIXED);
}

TEST(a_worker_runs_on_the_cores_of_its_device)
{
    parse(MINIMAL);
    uint32_t n = config.n_devices;
    struct sl_device_config last = config.devices[n - 1];
    int rc = sl_config_take_device(MINIMAL, strlen(MINIMAL), n, "trainer 3", &config);
    ck_assert_int_eq(rc, SL_EINVAL);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "trainer 3: device %u of a job with %u", n, n);
    assert_message_has(wanted);
    rc = sl_config_take_device(MINIMAL, strlen(MINIMAL), n - 1, "trainer 3", &config);
    ck_assert_int_eq(rc, SL_OK);
    ck_assert_str_eq(config.dataset, "data/x");
    struct sl_cores own;
    ck_assert_int_eq(sl_cores_allowed(&own), SL_OK);
    ck_assert_uint_eq(sl_cores_count(&own), last.n_cores);
    for (uint32_t i = 0; i < last.n_cores; i++)
        ck_assert(sl_cores_has(&own, last.cores[i]));
}

// What a job on one core asks for, and the devices and the split that it gets.
static const struct {
    const char *rest;
    uint32_t devices, samplers, trainers;
} one_core[] = {
    {"\"allocation\": {\"switching\": false}", 2, 1, 1},
    {"\"allocation\": {\"samplers\": 1, \"cores\": \"fixed\"}", 1, 1, 0},
    {"\"allocation\": {\"samplers\": 1}", 2, 1, 1},
    {"\"allocation\": {\"samplers\": 1, \"switching\": false}", 2, 1, 1},
    {"\"allocation\": {\"trainers\": 1}", 2, 1, 1},
    {"\"allocation\": {\"samplers\": 3}", 4, 3, 1},
    {"\"allocation\": {\"samplers\": 3, \"trainers\": 5}", 8, 3, 5},
    {"\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 1}]", 2, 1, 1},
    {"\"schedule\": [{\"epoch\": 1, \"samplers\": 2, \"trainers\": 6},"
     "              {\"epoch\": 2, \"samplers\": 1, \"trainers\": 2}],"
     "\"allocation\": {\"cores\": \"fixed\"}",
     8, 2, 6},
    {"\"allocation\": {\"samplers\": 2, \"trainers\": 1},"
     "\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 4}]",
     5, 2, 1},
    {"\"allocation\": {\"trainers\": 2, \"cores\": \"fixed\"},"
     "\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 4}]",
     5, 3, 2},
    {"\"allocation\": {\"trainers\": 2},"
     "\"schedule\": [{\"epoch\": 1, \"samplers\": 1, \"trainers\": 4}]",
     5, 1, 2},
};

LOOP_TEST(auto_devices_use_a_core_again_when_the_split_needs_more, 0,
          sizeof one_core / sizeof one_core[0])
{
    char text[512];
    uint16_t core;
    use_one_core(&core);
    snprintf(text, sizeof text, "{\"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"}, %s}",
             one_core[_i].rest);
    parse(text);
    ck_assert_uint_eq(config.n_devices, one_core[_i].devices);
    ck_assert_uint_eq(config.allocation.samplers, one_core[_i].samplers);
    ck_assert_uint_eq(config.allocation.trainers, one_core[_i].trainers);
    for (uint32_t d = 0; d < config.n_devices; d++) {
        ck_assert_uint_eq(config.devices[d].n_cores, 1);
        ck_assert_uint_eq(config.devices[d].cores[0], core);
        ck_assert_uint_eq(config.devices[d].memory_bytes, 0);
    }
}

TEST(auto_devices_use_all_cores_in_turn)
{
    struct sl_cores physical;
    uint16_t cores[SL_CORES_MAX];
    ck_assert_int_eq(sl_cores_physical(&physical), SL_OK);
    sl_cores_keep_quota(&physical, sl_cores_quota());
    uint32_t n = sl_cores_list(&physical, cores, SL_CORES_MAX);
    if (n > 32) {
        printf("SKIP: %u cores are enough for 64 devices of one or more\n", n);
        return;
    }
    parse("{\"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"},"
          " \"allocation\": {\"samplers\": 20, \"trainers\": 44, \"cores\": \"fixed\"}}");
    ck_assert_uint_eq(config.n_devices, 64);
    for (uint32_t d = 0; d < config.n_devices; d++)
        ck_assert_uint_eq(config.devices[d].cores[0], cores[d % n]);
}

// cores, and the devices and cores of the first and the last device that they make
static const struct {
    uint32_t cores, devices, first, last;
} groups[] = {
    {1, 1, 1, 1},   {64, 64, 1, 1},  {65, 33, 2, 1},
    {96, 48, 2, 2}, {129, 43, 3, 3}, {1024, 64, 16, 16},
};

LOOP_TEST(many_cores_share_devices_evenly, 0, sizeof groups / sizeof groups[0])
{
    struct sl_cores set = {0};
    for (uint32_t core = 0; core < groups[_i].cores; core++)
        sl_cores_add(&set, core);
    memset(&config, 0, sizeof config);
    sl_config_group_cores(&set, &config);
    ck_assert_uint_eq(config.n_devices, groups[_i].devices);
    ck_assert_uint_eq(config.devices[0].n_cores, groups[_i].first);
    ck_assert_uint_eq(config.devices[config.n_devices - 1].n_cores, groups[_i].last);
    uint32_t next = 0;
    for (uint32_t d = 0; d < config.n_devices; d++)
        for (uint32_t i = 0; i < config.devices[d].n_cores; i++)
            ck_assert_uint_eq(config.devices[d].cores[i], next++);
    ck_assert_uint_eq(next, groups[_i].cores);
}

// samplers, trainers given (0: auto) for devices on one core, and what they become
static const struct {
    uint32_t devices, samplers, trainers, want_samplers, want_trainers;
} splits[] = {
    {8, 0, 0, 2, 6}, {8, 3, 0, 3, 5}, {8, 0, 5, 3, 5}, {8, 7, 0, 7, 1},    {8, 0, 7, 1, 7},
    {8, 2, 3, 2, 3}, {8, 4, 4, 4, 4}, {8, 1, 0, 1, 7}, {1, 0, 0, 1, 0},    {1, 1, 0, 1, 0},
    {2, 0, 0, 1, 1}, {2, 0, 1, 1, 1}, {3, 0, 0, 1, 2}, {64, 0, 0, 16, 48},
};

LOOP_TEST(auto_split_uses_every_device, 0, sizeof splits / sizeof splits[0])
{
    char text[8192], part[96];
    strcpy(text, "{\"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"}, \"devices\": [");
    for (uint32_t i = 0; i < splits[_i].devices; i++)
        strcat(text,
               i ? ",{\"kind\":\"cpu\",\"cores\":\"0\"}" : "{\"kind\":\"cpu\",\"cores\":\"0\"}");
    strcat(text, "], \"allocation\": {");
    if (splits[_i].samplers) {
        snprintf(part, sizeof part, "\"samplers\": %u", splits[_i].samplers);
        strcat(text, part);
    }
    if (splits[_i].trainers) {
        snprintf(part, sizeof part, "%s\"trainers\": %u", splits[_i].samplers ? "," : "",
                 splits[_i].trainers);
        strcat(text, part);
    }
    strcat(text, "}}");
    parse(text);
    ck_assert_uint_eq(config.allocation.samplers, splits[_i].want_samplers);
    ck_assert_uint_eq(config.allocation.trainers, splits[_i].want_trainers);
}

// Devices from the first, whether CPU or GPU; who trains; what is asked for; what it is.
static const struct {
    const char *devices, *allocation, *precision;
    enum sl_precision_kind used;
    bool cores, gpus; // train
} precisions[] = {
    {"CC", "", "auto", SL_CONFIG_FP32, true, false},
    {"G", "", "auto", SL_CONFIG_TF32, false, true},
    {"CG", "", "auto", SL_CONFIG_TF32, false, true}, // cores sample
    {"CGG", "\"samplers\": 2, \"trainers\": 1", "auto", SL_CONFIG_TF32, false, true},
    {"CCG", "\"samplers\": 1, \"trainers\": 2", "auto", SL_CONFIG_FP32, true, true},
    {"GC", "\"samplers\": 1, \"trainers\": 1", "auto", SL_CONFIG_FP32, true, false},
    {"CCG",
     "\"samplers\": 2, \"trainers\": 1}, \"schedule\": [{\"epoch\": 1, \"samplers\": 1, "
     "\"trainers\": 2}], \"updates\": {\"batches_per_update\": 2",
     "auto", SL_CONFIG_FP32, true, true},
    {"G", "", "fp32", SL_CONFIG_FP32, false, true},
    {"G", "", "bf16", SL_CONFIG_BF16, false, true},
    {"CC", "", "bf16", SL_CONFIG_BF16, true, false},
    {"CC", "", "tf32", SL_CONFIG_FP32, true, false},
    {"CCG", "\"samplers\": 1, \"trainers\": 2", "tf32", SL_CONFIG_TF32, true, true},
};

LOOP_TEST(precision_is_that_of_the_devices_that_train, 0, SL_COUNT_OF(precisions))
{
    char text[1024], list[512] = "";
    for (const char *d = precisions[_i].devices; *d; d++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s{\"kind\": %s}",
                 *list ? ", " : "",
                 *d == 'C' ? "\"cpu\", \"cores\": 0" : "\"cuda\", \"index\": 0, \"cores\": 0");
    snprintf(text, sizeof text,
             "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"epochs\": 3,"
             " \"precision\": \"%s\", \"devices\": [%s], \"allocation\": {%s}}",
             precisions[_i].precision, list, precisions[_i].allocation);
    parse(text);
    ck_assert_int_eq(sl_config_precision(&config), precisions[_i].used);
    ck_assert_int_eq(sl_config_trains_on(&config, SL_DEVICE_CPU), precisions[_i].cores);
    ck_assert_int_eq(sl_config_trains_on(&config, SL_DEVICE_CUDA), precisions[_i].gpus);
}

// A word of the job file, and the value it stands for.
static const struct {
    const char *key, *word;
    size_t offset;
    unsigned value;
} words[] = {
    {"sampler\": {\"kind", "khop", offsetof(struct sl_config, sampler.kind), SL_SAMPLER_KHOP},
    {"sampler\": {\"kind", "weighted", offsetof(struct sl_config, sampler.kind),
     SL_SAMPLER_WEIGHTED},
    {"sampler\": {\"kind", "walk", offsetof(struct sl_config, sampler.kind), SL_SAMPLER_WALK},
    {"optimizer\": {\"kind", "adamw", offsetof(struct sl_config, optimizer.kind),
     SL_OPTIMIZER_ADAMW},
    {"evaluate\": {\"metric", "roc_auc", offsetof(struct sl_config, evaluate.metric),
     SL_METRIC_ROC_AUC},
    {"evaluate\": {\"metric", "loss", offsetof(struct sl_config, evaluate.metric), SL_METRIC_LOSS},
    {"evaluate\": {\"metric", "accuracy", offsetof(struct sl_config, evaluate.metric),
     SL_METRIC_ACCURACY},
    {"updates\": {\"mode", "ordered", offsetof(struct sl_config, updates.mode), SL_UPDATE_ORDERED},
    {"updates\": {\"mode", "async", offsetof(struct sl_config, updates.mode), SL_UPDATE_ASYNC},
    {"cache\": {\"policy", "none", offsetof(struct sl_config, cache.policy), SL_CACHE_NONE},
    {"cache\": {\"policy", "random", offsetof(struct sl_config, cache.policy), SL_CACHE_RANDOM},
    {"cache\": {\"policy", "degree", offsetof(struct sl_config, cache.policy), SL_CACHE_DEGREE},
    {"cache\": {\"policy", "expected", offsetof(struct sl_config, cache.policy), SL_CACHE_EXPECTED},
    {"cache\": {\"policy", "presc", offsetof(struct sl_config, cache.policy), SL_CACHE_PRESC},
    {"cache\": {\"policy", "optimal", offsetof(struct sl_config, cache.policy), SL_CACHE_OPTIMAL},
    {"cache\": {\"policy", "auto", offsetof(struct sl_config, cache.policy), SL_CACHE_AUTO},
};

LOOP_TEST(a_word_chooses_its_value, 0, sizeof words / sizeof words[0])
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"}, \"%s\": \"%s\"}}", words[_i].key,
             words[_i].word);
    parse(text);
    unsigned value;
    memcpy(&value, (const char *)&config + words[_i].offset, sizeof value);
    ck_assert_uint_eq(value, words[_i].value);
}

// A sampler for four cores, room for one on each, and beside them the seats, which have all cores;
// what training would want is not there. The resolved text says the same.
TEST(a_job_for_external_trainers_has_no_training_of_its_own)
{
    struct sl_cores physical;
    ck_assert_int_eq(sl_cores_physical(&physical), SL_OK);
    sl_cores_keep_quota(&physical, sl_cores_quota());
    const uint32_t n = sl_cores_count(&physical);
    parse("{\"dataset\": \"d\", \"model\": {\"kind\": \"external\"},"
          " \"sampler\": {\"fanout\": [15, 10]}, \"input\": {\"split\": \"all\"},"
          " \"order\": {\"kind\": \"listed\"},"
          " \"allocation\": {\"trainers\": 2, \"balance\": \"dynamic\"}}");
    for (int again = 0; again < 2; again++) {
        ck_assert(sl_config_is_external(&config) && sl_config_is_endless(&config));
        ck_assert_uint_eq(config.epochs, SL_CONFIG_MAX_EPOCHS);
        ck_assert_uint_eq(config.model.layers, 2);
        ck_assert_int_eq(config.input.split, SL_INPUT_ALL);
        ck_assert_int_eq(config.order.kind, SL_ORDER_LISTED);
        ck_assert_int_eq(config.allocation.balance, SL_BALANCE_DYNAMIC);
        ck_assert_uint_eq(config.allocation.samplers, SL_MAX(n / 4, 1u));
        ck_assert_uint_eq(config.allocation.trainers, 2);
        ck_assert_uint_eq(config.n_devices, n + 2);
        ck_assert_uint_eq(config.devices[n - 1].n_cores, 1);
        ck_assert_uint_eq(config.devices[n + 1].n_cores, n);
        ck_assert(!sl_config_is_pool(&config) && !config.allocation.switching);
        ck_assert(config.checkpoint.every_updates == 0 && config.checkpoint.every_seconds == 0);
        char *text = sl_config_to_json(&config);
        ck_assert_ptr_null(strstr(text, "optimizer"));
        parse(text);
        free(text);
    }
}

TEST(samplers_of_a_job_for_external_trainers_leave_room_for_more)
{
    parse("{\"dataset\": \"d\", \"model\": {\"kind\": \"external\", \"layers\": 3},"
          " \"allocation\": {\"samplers\": 1}, \"epochs\": 7}");
    ck_assert(!sl_config_is_endless(&config));
    ck_assert_uint_eq(config.epochs, 7);
    ck_assert_uint_eq(config.allocation.samplers, 1);
    ck_assert_uint_eq(config.allocation.trainers, 1);
    struct sl_cores physical;
    ck_assert_int_eq(sl_cores_physical(&physical), SL_OK);
    sl_cores_keep_quota(&physical, sl_cores_quota());
    ck_assert_uint_eq(config.n_devices, sl_cores_count(&physical) + 1); // scale may use them all
}

TEST(async_makes_an_update_of_each_batch)
{
    parse("{\"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"},"
          " \"updates\": {\"mode\": \"async\", \"staleness\": 0}}");
    ck_assert_uint_eq(config.updates.batches_per_update, 1);
    ck_assert_uint_eq(config.updates.staleness, 0);
}

TEST(the_bounds_themselves_are_allowed)
{
    parse("{\"dataset\": \"x\", \"model\": {\"kind\": \"gcn\"}, \"epochs\": 2,"
          " \"sampler\": {\"kind\": \"walk\", \"paths\": 1, \"length\": 1, \"restart\": 0},"
          " \"updates\": {\"mode\": \"async\", \"staleness\": 1024},"
          " \"cache\": {\"policy\": \"presc\", \"presample_epochs\": 1, \"ratio\": 1},"
          " \"schedule\": [], \"throttle\": {\"sample\": 10, \"train\": 0}}");
    ck_assert_uint_eq(config.sampler.paths, 1);
    ck_assert(config.sampler.restart == 0);
    ck_assert_uint_eq(config.updates.staleness, 1024);
    ck_assert(config.cache.ratio == 1 && !config.cache.ratio_auto);
    ck_assert_uint_eq(config.n_schedule, 0);
}

TEST(a_file_is_read_and_names_the_job)
{
    write_job(MINIMAL "\n", strlen(MINIMAL) + 1);
    ck_assert_msg(sl_config_load(path(), NULL, 0, &config) == SL_OK, "%s", sl_error_message());
    ck_assert_str_eq(config.name, "little");
}

TEST(a_byte_order_mark_is_no_fault)
{
    write_job("\xEF\xBB\xBF" MINIMAL, strlen(MINIMAL) + 3);
    ck_assert_msg(sl_config_load(path(), NULL, 0, &config) == SL_OK, "%s", sl_error_message());
}

TEST(a_text_need_not_end_in_a_nul)
{
    size_t n = strlen(MINIMAL);
    char *text = malloc(n); // exactly: reading past it is an error that a sanitizer sees
    memcpy(text, MINIMAL, n);
    ck_assert_int_eq(sl_config_parse(text, n, "x", &config), SL_OK);
    free(text);
}

TEST(a_missing_file_is_named)
{
    ck_assert_int_eq(sl_config_load(path(), NULL, 0, &config), SL_ENOENT);
    assert_message_has(path());
    assert_message_has("no such job file");
}

TEST(a_directory_is_no_job)
{
    ck_assert_int_eq(sl_config_load(dir, NULL, 0, &config), SL_EINVAL);
    assert_message_has(dir);
    assert_message_has("found a directory");
}

TEST(an_unreadable_file_is_named)
{
    write_job(MINIMAL, strlen(MINIMAL));
    ck_assert_int_eq(chmod(path(), 0), 0);
    bool root = geteuid() == 0; // whom modes do not stop: be nobody for the moment
    if (root && seteuid(65534) != 0) {
        printf("SKIP: cannot give up root\n");
        return;
    }
    int rc = sl_config_load(path(), NULL, 0, &config);
    if (root)
        ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(rc, SL_EACCESS);
    assert_message_has(path());
    assert_message_has("no permission");
}

TEST(an_empty_file_is_said_to_be_empty)
{
    write_job(" \n\t", 3);
    ck_assert_int_eq(sl_config_load(path(), NULL, 0, &config), SL_EFORMAT);
    assert_message_has("the file is empty");
}

TEST(a_huge_file_is_refused)
{
    size_t n = (1 << 20) + 1;
    char *blank = malloc(n);
    memset(blank, ' ', n);
    memcpy(blank, MINIMAL, strlen(MINIMAL));
    write_job(blank, n);
    ck_assert_int_eq(sl_config_load(path(), NULL, 0, &config), SL_EINVAL);
    assert_message_has("more than 1048576 bytes");
    write_job(blank, n - 1);
    ck_assert_int_eq(sl_config_load(path(), NULL, 0, &config), SL_OK);
    free(blank);
}

TEST(a_file_name_too_long_for_a_name_asks_for_one)
{
    char origin[300];
    memset(origin, 'n', sizeof origin);
    strcpy(origin + 200, ".json");
    ck_assert_int_eq(sl_config_parse(MINIMAL, strlen(MINIMAL), origin, &config), SL_EINVAL);
    assert_message_has("name: missing");
}

TEST(the_words_have_names)
{
    ck_assert_str_eq(sl_model_kind_name(SL_MODEL_GRAPHSAGE), "graphsage");
    ck_assert_str_eq(sl_model_kind_name(SL_MODEL_GCN), "gcn");
    ck_assert_str_eq(sl_model_kind_name((enum sl_model_kind)77), "unknown");
    ck_assert_str_eq(sl_device_kind_name(SL_DEVICE_CPU), "cpu");
    ck_assert_str_eq(sl_device_kind_name(SL_DEVICE_CUDA), "cuda");
}

static const struct {
    const char *keys;
    unsigned need;
} needs[] = {
    {"\"model\": {\"kind\": \"gcn\"}", SL_NEED_TRAINING},
    {"\"model\": {\"kind\": \"gcn\"}, \"sampler\": {\"kind\": \"weighted\"}",
     SL_NEED_TRAINING | SL_NEED_WEIGHTS},
    {"\"model\": {\"kind\": \"graphsage\"}, \"sampler\": {\"time\": \"latest\"},"
     " \"evaluate\": {\"fanout\": [-1, -1, -1]}",
     SL_NEED_TRAINING | SL_NEED_TIMES},
    {"\"model\": {\"kind\": \"rgat\", \"edge_features\": true}",
     SL_NEED_TRAINING | SL_NEED_EDGE_FEATURES},
    {"\"model\": {\"kind\": \"external\"}", SL_NEED_TOPOLOGY | SL_NEED_TRAIN},
    {"\"model\": {\"kind\": \"external\"}, \"input\": {\"split\": \"all\"}", SL_NEED_TOPOLOGY},
    {"\"model\": {\"kind\": \"external\"}, \"sampler\": {\"kind\": \"weighted\"}",
     SL_NEED_TOPOLOGY | SL_NEED_TRAIN | SL_NEED_WEIGHTS},
    {"\"model\": {\"kind\": \"external\"}, \"order\": {\"kind\": \"proximity\"}",
     SL_NEED_TOPOLOGY | SL_NEED_TRAIN | SL_NEED_LABELS},
};

LOOP_TEST(what_a_job_needs_of_its_data_set, 0, SL_COUNT_OF(needs))
{
    char text[256];
    snprintf(text, sizeof text, "{\"dataset\": \"data/x\", %s}", needs[_i].keys);
    parse(text);
    ck_assert_uint_eq(sl_config_needs(&config), needs[_i].need);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 20)
