#include "dataset/bipartite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/random.h"

enum { SCRAMBLE_USERS = 2, SCRAMBLE_ITEMS = 3 };

#define EMPTY UINT32_MAX // of the hash table: no item

// An item in a race: the smaller, the earlier it comes.
struct sl_bipartite_racer {
    double time;
    uint32_t item;
};

// ---- power laws ---------------------------------------------------------------------------------

static void power_law_init(struct sl_power_law *law, uint64_t n, double exponent)
{
    law->n = n;
    law->flat = 1 - 1 / (exponent - 1);
    law->span = pow((double)n + 1, law->flat) - 1;
}

// Share of the ranks below `rank`.
static double share_below(const struct sl_power_law *law, uint64_t rank)
{
    return rank >= law->n ? 1 : (pow((double)rank + 1, law->flat) - 1) / law->span;
}

static double share_of(const struct sl_power_law *law, uint64_t rank)
{
    return (pow((double)rank + 2, law->flat) - pow((double)rank + 1, law->flat)) / law->span;
}

static uint64_t draw_rank(const struct sl_power_law *law, double u)
{
    const uint64_t rank = (uint64_t)(pow(1 + u * law->span, 1 / law->flat) - 1);
    return SL_MIN(rank, law->n - 1);
}

// ---- the plant ----------------------------------------------------------------------------------

void sl_bipartite_init(struct sl_bipartite *b)
{
    const uint64_t small = b->n_items / b->n_tastes;
    b->n_large = b->n_items % b->n_tastes;
    b->n_spare = b->n_pairs ? b->n_pairs - b->n_users : 0;
    power_law_init(&b->activity, b->n_users, b->user_exponent);
    power_law_init(&b->fame[0], small + 1, b->item_exponent);
    power_law_init(&b->fame[1], small, b->item_exponent);
    sl_permutation_init(&b->of_rank, b->n_users, b->seed, SCRAMBLE_USERS);
    sl_permutation_init(&b->item_rank, b->n_items, b->seed, SCRAMBLE_ITEMS);
}

static const struct sl_power_law *fame_of(const struct sl_bipartite *b, uint32_t taste)
{
    return &b->fame[taste >= b->n_large];
}

static uint32_t item_at(const struct sl_bipartite *b, uint32_t taste, uint64_t rank)
{
    return (uint32_t)sl_permutation_apply(&b->item_rank, rank * b->n_tastes + taste);
}

// Pairs, beside their one each, of users before this one in the order of activity.
static uint64_t spare_below(const struct sl_bipartite *b, uint64_t rank)
{
    return (uint64_t)((double)b->n_spare * share_below(&b->activity, rank));
}

// part / whole of n, rounded down.
static uint64_t take(uint64_t n, uint64_t part, uint64_t whole)
{
    return whole ? (uint64_t)((unsigned __int128)n * part / whole) : 0;
}

uint64_t sl_bipartite_most(const struct sl_bipartite *b)
{
    const double most = (double)b->n_spare * share_below(&b->activity, 1);
    return b->n_pairs ? 1 + (uint64_t)ceil(most) : 0;
}

uint64_t sl_bipartite_offer(const struct sl_bipartite *b)
{
    return b->stray > 0 ? b->n_items : b->n_items / b->n_tastes * b->tastes_each;
}

/*
 * How many he has, and how many of them are held out: differences of sums over the users before
 * him, so that those of all are exact. What is held out comes out of the spare ones.
 */
static void count_items(const struct sl_bipartite *b, struct sl_bipartite_user *user)
{
    const uint64_t rank = sl_permutation_invert(&b->of_rank, user->id);
    const uint64_t from = spare_below(b, rank);
    const uint64_t to = SL_MAX(spare_below(b, rank + 1), from);
    const uint64_t test[2] = {take(from, b->n_test, b->n_spare), take(to, b->n_test, b->n_spare)};
    const uint64_t rest = b->n_spare - b->n_test;
    user->n_items = to - from + (b->n_pairs > 0);
    user->n_test = test[1] - test[0];
    user->n_val = take(to - test[1], b->n_val, rest) - take(from - test[0], b->n_val, rest);
}

// Different tastes by Floyd's algorithm, and shares that are uniform among all that add up to 1.
static void draw_tastes(const struct sl_bipartite *b, struct sl_bipartite_user *user)
{
    double sum = 0;
    for (uint32_t i = 0; i < b->tastes_each; i++) {
        const struct sl_rng_block w = sl_draw_nth(b->seed, SL_DRAW_TASTE, user->id, i);
        const uint32_t last = b->n_tastes - b->tastes_each + i;
        uint32_t taste = (uint32_t)((uint64_t)w.w[0] * (last + 1) >> 32);
        for (uint32_t j = 0; j < i; j++)
            if (user->taste[j] == taste)
                taste = last;
        user->taste[i] = taste;
        user->share[i] = -log(1 - sl_draw_unit(w.w[1], w.w[2]));
        sum += user->share[i];
    }
    for (uint32_t i = 0; i < b->tastes_each; i++)
        user->share[i] = sum > 0 ? user->share[i] / sum : 1.0 / b->tastes_each;
}

void sl_bipartite_user_init(const struct sl_bipartite *b, uint64_t id,
                            struct sl_bipartite_user *user)
{
    user->id = id;
    count_items(b, user);
    draw_tastes(b, user);
}

static float taste_of_any(const struct sl_bipartite *b)
{
    return (float)(b->stray / b->n_tastes);
}

static float taste_of_own(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                          uint32_t i)
{
    return (float)(b->stray / b->n_tastes + (1 - b->stray) * user->share[i]);
}

float sl_bipartite_taste(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                         uint32_t taste)
{
    for (uint32_t i = 0; i < b->tastes_each; i++)
        if (user->taste[i] == taste)
            return taste_of_own(b, user, i);
    return taste_of_any(b);
}

float sl_bipartite_popularity(const struct sl_bipartite *b, uint64_t item, uint32_t *taste)
{
    const uint64_t place = sl_permutation_invert(&b->item_rank, item);
    *taste = (uint32_t)(place % b->n_tastes);
    return (float)share_of(fame_of(b, *taste), place / b->n_tastes);
}

static double log_against_mean(const struct sl_power_law *law, uint64_t rank)
{
    return log(share_of(law, rank) * (double)law->n);
}

double sl_bipartite_log_popularity(const struct sl_bipartite *b, uint64_t item)
{
    const uint64_t place = sl_permutation_invert(&b->item_rank, item);
    return log_against_mean(fame_of(b, (uint32_t)(place % b->n_tastes)), place / b->n_tastes);
}

double sl_bipartite_log_activity(const struct sl_bipartite *b, uint64_t user)
{
    return log_against_mean(&b->activity, sl_permutation_invert(&b->of_rank, user));
}

// ---- drawing a user's items ---------------------------------------------------------------------

int sl_bipartite_list_init(const struct sl_bipartite *b, struct sl_bipartite_list *list)
{
    const uint64_t most = sl_bipartite_most(b) + 1; // sums are rounded
    *list = (struct sl_bipartite_list){
        .items = malloc(most * sizeof *list->items),
        .table = malloc(sl_pow2_at_least(2 * most) * sizeof *list->table),
        .racers = malloc(most * sizeof *list->racers),
    };
    if (list->items && list->table && list->racers)
        return SL_OK;
    sl_bipartite_list_fini(list);
    return sl_fail(SL_ENOMEM, "generate bipartite: no memory for the %llu items of a user",
                   (unsigned long long)most);
}

void sl_bipartite_list_fini(struct sl_bipartite_list *list)
{
    free(list->items);
    free(list->table);
    free(list->racers);
    *list = (struct sl_bipartite_list){0};
}

// The place of an item, or the empty one where it would be.
static uint64_t place_of(const uint32_t *table, uint64_t mask, uint32_t item)
{
    uint64_t at = (item * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;
    while (table[at] != EMPTY && table[at] != item)
        at = (at + 1) & mask;
    return at;
}

static uint32_t draw_item(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                          uint32_t attempt)
{
    const struct sl_rng_block w = sl_draw_nth(b->seed, SL_DRAW_CHOICE, user->id, attempt);
    double u = sl_draw_unit(w.w[0], w.w[3]);
    uint32_t taste = user->taste[0];
    if (u < b->stray) {
        taste = SL_MIN((uint32_t)(u / b->stray * b->n_tastes), b->n_tastes - 1);
    } else {
        u = (u - b->stray) / (1 - b->stray);
        for (uint32_t i = 0; i < b->tastes_each && u >= 0; u -= user->share[i++])
            taste = user->taste[i];
    }
    return item_at(b, taste, draw_rank(fame_of(b, taste), sl_draw_unit(w.w[1], w.w[2])));
}

static bool is_later(struct sl_bipartite_racer x, struct sl_bipartite_racer y)
{
    return x.time > y.time || (x.time == y.time && x.item > y.item);
}

// The latest of n is replaced by an earlier one, or the heap grows by it.
static void heap_put(struct sl_bipartite_racer *heap, uint64_t n, uint64_t most,
                     struct sl_bipartite_racer r)
{
    uint64_t at = n;
    if (n < most) { // up
        for (; at > 0 && is_later(r, heap[(at - 1) / 2]); at = (at - 1) / 2)
            heap[at] = heap[(at - 1) / 2];
    } else { // down from the top
        at = 0;
        for (uint64_t child = 1; child < n; child = 2 * at + 1) {
            child += child + 1 < n && is_later(heap[child + 1], heap[child]);
            if (!is_later(heap[child], r))
                break;
            heap[at] = heap[child];
            at = child;
        }
    }
    heap[at] = r;
}

// Items in a race: the first `most` of those seen so far.
struct race {
    const struct sl_bipartite_list *list;
    uint64_t mask;    // of the hash table
    uint64_t n, most; // of list->racers
};

static void race_taste(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                       struct race *race, uint32_t taste)
{
    const struct sl_power_law *fame = fame_of(b, taste);
    const double weight = (double)sl_bipartite_taste(b, user, taste);
    struct sl_bipartite_racer *racers = race->list->racers;
    for (uint64_t rank = 0; rank < fame->n && weight > 0; rank++) {
        const uint32_t item = item_at(b, taste, rank);
        if (race->list->table[place_of(race->list->table, race->mask, item)] == item)
            continue;
        const struct sl_rng_block w = sl_draw_nth(b->seed, SL_DRAW_RACE, user->id, item);
        const double time = -log(1 - sl_draw_unit(w.w[0], w.w[1]));
        const struct sl_bipartite_racer r = {time / (weight * share_of(fame, rank)), item};
        if (race->n < race->most || is_later(racers[0], r))
            heap_put(racers, race->n, race->most, r);
        race->n += race->n < race->most;
    }
}

/*
 * The rest of his items, where most draws give what he has: every other item arrives at a random
 * time, exponentially distributed with its chance as the rate, and the first ones are his. Those
 * come in the order, and with the chances, of drawing again and again.
 */
static void race_for(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                     const struct sl_bipartite_list *list, uint64_t mask, uint64_t n)
{
    struct race race = {.list = list, .mask = mask, .most = user->n_items - n};
    for (uint32_t i = 0; b->stray == 0 && i < b->tastes_each; i++)
        race_taste(b, user, &race, user->taste[i]);
    for (uint32_t taste = 0; b->stray > 0 && taste < b->n_tastes; taste++)
        race_taste(b, user, &race, taste);
    for (uint64_t i = 0; i < race.n; i++)
        list->items[n + i] = list->racers[i].item;
}

static int ascending(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

// Which are held out: any of them alike, whatever their chances and the order of drawing.
static void hold_out(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                     uint32_t *items)
{
    const uint64_t out = user->n_val + user->n_test, n = user->n_items;
    for (uint64_t i = 0; i < out; i++) {
        const struct sl_rng_block w = sl_draw_nth(b->seed, SL_DRAW_HELD_OUT, user->id, (uint32_t)i);
        const uint64_t last = n - 1 - i;
        const uint64_t other =
            (uint64_t)((unsigned __int128)((uint64_t)w.w[0] << 32 | w.w[1]) * (last + 1) >> 64);
        const uint32_t item = items[other];
        items[other] = items[last];
        items[last] = item;
    }
    qsort(items, n - out, sizeof *items, ascending);
    qsort(items + n - out, user->n_val, sizeof *items, ascending);
    qsort(items + n - user->n_test, user->n_test, sizeof *items, ascending);
}

void sl_bipartite_draw(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                       const struct sl_bipartite_list *list)
{
    const uint64_t slots = sl_pow2_at_least(2 * SL_MAX(user->n_items, (uint64_t)1));
    // Then a race, which looks at every item once, is no more work.
    const uint64_t attempts = user->n_items + sl_bipartite_offer(b);
    uint64_t n = 0;
    memset(list->table, 0xff, slots * sizeof *list->table);
    for (uint64_t i = 0; n < user->n_items && i < attempts; i++) {
        const uint32_t item = draw_item(b, user, (uint32_t)i);
        const uint64_t at = place_of(list->table, slots - 1, item);
        if (list->table[at] == EMPTY)
            list->items[n++] = list->table[at] = item;
    }
    if (n < user->n_items)
        race_for(b, user, list, slots - 1, n);
    hold_out(b, user, list->items);
}

// ---- the best items -----------------------------------------------------------------------------

struct ranked {
    float chance;
    uint32_t item;
};

struct ranking {
    uint32_t n;
    struct ranked of[SL_BIPARTITE_BEST]; // the best first
};

static bool is_better(struct ranked x, struct ranked y)
{
    return x.chance > y.chance || (x.chance == y.chance && x.item < y.item);
}

static void ranking_put(struct ranking *best, struct ranked r)
{
    uint32_t at = best->n;
    if (best->n == SL_BIPARTITE_BEST && !is_better(r, best->of[--at]))
        return;
    for (; at > 0 && is_better(r, best->of[at - 1]); at--)
        best->of[at] = best->of[at - 1];
    best->of[at] = r;
    best->n += best->n < SL_BIPARTITE_BEST;
}

static bool is_beaten(const struct ranking *best, float chance)
{
    return best->n == SL_BIPARTITE_BEST && chance < best->of[SL_BIPARTITE_BEST - 1].chance;
}

// The items of a taste from the most popular on, until the next ones are no better.
static void rank_taste(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                       const struct sl_bipartite_list *list, uint32_t taste, float weight,
                       struct ranking *best)
{
    const struct sl_power_law *fame = fame_of(b, taste);
    const uint64_t n_known = user->n_items - user->n_val - user->n_test;
    for (uint64_t rank = 0; rank < fame->n && weight > 0; rank++) {
        struct ranked r = {.chance = weight * (float)share_of(fame, rank)};
        if (is_beaten(best, r.chance))
            return;
        r.item = item_at(b, taste, rank);
        if (!bsearch(&r.item, list->items, n_known, sizeof r.item, ascending))
            ranking_put(best, r);
    }
}

uint32_t sl_bipartite_best(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                           const struct sl_bipartite_list *list, uint32_t best[SL_BIPARTITE_BEST])
{
    const float any = taste_of_any(b);
    struct ranking ranking = {0};
    for (uint32_t i = 0; i < b->tastes_each; i++)
        rank_taste(b, user, list, user->taste[i], taste_of_own(b, user, i), &ranking);
    // Where no item of another taste can be among them, as mostly, none is looked at.
    const float most = any * (float)share_of(&b->fame[1], 0);
    for (uint32_t c = 0; c < b->n_tastes && any > 0 && !is_beaten(&ranking, most); c++) {
        bool own = false;
        for (uint32_t i = 0; i < b->tastes_each; i++)
            own |= user->taste[i] == c;
        if (!own)
            rank_taste(b, user, list, c, any, &ranking);
    }
    for (uint32_t i = 0; i < ranking.n; i++)
        best[i] = ranking.of[i].item;
    return ranking.n;
}
