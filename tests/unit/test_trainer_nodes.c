// A job on several nodes: real trainers on an arena for each node, and their links in one thread.
#include "tests/unit/trainer_farm.h"

#include "tests/unit/suite.h"
#include "tests/unit/nodes_link.h"
#include "tests/unit/trainer_oracle.h"

struct world {
    uint32_t n;
    struct farm farm[LINK_NODES];
    uint64_t seq[LINK_NODES]; // of the phase that was opened last
    struct link link;
    pthread_t thread;
    _Atomic bool stop;
};

static void *carry(void *arg)
{
    struct world *w = arg;
    while (!atomic_load(&w->stop))
        if (!link_poll(&w->link))
            farm_sleep_ms(1);
    return NULL;
}

static void world_init(struct world *w, const struct sl_config *config,
                       const struct sl_kernels *kernels, uint32_t n)
{
    memset(w, 0, sizeof *w);
    w->n = w->link.n = n;
    for (uint32_t i = 0; i < n; i++) {
        farm_nodes = (struct sl_nodes_spec){
            .n = n, .rank = i, .whole_gradients = config->optimizer.clip_norm > 0};
        farm_init_small(&w->farm[i], config, kernels);
        w->link.arena[i] = &w->farm[i].arena;
    }
    farm_nodes = (struct sl_nodes_spec){0};
}

static void world_start(struct world *w, uint32_t n_trainers)
{
    for (uint32_t i = 0; i < w->n; i++) {
        farm_start_sampler(&w->farm[i]);
        for (uint32_t t = 0; t < n_trainers; t++)
            farm_start_trainer(&w->farm[i]);
    }
    ck_assert_int_eq(pthread_create(&w->thread, NULL, carry, w), 0);
}

static void world_open(struct world *w, uint32_t epoch)
{
    for (uint32_t i = 0; i < w->n; i++)
        w->seq[i] = farm_open_train(&w->farm[i], epoch);
}

static void world_wait(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        farm_wait(&w->farm[i], w->seq[i]);
    for (uint32_t i = 0; i < w->n; i++)
        oracle_check_entries(&w->farm[i], w->seq[i]);
}

static void world_run(struct world *w)
{
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        world_open(w, epoch);
        world_wait(w);
    }
}

static void world_fini(struct world *w)
{
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    ck_assert_int_eq(w->link.rc, SL_OK);
    ck_assert_uint_eq(w->link.flips, w->n * w->farm[0].version);
    for (uint32_t i = 0; i < w->n; i++)
        farm_fini(&w->farm[i]);
}

// Parameters, and each node's slice of the state, are those of the one farm.
static void assert_same(struct world *w, struct farm *one)
{
    const uint64_t v = one->version;
    for (uint32_t k = 0; k < w->n; k++) {
        struct sl_arena *a = &w->farm[k].arena;
        const struct sl_nodes_part own = sl_nodes_slice(a, k);
        oracle_compare(&w->farm[k], sl_param_store_params(&one->arena, v));
        for (uint32_t i = 0; i < a->h->spec.n_state; i++)
            ck_assert_mem_eq(sl_param_store_state(a, v, i) + own.first,
                             sl_param_store_state(&one->arena, v, i) + own.first,
                             own.n * sizeof(float));
    }
}

static void train_like_one(const struct sl_config *c, const struct sl_kernels *kernels, uint32_t n,
                           uint32_t n_trainers)
{
    struct farm one;
    struct world w;
    farm_init_small(&one, c, kernels);
    farm_start_sampler(&one);
    farm_start_trainer(&one);
    oracle_run_epochs(&one);
    world_init(&w, c, kernels, n);
    world_start(&w, n_trainers);
    world_run(&w);
    assert_same(&w, &one);
    world_fini(&w);
    farm_fini(&one);
}

// 7 batches an epoch, the last update is short: of 3 and 1 by 3, of 2 by 5, of 7 by 16.
static const uint32_t nodes[] = {2, 3, 5};

LOOP_TEST(any_number_of_nodes_gives_the_bits_of_one, 0, 3)
{
    static const uint32_t per_update[] = {5, 16};
    for (size_t i = 0; i < SL_COUNT_OF(per_update); i++) {
        struct sl_config c = farm_job(per_update[i]);
        train_like_one(&c, sl_kernels_ref(), nodes[_i], 1 + (uint32_t)i);
    }
}

LOOP_TEST(nodes_and_running_statistics, 0, 3)
{
    sl_kernels_set_threads(1);
    struct sl_config c = farm_job(5);
    c.model.norm = SL_NORM_BATCH;
    c.optimizer.kind = SL_OPTIMIZER_ADAMW;
    train_like_one(&c, sl_kernels_cpu(), nodes[_i], 1);
}

LOOP_TEST(nodes_and_sgd, 0, 3)
{
    struct sl_config c = farm_job(5);
    c.optimizer.kind = SL_OPTIMIZER_SGD;
    c.optimizer.momentum = 0.9;
    train_like_one(&c, sl_kernels_ref(), nodes[_i], 2);
}

LOOP_TEST(nodes_and_clipped_gradients, 0, 3)
{
    struct sl_config c = farm_job(5);
    c.optimizer.clip_norm = 1e-3;
    train_like_one(&c, sl_kernels_ref(), nodes[_i], 1);
}

// --- deaths ---

// The only trainer of node 1 of two dies, and another one takes its place.
static void die(const char *failpoint)
{
    const struct sl_config c = farm_job(3);
    struct world w;
    uint32_t worker, device = FARM_DEVICES - 1;
    int status = 0;
    world_init(&w, &c, sl_kernels_ref(), 2);
    float *wanted = oracle_train(&w.farm[0]);
    const pid_t pid = farm_fork(&w.farm[1], device, failpoint, &worker);
    farm_wake(&w.farm[1], pid, device, SL_DUTY_WORK);
    farm_start_sampler(&w.farm[0]);
    farm_start_sampler(&w.farm[1]);
    farm_start_trainer(&w.farm[0]);
    ck_assert_int_eq(pthread_create(&w.thread, NULL, carry, &w), 0);
    world_open(&w, 0);
    farm_until(waitpid(pid, &status, WNOHANG) == pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: ended with %x",
                  failpoint, status);
    farm_bury(&w.farm[1], worker, device);
    farm_start(&w.farm[1], device, SL_DUTY_WORK);
    world_wait(&w);
    for (uint32_t epoch = 1; epoch < ORACLE_EPOCHS; epoch++) {
        world_open(&w, epoch);
        world_wait(&w);
    }
    for (uint32_t i = 0; i < w.n; i++)
        oracle_compare(&w.farm[i], wanted);
    world_fini(&w);
    free(wanted);
}

static const char *const deaths[] = {"trainer_claimed",  "trainer_gradient", "trainer_done",
                                     "trainer_apply:2",  "trainer_applied",  "trainer_applied:2",
                                     "trainer_flipped:2"};

LOOP_TEST(a_trainer_of_a_node_may_die_anywhere, 0, SL_COUNT_OF(deaths))
{
    die(deaths[_i]);
}

// --- who makes an update ---

// A node's trainers have done all that is theirs of the phase when what is missing arrives.
TEST(trainers_without_a_batch_make_what_others_completed)
{
    const struct sl_config c = farm_job(16); // one update
    struct world w;
    world_init(&w, &c, sl_kernels_ref(), 2);
    farm_start_sampler(&w.farm[0]);
    farm_start_trainer(&w.farm[0]);
    world_open(&w, 0);
    struct sl_arena *a = &w.farm[0].arena;
    farm_until(sl_cell_state(sl_ledger_word(a, w.seq[0], 6)) == SL_CELL_DONE);
    farm_trainers_come_round(&w.farm[0]);
    ck_assert_uint_eq(atomic_load(&sl_param_store_of(a)->made), 0);
    farm_start_sampler(&w.farm[1]);
    farm_start_trainer(&w.farm[1]);
    ck_assert_int_eq(pthread_create(&w.thread, NULL, carry, &w), 0);
    world_wait(&w);
    world_fini(&w);
}

// Nobody is on duty: a standby trainer trains all batches of its node and makes its slice.
TEST(standby_trainers_of_a_node_make_its_slice)
{
    const struct sl_config c = farm_job(3);
    struct world w;
    world_init(&w, &c, sl_kernels_ref(), 2);
    float *wanted = oracle_train(&w.farm[0]);
    farm_start_sampler(&w.farm[0]);
    farm_start_sampler(&w.farm[1]);
    farm_start_trainer(&w.farm[0]);
    farm_start(&w.farm[1], 0, SL_DUTY_STANDBY);
    ck_assert_int_eq(pthread_create(&w.thread, NULL, carry, &w), 0);
    world_run(&w);
    for (uint32_t i = 0; i < w.n; i++)
        oracle_compare(&w.farm[i], wanted);
    world_fini(&w);
    free(wanted);
}

// --- what is not finite ---

TEST(a_slice_that_is_not_finite_is_explained_by_its_own_node)
{
    struct sl_config c = farm_job(2);
    struct world w;
    world_init(&w, &c, sl_kernels_ref(), 2);
    world_open(&w, 0);
    struct sl_arena *const a[] = {&w.farm[0].arena, &w.farm[1].arena};
    const struct sl_nodes_part slice[] = {sl_nodes_slice(a[0], 0), sl_nodes_slice(a[0], 1)};
    struct sl_sync sync[2];
    for (uint32_t i = 0; i < 2; i++) {
        const struct sl_sync_spec spec = farm_sync_spec(&w.farm[i], &c, 1);
        struct sl_lease lease;
        ck_assert_int_eq(sl_sync_init(&sync[i], &spec), SL_OK);
        lease = farm_sample_one(&w.farm[i]);
        ck_assert_uint_eq(lease.cell, i);
        ck_assert_int_eq(sl_ledger_claim_train(a[i], 1, 0, &lease), SL_OK);
        float *g = sl_param_store_gradient(a[i], i);
        memset(g, 0, w.farm[i].model.n_params * sizeof *g);
        if (i == 1)
            g[slice[0].first + slice[0].n - 1] = NAN; // of node 0's slice, by node 1's batch
        lease.entry->weight = 1;
        ck_assert_int_eq(sl_ledger_complete(a[i], &lease), SL_OK);
    }
    while (link_poll(&w.link)) {
    }
    ck_assert_int_eq(w.link.rc, SL_OK);
    ck_assert_int_eq(sl_sync_help(&sync[1]), SL_OK); // its own slice is as good as any
    ck_assert_uint_eq(sync[1].applied, 1);
    ck_assert_int_eq(sl_sync_help(&sync[0]), SL_ENOTFINITE);
    ck_assert_ptr_ne(strstr(sl_error_message(), "the gradient of"), NULL);
    for (uint32_t i = 0; i < 2; i++) {
        sl_sync_fini(&sync[i]);
        ck_assert_uint_eq(sl_param_store_version(a[i]), 0);
        farm_fini(&w.farm[i]);
    }
}

RUN_TESTS(.timeout_s = 120)
