// Checkpoints on the disk: what is written comes back, and nothing that was damaged is believed.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include "broker/rundir/checkpoint.h"

enum { N = 6 };

static struct sl_params params;
static struct sl_snapshot snapshot;
static struct sl_checkpoint_content content;
static float values[N], state[2][N], best[N];
static struct sl_cell_record records[3];

// Asynchronous, so any set of batches may be done.
static const char config_json[] = "{\"epochs\": 9, \"digest\": true, \"devices\": [{}, {}, {}, {}],"
                                  " \"updates\": {\"mode\": \"async\", \"batches_per_update\": 4}}";
static const char history_json[] =
    "{\"epochs\": [{\"epoch\": 0, \"loss\": 0.3}, {\"epoch\": 1}, {\"epoch\": 2},"
    " {\"epoch\": 3}, {\"epoch\": 4}]}";

// A matrix, a running statistic and a counter.
static void make_params(void)
{
    static Sl__Control__Hello hello;
    static Sl__Control__Tensor tensors[3];
    static Sl__Control__Tensor *list[3] = {&tensors[0], &tensors[1], &tensors[2]};
    static uint64_t shapes[2][2] = {{2, 2}, {2}};
    sl__control__hello__init(&hello);
    for (int i = 0; i < 3; i++)
        sl__control__tensor__init(&tensors[i]);
    tensors[0].name = "convs.0.lin.weight";
    tensors[0].shape = shapes[0];
    tensors[0].n_shape = 2;
    tensors[1].name = "norms.0.module.running_mean";
    tensors[1].shape = shapes[1];
    tensors[1].n_shape = 1;
    tensors[1].role = SL_PARAM_RUNNING;
    tensors[2].name = "norms.0.module.num_batches_tracked";
    tensors[2].role = SL_PARAM_COUNTER;
    hello.tensors = list;
    hello.n_tensors = 3;
    must(sl_params_from_hello(&params, &hello));
    ck_assert_uint_eq(params.n, N);
}

static void setup(void)
{
    dir_begin();
    make_params();
    for (int i = 0; i < N; i++) {
        values[i] = (float)i + 0.1f;
        // Only learned tensors have an optimizer's state.
        state[0][i] = i < 4 ? (float)i * 2 : 0;
        state[1][i] = i < 4 ? (float)i * 3 : 0;
        best[i] = -(float)i;
    }
    for (uint32_t i = 0; i < 3; i++)
        records[i] = (struct sl_cell_record){.cell = 2 * i, .digest = ~0ull - i, .loss = 0.1 * i};
    snapshot = (struct sl_snapshot){.version = 43,
                                    .epoch = 5,
                                    .n_batches = 8,
                                    .n_records = 3,
                                    .records = records,
                                    .n_params = N,
                                    .params = values,
                                    .n_state = 2,
                                    .state = {state[0], state[1]},
                                    .best = {true, 3, 1.0 / 3, 0.1, 2, SL_MEASURE_MACRO_F1},
                                    .best_params = best,
                                    .has_digest = true};
    for (int i = 0; i < SL_PHASES_DIGEST_BYTES; i++)
        snapshot.digest[i] = (uint8_t)(250 + i);
    content = (struct sl_checkpoint_content){.snapshot = &snapshot,
                                             .params = &params,
                                             .job = "test",
                                             .status = "running",
                                             .config_json = config_json,
                                             .epochs = 9,
                                             .dataset_digest = 0xfedcba9876543210ull,
                                             .history_json = history_json,
                                             .samplers = 1,
                                             .trainers = 3,
                                             .seconds = 12.5};
}

static void write_version(uint64_t version, uint32_t keep)
{
    snapshot.version = version;
    must(sl_checkpoint_write(dir, &content, keep));
}

TEST(what_is_written_comes_back)
{
    struct sl_checkpoint c;
    float p[N], s[2][N], b[N];
    write_version(43, 2);
    must(sl_checkpoint_open(dir, "000000000043", &c));
    ck_assert_uint_eq(c.version, 43);
    ck_assert_uint_eq(c.epoch, 5);
    ck_assert_uint_eq(c.epochs, 9);
    ck_assert_uint_eq(c.n_batches, 8);
    ck_assert_uint_eq(c.n_records, 3);
    ck_assert_int_eq(memcmp(c.records, records, sizeof records), 0);
    ck_assert_uint_eq(c.dataset_digest, 0xfedcba9876543210ull);
    ck_assert(c.best.has && c.has_digest);
    ck_assert_uint_eq(c.best.epoch, 3);
    ck_assert_double_eq(c.best.value, 1.0 / 3); // to the last bit
    ck_assert_double_eq(c.best.mark, 0.1);
    ck_assert_uint_eq(c.best.waited, 2);
    ck_assert_int_eq(c.best.measure, SL_MEASURE_MACRO_F1);
    ck_assert_int_eq(memcmp(c.digest, snapshot.digest, sizeof c.digest), 0);
    ck_assert_uint_eq(c.samplers, 1);
    ck_assert_uint_eq(c.trainers, 3);
    ck_assert_str_eq(c.status, "running");
    ck_assert_double_eq(c.seconds, 12.5);
    float *into[2] = {s[0], s[1]};
    memset(p, 0, sizeof p);
    memset(s, 0, sizeof s);
    must(sl_checkpoint_load(&c, &params, p, into, 2, b, NULL));
    ck_assert_int_eq(memcmp(p, values, sizeof p), 0);
    ck_assert_int_eq(memcmp(s, state, sizeof s), 0);
    ck_assert_int_eq(memcmp(b, best, sizeof b), 0);
    sl_checkpoint_close(&c);
}

// An older version did not say by which metric the best epoch was found.
TEST(an_older_one_has_no_metric)
{
    struct sl_checkpoint c;
    snapshot.best.measure = SL_MEASURE_COUNT;
    write_version(43, 2);
    must(sl_checkpoint_open(dir, "000000000043", &c));
    ck_assert(c.best.has);
    ck_assert_int_eq(c.best.measure, SL_MEASURE_COUNT);
    sl_checkpoint_close(&c);
}

// An older version took the first evaluation for the best, whatever its value.
TEST(what_is_no_number_is_no_best)
{
    struct sl_checkpoint c;
    snapshot.best.value = snapshot.best.mark = NAN;
    write_version(43, 2);
    must(sl_checkpoint_open(dir, "000000000043", &c));
    ck_assert(!c.best.has);
    ck_assert_uint_eq(c.best.waited, 0);
    sl_checkpoint_close(&c);
}

TEST(counters_are_the_batches_trained)
{
    struct sl_safetensors_file f;
    char path[1200];
    write_version(43, 2);
    snprintf(path, sizeof path, "%s/checkpoints/000000000043/model.safetensors", dir);
    must(sl_safetensors_open(path, &f));
    const struct sl_safetensor *t = sl_safetensors_find(&f, "norms.0.module.num_batches_tracked");
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->ndim, 0);
    ck_assert_int_eq(*(const int64_t *)t->data, 5 * 8 + 3);
    sl_safetensors_close(&f);
    snprintf(path, sizeof path, "%s/checkpoints/000000000043/optimizer.safetensors", dir);
    must(sl_safetensors_open(path, &f));
    ck_assert_uint_eq(f.n_tensors, 2); // of the learned tensor alone
    ck_assert_ptr_nonnull(sl_safetensors_find(&f, "exp_avg_sq.convs.0.lin.weight"));
    sl_safetensors_close(&f);
}

TEST(nothing_but_the_beginning_may_be_there)
{
    struct sl_checkpoint c;
    snapshot.epoch = snapshot.n_records = 0;
    snapshot.best.has = snapshot.has_digest = false;
    content.config_json = "{\"epochs\": 9, \"updates\": {\"mode\": \"async\"}}";
    content.history_json = "{\"epochs\": []}";
    content.samplers = content.trainers = 0;
    write_version(0, 2);
    must(sl_checkpoint_open(dir, "000000000000", &c));
    ck_assert(!c.best.has && !c.has_digest && c.samplers == 0);
    ck_assert(!exists("checkpoints/000000000000/best.safetensors"));
    sl_checkpoint_close(&c);
}

TEST(the_newest_are_kept)
{
    static const uint64_t versions[] = {5, 1000000000000ull, 7, 6, 1000000000001ull};
    struct sl_checkpoint_list list;
    for (size_t i = 0; i < SL_COUNT_OF(versions); i++)
        write_version(versions[i], 100);
    write_text("checkpoints/notes", "no checkpoint");
    must(sl_checkpoint_list(dir, &list));
    ck_assert_uint_eq(list.n, 5);
    ck_assert_str_eq(list.names[0], "1000000000001");
    ck_assert_str_eq(list.names[2], "000000000007");
    sl_checkpoint_list_fini(&list);
    write_version(1000000000002ull, 2);
    must(sl_checkpoint_list(dir, &list));
    ck_assert_uint_eq(list.n, 2);
    ck_assert_str_eq(list.names[0], "1000000000002");
    ck_assert_str_eq(list.names[1], "1000000000001");
    ck_assert(exists("checkpoints/notes"));
    sl_checkpoint_list_fini(&list);
}

static uint32_t count(void)
{
    struct sl_checkpoint_list list;
    must(sl_checkpoint_list(dir, &list));
    uint32_t n = list.n;
    sl_checkpoint_list_fini(&list);
    return n;
}

TEST(newer_ones_are_set_aside_until_another_one_is_written)
{
    uint32_t n;
    for (uint64_t version = 5; version < 9; version++)
        write_version(version, 100);
    must(sl_checkpoint_abandon_newer(dir, "000000000006", &n));
    ck_assert_uint_eq(n, 2);
    ck_assert_uint_eq(count(), 2);
    ck_assert(exists("checkpoints/000000000008.abandoned/state.json"));
    // Once more: what was set aside before makes room.
    ck_assert_int_eq(mkdir(in_dir("checkpoints/000000000008"), 0777), 0);
    must(sl_checkpoint_abandon_newer(dir, "000000000006", &n));
    ck_assert_uint_eq(n, 1);
    ck_assert(!exists("checkpoints/000000000008.abandoned/state.json"));
    ck_assert(exists("checkpoints/000000000007.abandoned/state.json"));
    write_version(7, 1);
    ck_assert_uint_eq(count(), 1);
    ck_assert(exists("checkpoints/000000000007"));
    ck_assert(!exists("checkpoints/000000000007.abandoned"));
    ck_assert(!exists("checkpoints/000000000008.abandoned"));
    must(sl_checkpoint_abandon_newer(dir, "000000000007", &n));
    ck_assert_uint_eq(n, 0);
}

TEST(the_one_just_written_stays_whatever_else_is_there)
{
    write_version(8, 1);
    write_version(5, 1);
    ck_assert(exists("checkpoints/000000000005/state.json"));
    write_version(6, 2);
    ck_assert(exists("checkpoints/000000000006/state.json"));
    ck_assert(exists("checkpoints/000000000005/state.json"));
}

TEST(one_of_the_same_update_takes_its_place)
{
    struct sl_checkpoint c;
    struct sl_checkpoint_list list;
    write_version(43, 1);
    content.status = "stopped";
    content.seconds = 14;
    write_version(43, 1);
    must(sl_checkpoint_open(dir, "000000000043", &c));
    ck_assert_str_eq(c.status, "stopped");
    ck_assert_double_eq(c.seconds, 14);
    sl_checkpoint_close(&c);
    must(sl_checkpoint_list(dir, &list));
    ck_assert_uint_eq(list.n, 1);
    sl_checkpoint_list_fini(&list);
    sl_checkpoint_clear_leftovers(dir);
    DIR *folder = opendir(in_dir("checkpoints"));
    int n = 0;
    while (readdir(folder))
        n++;
    closedir(folder);
    ck_assert_int_eq(n, 3); // with . and ..
}

TEST(leftovers_of_a_crash_are_no_checkpoints_and_are_cleared)
{
    struct sl_checkpoint_list list;
    write_version(43, 2);
    ck_assert_int_eq(mkdir(in_dir("checkpoints/.000000000050.77.tmp"), 0777), 0);
    write_text("checkpoints/.000000000050.77.tmp/model.safetensors", "half");
    must(sl_checkpoint_list(dir, &list));
    ck_assert_uint_eq(list.n, 1);
    sl_checkpoint_list_fini(&list);
    sl_checkpoint_clear_leftovers(dir);
    ck_assert(!exists("checkpoints/.000000000050.77.tmp"));
    ck_assert(exists("checkpoints/000000000043/state.json"));
}

// --- damage ---

static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                    "best.safetensors", "batches.bin", "state.json"};

static void change(const char *name, size_t at, bool cut, bool grow)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/checkpoints/000000000043/%s", dir, name);
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    size_t n = (size_t)ftell(f);
    at = at % n;
    if (grow) {
        fputc('x', f);
    } else if (cut) {
        ck_assert_int_eq(ftruncate(fileno(f), (off_t)at), 0);
    } else {
        ck_assert_int_eq(fseek(f, (long)at, SEEK_SET), 0);
        int byte = fgetc(f);
        ck_assert_int_eq(fseek(f, (long)at, SEEK_SET), 0);
        fputc(byte ^ 1, f);
    }
    fclose(f);
}

static void expect_refused(const char *name)
{
    struct sl_checkpoint c;
    int rc = sl_checkpoint_open(dir, "000000000043", &c);
    ck_assert_msg(rc == SL_EFORMAT || rc == SL_ENOENT, "a damaged %s was taken (%d)", name, rc);
    assert_message_has(name);
    ck_assert_ptr_null(c.state);
    ck_assert_ptr_null(c.records);
}

LOOP_TEST(a_flipped_bit_anywhere_is_seen, 0, SL_COUNT_OF(files))
{
    const char *name = files[_i];
    for (size_t at = 1; at < 4000; at = at * 2 + 3) {
        write_version(43, 2);
        change(name, at, false, false);
        // Of JSON a change of white space alone changes nothing.
        struct sl_checkpoint c;
        int rc = sl_checkpoint_open(dir, "000000000043", &c);
        if (rc == SL_OK) {
            ck_assert_str_eq(name, "state.json");
            ck_assert_uint_eq(c.version, 43);
            sl_checkpoint_close(&c);
        } else {
            expect_refused(name);
        }
    }
}

LOOP_TEST(a_file_cut_short_is_seen, 0, SL_COUNT_OF(files))
{
    for (size_t at = 0; at < 1000; at = at * 3 + 1) {
        write_version(43, 2);
        change(files[_i], at, true, false);
        expect_refused(files[_i]);
    }
}

LOOP_TEST(a_longer_or_a_missing_file_is_seen, 0, SL_COUNT_OF(files))
{
    char path[1200];
    write_version(43, 2);
    change(files[_i], 0, false, true);
    expect_refused(files[_i]);
    write_version(43, 2);
    snprintf(path, sizeof path, "%s/checkpoints/000000000043/%s", dir, files[_i]);
    ck_assert_int_eq(unlink(path), 0);
    expect_refused(files[_i]);
}

// --- counters, each sum of which is right ---

static void write_at(uint32_t epoch, uint32_t n_records, uint64_t version)
{
    snapshot.epoch = epoch;
    snapshot.n_records = n_records;
    write_version(version, 2);
}

static void beyond_the_epochs(void)
{
    content.epochs = 4;
    content.config_json = "{\"epochs\": 4, \"updates\": {\"mode\": \"async\"}}";
    write_version(43, 2);
}

static void batches_of_no_epoch(void)
{
    content.epochs = 5;
    content.config_json = "{\"epochs\": 5, \"updates\": {\"mode\": \"async\"}}";
    write_version(43, 2);
}

static void no_batches(void)
{
    snapshot.n_batches = 0;
    write_at(5, 0, 43);
}

// Epoch 5 is evaluated beside epoch 6, of whose two batches the second one is applied.
static void write_beside(uint64_t version)
{
    static float pinned[N] = {5, 6, 7};
    snapshot.n_batches = 2;
    snapshot.pinned_params = pinned;
    records[0].cell = 0;
    records[1].cell = records[2].cell = 1;
    write_version(version, 2);
}

static void more_batches_than_there_are(void)
{
    snapshot.pinned_params = best;
    snapshot.n_batches = 1;
    write_version(43, 2);
}

static void a_batch_beside_of_another_version(void)
{
    write_beside(43);
}

static void a_batch_of_no_epoch_beside(void)
{
    content.epochs = 6;
    content.config_json = "{\"epochs\": 6, \"updates\": {\"mode\": \"async\"}}";
    write_beside(43);
}

static void no_updates(void)
{
    content.config_json = "{\"epochs\": 9, \"digest\": true}";
    write_version(43, 2);
}

static void a_version_of_the_epoch_before(void)
{
    write_at(6, 3, 43);
}

static void a_version_of_the_epoch_after(void)
{
    write_at(4, 3, 43);
}

static void a_batch_less_than_the_updates_took(void)
{
    write_at(5, 2, 43);
}

// Two updates of four batches an epoch: after 43 of them one of epoch 21 is done.
static void ordered_updates_of_several_batches(void)
{
    content.epochs = 30;
    content.config_json = "{\"epochs\": 30, \"updates\": {\"mode\": \"ordered\","
                          " \"batches_per_update\": 4}}";
    write_at(21, 3, 43);
}

static void an_unknown_status(void)
{
    content.status = "dreaming";
    write_version(43, 2);
}

static void done_within_an_epoch(void)
{
    content.status = "done";
    write_version(43, 2);
}

static void another_number_of_epochs(void)
{
    content.epochs = 10;
    write_version(43, 2);
}

static void no_digest(void)
{
    snapshot.has_digest = false;
    write_version(43, 2);
}

static void a_time_before_the_beginning(void)
{
    content.seconds = -1;
    write_version(43, 2);
}

static void more_workers_than_devices(void)
{
    content.trainers = 4;
    write_version(43, 2);
}

static void a_best_epoch_to_come(void)
{
    snapshot.best.epoch = 5;
    write_version(43, 2);
}

static void more_patience_than_epochs(void)
{
    snapshot.best.waited = 5;
    write_version(43, 2);
}

static void an_epoch_that_was_not_reported(void)
{
    content.history_json = "{\"epochs\": [{\"epoch\": 0}]}";
    write_version(43, 2);
}

static void an_epoch_in_another_ones_place(void)
{
    content.history_json = "{\"epochs\": [{\"epoch\": 0}, {\"epoch\": 1}, {\"epoch\": 2},"
                           " {\"epoch\": 4}, {\"epoch\": 4}]}";
    write_version(43, 2);
}

static const struct {
    void (*write)(void);
    const char *said;
} contradictions[] = {
    {beyond_the_epochs, "epoch: found 5, wanted at most epochs, 4"},
    {batches_of_no_epoch, "batches_done: found 3, wanted at most 0 in epoch 5 of 5"},
    {no_batches, "batches, epochs: found 0 and 9"},
    {more_batches_than_there_are, "a key is missing or makes no sense"},
    {a_batch_beside_of_another_version,
     "version: found 43, wanted 12 to 14 in epoch 6 of 2 updates"},
    {a_batch_of_no_epoch_beside, "batches_beside: found 1, wanted at most 0 in epoch 6 of 6"},
    {no_updates, "config.updates: wanted batches_per_update"},
    {a_version_of_the_epoch_before, "version: found 43, wanted 48 to 56"},
    {a_version_of_the_epoch_after, "version: found 43, wanted 32 to 40"},
    {a_batch_less_than_the_updates_took, "batches_done: found 2, wanted 3 after update 43"},
    {ordered_updates_of_several_batches, "batches_done: found 3, wanted 4 after update 43"},
    {an_unknown_status, "status: found \"dreaming\""},
    {done_within_an_epoch, "status: found \"done\" with 3 batches"},
    {another_number_of_epochs, "epochs: found 10, wanted config.epochs, 9"},
    {no_digest, "samples_digest: found none"},
    {a_time_before_the_beginning, "seconds: found -1"},
    {more_workers_than_devices, "split: found 1 samplers and 4 trainers on 4 devices"},
    {a_best_epoch_to_come, "best: found epoch 5"},
    {more_patience_than_epochs, "5 evaluations ago"},
    {an_epoch_that_was_not_reported, "history.epochs: found 1 epochs, wanted 5"},
    {an_epoch_in_another_ones_place, "history.epochs: found something else than epoch 3"},
};

LOOP_TEST(counters_that_contradict_one_another_are_refused, 0, SL_COUNT_OF(contradictions))
{
    contradictions[_i].write();
    expect_refused(contradictions[_i].said);
    assert_message_has("/state.json: ");
}

TEST(batches_of_the_next_epoch_come_back_with_what_was_pinned)
{
    struct sl_checkpoint c;
    float p[N], s[2][N], b[N], pinned[N];
    float *into[2] = {s[0], s[1]};
    char where[96];
    write_beside(13);
    must(sl_checkpoint_open(dir, "000000000013", &c));
    ck_assert_uint_eq(c.epoch, 5);
    ck_assert_uint_eq(c.n_records, 3);
    ck_assert_int_eq(memcmp(c.records, records, sizeof records), 0);
    must(sl_checkpoint_load(&c, &params, p, into, 2, b, pinned));
    ck_assert_int_eq(memcmp(p, values, sizeof p), 0);
    ck_assert_int_eq(memcmp(pinned, snapshot.pinned_params, sizeof pinned), 0);
    ck_assert_str_eq(sl_position_text(13, 5, 3, 2, where, sizeof where),
                     "update 13, epoch 7, batch 1 of 2");
    sl_checkpoint_close(&c);
    ck_assert_int_eq(unlink(in_dir("checkpoints/000000000013/pinned.safetensors")), 0);
    ck_assert_int_lt(sl_checkpoint_open(dir, "000000000013", &c), 0);
    assert_message_has("pinned.safetensors");
}

// Batches 0 and 2 of ordered updates, of which 0 and 1 come first.
TEST(ordered_batches_that_are_no_prefix_are_refused)
{
    content.config_json = "{\"epochs\": 9, \"digest\": true, \"devices\": [{}, {}, {}, {}],"
                          " \"updates\": {\"mode\": \"ordered\", \"batches_per_update\": 1}}";
    write_version(43, 2);
    expect_refused("batches.bin");
    for (uint32_t i = 0; i < 3; i++)
        records[i].cell = i;
    write_version(43, 2);
    struct sl_checkpoint c;
    must(sl_checkpoint_open(dir, "000000000043", &c));
    sl_checkpoint_close(&c);
}

TEST(a_checkpoint_under_another_name_is_refused)
{
    struct sl_checkpoint c;
    write_version(43, 2);
    ck_assert_int_eq(rename(in_dir("checkpoints/000000000043"), in_dir("checkpoints/000000000044")),
                     0);
    ck_assert_int_eq(sl_checkpoint_open(dir, "000000000044", &c), SL_EFORMAT);
    assert_message_has("version: found 43");
    ck_assert_int_eq(sl_checkpoint_open(dir, "../../etc", &c), SL_EINVAL);
    ck_assert_int_eq(sl_checkpoint_open(dir, "000000000099", &c), SL_ENOENT);
}

TEST(something_of_another_kind_is_refused)
{
    struct sl_checkpoint c;
    write_version(43, 2);
    write_text("checkpoints/000000000043/state.json", "{\"schema\": \"other/2\"}");
    ck_assert_int_eq(sl_checkpoint_open(dir, "000000000043", &c), SL_EFORMAT);
    assert_message_has("found \"other/2\", wanted \"sluice.checkpoint/1\"");
    write_text("checkpoints/000000000043/state.json", "[]");
    ck_assert_int_eq(sl_checkpoint_open(dir, "000000000043", &c), SL_EFORMAT);
    write_text("checkpoints/000000000043/state.json", "{}");
    ck_assert_int_eq(sl_checkpoint_open(dir, "000000000043", &c), SL_EFORMAT);
    assert_message_has("schema: found none");
}

TEST(another_models_checkpoint_is_not_loaded)
{
    struct sl_checkpoint c;
    float p[N] = {7}, s[2][N], b[N];
    float *into[2] = {s[0], s[1]};
    write_version(43, 2);
    must(sl_checkpoint_open(dir, "000000000043", &c));
    params.tensors[0].shape[0] = 4;
    params.tensors[0].shape[1] = 1;
    ck_assert_int_eq(sl_checkpoint_load(&c, &params, p, into, 2, b, NULL), SL_EFORMAT);
    assert_message_has("'convs.0.lin.weight': found shape (2, 2), wanted (4, 1)");
    ck_assert_float_eq(p[0], 7);
    sl_checkpoint_close(&c);
}

TEST(what_can_not_be_written_leaves_nothing)
{
    write_version(43, 2);
    ck_assert_int_eq(chmod(scratch, 0755), 0);
    ck_assert_int_eq(chmod(dir, 0755), 0);
    ck_assert_int_eq(chmod(in_dir("checkpoints"), 0555), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
    snapshot.version = 42;
    ck_assert_int_lt(sl_checkpoint_write(dir, &content, 1), 0);
    struct sl_checkpoint_list list;
    must(sl_checkpoint_list(dir, &list));
    ck_assert_uint_eq(list.n, 1);
    ck_assert_str_eq(list.names[0], "000000000043");
    sl_checkpoint_list_fini(&list);
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 30)
