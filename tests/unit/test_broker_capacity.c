// How large the arena is, and what is said when it does not fit.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include "broker/scheduler/capacity.h"
#include "common/arena/asks.h"

#define GIB ((uint64_t)1 << 30)

static struct sl_config config;
static struct sl_capacity_need need;
static struct sl_arena_spec spec;
static uint64_t acts;

static void setup(void)
{
    memset(&config, 0, sizeof config);
    config.n_devices = 5;
    config.model.layers = 3;
    config.updates.batches_per_update = 4;
    config.optimizer.kind = SL_OPTIMIZER_ADAM;
    config.evaluate.full = true;
    need = (struct sl_capacity_need){.samplers = 2,
                                     .trainers = 3,
                                     .block_bytes_max = 1 << 20,
                                     .n_nodes = 1000,
                                     .n_train = 100,
                                     .n_params = 5000,
                                     .infer_width = 16,
                                     .n_cells = 10};
}

TEST(auto_takes_room_for_everybodys_batches_and_sixteen)
{
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.payload_bytes, (2 * 3 + 2 + 16) << 20);
    ck_assert_uint_eq(spec.n_devices, 5);
    ck_assert_uint_eq(spec.n_cells, 10);
    ck_assert_uint_eq(spec.n_state, 2);
    ck_assert_uint_eq(spec.batches_per_update, 4);
    ck_assert_uint_eq(spec.exchange, 0);
    ck_assert_uint_eq(spec.act_rows, 1000);
    ck_assert_uint_eq(spec.act_width, 16);
}

TEST(trainers_that_sum_themselves_have_a_group)
{
    config.updates.exchange = SL_EXCHANGE_NCCL;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.exchange, 1);
}

TEST(predictions_and_jumping_knowledge_have_their_rows)
{
    need.n_evaluated = 300;
    need.predict_words = 5;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.predict_rows, 300);
    ck_assert_uint_eq(spec.predict_words, 5);
    ck_assert_uint_eq(spec.jumping_width, 0);
    need.jumping_width = 48;
    config.model.layers = 1; // jumping knowledge is gathered of one layer too
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.jumping_width, 48);
    ck_assert_uint_eq(spec.act_rows, 1000);
    config.evaluate.full = false;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.jumping_width, 0);
    ck_assert_uint_eq(spec.predict_rows, 300); // sampled evaluations leave predictions too
}

// Of 1000 rows of 64 bytes others have `elsewhere`; own ones are mapped.
static void plan_rows(uint64_t cache_bytes, uint64_t elsewhere)
{
    config.evaluate.full = false;
    config.store.features = SL_FEATURES_NODES;
    config.store.cache_bytes = cache_bytes;
    config.cache.policy = SL_CACHE_DEGREE;
    need.widths = (struct sl_row_widths){1, {{64, 1000, 1, elsewhere}}};
    need.n_shards = 4;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
}

// Of a graph with types; those of the second width are all here.
TEST(of_a_shard_each_width_has_the_rows_of_others)
{
    plan_rows(1 << 20, 600);
    need.widths = (struct sl_row_widths){2, {{64, 700, 9, 400}, {128, 300, 9, 0}}};
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.rows.width[0].n_slots, 400);
    ck_assert_uint_eq(spec.rows.width[1].n_slots, 1);
    ck_assert_uint_eq(spec.rows.n_slots, 401);
    ck_assert_uint_eq(spec.asks.row_bytes, 128);
}

TEST(of_a_shard_rows_of_others_alone_have_slots)
{
    enum { WORDS = 1000 * 8, SLOT = 64 + 8 };
    plan_rows(WORDS + 900 * SLOT, 600);
    ck_assert_uint_eq(spec.rows.n_slots, 600);
    ck_assert_uint_eq(spec.rows.n_hot, 750); // three quarters of the slots are of ranks below it
    ck_assert_uint_eq(spec.asks.n_slots, 5 * SL_ASKS_A_DEVICE);
    ck_assert_uint_eq(spec.asks.n_nodes, 4);
    ck_assert_uint_eq(spec.asks.max_rows, 1000);
    ck_assert_uint_eq(spec.asks.row_bytes, 64);
    ck_assert_uint_gt(spec.fetch_ahead, 0);
    plan_rows(WORDS + 300 * SLOT, 600);
    ck_assert_uint_eq(spec.rows.n_slots, 300);
    ck_assert_uint_eq(spec.rows.n_hot, 375);
    plan_rows(WORDS + 300 * SLOT, 0); // all are this node's
    ck_assert_uint_eq(spec.rows.n_slots, 1);
    config.store.features = SL_FEATURES_STORAGE; // own ones have slots, too
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.rows.n_slots, 300);
    ck_assert_uint_eq(spec.rows.n_hot, 225);
    ck_assert_uint_eq(spec.asks.n_nodes, 4);
    need.n_shards = 0;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.asks.n_slots, 0);
}

TEST(under_a_bound_activations_leave_room_for_workers)
{
    const uint64_t available = 4 * 4 * 1000 * 2 * 16 - 4; // of which they would take a quarter
    need.block_bytes_max = 1;
    config.arena_bytes = 1 << 20;
    must(sl_capacity_plan(&config, &need, GIB, &spec, &acts));
    ck_assert_uint_eq(acts, 0);
    config.memory_bytes = GIB;
    must(sl_capacity_plan(&config, &need, GIB, &spec, &acts));
    ck_assert_uint_eq(acts, 0);
    config.arena_bytes = 0;
    need.n_nodes = 1000000;
    must(sl_capacity_plan(&config, &need, 1000 * available, &spec, &acts));
    ck_assert_uint_gt(acts, 0);
    config.memory_bytes = 0;
    must(sl_capacity_plan(&config, &need, 1000 * available, &spec, &acts));
    ck_assert_uint_eq(acts, 0);
}

TEST(switching_takes_a_whole_epoch)
{
    config.allocation.switching = true;
    config.sampler.batch_size = 1;
    need.block_bytes_mean = 500000; // eight chunks, and one more for the spread
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.payload_bytes, (100 + 16) * 9 * (64 << 10));
    must(sl_capacity_plan(&config, &need, 64 << 20, &spec, &acts));
    ck_assert_uint_eq(spec.payload_bytes, 16 << 20);
}

TEST(a_cache_needs_ranks_and_visits)
{
    config.cache.policy = SL_CACHE_DEGREE;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.hot_rows, 1000);
    ck_assert_uint_eq(spec.visit_rows, 0);
    config.cache.report_optimal = true;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.visit_rows, 1000);
    config.cache.policy = SL_CACHE_PRESC;
    config.cache.report_optimal = false;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.visit_rows, 1000);
}

// A described graph of so many edges, 16 a vertex, whose features are on the drive.
static void settle(uint64_t edges, uint64_t n_train)
{
    const struct sl_dataset ds = {.n_nodes = edges / 16,
                                  .n_edges = edges,
                                  .feat_dim = 16,
                                  .feat_dtype = SL_DTYPE_F32,
                                  .split = {{.n = n_train}}};
    config.store.features = SL_FEATURES_STORAGE;
    config.sampler.batch_size = 1024;
    config.sampler.n_fanout = 3;
    memcpy(config.sampler.fanout, (int64_t[]){15, 10, 5}, 3 * sizeof(int64_t));
    config.cache.policy = SL_CACHE_AUTO;
    config.cache.presample_epochs = 1;
    sl_capacity_settle_store(&config, &ds, 16 * GIB);
}

TEST(auto_counts_visits_of_jobs_that_sample_few_of_very_many_edges)
{
    config.epochs = 5;
    settle(2300000000, 16 * 1024);
    ck_assert_int_eq(config.cache.policy, SL_CACHE_PRESC);
    ck_assert_uint_eq(config.cache.presample_epochs, 1);
    settle(2300000000, 4096 * 1024); // an epoch samples as many as there are
    ck_assert_int_eq(config.cache.policy, SL_CACHE_EXPECTED);
    config.epochs = 100; // sample enough
    settle(2300000000, 16 * 1024);
    ck_assert_int_eq(config.cache.policy, SL_CACHE_EXPECTED);
    settle(23000000, 16); // a pass takes no time
    ck_assert_int_eq(config.cache.policy, SL_CACHE_EXPECTED);
    config.epochs = 1;
    settle(2300000000, 16 * 1024);
    ck_assert_int_eq(config.cache.policy, SL_CACHE_NONE);
}

// And never all epochs, which a worker that reads it would refuse.
TEST(auto_counts_a_whole_pass)
{
    config.epochs = 40;
    config.order.epochs_per_pass = 20;
    settle(2300000000, 16 * 1024);
    ck_assert_int_eq(config.cache.policy, SL_CACHE_PRESC);
    ck_assert_uint_eq(config.cache.presample_epochs, 20);
    config.epochs = 7;
    settle(2300000000, 16 * 1024);
    ck_assert_uint_eq(config.cache.presample_epochs, 6);
    settle(23000000, 16);
    ck_assert_uint_eq(config.cache.presample_epochs, 1);
}

TEST(auto_counts_more_in_longer_jobs)
{
    static const uint32_t epochs[] = {2, 31, 32, 100, 128, 700}, counted[] = {1, 1, 2, 6, 8, 8};
    for (size_t i = 0; i < SL_COUNT_OF(epochs); i++) {
        config.epochs = epochs[i];
        settle(2300000000, 1024);
        ck_assert_uint_eq(config.cache.presample_epochs, counted[i]);
    }
    config.epochs = 1000; // which is worth a pass
    settle(2300000000, 1024);
    ck_assert_int_eq(config.cache.policy, SL_CACHE_EXPECTED);
    config.epochs = 2;
    config.model.kind = SL_MODEL_EXTERNAL; // nobody knows how many
    config.epochs_auto = true;
    settle(2300000000, 1024);
    ck_assert_int_eq(config.cache.policy, SL_CACHE_EXPECTED);
    ck_assert_uint_eq(config.cache.presample_epochs, 1);
    config.cache.presample_epochs = 5;
    config.cache.policy = SL_CACHE_PRESC; // the job says it
    sl_capacity_settle_store(&config, &(struct sl_dataset){.n_nodes = 1}, GIB);
    ck_assert_uint_eq(config.cache.presample_epochs, 5);
}

// Where the broker, the schedule or the user will have more workers than begin.
TEST(auto_takes_room_for_the_largest_split_that_may_come)
{
    need.batches_most = 40;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.payload_bytes, (40 + 15) << 20);
    ck_assert_uint_eq(sl_capacity_batches(spec.payload_bytes, need.block_bytes_max), 55);
    // It is no reason to refuse a job that begins smaller.
    must(sl_capacity_plan(&config, &need, 48 << 20, &spec, &acts));
    ck_assert_uint_eq(spec.payload_bytes, 12 << 20);
    config.arena_bytes = 9 << 20;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
}

// The size that is named does, and nothing less.
TEST(a_split_that_the_arena_does_not_hold_is_refused_with_the_number)
{
    const struct sl_roles larger = {1, 7};
    unsigned long long size = 0;
    config.arena_bytes = 9 << 20;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    must(
        sl_capacity_check_split(spec.payload_bytes, need.block_bytes_max, (struct sl_roles){2, 3}));
    must(sl_capacity_check_split(spec.payload_bytes, need.block_bytes_max,
                                 (struct sl_roles){6, 0})); // with a standby trainer
    ck_assert_int_eq(sl_capacity_check_split(spec.payload_bytes, need.block_bytes_max, larger),
                     SL_ENOMEM);
    assert_message_has("found 9437184 bytes");
    assert_message_has("1 sampler and 7 trainers hold 16 of them at once");
    const char *advice = strstr(sl_error_message(), "set arena.memory to ");
    ck_assert(advice && sscanf(advice, "set arena.memory to %llu", &size) == 1);
    config.arena_bytes = size;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    must(sl_capacity_check_split(spec.payload_bytes, need.block_bytes_max, larger));
    ck_assert_int_eq(sl_capacity_check_split(spec.payload_bytes - 1, need.block_bytes_max, larger),
                     SL_ENOMEM);
}

TEST(auto_takes_at_most_a_quarter_of_what_is_there)
{
    must(sl_capacity_plan(&config, &need, 48 << 20, &spec, &acts));
    ck_assert_uint_eq(spec.payload_bytes, 12 << 20);
}

TEST(a_given_size_is_taken)
{
    config.arena_bytes = 9 << 20;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.payload_bytes, 9 << 20);
    config.arena_bytes = 4 * GIB;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.payload_bytes, 4 * GIB);
}

TEST(less_than_the_workers_hold_is_refused_with_the_number)
{
    config.arena_bytes = (9 << 20) - 1;
    ck_assert_int_eq(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts), SL_ENOMEM);
    assert_message_has("arena.memory: found 9437183 bytes");
    assert_message_has("wanted at least 9437184 bytes");
    assert_message_has("set arena.memory to 9437184");
}

TEST(auto_without_memory_is_refused_with_the_number)
{
    ck_assert_int_eq(sl_capacity_plan(&config, &need, 35 << 20, &spec, &acts), SL_ENOMEM);
    assert_message_has("a quarter of the memory");
    assert_message_has("wanted at least 9437184 bytes");
}

TEST(blocks_count_in_whole_chunks)
{
    need.block_bytes_max = SL_ARENA_CHUNK_BYTES + 1;
    config.arena_bytes = 9 * 2 * SL_ARENA_CHUNK_BYTES - 1;
    ck_assert_int_eq(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts), SL_ENOMEM);
    config.arena_bytes++;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
}

TEST(a_given_size_beyond_the_machine_is_refused)
{
    config.arena_bytes = 32 * GIB;
    ck_assert_int_eq(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts), SL_ENOMEM);
    assert_message_has("arena needs");
    assert_message_has("set arena.memory to at most");
}

TEST(activations_beyond_the_machine_lie_in_a_file)
{
    need.n_nodes = 111059956;
    need.infer_width = 256;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.act_rows, 111059956);
    ck_assert_uint_ge(acts, UINT64_C(2) * 4 * 256 * 111059956);
    ck_assert_uint_lt(acts, UINT64_C(2) * 4 * 256 * 111059956 + 10000);
    ck_assert_uint_lt(sl_arena_layout(&spec, NULL) - acts, GIB);
    must(sl_capacity_plan(&config, &need, 300 * GIB, &spec, &acts));
    ck_assert_uint_eq(acts, 0);
    config.activations = SL_ACTIVATIONS_FILE;
    must(sl_capacity_plan(&config, &need, 300 * GIB, &spec, &acts));
    ck_assert_uint_gt(acts, 200 * GIB);
    config.evaluate.full = false;
    must(sl_capacity_plan(&config, &need, 300 * GIB, &spec, &acts));
    ck_assert_uint_eq(acts, 0);
}

TEST(activations_beyond_the_machine_are_blamed)
{
    config.activations = SL_ACTIVATIONS_MEMORY;
    need.n_nodes = 111059956;
    need.infer_width = 256;
    ck_assert_int_eq(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts), SL_ENOMEM);
    assert_message_has("111059956 vertices of 256 activations");
    assert_message_has("evaluate.fanout");
    assert_message_has("arena.activations");
    config.evaluate.full = false;
    must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
    ck_assert_uint_eq(spec.act_rows, 0);
}

TEST(one_layer_needs_no_activations_and_two_those_of_one)
{
    struct sl_arena_header layout;
    static const uint64_t rows[] = {0, 1000, 1000, 1000}, banks[] = {0, 1, 2, 2};
    for (uint32_t i = 0; i < SL_COUNT_OF(rows); i++) {
        config.model.layers = i + 1;
        must(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts));
        ck_assert_uint_eq(spec.act_rows, rows[i]);
        ck_assert_uint_eq(spec.act_banks, banks[i]);
        sl_arena_layout(&spec, &layout);
        // 1000 rows of 16 floats are 16 pages of 4 KiB, not quite.
        ck_assert_uint_eq(layout.region[SL_REGION_ACTS].bytes, banks[i] << 16);
    }
}

TEST(absurd_sizes_do_not_wrap_around)
{
    need.block_bytes_max = UINT64_MAX / 2;
    ck_assert_int_eq(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts), SL_ENOMEM);
    need.block_bytes_max = 1000;
    need.n_nodes = UINT64_MAX / 4;
    ck_assert_int_eq(sl_capacity_plan(&config, &need, 16 * GIB, &spec, &acts), SL_ENOMEM);
}

TEST(features_are_copied_for_gpus_where_memory_allows)
{
    const struct sl_shard_inputs allows = {.gpus = true,
                                           .feature_bytes = 4 * GIB,
                                           .available_bytes = 8 * GIB,
                                           .spare_bytes = UINT64_MAX};
    struct sl_shard_inputs q = allows;
    config.store.features = SL_FEATURES_MEMORY;
    ck_assert_int_eq(sl_capacity_store_way(&config, &q), SL_STORE_WAY_COPY);
    q.available_bytes--;
    ck_assert_int_eq(sl_capacity_store_way(&config, &q), SL_STORE_WAY_LARGE);
    q.cached = true;
    ck_assert_int_eq(sl_capacity_store_way(&config, &q), SL_STORE_WAY_CACHED);
    q.types = true;
    ck_assert_int_eq(sl_capacity_store_way(&config, &q), SL_STORE_WAY_TYPES);
    q = allows;
    q.gpus = false;
    ck_assert_int_eq(sl_capacity_store_way(&config, &q), SL_STORE_WAY_NONE);
    q = allows;
    config.memory_bytes = 100 * GIB;
    q.spare_bytes = 8 * GIB;
    ck_assert_int_eq(sl_capacity_store_way(&config, &q), SL_STORE_WAY_COPY);
    q.spare_bytes--;
    ck_assert_int_eq(sl_capacity_store_way(&config, &q), SL_STORE_WAY_BOUND);
    config.store.features = SL_FEATURES_STORAGE;
    ck_assert_int_eq(sl_capacity_store_way(&config, &q), SL_STORE_WAY_DRIVE);
}

RUN_TESTS(.setup = setup, .timeout_s = 10)
