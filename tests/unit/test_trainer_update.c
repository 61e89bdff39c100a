// What one update does, by the rule of each tensor, against torch.optim; and the learning rate.
#include "tests/unit/trainer_farm.h"

#include "tests/unit/suite.h"
#include "tests/unit/trainer_update_values.h"
#include "config/learning_rate.h"

enum { RUNNING_AT = VALUES_N_FIRST, FIXED_AT = RUNNING_AT + VALUES_N_RUNNING };

// The same numbers as in tests/golden/make_updates.py.
static float start_of(uint64_t k)
{
    return (float)((int64_t)(k * 29 + 5) % 61 - 30) / 16;
}

static float gradient_of(uint32_t b, uint64_t k)
{
    return (float)((int64_t)(k * 37 + b * 101ull + 11) % 127 - 63) / 16;
}

static struct sl_tensor tensor_of(const char *name, enum sl_tensor_role role, uint32_t layer,
                                  uint64_t offset, uint64_t n)
{
    struct sl_tensor t = {.role = role, .layer = layer, .rank = 1, .shape = {n}, .offset = offset};
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

struct fixture {
    struct farm f;
    struct sl_config config;
    struct sl_tensor tensors[6];
    uint32_t n_tensors;
    struct sl_sync_spec spec;
    struct sl_sync sync;
};

static struct sl_config config_of(const struct values_job *job, bool async)
{
    struct sl_config c = farm_job(async ? 1 : VALUES_PER_UPDATE);
    c.sampler.batch_size = 10; // 50 training vertices: 5 batches
    c.updates.mode = async ? SL_UPDATE_ASYNC : SL_UPDATE_ORDERED;
    c.updates.staleness = 1;
    c.epochs = job->epochs;
    c.optimizer.kind = job->kind;
    c.optimizer.lr = job->lr;
    c.optimizer.weight_decay = job->weight_decay;
    c.optimizer.decay_on = job->first_layer ? SL_DECAY_FIRST_LAYER : SL_DECAY_ALL;
    c.optimizer.clip_norm = job->clip;
    c.optimizer.momentum = job->momentum;
    c.optimizer.schedule = job->schedule;
    c.optimizer.warmup_epochs = job->warmup;
    c.optimizer.step_epochs = job->step_epochs;
    c.optimizer.gamma = job->gamma;
    c.optimizer.min_lr = job->min_lr;
    return c;
}

// An arena with one open epoch, and tensors of all roles in place of the model's.
static void fixture_init(struct fixture *x, const struct values_job *job, bool async)
{
    x->config = config_of(job, async);
    farm_init_small(&x->f, &x->config, sl_kernels_ref());
    uint64_t n = x->f.model.n_params, rest = FIXED_AT + VALUES_N_FIXED;
    ck_assert_uint_eq(n, rest + VALUES_N_REST);
    struct sl_tensor *t = x->tensors;
    *t++ = tensor_of("weight", SL_TENSOR_LEARNED, 0, 0, 24);
    *t++ = tensor_of("bias", SL_TENSOR_LEARNED, 0, 24, VALUES_N_FIRST - 24);
    *t++ = tensor_of("mean", SL_TENSOR_RUNNING, 0, RUNNING_AT, VALUES_N_RUNNING);
    *t++ = (struct sl_tensor){.role = SL_TENSOR_COUNTER, .offset = FIXED_AT};
    *t++ = tensor_of("eps", SL_TENSOR_FIXED, 0, FIXED_AT, VALUES_N_FIXED);
    *t++ = tensor_of("last", SL_TENSOR_LEARNED, 1, rest, VALUES_N_REST);
    x->n_tensors = (uint32_t)(t - x->tensors);
    x->spec = farm_sync_spec(&x->f, &x->config, 1);
    x->spec.tensors = x->tensors;
    x->spec.n_tensors = x->n_tensors;
    ck_assert_int_eq(sl_sync_init(&x->sync, &x->spec), SL_OK);
    float *p = sl_param_store_params(&x->f.arena, 0);
    for (uint64_t k = 0; k < n; k++)
        p[k] = start_of(k);
    farm_open_train(&x->f, 0);
}

static void fixture_fini(struct fixture *x)
{
    sl_sync_fini(&x->sync);
    farm_fini(&x->f);
}

static struct sl_lease claim(struct fixture *x)
{
    struct sl_lease lease;
    farm_sample_one(&x->f);
    ck_assert_int_eq(sl_ledger_claim_train(&x->f.arena, 1, 0, &lease), SL_OK);
    return lease;
}

static void write_gradient(struct fixture *x, float *g, uint32_t b)
{
    for (uint64_t k = 0; k < x->f.model.n_params; k++)
        g[k] = gradient_of(b, k);
}

// Trains batch b of the epoch, and applies the update if it was the last one of it.
static void train_ordered(struct fixture *x, uint32_t b)
{
    struct sl_lease lease = claim(x);
    ck_assert_uint_eq(lease.cell, b);
    write_gradient(x, sl_param_store_gradient(&x->f.arena, b), b);
    lease.entry->weight = 3 + b;
    ck_assert_int_eq(sl_ledger_complete(&x->f.arena, &lease), SL_OK);
    ck_assert_int_eq(sl_sync_help(&x->sync), SL_OK);
}

static void train_async(struct fixture *x, uint32_t b)
{
    uint64_t version;
    struct sl_lease lease = claim(x);
    ck_assert_int_eq(sl_sync_join(&x->sync, 0, &version), SL_OK);
    write_gradient(x, sl_param_store_device_gradient(&x->f.arena, 1), b);
    lease.entry->weight = 3 + b;
    sl_param_store_offer(&x->f.arena, 1, &lease);
    ck_assert_int_eq(sl_ledger_complete(&x->f.arena, &lease), SL_OK);
    ck_assert_int_eq(sl_sync_help(&x->sync), SL_OK);
}

static void assert_values(struct fixture *x, const struct values_job *job)
{
    ck_assert_uint_eq(sl_param_store_version(&x->f.arena), VALUES_UPDATES);
    const float *p = sl_param_store_params(&x->f.arena, VALUES_UPDATES);
    for (uint32_t i = 0; i < VALUES_N_SHOWN; i++)
        ck_assert_msg(fabs((double)p[values_shown[i]] - job->wanted[i]) < 2e-6,
                      "parameter %u: found %.9g, wanted %.9g", values_shown[i],
                      (double)p[values_shown[i]], job->wanted[i]);
}

// Five batches in updates of two: decay, clipping, schedules, running statistics, what is fixed.
LOOP_TEST(updates_are_torchs, 0, SL_COUNT_OF(values_jobs))
{
    const struct values_job *job = &values_jobs[_i];
    struct fixture x;
    fixture_init(&x, job, false);
    for (uint32_t b = 0; b < VALUES_BATCHES; b++)
        train_ordered(&x, b);
    assert_values(&x, job);
    ck_assert_float_eq(sl_param_store_params(&x.f.arena, VALUES_UPDATES)[FIXED_AT],
                       start_of(FIXED_AT));
    fixture_fini(&x);
}

// As after a death, or a resume from the board alone: nothing is kept between updates.
LOOP_TEST(every_update_by_somebody_else_is_the_same, 0, SL_COUNT_OF(values_jobs))
{
    const struct values_job *job = &values_jobs[_i];
    struct fixture x, y;
    fixture_init(&x, job, false);
    fixture_init(&y, job, false);
    for (uint32_t b = 0; b < VALUES_BATCHES; b++) {
        train_ordered(&x, b);
        train_ordered(&y, b);
        sl_sync_fini(&y.sync);
        y.spec.worker++;
        ck_assert_int_eq(sl_sync_init(&y.sync, &y.spec), SL_OK);
        y.spec.worker--; // claims stay worker 1's
    }
    ck_assert_mem_eq(sl_param_store_params(&x.f.arena, VALUES_UPDATES),
                     sl_param_store_params(&y.f.arena, VALUES_UPDATES),
                     x.f.model.n_params * sizeof(float));
    fixture_fini(&x);
    fixture_fini(&y);
}

LOOP_TEST(kernels_of_the_cpu_do_the_same, 0, SL_COUNT_OF(values_jobs))
{
    sl_kernels_set_threads(2);
    const struct values_job *job = &values_jobs[_i];
    struct fixture x;
    fixture_init(&x, job, false);
    sl_sync_fini(&x.sync);
    x.spec.kernels = sl_kernels_cpu();
    ck_assert_int_eq(sl_sync_init(&x.sync, &x.spec), SL_OK);
    for (uint32_t b = 0; b < VALUES_BATCHES; b++)
        train_ordered(&x, b);
    assert_values(&x, job);
    fixture_fini(&x);
}

// One trainer leaves no choice of order: statistics chain batch by batch as in ordered mode.
TEST(async_updates_have_the_same_rules)
{
    const struct values_job *job = &values_jobs[0];
    struct fixture x;
    fixture_init(&x, job, true);
    for (uint32_t b = 0; b < VALUES_BATCHES; b++)
        train_async(&x, b);
    ck_assert_uint_eq(sl_param_store_version(&x.f.arena), VALUES_BATCHES);
    const float *p = sl_param_store_params(&x.f.arena, VALUES_BATCHES);
    for (uint32_t i = 0; i < VALUES_N_SHOWN; i++) {
        uint32_t k = values_shown[i];
        if (k >= RUNNING_AT && k <= FIXED_AT)
            ck_assert_double_eq_tol((double)p[k], job->wanted[i], 2e-6);
        else
            ck_assert_float_ne(p[k], start_of(k));
    }
    fixture_fini(&x);
}

TEST(a_small_gradient_is_not_clipped)
{
    struct values_job job = values_jobs[0];
    struct fixture x, y;
    fixture_init(&x, &job, false);
    job.clip = 1e9;
    fixture_init(&y, &job, false);
    for (uint32_t b = 0; b < VALUES_BATCHES; b++) {
        train_ordered(&x, b);
        train_ordered(&y, b);
    }
    ck_assert_mem_eq(sl_param_store_params(&x.f.arena, VALUES_UPDATES),
                     sl_param_store_params(&y.f.arena, VALUES_UPDATES),
                     x.f.model.n_params * sizeof(float));
    fixture_fini(&x);
    fixture_fini(&y);
}

// --- numbers that are not finite ---

// Where one number of the first update is not finite, or is extreme, and what is said of it.
enum spot { GRADIENT, STATISTIC, LOSS, PARAMETER, STATE };

static const struct broken {
    const char *what;
    enum spot spot;
    uint64_t at;
    double value;
    const char *said; // NULL: the update is made
} broken[] = {
    {"gradient nan", GRADIENT, 0, NAN, "the gradient of weight is not finite"},
    {"gradient +inf", GRADIENT, 30, INFINITY, "the gradient of bias is not finite"},
    {"gradient -inf", GRADIENT, 150, -INFINITY, "the gradient of last is not finite"},
    {"statistic nan", STATISTIC, RUNNING_AT + 2, NAN,
     "the batches' statistic of mean is not finite"},
    {"statistic inf", STATISTIC, RUNNING_AT, INFINITY,
     "the batches' statistic of mean is not finite"},
    {"loss nan", LOSS, 1, NAN, "the loss of batch 2 is nan; its gradient is finite"},
    {"loss inf", LOSS, 0, INFINITY, "the loss of batch 1 is inf; its gradient is finite"},
    {"parameter nan", PARAMETER, 24, NAN, "the value before it of bias is not finite"},
    {"parameter inf", PARAMETER, FIXED_AT, INFINITY,
     "the value before it of eps is not finite"}, // kept
    {"state inf", STATE, 25, INFINITY, "the optimizer's state before it of bias is not finite"},
    {"gradient subnormal", GRADIENT, 3, 1e-42, NULL},
    {"gradient huge", GRADIENT, 3, 1e16, NULL},
    {"statistic huge", STATISTIC, RUNNING_AT, 3e38, NULL},
    {"loss huge", LOSS, 0, 1e300, NULL},
    {"parameter huge", PARAMETER, 3, 1e15, NULL},
};

static void plant(struct fixture *x, const struct broken *b, float *gradient)
{
    if (b->spot == GRADIENT || b->spot == STATISTIC)
        gradient[b->at] = (float)b->value;
    else if (b->spot == PARAMETER)
        sl_param_store_params(&x->f.arena, 0)[b->at] = (float)b->value;
    else if (b->spot == STATE)
        sl_param_store_state(&x->f.arena, 0, 0)[b->at] = (float)b->value;
}

// Two batches, the update's, of which the first one's gradient has it; what the update says.
static int try_broken(struct fixture *x, const struct broken *b)
{
    for (uint32_t i = 0; i < VALUES_PER_UPDATE; i++) {
        struct sl_lease lease = claim(x);
        write_gradient(x, sl_param_store_gradient(&x->f.arena, i), i);
        if (i == 0)
            plant(x, b, sl_param_store_gradient(&x->f.arena, 0));
        lease.entry->weight = 3 + i;
        lease.entry->loss = b->spot == LOSS && b->at == i ? b->value : 1;
        ck_assert_int_eq(sl_ledger_complete(&x->f.arena, &lease), SL_OK);
    }
    return sl_sync_help(&x->sync);
}

static void check_broken(struct fixture *x, const struct broken *b)
{
    char said[256], first[1024];
    int rc = try_broken(x, b);
    if (!b->said) {
        ck_assert_msg(rc == SL_OK, "%s: %d, %s", b->what, rc, sl_error_message());
        ck_assert_uint_eq(sl_param_store_version(&x->f.arena), 1);
        return;
    }
    ck_assert_msg(rc == SL_ENOTFINITE, "%s: found %d", b->what, rc);
    ck_assert_uint_eq(sl_param_store_version(&x->f.arena), 0);
    snprintf(said, sizeof said, "update 1 (epoch 1, 1 of %d) at a learning rate of %g: %s",
             VALUES_UPDATES, sl_learning_rate_at(&x->sync.rate, 0), b->said);
    snprintf(first, sizeof first, "%s", sl_error_message());
    ck_assert_msg(strcmp(first, said) == 0, "%s: found '%s', wanted '%s'", b->what, first, said);
    // Whoever tries it next, once the lock's holder is dead, says the same.
    sl_param_store_reclaim(&x->f.arena, x->spec.worker);
    sl_sync_fini(&x->sync);
    x->spec.worker++;
    ck_assert_int_eq(sl_sync_init(&x->sync, &x->spec), SL_OK);
    ck_assert_int_eq(sl_sync_help(&x->sync), SL_ENOTFINITE);
    ck_assert_str_eq(sl_error_message(), first);
}

static void check_all_broken(const struct values_job *job, const struct sl_kernels *kernels)
{
    for (size_t i = 0; i < SL_COUNT_OF(broken); i++) {
        struct fixture x;
        fixture_init(&x, job, false);
        sl_sync_fini(&x.sync);
        x.spec.kernels = kernels;
        ck_assert_int_eq(sl_sync_init(&x.sync, &x.spec), SL_OK);
        check_broken(&x, &broken[i]);
        fixture_fini(&x);
    }
}

// Adam, AdamW and SGD, with and without clipping.
LOOP_TEST(an_update_that_is_not_finite_is_not_made, 0, SL_COUNT_OF(values_jobs))
{
    check_all_broken(&values_jobs[_i], sl_kernels_ref());
    check_all_broken(&values_jobs[_i], sl_kernels_cpu());
}

// Loss and gradient are finite: it is the step that leaves the numbers.
TEST(a_step_that_is_not_finite_is_not_made)
{
    struct values_job job = values_jobs[5]; // sgd
    struct fixture x;
    job.warmup = 0;
    job.lr = 1e10;
    job.clip = 0;
    fixture_init(&x, &job, false);
    const struct broken large = {"gradient", GRADIENT, 150, 1e35, NULL};
    ck_assert_int_eq(try_broken(&x, &large), SL_ENOTFINITE);
    ck_assert_ptr_nonnull(
        strstr(sl_error_message(), "the value after its step of last is not finite"));
    fixture_fini(&x);
    // Adam's mean of squares overflows, and its parameter would stand still from then on.
    fixture_init(&x, &values_jobs[0], false);
    ck_assert_int_eq(try_broken(&x, &large), SL_ENOTFINITE);
    ck_assert_ptr_nonnull(
        strstr(sl_error_message(), "the optimizer's state after its step of last is not finite"));
    fixture_fini(&x);
}

TEST(an_async_update_that_is_not_finite_is_not_made)
{
    struct fixture x;
    uint64_t version;
    fixture_init(&x, &values_jobs[0], true);
    train_async(&x, 0);
    struct sl_lease lease = claim(&x);
    ck_assert_int_eq(sl_sync_join(&x.sync, 0, &version), SL_OK);
    float *gradient = sl_param_store_device_gradient(&x.f.arena, 1);
    write_gradient(&x, gradient, 1);
    for (uint64_t k = 10; k < x.f.model.n_params; k++)
        gradient[k] = NAN;
    lease.entry->weight = 4;
    lease.entry->loss = NAN;
    sl_param_store_offer(&x.f.arena, 1, &lease);
    ck_assert_int_eq(sl_ledger_complete(&x.f.arena, &lease), SL_OK);
    ck_assert_int_eq(sl_sync_help(&x.sync), SL_ENOTFINITE);
    ck_assert_str_eq(
        sl_error_message(),
        "update 2 (epoch 1, 2 of 5) at a learning rate of 0.02: the loss of batch 2 is "
        "nan; the gradient of weight is not finite, first of 3 among 5 tensors");
    ck_assert_uint_eq(sl_param_store_version(&x.f.arena), 1);
    fixture_fini(&x);
}

TEST(tensors_that_are_not_the_vector_are_refused)
{
    struct fixture x;
    struct sl_sync other;
    fixture_init(&x, &values_jobs[0], false);
    x.spec.n_tensors--;
    ck_assert_int_eq(sl_sync_init(&other, &x.spec), SL_EINVAL);
    x.spec.n_tensors++;
    x.tensors[2].offset++;
    ck_assert_int_eq(sl_sync_init(&other, &x.spec), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "begins at 41, wanted 40"));
    fixture_fini(&x);
}

LOOP_TEST(learning_rates_are_torchs, 0, SL_COUNT_OF(values_rates))
{
    const struct values_job *job = &values_rates[_i];
    struct sl_config c = config_of(job, false);
    struct sl_learning_rate r;
    sl_learning_rate_init(&r, &c, 50);
    ck_assert_uint_eq(r.updates_per_epoch, VALUES_UPDATES);
    for (uint64_t t = 0; t < (uint64_t)job->epochs * VALUES_UPDATES; t++)
        ck_assert_msg(fabs(sl_learning_rate_at(&r, t) - job->wanted[t]) < 1e-12,
                      "update %llu: found %.12g, wanted %.12g", (unsigned long long)t,
                      sl_learning_rate_at(&r, t), job->wanted[t]);
}

TEST(learning_rates_at_the_borders)
{
    struct values_job job = values_rates[3]; // cosine
    struct sl_config c = config_of(&job, false);
    struct sl_learning_rate r;
    sl_learning_rate_init(&r, &c, 50);
    ck_assert_double_eq(sl_learning_rate_at(&r, 0), job.lr);
    ck_assert_double_eq(sl_learning_rate_at(&r, 5 * VALUES_UPDATES), job.min_lr);
    ck_assert_double_eq(sl_learning_rate_at(&r, UINT32_MAX), job.min_lr);
    // A warm-up shorter than an update is none; one update an epoch; a step at every whole epoch
    // however large the numbers.
    c.optimizer.warmup_epochs = 0.01;
    sl_learning_rate_init(&r, &c, 50);
    ck_assert_double_eq(sl_learning_rate_at(&r, 0), job.lr);
    c.optimizer.warmup_epochs = 0;
    c.optimizer.schedule = SL_LR_STEP;
    c.optimizer.step_epochs = 1;
    c.optimizer.gamma = 0.5;
    const uint64_t n_train[] = {1, 10, 49 * 20, 1000003};
    for (size_t i = 0; i < SL_COUNT_OF(n_train); i++) {
        sl_learning_rate_init(&r, &c, n_train[i]);
        uint64_t n = r.updates_per_epoch;
        ck_assert_uint_eq(n, sl_div_up(sl_div_up(n_train[i], 10), VALUES_PER_UPDATE));
        for (uint64_t epoch = 1; epoch < 60; epoch++) {
            ck_assert_double_eq(sl_learning_rate_at(&r, epoch * n), ldexp(job.lr, -(int)epoch));
            ck_assert_double_eq(sl_learning_rate_at(&r, epoch * n - 1),
                                ldexp(job.lr, 1 - (int)epoch));
        }
    }
}

RUN_TESTS(.timeout_s = 60)
