#include "trainer/model/row_step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/mempool.h"

enum {
    DIGIT_BITS = 11, // at most
    DIGITS_MAX = 3,  // of a vertex
    SUM_ROWS = 256,  // that a thread adds up at a time
};

void sl_row_step_init(struct sl_row_step *s, const struct sl_row_table *table,
                      const struct sl_kernels *kernels, enum sl_optimizer_kind optimizer)
{
    *s = (struct sl_row_step){.table = table, .kernels = kernels, .optimizer = optimizer};
}

static void free_parts(struct sl_row_step *s)
{
    free(s->parts);
    free(s->sorted);
    free(s->first);
    free(s->ids);
    s->parts = s->sorted = NULL;
    s->first = s->ids = NULL;
    s->part_room = 0;
}

static void free_sums(struct sl_row_step *s)
{
    sl_pages_free(s->sums, s->sum_room * s->table->shape.dim * sizeof *s->sums);
    s->sums = NULL;
    s->sum_room = 0;
}

void sl_row_step_fini(struct sl_row_step *s)
{
    if (s->table) {
        free_parts(s);
        free_sums(s);
    }
    free(s->pages);
    *s = (struct sl_row_step){0};
}

// ---- the rows, and which gradients are theirs ---------------------------------------------------

static int no_memory(uint64_t n)
{
    return sl_fail(SL_ENOMEM, "trainer: no memory for %" PRIu64 " learned rows", n);
}

static int grow_parts(struct sl_row_step *s, uint64_t n)
{
    if (n < s->part_room)
        return SL_OK;
    free_parts(s);
    s->part_room = n + n / 8 + 1;
    s->parts = malloc(s->part_room * sizeof *s->parts);
    s->sorted = malloc(s->part_room * sizeof *s->sorted);
    s->first = malloc(s->part_room * sizeof *s->first);
    s->ids = malloc(s->part_room * sizeof *s->ids);
    return s->parts && s->sorted && s->first && s->ids ? SL_OK : no_memory(n);
}

static int grow_sums(struct sl_row_step *s)
{
    if (s->n <= s->sum_room)
        return SL_OK;
    free_sums(s);
    s->sum_room = s->n + s->n / 8;
    s->sums = sl_pages_alloc(s->sum_room * s->table->shape.dim * sizeof *s->sums);
    return s->sums ? SL_OK : no_memory(s->n);
}

static int grow_pages(struct sl_row_step *s, uint64_t n)
{
    if (n <= s->page_room)
        return SL_OK;
    free(s->pages);
    s->page_room = n + n / 8;
    s->pages = malloc(s->page_room * sizeof *s->pages);
    return s->pages ? SL_OK : no_memory(n * SL_GRADIENT_PAGE);
}

static uint32_t pages_of(const struct sl_row_slot *slot)
{
    return sl_div_up(*slot->n, (uint32_t)SL_GRADIENT_PAGE);
}

// Lists the batches' pages of gradients; *n rows that they met, all together.
static int list_pages(struct sl_row_step *s, const struct sl_update *u, uint64_t *n)
{
    const uint64_t n_rows = s->table->shape.n_rows, dim = s->table->shape.dim;
    uint64_t pages = 0;
    *n = 0;
    for (uint32_t b = 0; b < u->n_cells; b++) {
        const struct sl_row_slot slot = sl_row_table_slot(s->table, u->first_cell + b);
        if (*slot.n > n_rows)
            return sl_fail(SL_EPROTO, "learned rows: a batch met %u, of %" PRIu64, *slot.n, n_rows);
        pages += pages_of(&slot);
        *n += *slot.n;
    }
    if (pages > UINT32_MAX / SL_GRADIENT_PAGE)
        return sl_fail(SL_ERANGE,
                       "learned rows: an update met %" PRIu64 ", wanted less than 2^32: take a "
                       "smaller updates.batches_per_update",
                       *n);
    SL_TRY(grow_pages(s, pages));
    const float **page = s->pages;
    for (uint32_t b = 0; b < u->n_cells; b++) {
        const struct sl_row_slot slot = sl_row_table_slot(s->table, u->first_cell + b);
        for (uint64_t k = 0; k < pages_of(&slot); k++)
            *page++ = slot.gradient + k * SL_GRADIENT_PAGE * dim;
    }
    return SL_OK;
}

// How vertices are sorted: by digits of so many bits, the lowest first.
struct digits {
    uint32_t n, bits;
    uint32_t at[DIGITS_MAX][1 << DIGIT_BITS]; // where the next part with that digit goes
};

static uint32_t digit_of(const struct digits *d, uint32_t k, uint32_t id)
{
    return id >> k * d->bits & ((1u << d->bits) - 1);
}

static int count_digits(const struct sl_row_step *s, const struct sl_update *u, struct digits *d)
{
    const uint64_t n_rows = s->table->shape.n_rows;
    const uint32_t bits = n_rows > 1 ? 64 - (uint32_t)__builtin_clzll(n_rows - 1) : 1;
    uint32_t most = 0;
    d->n = sl_div_up(bits, (uint32_t)DIGIT_BITS);
    d->bits = sl_div_up(bits, d->n);
    memset(d->at, 0, sizeof d->at);
    for (uint32_t b = 0; b < u->n_cells; b++) {
        const struct sl_row_slot slot = sl_row_table_slot(s->table, u->first_cell + b);
        for (uint32_t i = 0; i < *slot.n; i++) {
            most = SL_MAX(most, slot.ids[i]);
            for (uint32_t k = 0; k < d->n; k++)
                d->at[k][digit_of(d, k, slot.ids[i])]++;
        }
    }
    for (uint32_t k = 0; k < d->n; k++) {
        uint32_t before = 0;
        for (uint32_t v = 0; v < 1u << d->bits; v++) {
            const uint32_t count = d->at[k][v];
            d->at[k][v] = before;
            before += count;
        }
    }
    if (most < n_rows)
        return SL_OK;
    return sl_fail(SL_EPROTO, "learned rows: a batch met vertex %u, of %" PRIu64, most, n_rows);
}

// By vertex; parts of one are in the order of the batches.
static int sort_parts(struct sl_row_step *s, const struct sl_update *u, uint64_t n)
{
    static _Thread_local struct digits d;
    uint32_t pages = 0;
    SL_TRY(count_digits(s, u, &d));
    for (uint32_t b = 0; b < u->n_cells; b++) {
        const struct sl_row_slot slot = sl_row_table_slot(s->table, u->first_cell + b);
        struct sl_gradient_row *restrict to = s->parts;
        for (uint32_t i = 0; i < *slot.n; i++) {
            const uint32_t at = (pages << SL_GRADIENT_PAGE_BITS) + i;
            to[d.at[0][digit_of(&d, 0, slot.ids[i])]++] = (struct sl_gradient_row){slot.ids[i], at};
        }
        pages += pages_of(&slot);
    }
    for (uint32_t k = 1; k < d.n; k++) {
        const struct sl_gradient_row *restrict from = s->parts;
        struct sl_gradient_row *restrict to = s->sorted;
        for (uint64_t i = 0; i < n; i++)
            to[d.at[k][digit_of(&d, k, from[i].id)]++] = from[i];
        s->sorted = s->parts;
        s->parts = to;
    }
    return SL_OK;
}

// Row r's parts are [first[r], first[r + 1]).
static void find_rows(struct sl_row_step *s, uint64_t n)
{
    uint32_t rows = 0;
    for (uint64_t i = 0; i < n; i++) {
        s->first[rows] = (uint32_t)i;
        s->ids[rows] = s->parts[i].id;
        rows += i == 0 || s->parts[i].id != s->parts[i - 1].id; // else it is written over
    }
    s->n = rows;
    s->first[rows] = (uint32_t)n;
}

static struct sl_row_optimizer_args arguments(const struct sl_row_step *s, float scale)
{
    const struct sl_row_table *t = s->table;
    return (struct sl_row_optimizer_args){.n = s->n,
                                          .dim = t->shape.dim,
                                          .ids = s->ids,
                                          .first = s->first,
                                          .parts = s->parts,
                                          .pages = s->pages,
                                          .scale = scale,
                                          .values = t->values,
                                          .state = {t->state[0], t->state[1]}};
}

static void sum_part(void *context, uint32_t part)
{
    const struct sl_row_step *s = context;
    const struct sl_row_optimizer_args args = arguments(s, 1);
    const uint64_t begin = (uint64_t)part * SUM_ROWS;
    sl_row_optimizer_sum(&args, begin, SL_MIN(begin + SUM_ROWS, s->n), s->sums + begin * args.dim);
}

// Adds the gradients of each row up, which are its only part from now on: in a pass of their own
// they are read faster than between the rows of the table.
static int make_sums(struct sl_row_step *s)
{
    const uint64_t pages = sl_div_up(s->n, (uint32_t)SL_GRADIENT_PAGE);
    SL_TRY(grow_sums(s));
    sl_kernels_run((uint32_t)sl_div_up(s->n, SUM_ROWS), sum_part, s);
    for (uint64_t k = 0; k < pages; k++) // no more than there were
        s->pages[k] = s->sums + k * SL_GRADIENT_PAGE * s->table->shape.dim;
    for (uint32_t r = 0; r < s->n; r++) {
        s->parts[r] = (struct sl_gradient_row){s->ids[r], r};
        s->first[r] = r;
    }
    s->first[s->n] = s->n;
    return SL_OK;
}

int sl_row_step_meet(struct sl_row_step *s, const struct sl_update *u, double *squares)
{
    const bool one = u->n_cells == 1; // whose gradients lie in its own order
    uint64_t n;
    SL_TRY(list_pages(s, u, &n));
    SL_TRY(grow_parts(s, n));
    SL_TRY(sort_parts(s, u, n));
    find_rows(s, n);
    if (!one)
        SL_TRY(make_sums(s));
    if (!squares)
        return SL_OK;
    const float *x = one ? sl_row_table_slot(s->table, u->first_cell).gradient : s->sums;
    return s->kernels->sum_squares((uint64_t)s->n * s->table->shape.dim, x, squares);
}

// ---- the step -----------------------------------------------------------------------------------

struct apply {
    struct sl_row_step *s;
    uint64_t version;
    struct sl_row_optimizer optimizer;
    struct sl_row_table_progress at[SL_ROW_TABLE_LANES];
    bool broken[SL_ROW_TABLE_LANES]; // its journal has a number that is not finite
};

// Of rows [begin, end). False where one of them is not finite.
static bool make_journal(const struct apply *a, uint64_t begin, uint64_t end,
                         const struct sl_row_journal *j)
{
    float *const out[] = {j->values, j->state[0], j->state[1]};
    *j->n = (uint32_t)(end - begin);
    memcpy(j->ids, a->s->ids + begin, *j->n * sizeof *j->ids);
    return sl_row_optimizer_step(&a->optimizer, begin, end, out);
}

// Any number of times.
static void copy_journal(const struct sl_row_table *t, const struct sl_row_journal *j)
{
    sl_row_optimizer_write(j->values, j->ids, *j->n, t->shape.dim, t->values);
    SL_FAILPOINT(TRAINER_ROWS_COPY);
    for (uint32_t i = 0; i < t->shape.n_state; i++)
        sl_row_optimizer_write(j->state[i], j->ids, *j->n, t->shape.dim, t->state[i]);
}

static uint64_t lane_begin(const struct sl_row_step *s, uint32_t lane)
{
    return (uint64_t)s->n * lane / SL_ROW_TABLE_LANES;
}

static void step_lane(void *context, uint32_t lane)
{
    struct apply *a = context;
    const struct sl_row_table *t = a->s->table;
    const uint64_t chunk_rows = sl_row_table_chunk_rows(t->shape.dim);
    const uint64_t first = lane_begin(a->s, lane), end = lane_begin(a->s, lane + 1);
    const struct sl_row_journal j = sl_row_table_journal(t, lane);
    struct sl_row_table_progress at = a->at[lane];
    if (at.made)
        return;
    for (uint64_t row; (row = first + at.chunk * chunk_rows) < end; at.chunk++) {
        if (!at.whole) {
            if (!make_journal(a, row, SL_MIN(row + chunk_rows, end), &j)) {
                a->broken[lane] = true;
                return;
            }
            SL_FAILPOINT(TRAINER_ROWS_MADE);
            sl_row_table_advance(t, lane, a->version, at.chunk, true);
            SL_FAILPOINT(TRAINER_ROWS_MARKED);
        }
        copy_journal(t, &j);
        SL_FAILPOINT(TRAINER_ROWS_COPIED);
        sl_row_table_advance(t, lane, a->version, at.chunk + 1, false);
        at.whole = false;
    }
    sl_row_table_end(t, lane, a->version);
}

// Names the first row of the journal that is not finite.
static int explain(const struct sl_row_table *t, const struct sl_row_journal *j, uint64_t version)
{
    const uint64_t n = (uint64_t)*j->n * t->shape.dim;
    uint64_t k = 0;
    while (k + 1 < n && isfinite(j->values[k]) && isfinite(j->state[0][k]) &&
           (t->shape.n_state < 2 || isfinite(j->state[1][k])))
        k++;
    return sl_fail(SL_ENOTFINITE,
                   "update %" PRIu64 ": the step of the learned row of vertex %u is not finite",
                   version + 1, j->ids[k / t->shape.dim]);
}

int sl_row_step_apply(struct sl_row_step *s, const struct sl_row_rates *rates)
{
    const struct sl_row_optimizer_args args = arguments(s, rates->scale);
    struct apply a = {.s = s, .version = rates->version};
    if (s->optimizer == SL_OPTIMIZER_SGD)
        SL_TRY(sl_sgd_rows(&rates->sgd, &args, &a.optimizer));
    else
        SL_TRY(sl_adam_rows(&rates->adam, &args, &a.optimizer));
    for (uint32_t lane = 0; lane < SL_ROW_TABLE_LANES; lane++)
        SL_TRY(sl_row_table_begin(s->table, lane, rates->version, &a.at[lane]));
    sl_kernels_run(SL_ROW_TABLE_LANES, step_lane, &a);
    for (uint32_t lane = 0; lane < SL_ROW_TABLE_LANES; lane++) {
        const struct sl_row_journal j = sl_row_table_journal(s->table, lane);
        if (a.broken[lane])
            return explain(s->table, &j, rates->version);
    }
    SL_FAILPOINT(TRAINER_ROWS_DONE);
    return SL_OK;
}
