#include "partition/node_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/mempool.h"
#include "common/base/threads.h"

enum { AHEAD_MAX = 64 }; // batches in hand

// A batch that is drawn: the rows of it that the cache is for.
struct batch {
    uint32_t phase, n, room;
    uint32_t *row; // (room) owned
};

// A node's batches, in the order of the job, by which they are numbered.
struct walk {
    struct sl_node_rows *rows;
    uint32_t node;
    bool drive;
    uint64_t most;
    struct sl_node_rows_count *out;
    uint32_t phase, cell;
    uint32_t epoch; // + 1: whose seeds are there; 0: none
    // Batches [done, drawn) of a ring are in hand; those below fetched have been fetched.
    struct batch ahead[AHEAD_MAX];
    uint64_t drawn, fetched, done;
    uint64_t most_drawn, most_fetched; // that are not done
    struct sl_row_cache cache;
    uint64_t cache_bytes;
    struct sl_row_places places;
    uint64_t n_readings;
    uint64_t *asked;   // (n_nodes) the last reading that asked the node for rows
    uint32_t max_rows; // of an ask
};

int sl_node_rows_open(struct sl_node_rows *r, const struct sl_node_rows_spec *spec)
{
    const struct sl_config *c = spec->config;
    const struct sl_order_inputs facts = {
        .dataset = spec->ds,
        .train = spec->ds->split[SL_SPLIT_TRAIN],
        .seed = c->seed,
        .batch_size = (uint32_t)c->sampler.batch_size,
        .batches_per_update = c->updates.batches_per_update,
        .sequences = c->order.sequences_auto ? 0 : c->order.sequences,
        .excess = c->order.excess_error,
        .epochs_per_pass = c->order.epochs_per_pass,
    };
    *r = (struct sl_node_rows){.spec = *spec};
    char *record = sl_dataset_record(spec->ds);
    r->seeds = malloc((facts.train.n + 1) * sizeof *r->seeds);
    int rc =
        record && r->seeds
            ? sl_topology_open(&r->topology, spec->ds->path, record, sl_config_needs_to_draw(c), -1,
                               sl_kernels_rows(), sl_threads_default())
            : sl_fail(SL_ENOMEM, "no memory for the order of %llu training vertices",
                      (unsigned long long)facts.train.n);
    free(record);
    SL_TRY(rc);
    SL_TRY(sl_config_choose_items(c, &r->topology.dataset));
    SL_TRY(sl_drawer_init(&r->drawer, &r->topology, sl_kernels_rows()));
    if (sl_config_is_links(c))
        SL_TRY(sl_pair_maker_init(&r->pairs, c, &r->topology.dataset));
    return spec->part ? sl_epoch_order_open(&r->order, c->order.kind, &facts) : SL_OK;
}

int sl_node_rows_measure(struct sl_node_rows *r, struct sl_block_estimate *out)
{
    SL_TRY(sl_plan_measure(r->spec.config, &r->drawer, &r->pairs, out));
    r->mean_bytes = out->mean_bytes;
    return SL_OK;
}

void sl_node_rows_close(struct sl_node_rows *r)
{
    sl_epoch_order_close(&r->order);
    sl_one_batch_fini(&r->drawn);
    sl_pair_maker_fini(&r->pairs);
    sl_drawer_fini(&r->drawer);
    sl_topology_close(&r->topology);
    free(r->seeds);
    *r = (struct sl_node_rows){0};
}

// --- drawing -------------------------------------------------------------------------------------

static const struct sl_phase_spec *phase_of(const struct walk *w)
{
    return &w->rows->spec.phase[w->phase];
}

static bool is_own(const struct walk *w, uint64_t cell)
{
    const struct sl_node_rows_spec *s = &w->rows->spec;
    const uint64_t place =
        phase_of(w)->kind == SL_PHASE_TRAIN ? cell % s->config->updates.batches_per_update : cell;
    return place % s->n_nodes == w->node;
}

// The next own cell from this one on that is to be drawn. False: there is none.
static bool find_cell(struct walk *w)
{
    for (; w->phase < w->rows->spec.n_phases; w->phase++) {
        const struct sl_phase_spec *p = phase_of(w);
        const uint64_t n = sl_div_up(p->n_items, p->batch_size);
        while (w->cell < n && !is_own(w, w->cell))
            w->cell++;
        if (w->cell < n && w->out[w->phase].batches < w->most)
            return true;
        w->cell = 0;
    }
    return false;
}

static const uint32_t *seeds_of(struct walk *w, const struct sl_phase_spec *p)
{
    struct sl_node_rows *r = w->rows;
    const enum sl_split split = p->set == SL_SET_VAL ? SL_SPLIT_VAL : SL_SPLIT_TEST;
    if (p->kind != SL_PHASE_TRAIN)
        return r->spec.ds->split[split].ids;
    if (w->epoch != p->epoch + 1)
        sl_epoch_order_fill(&r->order, p->epoch, r->seeds);
    w->epoch = p->epoch + 1;
    return r->seeds;
}

static bool is_elsewhere(const struct walk *w, uint32_t v)
{
    return w->rows->spec.part[v] != w->node;
}

// Vertices of a block come type after type; *type is the one before, from 0 on.
static bool has_row(const struct walk *w, uint32_t v, uint32_t *type)
{
    const struct sl_typed *t = &w->rows->spec.ds->typed;
    while (*type + 1 < t->n_types && v >= t->type[*type + 1].first)
        ++*type;
    return t->n_types == 0 || t->type[*type].feat_dim > 0;
}

static int keep(const struct walk *w, const struct sl_block *block, struct batch *b)
{
    const uint32_t *nodes = sl_block_nodes(block);
    uint32_t type = 0;
    if (block->n_input > b->room) {
        free(b->row);
        b->room = (uint32_t)SL_MIN(sl_pow2_at_least(block->n_input), (uint64_t)UINT32_MAX);
        b->row = malloc(b->room * sizeof *b->row);
    }
    if (!b->row) {
        b->room = 0;
        return sl_fail(SL_ENOMEM, "no memory for the rows of a mini-batch, %u", block->n_input);
    }
    b->n = 0;
    for (uint32_t i = 0; i < block->n_input; i++)
        if (has_row(w, nodes[i], &type) && (w->drive || is_elsewhere(w, nodes[i])))
            b->row[b->n++] = nodes[i];
    return SL_OK;
}

static uint64_t count_elsewhere(const struct walk *w, const struct batch *b)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        n += is_elsewhere(w, b->row[i]);
    return n;
}

// The batch of the cell that the walk is at, drawn and noted.
static int draw(struct walk *w)
{
    struct sl_node_rows *r = w->rows;
    const struct sl_phase_spec *p = phase_of(w);
    const struct sl_draw_plan plan = sl_plan_of(r->spec.config, (enum sl_phase_kind)p->kind);
    const uint64_t first = (uint64_t)w->cell * p->batch_size;
    const uint64_t number = w->drawn++;
    struct batch *b = &w->ahead[number % AHEAD_MAX];
    struct sl_draw_job job = {
        .plan = &plan,
        .epoch = p->epoch,
        .batch = w->cell,
        .seeds = seeds_of(w, p) + first,
        .n_seeds = (uint32_t)SL_MIN((uint64_t)p->batch_size, p->n_items - first),
        .first_seed = (uint32_t)first,
    };
    SL_TRY(sl_one_batch_draw(&r->drawn, &r->drawer, &job));
    SL_TRY(keep(w, r->drawn.block, b));
    b->phase = w->phase;
    w->cell++;
    if (w->cache.shape.window)
        sl_row_cache_note(&w->cache, b->row, b->n, number);
    struct sl_node_rows_count *out = &w->out[b->phase];
    out->batches++;
    out->inputs += r->drawn.block->n_input;
    out->remote += count_elsewhere(w, b);
    sl_progress_add(r->spec.progress, 1);
    return sl_interrupt_check();
}

// --- fetching ------------------------------------------------------------------------------------

// Rows that are read at once: those of other nodes are asked for.
static void read_rows(struct walk *w, const uint32_t *row, uint32_t n,
                      struct sl_node_rows_count *out)
{
    const uint16_t *part = w->rows->spec.part;
    uint64_t others = 0, asks = 0;
    w->n_readings++;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_elsewhere(w, row[i]))
            continue;
        others++;
        asks += w->asked[part[row[i]]] != w->n_readings;
        w->asked[part[row[i]]] = w->n_readings;
    }
    out->fetched += others;
    out->messages += asks * sl_div_up(others, w->max_rows);
}

// What the cache does not have of the next batch takes its slots (trainer/feed/fetch.c).
static int fetch(struct walk *w)
{
    const uint64_t number = w->fetched++;
    const struct batch *b = &w->ahead[number % AHEAD_MAX];
    const struct sl_row_cache_use use = {.batch = number, .oldest = w->done};
    const uint32_t *rank = w->rows->spec.rank;
    struct sl_row_places *p = &w->places;
    uint32_t n = 0;
    SL_TRY(sl_row_places_grow(p, b->n));
    if (w->cache.shape.window == 0)
        sl_row_cache_note(&w->cache, b->row, b->n, number);
    sl_row_cache_find(&w->cache, b->row, b->n, p);
    for (uint32_t i = 0; i < p->n_missing; i++) {
        const uint32_t row = p->row[i];
        const bool hot = rank && rank[row] < w->cache.shape.n_hot;
        uint32_t slot;
        if (sl_row_cache_take(&w->cache, w->cache.slots, &use, row, hot, &slot) != SL_ROW_TAKEN)
            continue;
        sl_row_cache_there(&w->cache, slot);
        p->row[n++] = row;
    }
    read_rows(w, p->row, n, &w->out[b->phase]);
    return SL_OK;
}

// The oldest batch is gathered (trainer/feed/rows.c), and what had no slot or has lost it is read.
static int gather(struct walk *w)
{
    const struct batch *b = &w->ahead[w->done++ % AHEAD_MAX];
    struct sl_row_places *p = &w->places;
    SL_TRY(sl_row_places_grow(p, b->n));
    sl_row_cache_find(&w->cache, b->row, b->n, p);
    read_rows(w, p->row, p->n_missing, &w->out[b->phase]);
    return SL_OK;
}

// Training is what others wait for: samplers and who fetches are as far ahead as they may be.
static int go(struct walk *w)
{
    for (;;) {
        while (w->drawn - w->done < w->most_drawn && find_cell(w))
            SL_TRY(draw(w));
        while (w->fetched < w->drawn && w->fetched - w->done < w->most_fetched)
            SL_TRY(fetch(w));
        if (w->done == w->drawn)
            return SL_OK;
        SL_TRY(gather(w));
    }
}

// --- the whole -----------------------------------------------------------------------------------

static int open_cache(struct walk *w, const struct sl_arena_spec *arena)
{
    struct sl_row_cache_shape shape = arena->rows;
    shape.n_widths = 1; // rows of all widths in one place
    shape.width[0] = (struct sl_row_width){0, shape.n_slots};
    const uint64_t drawn =
        w->rows->mean_bytes ? arena->payload_bytes / w->rows->mean_bytes : shape.window;
    w->max_rows = SL_MAX(arena->asks.max_rows, 1u);
    w->most_fetched = SL_MIN(arena->fetch_ahead + UINT64_C(1), (uint64_t)AHEAD_MAX);
    w->most_drawn = SL_MAX(w->most_fetched, SL_MIN(drawn, (uint64_t)AHEAD_MAX));
    w->cache_bytes = sl_row_cache_bytes(&shape);
    w->asked = calloc(w->rows->spec.n_nodes, sizeof *w->asked);
    void *memory = w->cache_bytes ? sl_pages_alloc(w->cache_bytes) : NULL;
    if (!w->asked || (w->cache_bytes && !memory)) {
        sl_pages_free(memory, w->cache_bytes);
        return sl_fail(SL_ENOMEM, "no memory for the words of a cache of %llu rows",
                       (unsigned long long)shape.n_slots);
    }
    sl_row_cache_view(memory, &shape, &w->cache);
    return SL_OK;
}

static void count_cells(struct walk *w)
{
    for (; w->phase < w->rows->spec.n_phases; w->phase++) {
        const struct sl_phase_spec *p = phase_of(w);
        for (uint64_t cell = 0; cell < sl_div_up(p->n_items, p->batch_size); cell++)
            w->out[w->phase].cells += is_own(w, cell);
    }
    w->phase = 0;
}

int sl_node_rows_count(struct sl_node_rows *r, uint32_t node, const struct sl_arena_spec *arena,
                       bool drive, uint64_t most, struct sl_node_rows_count *out)
{
    struct walk *w = calloc(1, sizeof *w);
    if (!w)
        return sl_fail(SL_ENOMEM, "no memory to count rows");
    *w = (struct walk){.rows = r, .node = node, .drive = drive, .most = most, .out = out};
    memset(out, 0, r->spec.n_phases * sizeof *out);
    count_cells(w);
    int rc = open_cache(w, arena);
    if (rc == SL_OK)
        rc = go(w);
    for (int i = 0; i < AHEAD_MAX; i++)
        free(w->ahead[i].row);
    sl_row_places_fini(&w->places);
    sl_pages_free(w->cache.head, w->cache_bytes);
    free(w->asked);
    free(w);
    return rc;
}
