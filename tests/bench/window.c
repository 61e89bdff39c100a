/*
 * window.c - how many rows a cache has that changes while a job runs, under each rule of what goes.
 *
 *   window DATASET [--fanout 15,10,5] [--batch 1024] [--epochs 3] [--ratios 0.05,0.1,0.2]
 *          [--seed 7] [--order shuffled|proximity|parts] [--per-update 1]
 *
 * Draws the batches of some epochs as a job would, and goes through their input nodes batch by
 * batch with caches of equal size: a share of the vertices each. Misses are taken in. What goes:
 *
 *   degree, expected, presc   nothing: the hottest rows by that metric, from the beginning (presc:
 *                             of the first epoch)
 *   fifo, lru, random         what came first (BGL 3.2.1), was used longest ago, any
 *   gids W                    any row that no batch of the next W wants (GIDS 3.4)
 *   window W                  as common/arena/row_cache.c does, and with it, without hot rows
 *   hot W, presc W            the same, with rows hot by `expected`, or by `presc`
 *   belady                    what is wanted last, all batches known
 *
 * Of a shard (common/data/shard.h) a cache has what its node asks others for: of its batches, of
 * each --per-update in turns, the rows of other parts.
 *
 * Beside these, what of a batch's input nodes the device's batch before had (FastGL 4.1, match):
 *
 *   match T        batches as they are drawn, by T trainers in turns
 *   match T hot    the same, of the rows that a cache of the hottest tenth (presc) has not
 *
 * and both after the batches of each window of 8, or 16, have been put into FastGL's greedy order:
 * next is the one that has most in common with what its device had before.
 *
 * Prints the share of input nodes that were there, of the epochs after the first, as a table and as
 * one JSON object.
 */

#include "common/base/philox.h"
#include "common/data/cache_kind.h"
#include "common/data/hotness.h"
#include "common/arena/row_cache.h"
#include "sampler/topology.h"
#include "tests/bench/lane.h"
#include "tests/arguments.h"

enum { RATIOS_MAX = 8, NEVER = -1 };

struct options {
    const char *path, *fanout, *of_ratios;
    struct sl_draw_plan plan;
    enum sl_order order;
    uint32_t batch, epochs, per_update, n_ratios;
    double ratios[RATIOS_MAX];
};

// All input nodes, one batch behind the other.
struct trace {
    uint64_t n_rows, n_elsewhere; // of the data set; those that a cache is for
    uint64_t most;                // rows of a batch
    uint32_t n_batches, first;    // of all; the first that counts
    uint64_t *begin;              // (n_batches + 1)
    uint64_t room;                // of rows
    uint32_t *row, *next;         // (begin[n_batches]); the batch that wants the row next
    uint32_t *rank[SL_CACHE_COUNT];
};

struct hits {
    uint64_t n, of;
};

// A rule, and what it goes by.
struct rule {
    const char *name;
    void (*run)(const struct trace *t, const struct rule *rule, uint32_t slots, struct hits *hits);
    unsigned metric;
    uint32_t window;
};

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = 5;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static void count(const struct trace *t, uint32_t batch, bool hit, struct hits *hits)
{
    if (batch < t->first)
        return;
    hits->of++;
    hits->n += hit;
}

// ---- rules --------------------------------------------------------------------------------------

static void fixed(const struct trace *t, const struct rule *rule, uint32_t slots, struct hits *hits)
{
    const uint32_t *rank = t->rank[rule->metric];
    for (uint32_t b = 0; b < t->n_batches; b++)
        for (uint64_t i = t->begin[b]; i < t->begin[b + 1]; i++)
            count(t, b, rank[t->row[i]] < slots, hits);
}

// Rows in slots: what fifo, random and gids have in common. The slot that goes is `victim`'s.
struct plain {
    int32_t *slot_of;  // (n_rows) or NEVER
    uint32_t *row;     // (slots)
    uint32_t *counter; // (n_rows) batches of the window that want it
    uint32_t n, slots;
};

static void with_slots(const struct trace *t, uint32_t slots, uint32_t window,
                       uint32_t (*victim)(struct plain *), struct hits *hits)
{
    struct plain p = {.slot_of = must(malloc(t->n_rows * sizeof *p.slot_of)),
                      .row = must(malloc(slots * sizeof *p.row)),
                      .counter = must(calloc(t->n_rows, sizeof *p.counter)),
                      .slots = slots};
    memset(p.slot_of, 0xff, t->n_rows * sizeof *p.slot_of);
    uint32_t counted = 0;
    for (uint32_t b = 0; b < t->n_batches; b++) {
        for (; counted < t->n_batches && counted < b + window; counted++)
            for (uint64_t i = t->begin[counted]; i < t->begin[counted + 1]; i++)
                p.counter[t->row[i]]++;
        for (uint64_t i = t->begin[b]; i < t->begin[b + 1]; i++) {
            const uint32_t row = t->row[i];
            if (p.counter[row] > 0)
                p.counter[row]--;
            const bool hit = p.slot_of[row] != NEVER;
            count(t, b, hit, hits);
            if (hit)
                continue;
            const bool full = p.n == slots;
            const uint32_t s = full ? victim(&p) : p.n++;
            if (full)
                p.slot_of[p.row[s]] = NEVER;
            p.row[s] = row;
            p.slot_of[row] = (int32_t)s;
        }
    }
    free(p.slot_of);
    free(p.row);
    free(p.counter);
}

static uint32_t in_turn(struct plain *p)
{
    static uint32_t hand;
    return hand++ % p->slots;
}

static uint32_t any(struct plain *p)
{
    return random_below(p->slots);
}

static uint32_t any_unwanted(struct plain *p)
{
    enum { TRIES = 64 };
    uint32_t s = random_below(p->slots);
    for (int i = 0; i < TRIES && p->counter[p->row[s]] > 0; i++)
        s = random_below(p->slots);
    return s;
}

static void fifo(const struct trace *t, const struct rule *rule, uint32_t slots, struct hits *hits)
{
    with_slots(t, slots, rule->window, in_turn, hits);
}

static void at_random(const struct trace *t, const struct rule *rule, uint32_t slots,
                      struct hits *hits)
{
    with_slots(t, slots, rule->window, any, hits);
}

static void gids(const struct trace *t, const struct rule *rule, uint32_t slots, struct hits *hits)
{
    with_slots(t, slots, rule->window, any_unwanted, hits);
}

// Rows by a key, the largest first; entries whose row has another key by now are passed over.
struct heap {
    uint64_t *entry; // key << 32 | row
    uint64_t n, room;
};

static void push(struct heap *h, uint64_t entry)
{
    if (h->n == h->room) {
        h->room = SL_MAX(2 * h->room, (uint64_t)1024);
        h->entry = must(realloc(h->entry, h->room * sizeof *h->entry));
    }
    uint64_t at = h->n++;
    for (; at > 0 && h->entry[(at - 1) / 2] < entry; at = (at - 1) / 2)
        h->entry[at] = h->entry[(at - 1) / 2];
    h->entry[at] = entry;
}

static uint64_t pop(struct heap *h)
{
    const uint64_t top = h->entry[0], last = h->entry[--h->n];
    uint64_t at = 0;
    for (uint64_t child; (child = 2 * at + 1) < h->n; at = child) {
        child += child + 1 < h->n && h->entry[child + 1] > h->entry[child];
        if (h->entry[child] <= last)
            break;
        h->entry[at] = h->entry[child];
    }
    h->entry[at] = last;
    return top;
}

// What goes is the row of the largest key: of lru the batches left when it was used, of belady the
// next batch that wants it, which may be its own.
static void by_key(const struct trace *t, bool future, uint32_t slots, struct hits *hits)
{
    struct heap h = {0};
    uint32_t *key = must(malloc(t->n_rows * sizeof *key)), used = 0;
    bool *there = must(calloc(t->n_rows, 1));
    for (uint32_t b = 0; b < t->n_batches; b++)
        for (uint64_t i = t->begin[b]; i < t->begin[b + 1]; i++) {
            const uint32_t row = t->row[i];
            count(t, b, there[row], hits);
            used += !there[row];
            there[row] = true;
            key[row] = future ? t->next[i] : UINT32_MAX - b;
            push(&h, (uint64_t)key[row] << 32 | row);
            while (used > slots) {
                const uint64_t e = pop(&h);
                const uint32_t gone = (uint32_t)e;
                if (!there[gone] || key[gone] != e >> 32)
                    continue;
                there[gone] = false;
                used--;
            }
        }
    free(h.entry);
    free(key);
    free(there);
}

static void lru(const struct trace *t, const struct rule *rule, uint32_t slots, struct hits *hits)
{
    (void)rule;
    by_key(t, false, slots, hits);
}

static void belady(const struct trace *t, const struct rule *rule, uint32_t slots,
                   struct hits *hits)
{
    (void)rule;
    by_key(t, true, slots, hits);
}

// The cache that jobs have, one batch after the other. Rows have no bytes.
static void as_jobs_do(const struct trace *t, const struct rule *rule, uint32_t slots,
                       struct hits *hits)
{
    const uint32_t *rank = rule->metric == SL_CACHE_NONE ? NULL : t->rank[rule->metric];
    const struct sl_row_cache_shape shape = {
        .n_rows = t->n_rows,
        .n_slots = slots,
        .n_hot = rank ? slots * t->n_rows / t->n_elsewhere / 4 * 3 : 0,
        .window = rule->window,
        .n_widths = 1,
        .width[0].n_slots = slots,
    };
    struct sl_row_cache c;
    struct sl_row_places p = {0};
    void *memory = must(aligned_alloc(4096, sl_row_cache_bytes(&shape)));
    memset(memory, 0, sl_row_cache_bytes(&shape));
    sl_row_cache_view(memory, &shape, &c);
    uint32_t noted = 0;
    for (uint32_t b = 0; b < t->n_batches; b++) {
        const uint32_t *row = t->row + t->begin[b], n = (uint32_t)(t->begin[b + 1] - t->begin[b]);
        for (; noted < t->n_batches && noted <= b + rule->window; noted++)
            sl_row_cache_note(&c, t->row + t->begin[noted],
                              (uint32_t)(t->begin[noted + 1] - t->begin[noted]), noted);
        const struct sl_row_cache_use use = {.batch = b, .oldest = b};
        must_ok(sl_row_places_grow(&p, n));
        sl_row_cache_find(&c, row, n, &p);
        for (uint32_t i = 0; i < n; i++)
            count(t, b, i < p.n_found, hits);
        for (uint32_t i = 0; i < p.n_missing; i++) {
            uint32_t slot;
            const bool hot = rank && rank[p.row[i]] < shape.n_hot;
            if (sl_row_cache_take(&c, c.slots, &use, p.row[i], hot, &slot) == SL_ROW_TAKEN)
                sl_row_cache_there(&c, slot);
        }
    }
    sl_row_places_fini(&p);
    free(memory);
}

static const struct rule rules[] = {
    {"degree", fixed, SL_CACHE_DEGREE, 0},
    {"expected", fixed, SL_CACHE_EXPECTED, 0},
    {"presc", fixed, SL_CACHE_PRESC, 0},
    {"fifo", fifo, SL_CACHE_NONE, 0},
    {"lru", lru, SL_CACHE_NONE, 0},
    {"random", at_random, SL_CACHE_NONE, 0},
    {"gids 4", gids, SL_CACHE_NONE, 4},
    {"gids 8", gids, SL_CACHE_NONE, 8},
    {"gids 16", gids, SL_CACHE_NONE, 16},
    {"window 0", as_jobs_do, SL_CACHE_NONE, 0},
    {"window 4", as_jobs_do, SL_CACHE_NONE, 4},
    {"window 8", as_jobs_do, SL_CACHE_NONE, 8},
    {"window 16", as_jobs_do, SL_CACHE_NONE, 16},
    {"hot 0", as_jobs_do, SL_CACHE_EXPECTED, 0},
    {"hot 4", as_jobs_do, SL_CACHE_EXPECTED, 4},
    {"hot 8", as_jobs_do, SL_CACHE_EXPECTED, 8},
    {"hot 16", as_jobs_do, SL_CACHE_EXPECTED, 16},
    {"presc 16", as_jobs_do, SL_CACHE_PRESC, 16},
    {"belady", belady, SL_CACHE_NONE, 0},
};

// ---- match --------------------------------------------------------------------------------------

// Trainers in turns, and windows of batches that are put into another order: 1 leaves them alone.
static const uint32_t match_trainers[] = {1, 2, 4}, match_windows[] = {1, 8, 16};

enum { MATCH_HOT_DIVISOR = 10 };

struct match {
    const struct trace *t;
    uint32_t trainers, window, n_hot;
    uint32_t *had;   // (n_rows) the last place in the order, and 1, at which a row was looked for
    uint32_t *order; // (n_batches) what is trained at each place
};

static bool is_hot(const struct match *m, uint32_t row)
{
    return m->t->rank[SL_CACHE_PRESC][row] < m->n_hot;
}

// Remembers the rows of the batch that the device of `place` had before.
static void look_back(struct match *m, uint32_t place)
{
    const uint32_t before = m->order[place - m->trainers];
    for (uint64_t i = m->t->begin[before]; i < m->t->begin[before + 1]; i++)
        m->had[m->t->row[i]] = place + 1;
}

// Which of the rows of `batch` that no cache has were there before.
static struct hits match_of(const struct match *m, uint32_t place, uint32_t batch)
{
    struct hits hits = {0};
    for (uint64_t i = m->t->begin[batch]; i < m->t->begin[batch + 1]; i++) {
        const uint32_t row = m->t->row[i];
        hits.of += !is_hot(m, row);
        hits.n += !is_hot(m, row) && m->had[row] == place + 1;
    }
    return hits;
}

// FastGL's match degree of two batches, the smaller of which counts.
static double degree_of(const struct match *m, uint32_t place, uint32_t batch)
{
    const uint64_t *begin = m->t->begin;
    const uint32_t before = m->order[place - m->trainers];
    const uint64_t n = SL_MIN(begin[batch + 1] - begin[batch], begin[before + 1] - begin[before]);
    return (double)match_of(m, place, batch).n / (double)SL_MAX(n, (uint64_t)1);
}

// Brings to `place` that batch of the rest of its window that matches best; the others keep theirs.
static void choose(struct match *m, uint32_t place, uint32_t end)
{
    uint32_t best = place;
    double most = -1;
    for (uint32_t k = place; k < end; k++) {
        const double degree = degree_of(m, place, m->order[k]);
        if (degree > most) {
            most = degree;
            best = k;
        }
    }
    const uint32_t batch = m->order[best];
    memmove(m->order + place + 1, m->order + place, (best - place) * sizeof *m->order);
    m->order[place] = batch;
}

// The share of the input nodes outside the cache that the device's batch before had.
static double matched(const struct trace *t, uint32_t trainers, uint32_t window, uint32_t n_hot)
{
    struct match m = {.t = t, .trainers = trainers, .window = window, .n_hot = n_hot};
    struct hits all = {0};
    m.had = must(calloc(t->n_rows, sizeof *m.had));
    m.order = must(malloc(t->n_batches * sizeof *m.order));
    for (uint32_t b = 0; b < t->n_batches; b++)
        m.order[b] = b;
    for (uint32_t p = SL_MAX(t->first, trainers); p < t->n_batches; p++) {
        const uint32_t in_epoch = p % t->first; // a window ends with its epoch
        const uint32_t end = SL_MIN(p + window - in_epoch % window, p - in_epoch + t->first);
        look_back(&m, p);
        if (end > p + 1)
            choose(&m, p, end);
        const struct hits hits = match_of(&m, p, m.order[p]);
        all.n += hits.n;
        all.of += hits.of;
    }
    free(m.had);
    free(m.order);
    return (double)all.n / (double)SL_MAX(all.of, (uint64_t)1);
}

// The shares of one number of trainers, for each window: printed, and behind `json`.
static void match_row(const struct trace *t, uint32_t trainers, bool hot, FILE *json)
{
    const uint32_t n_hot = hot ? (uint32_t)(t->n_rows / MATCH_HOT_DIVISOR) : 0;
    printf("match %" PRIu32 "%s", trainers, hot ? " hot" : "    ");
    fprintf(json, ", \"match %" PRIu32 "%s\": [", trainers, hot ? " hot" : "");
    for (size_t w = 0; w < SL_COUNT_OF(match_windows); w++) {
        const double share = matched(t, trainers, match_windows[w], n_hot);
        printf("  %5.1f %%", 100 * share);
        fprintf(json, "%s%.4f", w ? ", " : "", share);
    }
    printf("\n");
    fputc(']', json);
}

// Returns the figures as members of a JSON object.
static char *match_rows(const struct trace *t)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *json = must(open_memstream(&text, &bytes));
    printf("            as drawn, in windows of 8, of 16\n");
    for (size_t k = 0; k < SL_COUNT_OF(match_trainers); k++) {
        match_row(t, match_trainers[k], false, json);
        match_row(t, match_trainers[k], true, json);
    }
    fclose(json);
    return must(text);
}

// ---- drawing ------------------------------------------------------------------------------------

// Whether a cache is for the batches, and the rows, of a data set: all of one that is whole.
static bool is_own(const struct sl_shard *s, const struct options *o, uint32_t in_epoch)
{
    return s->count == 0 || in_epoch % o->per_update % s->count == s->index;
}

static void add_rows(const struct sl_shard *s, const struct sl_block *block, struct trace *t)
{
    const uint32_t *nodes = sl_block_nodes(block);
    uint64_t *end = &t->begin[t->n_batches + 1], begin = t->begin[t->n_batches++];
    *end = begin;
    if (begin + block->n_input > t->room) {
        t->room = 2 * (begin + block->n_input);
        t->row = must(realloc(t->row, t->room * sizeof *t->row));
    }
    for (uint32_t i = 0; i < block->n_input; i++)
        if (s->count == 0 || sl_shard_place(s, nodes[i]).part != s->index)
            t->row[(*end)++] = nodes[i];
    t->most = SL_MAX(t->most, *end - begin);
}

static void draw(const struct options *o, const struct sl_topology *t, struct trace *out)
{
    const struct sl_vertex_list *train = &t->dataset.split[SL_SPLIT_TRAIN];
    const struct sl_shard *shard = &t->dataset.shard;
    const uint32_t in_epoch = (uint32_t)sl_div_up(train->n, o->batch);
    uint32_t *seeds = must(malloc(train->n * sizeof *seeds));
    struct lane lane = {0};
    struct sl_epoch_order order;
    *out = (struct trace){
        .n_rows = t->view.n_nodes,
        .n_elsewhere = SL_MAX(t->view.n_nodes - (shard->count ? shard->n_local : 0), UINT64_C(1)),
        .begin = must(calloc(in_epoch * o->epochs + 1, sizeof *out->begin))};
    lane_open_order(&order, o->order, 0, &t->dataset, o->plan.seed, o->batch, o->per_update);
    must_ok(sl_drawer_init(&lane.drawer, t, sl_kernels_cpu()));
    for (uint32_t b = 0; b < in_epoch * o->epochs; b++) {
        const uint64_t first = (uint64_t)(b % in_epoch) * o->batch;
        if (first == 0)
            sl_epoch_order_fill(&order, b / in_epoch, seeds);
        if (!is_own(shard, o, b % in_epoch))
            continue;
        lane_draw(&lane, &o->plan, b / in_epoch, b % in_epoch, seeds + first,
                  (uint32_t)SL_MIN((uint64_t)o->batch, train->n - first));
        add_rows(shard, lane.block, out);
    }
    out->first = out->n_batches / o->epochs;
    lane_fini(&lane);
    sl_epoch_order_close(&order);
    free(seeds);
}

static void find_next(struct trace *t)
{
    const uint64_t n = t->begin[t->n_batches];
    uint32_t *next = must(malloc(t->n_rows * sizeof *next));
    memset(next, 0xff, t->n_rows * sizeof *next);
    t->next = must(malloc(SL_MAX(n, (uint64_t)1) * sizeof *t->next));
    for (uint32_t b = t->n_batches; b-- > 0;)
        for (uint64_t i = t->begin[b]; i < t->begin[b + 1]; i++) {
            t->next[i] = next[t->row[i]];
            next[t->row[i]] = b;
        }
    free(next);
}

static void rank_by(const struct options *o, const struct sl_topology *t, unsigned metric,
                    struct trace *trace)
{
    const struct sl_cache_inputs facts = {
        .dataset = &t->dataset,
        .seed = o->plan.seed,
        .sampling = {.n_hops = o->plan.n_hops, .fanout = o->plan.fanout}};
    uint32_t *hotness = must(calloc(trace->n_rows, sizeof *hotness));
    uint32_t *order = must(malloc(trace->n_rows * sizeof *order));
    if (sl_cache_kinds[metric].hotness)
        must_ok(sl_cache_kinds[metric].hotness(&facts, hotness));
    else
        for (uint64_t i = 0; i < trace->begin[trace->first]; i++)
            hotness[trace->row[i]]++;
    must_ok(sl_hotness_order(hotness, trace->n_rows, NULL, order, NULL));
    trace->rank[metric] = hotness; // its memory
    for (uint64_t i = 0; i < trace->n_rows; i++)
        hotness[order[i]] = (uint32_t)i;
    free(order);
}

static void run(const struct options *o)
{
    static const unsigned metrics[] = {SL_CACHE_DEGREE, SL_CACHE_EXPECTED, SL_CACHE_PRESC};
    struct sl_topology t;
    struct trace trace;
    must_ok(sl_topology_open(&t, o->path, NULL, 0, -1, sl_kernels_cpu(), 0));
    draw(o, &t, &trace);
    find_next(&trace);
    for (size_t i = 0; i < SL_COUNT_OF(metrics); i++)
        rank_by(o, &t, metrics[i], &trace);
    printf("%s, order %s: %" PRIu32 " batches of %.0f input nodes\n", t.dataset.name,
           sl_order_words[o->order], trace.n_batches,
           (double)trace.begin[trace.n_batches] / trace.n_batches);
    double found[SL_COUNT_OF(rules)][RATIOS_MAX];
    for (size_t k = 0; k < SL_COUNT_OF(rules); k++) {
        printf("%-10s", rules[k].name);
        for (uint32_t r = 0; r < o->n_ratios; r++) {
            struct hits hits = {0};
            const double slots = o->ratios[r] * (double)trace.n_rows;
            rules[k].run(&trace, &rules[k], SL_MAX((uint32_t)slots, 16u), &hits);
            found[k][r] = (double)hits.n / (double)SL_MAX(hits.of, (uint64_t)1);
            printf("  %5.1f %%", 100 * found[k][r]);
        }
        printf("\n");
    }
    char *match = match_rows(&trace);
    printf("{\"bench\": \"window\", \"data\": \"%s\", \"order\": \"%s\", \"inputs\": %.1f, "
           "\"rows\": %" PRIu64 ", \"most\": %" PRIu64,
           t.dataset.name, sl_order_words[o->order],
           (double)trace.begin[trace.n_batches] / trace.n_batches,
           trace.begin[trace.n_batches] - trace.begin[trace.first], trace.most);
    for (size_t k = 0; k < SL_COUNT_OF(rules); k++) {
        printf(", \"%s\": [", rules[k].name);
        for (uint32_t r = 0; r < o->n_ratios; r++)
            printf("%s%.6f", r ? ", " : "", found[k][r]);
        printf("]");
    }
    printf("%s}\n", match);
    free(match);
    for (size_t i = 0; i < SL_COUNT_OF(metrics); i++)
        free(trace.rank[metrics[i]]);
    free(trace.begin);
    free(trace.row);
    free(trace.next);
    sl_topology_close(&t);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_TEXT("fanout", options, fanout),
    ARGUMENT_NUMBER("batch", options, batch, 1, 1e9),
    ARGUMENT_NUMBER("epochs", options, epochs, 2, 1e6),
    ARGUMENT_TEXT("ratios", options, of_ratios),
    ARGUMENT_NUMBER("seed", options, plan.seed, 0, 9e15),
    ARGUMENT_CHOICE("order", options, order, sl_order_words),
    ARGUMENT_NUMBER("per-update", options, per_update, 1, 1024),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "window",
    .is_program = true,
    .about = "Rows that a window of batches has already.",
    .operands = {{"DATASET", offsetof(struct options, path)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {.plan = {.kind = SL_SAMPLER_KHOP, .stream = SL_RNG_SAMPLE, .seed = 7},
                        .fanout = "15,10,5",
                        .of_ratios = "0.05,0.1,0.2",
                        .batch = 1024,
                        .epochs = 3,
                        .per_update = 1};
    arguments_parse(&command, &o, argc, argv);
    lane_fanout(o.fanout, &o.plan);
    o.n_ratios = arguments_numbers("ratios", o.of_ratios, 0, 1, RATIOS_MAX, o.ratios);
    run(&o);
    return 0;
}
