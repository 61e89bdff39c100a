#include "trainer/model/row_step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/mempool.h"
#include "kernels/row_optimizer.h"

enum {
    DIGIT_BITS = 11,
    DIGITS = 1 << DIGIT_BITS,
    SUM_ROWS = 256, // that a thread adds up at a time
    SUM_AHEAD = 8,  // gradients that are asked for
};

// A row that a batch of the update met.
struct sl_row_entry {
    uint32_t id, batch, at;
};

int sl_row_step_init(struct sl_row_step *s, const struct sl_row_table *table,
                     const struct sl_kernels *kernels, enum sl_optimizer_kind optimizer)
{
    *s = (struct sl_row_step){.table = table, .kernels = kernels, .optimizer = optimizer};
    s->slots = malloc(table->shape.n_slots * sizeof *s->slots);
    return s->slots ? SL_OK : sl_fail(SL_ENOMEM, "trainer: no memory for steps of learned rows");
}

static void free_rows(struct sl_row_step *s)
{
    sl_pages_free(s->sums, s->row_room * s->table->shape.dim * sizeof *s->sums);
    free(s->first);
    free(s->met);
    s->sums = NULL;
    s->first = s->met = NULL;
    s->row_room = 0;
}

static void free_entries(struct sl_row_step *s)
{
    free(s->entries);
    free(s->sorted);
    s->entries = s->sorted = NULL;
    s->entry_room = 0;
}

void sl_row_step_fini(struct sl_row_step *s)
{
    if (s->table) {
        free_rows(s);
        free_entries(s);
    }
    free(s->slots);
    *s = (struct sl_row_step){0};
}

// ---- the sum ------------------------------------------------------------------------------------

static int grow_entries(struct sl_row_step *s, uint64_t n)
{
    if (n <= s->entry_room)
        return SL_OK;
    free_entries(s);
    s->entry_room = n + n / 8;
    s->entries = malloc(s->entry_room * sizeof *s->entries);
    s->sorted = malloc(s->entry_room * sizeof *s->sorted);
    return s->entries && s->sorted
               ? SL_OK
               : sl_fail(SL_ENOMEM, "trainer: no memory for %" PRIu64 " learned rows", n);
}

static int grow_rows(struct sl_row_step *s, uint64_t n)
{
    if (n <= s->row_room)
        return SL_OK;
    free_rows(s);
    s->row_room = n + n / 8;
    s->sums = sl_pages_alloc(s->row_room * s->table->shape.dim * sizeof *s->sums);
    s->first = malloc((s->row_room + 1) * sizeof *s->first);
    s->met = malloc(s->row_room * sizeof *s->met);
    return s->sums && s->first && s->met
               ? SL_OK
               : sl_fail(SL_ENOMEM, "trainer: no memory for %" PRIu64 " learned rows", n);
}

static int check_slot(const struct sl_row_step *s, const struct sl_row_slot *slot)
{
    const uint64_t n_rows = s->table->shape.n_rows;
    if (*slot->n <= n_rows)
        return SL_OK;
    return sl_fail(SL_EPROTO, "learned rows: a batch met %u, of %" PRIu64, *slot->n, n_rows);
}

// All rows that the batches met, in the order of the batches.
static int list_entries(struct sl_row_step *s, const struct sl_update *u, uint64_t *n)
{
    *n = 0;
    for (uint32_t c = u->first_cell; c < u->first_cell + u->n_cells; c++) {
        const struct sl_row_slot slot = sl_row_table_slot(s->table, c);
        SL_TRY(check_slot(s, &slot));
        *n += *slot.n;
    }
    if (*n > UINT32_MAX)
        return sl_fail(SL_ERANGE,
                       "learned rows: an update met %" PRIu64 ", wanted less than 2^32: take a "
                       "smaller updates.batches_per_update",
                       *n);
    SL_TRY(grow_entries(s, *n));
    struct sl_row_entry *e = s->entries;
    for (uint32_t b = 0; b < u->n_cells; b++) {
        const struct sl_row_slot slot = sl_row_table_slot(s->table, u->first_cell + b);
        s->slots[b] = slot.gradient;
        for (uint32_t i = 0; i < *slot.n; i++)
            *e++ = (struct sl_row_entry){slot.ids[i], b, i};
    }
    return SL_OK;
}

// By vertex; entries of one stay in the order of the batches.
static void sort_entries(struct sl_row_step *s, uint64_t n)
{
    static _Thread_local uint32_t at[DIGITS];
    for (uint32_t shift = 0; shift < 32 && s->table->shape.n_rows >> shift; shift += DIGIT_BITS) {
        memset(at, 0, sizeof at);
        for (uint64_t i = 0; i < n; i++)
            at[s->entries[i].id >> shift & (DIGITS - 1)]++;
        uint32_t before = 0;
        for (uint32_t d = 0; d < DIGITS; d++) {
            const uint32_t count = at[d];
            at[d] = before;
            before += count;
        }
        for (uint64_t i = 0; i < n; i++)
            s->sorted[at[s->entries[i].id >> shift & (DIGITS - 1)]++] = s->entries[i];
        struct sl_row_entry *sorted = s->sorted;
        s->sorted = s->entries;
        s->entries = sorted;
    }
}

// Row r's entries are [first[r], first[r + 1]).
static int find_rows(struct sl_row_step *s, uint64_t n)
{
    uint32_t rows = 0;
    for (uint64_t i = 0; i < n; i++)
        rows += i == 0 || s->entries[i].id != s->entries[i - 1].id;
    SL_TRY(grow_rows(s, rows));
    s->n = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0 && s->entries[i].id == s->entries[i - 1].id)
            continue;
        s->first[s->n] = (uint32_t)i;
        s->met[s->n++] = s->entries[i].id;
    }
    s->first[s->n] = (uint32_t)n;
    return SL_OK;
}

static const float *gradient_of(const struct sl_row_step *s, uint32_t entry)
{
    const struct sl_row_entry *e = &s->entries[entry];
    return s->slots[e->batch] + (uint64_t)e->at * s->table->shape.dim;
}

static void ask_for_gradient(const struct sl_row_step *s, uint32_t entry)
{
    const char *row = (const char *)gradient_of(s, SL_MIN(entry, s->first[s->n] - 1));
    for (uint32_t b = 0; b < s->table->shape.dim * sizeof(float); b += SL_CACHE_LINE)
        __builtin_prefetch(row + b, 0, 2);
}

static void sum_part(void *context, uint32_t part)
{
    const struct sl_row_step *s = context;
    const uint32_t dim = s->table->shape.dim, end = SL_MIN((part + 1) * (uint32_t)SUM_ROWS, s->n);
    for (uint32_t r = part * SUM_ROWS; r < end; r++) {
        float *restrict sum = s->sums + (uint64_t)r * dim;
        memcpy(sum, gradient_of(s, s->first[r]), dim * sizeof *sum);
        ask_for_gradient(s, s->first[r] + SUM_AHEAD);
        for (uint32_t e = s->first[r] + 1; e < s->first[r + 1]; e++) {
            const float *restrict more = gradient_of(s, e);
            ask_for_gradient(s, e + SUM_AHEAD);
            for (uint32_t c = 0; c < dim; c++)
                sum[c] += more[c];
        }
    }
}

int sl_row_step_sum(struct sl_row_step *s, const struct sl_update *u, double *squares)
{
    const struct sl_row_slot only = sl_row_table_slot(s->table, u->first_cell);
    if (u->n_cells == 1) {
        SL_TRY(check_slot(s, &only));
        s->n = *only.n;
        s->ids = only.ids;
        s->gradients = only.gradient;
    } else {
        uint64_t n;
        SL_TRY(list_entries(s, u, &n));
        sort_entries(s, n);
        SL_TRY(find_rows(s, n));
        sl_kernels_run((uint32_t)sl_div_up(s->n, SUM_ROWS), sum_part, s);
        s->ids = s->met;
        s->gradients = s->sums;
    }
    return s->kernels->sum_squares((uint64_t)s->n * s->table->shape.dim, s->gradients, squares);
}

// ---- the step -----------------------------------------------------------------------------------

// Makes the journal of the rows from `at` on.
static int make_journal(struct sl_row_step *s, const struct sl_row_rates *rates, uint32_t at,
                        uint32_t rows, const struct sl_row_journal *j)
{
    const struct sl_row_table *t = s->table;
    const uint32_t dim = t->shape.dim, *ids = s->ids + at;
    const uint64_t n = (uint64_t)rows * dim;
    const struct sl_row_optimizer_args args = {
        .n = rows,
        .dim = dim,
        .ids = ids,
        .gradient = s->gradients + (uint64_t)at * dim,
        .scale = rates->scale,
        .values = t->values,
        .state = {t->state[0], t->state[1]},
        .values_out = j->values,
        .state_out = {j->state[0], j->state[1]},
    };
    uint32_t broken = 0;
    if (s->optimizer == SL_OPTIMIZER_SGD)
        SL_TRY(sl_sgd_rows(&rates->sgd, &args, &broken));
    else
        SL_TRY(sl_adam_rows(&rates->adam, &args, &broken));
    memcpy(j->ids, ids, rows * sizeof *ids);
    *j->n = rows;
    if (!broken)
        return SL_OK;
    uint64_t k = 0;
    while (k + 1 < n && isfinite(j->values[k]) && isfinite(j->state[0][k]) &&
           (t->shape.n_state < 2 || isfinite(j->state[1][k])))
        k++;
    return sl_fail(SL_ENOTFINITE,
                   "update %" PRIu64 ": the step of the learned row of vertex %u is not finite",
                   rates->version + 1, ids[k / dim]);
}

// Any number of times.
static int copy_journal(const struct sl_row_step *s, const struct sl_row_journal *j)
{
    const struct sl_row_table_shape *shape = &s->table->shape;
    SL_TRY(s->kernels->scatter_rows(j->values, shape->dim, j->ids, *j->n, shape->n_rows,
                                    s->table->values));
    SL_FAILPOINT(TRAINER_ROWS_COPY);
    for (uint32_t i = 0; i < shape->n_state; i++)
        SL_TRY(s->kernels->scatter_rows(j->state[i], shape->dim, j->ids, *j->n, shape->n_rows,
                                        s->table->state[i]));
    return SL_OK;
}

int sl_row_step_apply(struct sl_row_step *s, const struct sl_row_rates *rates)
{
    const uint32_t chunk_rows = sl_row_table_chunk_rows(s->table->shape.dim);
    const struct sl_row_journal j = sl_row_table_journal(s->table);
    const uint64_t version = rates->version;
    struct sl_row_table_progress at;
    SL_TRY(sl_row_table_begin(s->table, version, &at));
    for (uint64_t row = at.chunk * chunk_rows; !at.made && row < s->n;
         row = ++at.chunk * chunk_rows) {
        if (!at.whole) {
            const uint32_t rows = (uint32_t)SL_MIN((uint64_t)chunk_rows, s->n - row);
            SL_TRY(make_journal(s, rates, (uint32_t)row, rows, &j));
            SL_FAILPOINT(TRAINER_ROWS_MADE);
            sl_row_table_advance(s->table, version, at.chunk, true);
            SL_FAILPOINT(TRAINER_ROWS_MARKED);
        }
        SL_TRY(copy_journal(s, &j));
        SL_FAILPOINT(TRAINER_ROWS_COPIED);
        sl_row_table_advance(s->table, version, at.chunk + 1, false);
        at.whole = false;
    }
    if (!at.made)
        sl_row_table_end(s->table, version);
    SL_FAILPOINT(TRAINER_ROWS_DONE);
    return SL_OK;
}
