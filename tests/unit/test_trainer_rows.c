// Learned rows: the table, the step of an update's rows against a plain one, and appliers that are
// killed at every point.
#include "trainer/model/row_step.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "kernels/row_optimizer.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_fixture.h"

enum {
    UPDATES = 6,
#ifdef __SANITIZE_THREAD__
    APPLIERS = 1, // whose children start no threads
#else
    APPLIERS = 2, // threads of an applier that is killed
#endif
};

static int rows_fd, work_fd;
static struct sl_row_table table;

static void make_files(void)
{
    rows_fd = memfd_create("rows", 0);
    work_fd = memfd_create("work", 0);
    ck_assert(rows_fd >= 0 && work_fd >= 0);
}

static void drop_files(void)
{
    sl_row_table_close(&table);
    close(rows_fd);
    close(work_fd);
}

static void make_table(uint64_t n_rows, uint32_t dim, uint32_t n_state, uint32_t n_slots)
{
    const struct sl_row_table_shape shape = {n_rows, dim, n_state, n_slots};
    ck_assert_int_eq(sl_row_table_create(rows_fd, work_fd, &shape, false, &table), SL_OK);
    ck_assert_int_eq(sl_row_table_fill(&table, 7, 2, NULL), SL_OK);
}

static uint64_t floats(void)
{
    return table.shape.n_rows * table.shape.dim;
}

// Batch `cell` meets `n` different rows, row 0 first, with random gradients.
static void meet(uint32_t cell, uint32_t n, struct fixture_rng *r)
{
    const struct sl_row_slot slot = sl_row_table_slot(&table, cell);
    const uint32_t n_rows = (uint32_t)table.shape.n_rows, dim = table.shape.dim;
    uint32_t *order = fixture_alloc(n_rows * sizeof *order);
    for (uint32_t i = 0; i < n_rows; i++)
        order[i] = i;
    for (uint32_t i = 1; i < n; i++) { // the hub stays where it is
        uint32_t k = i + fixture_word(r) % (n_rows - i), id = order[k];
        order[k] = order[i];
        order[i] = id;
    }
    *slot.n = n;
    memcpy(slot.ids, order, n * sizeof *order);
    for (uint64_t i = 0; i < (uint64_t)n * dim; i++)
        slot.gradient[i] = fixture_float(r, 1);
    free(order);
}

static struct sl_row_rates rates_of(uint64_t version)
{
    struct sl_row_rates rates = {.scale = 0.25f, .version = version};
    rates.adam = (struct sl_adam_step){
        .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .t = version + 1};
    rates.sgd = (struct sl_sgd_step){.lr = 0.1f, .momentum = 0.8f};
    return rates;
}

static struct sl_update update_of(uint64_t version, uint32_t n_cells)
{
    return (struct sl_update){
        .version = version, .first_cell = (uint32_t)version * n_cells, .n_cells = n_cells};
}

static double squares_met; // of the sums of the last step that asked: every other one

static void step_as(enum sl_optimizer_kind kind, const struct sl_row_rates *rates, uint32_t n_cells)
{
    const struct sl_update u = update_of(rates->version, n_cells);
    struct sl_row_step s;
    sl_row_step_init(&s, &table, sl_kernels_cpu(), kind);
    ck_assert_int_eq(sl_row_step_meet(&s, &u, rates->version % 2 ? NULL : &squares_met), SL_OK);
    ck_assert_int_eq(sl_row_step_apply(&s, rates), SL_OK);
    sl_row_step_fini(&s);
}

// --- the step ---

// A plain one, of every row by itself in doubles.
struct plain {
    double *p, *m, *v, *g; // (n_rows, dim)
    bool *met;             // (n_rows)
};

static void plain_init(struct plain *x)
{
    *x = (struct plain){.p = fixture_alloc(floats() * sizeof(double)),
                        .m = fixture_alloc(floats() * sizeof(double)),
                        .v = fixture_alloc(floats() * sizeof(double)),
                        .g = fixture_alloc(floats() * sizeof(double)),
                        .met = fixture_alloc(table.shape.n_rows)};
    for (uint64_t i = 0; i < floats(); i++)
        x->p[i] = (double)table.values[i];
}

static void plain_free(struct plain *x)
{
    free(x->p);
    free(x->m);
    free(x->v);
    free(x->g);
    free(x->met);
}

static void plain_sum(struct plain *x, uint64_t version, uint32_t n_cells)
{
    const uint32_t dim = table.shape.dim;
    memset(x->g, 0, floats() * sizeof *x->g);
    memset(x->met, 0, table.shape.n_rows);
    for (uint32_t c = 0; c < n_cells; c++) {
        const struct sl_row_slot slot = sl_row_table_slot(&table, (uint32_t)version * n_cells + c);
        for (uint32_t i = 0; i < *slot.n; i++) {
            x->met[slot.ids[i]] = true;
            for (uint32_t k = 0; k < dim; k++)
                x->g[(uint64_t)slot.ids[i] * dim + k] +=
                    (double)slot.gradient[(uint64_t)i * dim + k];
        }
    }
}

// torch.optim.SparseAdam, with weight decay for rows that were met; or SGD with momentum.
static void plain_step(struct plain *x, enum sl_optimizer_kind kind, const struct sl_row_rates *r,
                       double adam_eps)
{
    const struct sl_adam_step *a = &r->adam;
    const double c1 = 1 - pow(a->beta1, (double)a->t), c2 = 1 - pow(a->beta2, (double)a->t);
    for (uint64_t i = 0; i < floats(); i++) {
        double g = x->g[i] * r->scale;
        if (!x->met[i / table.shape.dim])
            continue;
        if (kind == SL_OPTIMIZER_SGD) {
            x->m[i] = r->sgd.momentum * x->m[i] + g + r->sgd.weight_decay * x->p[i];
            x->p[i] -= r->sgd.lr * x->m[i];
            continue;
        }
        if (a->decoupled)
            x->p[i] *= 1 - (double)a->lr * a->weight_decay;
        else
            g += a->weight_decay * x->p[i];
        x->m[i] += (g - x->m[i]) * (1 - (double)a->beta1);
        x->v[i] += (g * g - x->v[i]) * (1 - (double)a->beta2);
        x->p[i] -= a->lr * sqrt(c2) / c1 * x->m[i] / (sqrt(x->v[i]) + adam_eps);
    }
}

static void assert_same(const char *what, const float *found, const double *wanted)
{
    for (uint64_t i = 0; i < floats(); i++)
        ck_assert_msg(fabs(found[i] - wanted[i]) <= 2e-6 * fmax(1, fabs(wanted[i])),
                      "%s of row %llu, column %llu: found %.9g, wanted %.9g", what,
                      (unsigned long long)(i / table.shape.dim),
                      (unsigned long long)(i % table.shape.dim), found[i], wanted[i]);
}

static const struct {
    enum sl_optimizer_kind kind;
    uint64_t n_rows;
    uint32_t dim, cells;
    float decay;
} steps[] = {
    {SL_OPTIMIZER_ADAM, 50, 5, 1, 0},
    {SL_OPTIMIZER_ADAM, 50, 5, 4, 0.01f},
    {SL_OPTIMIZER_ADAMW, 50, 16, 3, 0.1f},
    {SL_OPTIMIZER_SGD, 50, 3, 4, 0.01f},
    {SL_OPTIMIZER_ADAM, 1, 4, 3, 0},
    {SL_OPTIMIZER_SGD, 9000, 1, 2, 0},   // several pages of gradients
    {SL_OPTIMIZER_ADAM, 150, 528, 3, 0}, // of several chunks
};

CASE(.setup = make_files, .teardown = drop_files)

LOOP_TEST(steps_are_those_of_a_plain_optimizer, 0, SL_COUNT_OF(steps))
{
    const uint32_t cells = steps[_i].cells, n_rows = (uint32_t)steps[_i].n_rows;
    const double eps = 1e-4; // enough to be seen
    struct fixture_rng r = {.seed = (uint64_t)_i};
    struct plain x;
    make_table(n_rows, steps[_i].dim, steps[_i].kind == SL_OPTIMIZER_SGD ? 1 : 2, cells);
    plain_init(&x);
    for (uint64_t version = 0; version < UPDATES; version++) {
        struct sl_row_rates rates = rates_of(version);
        rates.adam.decoupled = steps[_i].kind == SL_OPTIMIZER_ADAMW;
        rates.adam.weight_decay = rates.sgd.weight_decay = steps[_i].decay;
        rates.adam.eps = (float)(eps / sqrt(1 - pow(rates.adam.beta2, (double)version + 1)));
        for (uint32_t c = 0; c < cells; c++)
            meet((uint32_t)version * cells + c, 1 + fixture_word(&r) % n_rows, &r);
        plain_sum(&x, version, cells);
        plain_step(&x, steps[_i].kind, &rates, eps);
        step_as(steps[_i].kind, &rates, cells);
        ck_assert(sl_row_table_is_at(&table, version + 1));
        double wanted = 0;
        for (uint64_t i = 0; i < floats(); i++)
            wanted += x.g[i] * x.g[i];
        ck_assert(version % 2 || fabs(squares_met - wanted) <= 1e-6 * wanted);
    }
    assert_same("value", table.values, x.p);
    assert_same("first state", table.state[0], x.m);
    if (table.shape.n_state > 1)
        assert_same("second state", table.state[1], x.v);
    plain_free(&x);
}

// Rows that lie anywhere are stepped as arrays of dense parameters are, bit for bit, of gradients
// that are added up before.
static const struct {
    uint32_t n, dim;
} shapes[] = {{1, 1}, {7, 5}, {70, 64}, {300, 3}, {9, 256}, {5, 300}, {3, 1000}, {3, 1024}};

static void ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

enum { SPREAD = 3, PARTS_MAX = 3, PAGES = 2 };

// What is stepped, in both forms.
struct dense {
    uint64_t floats;
    float *table[3], *from[3], *out[3], *wanted[3];
    float *pages[PAGES], *sums, *scaled;
    uint32_t *ids, *first;
    struct sl_gradient_row *parts;
};

static float *some_floats(struct fixture_rng *r, uint64_t n)
{
    float *x = fixture_alloc(n * sizeof *x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = fixture_float(r, 1);
    return x;
}

// Row i has some parts, which lie on pages anywhere.
static void part_rows(struct dense *d, uint32_t n, uint32_t dim, struct fixture_rng *r)
{
    uint32_t part = 0;
    for (uint32_t i = 0; i < n; i++) {
        float *sum = d->sums + (uint64_t)i * dim;
        d->ids[i] = SPREAD * (n - 1 - i) + fixture_word(r) % SPREAD;
        d->first[i] = part;
        for (uint32_t k = 0; k <= fixture_word(r) % PARTS_MAX; k++, part++) {
            const uint32_t page = fixture_word(r) % PAGES, row = fixture_word(r) % n;
            d->parts[part] = (struct sl_gradient_row){d->ids[i], page * SL_GRADIENT_PAGE + row};
            for (uint32_t c = 0; c < dim; c++) {
                const float x = d->pages[page][(uint64_t)row * dim + c];
                sum[c] = k == 0 ? x : sum[c] + x;
            }
        }
    }
    d->first[n] = part;
}

static void dense_init(struct dense *d, uint32_t n, uint32_t dim, struct fixture_rng *r)
{
    const struct sl_kernels *k = sl_kernels_cpu();
    d->floats = (uint64_t)n * dim;
    for (int p = 0; p < PAGES; p++)
        d->pages[p] = some_floats(r, d->floats);
    d->sums = fixture_alloc(d->floats * sizeof(float));
    d->scaled = fixture_alloc(d->floats * sizeof(float));
    d->ids = fixture_alloc(n * sizeof *d->ids);
    d->first = fixture_alloc((n + 1) * sizeof *d->first);
    d->parts = fixture_alloc((uint64_t)n * PARTS_MAX * sizeof *d->parts);
    part_rows(d, n, dim, r);
    for (int a = 0; a < 3; a++) {
        d->table[a] = some_floats(r, SPREAD * d->floats);
        for (uint64_t i = 0; a == 2 && i < SPREAD * d->floats; i++)
            d->table[a][i] = fabsf(d->table[a][i]);
        d->from[a] = fixture_alloc(d->floats * sizeof(float));
        d->out[a] = fixture_alloc(d->floats * sizeof(float));
        d->wanted[a] = fixture_alloc(d->floats * sizeof(float));
        ok(k->gather_rows(d->table[a], SL_DTYPE_F32, (uint64_t)SPREAD * n, dim, d->ids, n,
                          d->from[a]));
    }
    const float *slot = d->sums;
    ok(k->reduce(&slot, 1, d->floats, 0.3f, d->scaled));
}

static void dense_free(struct dense *d)
{
    for (int p = 0; p < PAGES; p++)
        free(d->pages[p]);
    for (int a = 0; a < 3; a++) {
        free(d->table[a]);
        free(d->from[a]);
        free(d->out[a]);
        free(d->wanted[a]);
    }
    free(d->sums);
    free(d->scaled);
    free(d->ids);
    free(d->first);
    free(d->parts);
}

// `cut` rows at a time. True where all are finite.
static bool step_in_cuts(const struct dense *d, const struct sl_row_optimizer *o, uint32_t cut)
{
    bool finite = true;
    for (uint64_t i = 0; i < o->args.n; i += cut) {
        const uint64_t at = i * o->args.dim;
        float *const out[] = {d->out[0] + at, d->out[1] + at, d->out[2] + at};
        finite &= sl_row_optimizer_step(o, i, SL_MIN(i + cut, o->args.n), out);
    }
    return finite;
}

static void assert_dense(const struct dense *d, int n_arrays)
{
    for (int a = 0; a < n_arrays; a++)
        ck_assert_int_eq(memcmp(d->out[a], d->wanted[a], d->floats * sizeof(float)), 0);
}

LOOP_TEST(rows_are_stepped_as_dense_parameters, 0, SL_COUNT_OF(shapes))
{
    const uint32_t n = shapes[_i].n, dim = shapes[_i].dim;
    const struct sl_kernels *k = sl_kernels_cpu();
    struct fixture_rng r = {.seed = (uint64_t)_i};
    struct sl_row_rates rates = rates_of(4);
    struct sl_row_optimizer o;
    struct dense d = {0};
    uint32_t broken = 0;
    rates.adam.weight_decay = rates.sgd.weight_decay = 0.01f;
    dense_init(&d, n, dim, &r);
    const struct sl_row_optimizer_args args = {.n = n,
                                               .dim = dim,
                                               .ids = d.ids,
                                               .first = d.first,
                                               .parts = d.parts,
                                               .pages = (const float *const *)d.pages,
                                               .scale = 0.3f,
                                               .values = d.table[0],
                                               .state = {d.table[1], d.table[2]}};
    sl_row_optimizer_sum(&args, 0, n, d.out[0]);
    ck_assert_int_eq(memcmp(d.out[0], d.sums, d.floats * sizeof(float)), 0);
    ok(sl_adam_rows(&rates.adam, &args, &o));
    ok(k->adam(&rates.adam, d.floats, d.scaled, d.from[0], d.from[1], d.from[2], d.wanted[0],
               d.wanted[1], d.wanted[2], &broken));
    for (uint32_t cut = 1; cut <= n; cut += 3) {
        ck_assert(step_in_cuts(&d, &o, cut));
        assert_dense(&d, 3);
    }
    ok(sl_sgd_rows(&rates.sgd, &args, &o));
    ok(k->sgd(&rates.sgd, d.floats, d.scaled, d.from[0], d.from[1], d.wanted[0], d.wanted[1],
              &broken));
    ck_assert(step_in_cuts(&d, &o, n));
    assert_dense(&d, 2);
    ck_assert_uint_eq(broken, 0);
    const uint32_t last = d.parts[d.first[n] - 1].at;
    d.pages[last / SL_GRADIENT_PAGE][(uint64_t)(last % SL_GRADIENT_PAGE + 1) * dim - 1] = INFINITY;
    ck_assert(!step_in_cuts(&d, &o, n));
    sl_row_optimizer_write(d.out[0], d.ids, n, dim, d.table[0]);
    ok(k->gather_rows(d.table[0], SL_DTYPE_F32, (uint64_t)SPREAD * n, dim, d.ids, n, d.from[0]));
    ck_assert_int_eq(memcmp(d.from[0], d.out[0], d.floats * sizeof(float)), 0);
    dense_free(&d);
}

// All that the two files hold of rows.
static float *copy_rows(void)
{
    const uint64_t bytes = sl_row_table_bytes(&table.shape);
    float *copy = fixture_alloc(bytes);
    memcpy(copy, table.rows, bytes);
    return copy;
}

static void assert_rows(const float *wanted)
{
    ck_assert_int_eq(memcmp(table.rows, wanted, sl_row_table_bytes(&table.shape)), 0);
}

LOOP_TEST(threads_change_no_bit, 1, 3)
{
    struct fixture_rng r = {.seed = 3};
    const struct sl_row_rates rates = rates_of(0);
    make_table(3000, 64, 2, 4);
    float *before = copy_rows();
    for (uint32_t c = 0; c < 4; c++)
        meet(c, 2000, &r);
    sl_kernels_set_threads(1);
    step_as(SL_OPTIMIZER_ADAM, &rates, 4);
    float *wanted = copy_rows();
    memcpy(table.rows, before, sl_row_table_bytes(&table.shape));
    sl_row_table_restore(&table, 0);
    sl_kernels_set_threads(_i + 1);
    step_as(SL_OPTIMIZER_ADAM, &rates, 4);
    assert_rows(wanted);
    free(before);
    free(wanted);
}

// Of several: the lowest vertex. Whoever tries once more says the same.
TEST(a_step_that_is_not_finite_says_whose)
{
    struct fixture_rng r = {.seed = 3};
    struct sl_row_rates rates = rates_of(0);
    const struct sl_update u = update_of(0, 1);
    struct sl_row_step s;
    make_table(500, 3, 1, 1);
    meet(0, 400, &r);
    const struct sl_row_slot slot = sl_row_table_slot(&table, 0);
    slot.gradient[70 * 3 + 1] = slot.gradient[350 * 3] = 3e38f;
    rates.sgd.lr = 1000;
    sl_row_step_init(&s, &table, sl_kernels_cpu(), SL_OPTIMIZER_SGD);
    char whose[64];
    snprintf(whose, sizeof whose, "of vertex %u is not finite",
             SL_MIN(slot.ids[70], slot.ids[350]));
    for (int time = 0; time < 2; time++) {
        sl_kernels_set_threads(2 - time);
        ck_assert_int_eq(sl_row_step_meet(&s, &u, &squares_met), SL_OK);
        ck_assert(isfinite(squares_met));
        ck_assert_int_eq(sl_row_step_apply(&s, &rates), SL_ENOTFINITE);
        ck_assert_msg(strstr(sl_error_message(), whose), "%s", sl_error_message());
        ck_assert(!sl_row_table_is_at(&table, 1));
    }
    slot.gradient[0] = NAN; // of vertex 0
    ck_assert_int_eq(sl_row_step_meet(&s, &u, &squares_met), SL_OK);
    ck_assert(!isfinite(squares_met));
    sl_row_table_restore(&table, 0);
    ck_assert_int_eq(sl_row_step_meet(&s, &u, NULL), SL_OK);
    ck_assert_int_eq(sl_row_step_apply(&s, &rates), SL_ENOTFINITE);
    ck_assert_msg(strstr(sl_error_message(), "of vertex 0 is"), "%s", sl_error_message());
    sl_row_step_fini(&s);
}

TEST(what_is_no_vertex_is_refused)
{
    struct fixture_rng r = {.seed = 3};
    const struct sl_update u = update_of(0, 2);
    struct sl_row_step s;
    make_table(9, 3, 1, 2);
    meet(0, 4, &r);
    meet(1, 4, &r);
    sl_row_step_init(&s, &table, sl_kernels_cpu(), SL_OPTIMIZER_SGD);
    sl_row_table_slot(&table, 1).ids[3] = 9;
    ck_assert_int_eq(sl_row_step_meet(&s, &u, NULL), SL_EPROTO);
    ck_assert_msg(strstr(sl_error_message(), "vertex 9, of 9"), "%s", sl_error_message());
    *sl_row_table_slot(&table, 1).n = 10;
    ck_assert_int_eq(sl_row_step_meet(&s, &u, NULL), SL_EPROTO);
    sl_row_step_fini(&s);
}

TEST(an_update_may_meet_no_row)
{
    const struct sl_row_rates rates = rates_of(0);
    make_table(9, 3, 2, 2); // whose slots are empty
    step_as(SL_OPTIMIZER_ADAM, &rates, 2);
    ck_assert(squares_met == 0);
    ck_assert(sl_row_table_is_at(&table, 1));
}

// --- appliers that are killed ---

static const char *const points[] = {"trainer_rows_made", "trainer_rows_marked",
                                     "trainer_rows_copy", "trainer_rows_copied",
                                     "trainer_rows_done"};

// An applier that kills itself when it comes to the point for the count-th time. False: it did not.
static bool killed_at(const char *point, int count, const struct sl_row_rates *rates,
                      uint32_t cells, int threads)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        char at[64];
        snprintf(at, sizeof at, "%s:%d", point, count);
        setenv("SLUICE_FAILPOINT", at, 1);
        sl_kernels_set_threads(threads); // which are not inherited
        if (sl_failpoint_init() == SL_OK)
            step_as(SL_OPTIMIZER_ADAM, rates, cells);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

// Rows in chunks of one, several in each lane; two updates, of which the second is broken off: at
// each point, in many of the chunks, by one thread or two; then again by the one that goes on.
LOOP_TEST(who_goes_on_makes_the_update_whole, 0, SL_COUNT_OF(points))
{
    enum { DIM = 528, ROWS = 150, MET = 100, CELLS = 3, EACH = 5, STRIDE = 9 };
    struct fixture_rng r = {.seed = 11};
    const struct sl_row_rates first = rates_of(0), second = rates_of(1);
    const bool done = strcmp(points[_i], "trainer_rows_done") == 0;
    sl_kernels_set_threads(1);
    ck_assert_uint_eq(sl_row_table_chunk_rows(DIM), 1);
    make_table(ROWS, DIM, 2, CELLS);
    for (uint32_t c = 0; c < CELLS; c++)
        meet(c, 5, &r);
    step_as(SL_OPTIMIZER_ADAM, &first, CELLS);
    for (uint32_t c = 0; c < CELLS; c++)
        meet(CELLS + c, MET, &r);
    float *before = copy_rows();
    step_as(SL_OPTIMIZER_ADAM, &second, CELLS);
    float *wanted = copy_rows();
    int kills = 0;
    for (int count = 1;; count += count < EACH ? 1 : STRIDE) {
        const int threads = 1 + kills % APPLIERS;
        memcpy(table.rows, before, sl_row_table_bytes(&table.shape));
        sl_row_table_restore(&table, 1);
        if (!killed_at(points[_i], count, &second, CELLS, threads))
            break;
        kills++;
        const bool begun = strcmp(points[_i], "trainer_rows_made") != 0 || count > 1;
        ck_assert_int_eq(sl_row_table_is_at(&table, 2), done);
        ck_assert(threads > 1 || sl_row_table_is_at(&table, 1) == !begun);
        killed_at(points[_i], 1, &second, CELLS, threads);
        step_as(SL_OPTIMIZER_ADAM, &second, CELLS);
        assert_rows(wanted);
        ck_assert(sl_row_table_is_at(&table, 2));
    }
    assert_rows(wanted); // of the one that nobody killed
    ck_assert_int_ge(kills, done ? 1 : EACH + MET / STRIDE);
    free(before);
    free(wanted);
}

// --- the table ---

TEST(rows_of_another_version_are_not_stepped)
{
    enum { LANE = SL_ROW_TABLE_LANES - 1 };
    struct sl_row_table_progress at;
    make_table(5, 2, 1, 1);
    sl_row_table_restore(&table, 70000);
    ck_assert_int_eq(sl_row_table_begin(&table, LANE, 70000, &at), SL_OK);
    ck_assert(at.chunk == 0 && !at.whole && !at.made);
    ck_assert_int_eq(sl_row_table_begin(&table, LANE, 70001, &at), SL_EPROTO);
    ck_assert_int_eq(sl_row_table_begin(&table, LANE, 69999, &at), SL_OK);
    ck_assert(at.made);
    sl_row_table_advance(&table, LANE, 70000, UINT64_C(1) << 40, true);
    ck_assert_int_eq(sl_row_table_begin(&table, LANE, 70000, &at), SL_OK);
    ck_assert(at.chunk == UINT64_C(1) << 40 && at.whole && !at.made);
    ck_assert_int_eq(sl_row_table_begin(&table, 0, 70000, &at), SL_OK);
    ck_assert(at.chunk == 0 && !at.whole && !at.made);
    ck_assert(!sl_row_table_is_at(&table, 70000) && !sl_row_table_is_at(&table, 70001));
    for (uint32_t lane = 0; lane < SL_ROW_TABLE_LANES; lane++) {
        ck_assert(!sl_row_table_is_at(&table, 70001));
        sl_row_table_end(&table, lane, 70000);
    }
    ck_assert(sl_row_table_is_at(&table, 70001));
}

TEST(values_are_a_function_of_seed_vertex_and_column)
{
    const double bound = sqrt(6.0 / (10000 + 6));
    make_table(10000, 6, 1, 1);
    float *first = copy_rows();
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < floats(); i++) {
        const uint32_t row = (uint32_t)(i / 6), column = (uint32_t)(i % 6);
        const struct sl_rng_block draw =
            sl_philox(7, sl_rng_word0(SL_RNG_ROWS, 0, 0), column / 4, row, 0);
        ck_assert(table.values[i] == (float)bound * (2 * sl_rng_unit(draw.w[column % 4]) - 1));
        sum += table.values[i];
        squares += table.values[i] * table.values[i];
    }
    ck_assert_double_le(fabs(sum / (double)floats()), bound / 50);
    ck_assert_double_le(fabs(squares / (double)floats() - bound * bound / 3), bound * bound / 100);
    ck_assert_int_eq(sl_row_table_fill(&table, 7, 1, NULL), SL_OK);
    assert_rows(first);
    ck_assert_int_eq(sl_row_table_fill(&table, 8, 1, NULL), SL_OK);
    ck_assert_int_ne(memcmp(table.values, first, 6 * sizeof *first), 0);
    free(first);
}

TEST(workers_map_what_the_broker_made)
{
    struct sl_row_table other;
    make_table(100, 7, 2, 3);
    ck_assert_int_eq(sl_row_table_open(rows_fd, work_fd, &other), SL_OK);
    ck_assert_int_eq(memcmp(other.values, table.values, floats() * sizeof(float)), 0);
    *sl_row_table_slot(&other, 5).n = 77;
    ck_assert_uint_eq(*sl_row_table_slot(&table, 2).n, 77);
    other.best[699] = other.state[1][699] = 5;
    ck_assert(table.best[699] == 5 && table.state[1][699] == 5 && table.state[0][699] == 0);
    sl_row_table_close(&other);
    ck_assert_int_eq(ftruncate(rows_fd, 4096), 0);
    ck_assert_int_eq(sl_row_table_open(rows_fd, work_fd, &other), SL_EFORMAT);
    ck_assert_int_eq(sl_row_table_open(work_fd, rows_fd, &other), SL_EFORMAT);
    const struct sl_row_table_shape none = {.n_rows = 0, .dim = 3, .n_state = 1, .n_slots = 1};
    ck_assert_int_eq(sl_row_table_create(rows_fd, work_fd, &none, false, &other), SL_EINVAL);
}

RUN_TESTS(.timeout_s = 60)
