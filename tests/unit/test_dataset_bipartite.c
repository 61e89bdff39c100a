// Planted users and items: their numbers are exact, items are drawn with the chances that are said,
// and the best ranking is that of all products.
#include "dataset/bipartite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

#define STANDARD .user_exponent = 3.5, .item_exponent = 2.5

static const struct sl_bipartite plants[] = {
    {.seed = 1,
     .n_users = 900,
     .n_items = 90,
     .n_pairs = 9001,
     .n_val = 700,
     .n_test = 901,
     .n_tastes = 9,
     .tastes_each = 2,
     .stray = 0.2,
     STANDARD},
    {.seed = 2,
     .n_users = 700,
     .n_items = 81,
     .n_pairs = 5000,
     .n_val = 333,
     .n_test = 1,
     .n_tastes = 5,
     .tastes_each = 3,
     .stray = 0,
     STANDARD}, // only items of his tastes
    {.seed = 3,
     .n_users = 400,
     .n_items = 300,
     .n_pairs = 9000,
     .n_test = 8600,
     .n_tastes = 300,
     .tastes_each = 16,
     .stray = 0.9,
     STANDARD}, // all that may go, an item a taste
    {.seed = 4,
     .n_users = 300,
     .n_items = 25,
     .n_pairs = 3300,
     .n_val = 1000,
     .n_test = 1000,
     .n_tastes = 1,
     .tastes_each = 1,
     .stray = 1,
     .user_exponent = 100,
     .item_exponent = 100},
    {.seed = 5,
     .n_users = 300,
     .n_items = 31,
     .n_pairs = 300,
     .n_tastes = 4,
     .tastes_each = 4,
     .stray = 0.5,
     STANDARD}, // one each: nothing may go
    {.seed = 6,
     .n_users = 1,
     .n_items = 30,
     .n_pairs = 30,
     .n_val = 20,
     .n_test = 9,
     .n_tastes = 7,
     .tastes_each = 2,
     .stray = 0.01,
     STANDARD}, // all that there are
    {.seed = 7,
     .n_users = 200,
     .n_items = 900,
     .n_pairs = 9000,
     .n_val = 2000,
     .n_test = 2000,
     .n_tastes = 30,
     .tastes_each = 5,
     .stray = 0.4,
     .user_exponent = 2.3,
     .item_exponent = 2.05},
};

static struct sl_bipartite plant_of(int i)
{
    struct sl_bipartite b = plants[i];
    sl_bipartite_init(&b);
    ck_assert_uint_le(sl_bipartite_most(&b), sl_bipartite_offer(&b));
    return b;
}

static struct sl_bipartite_list list_of(const struct sl_bipartite *b)
{
    struct sl_bipartite_list list;
    ck_assert_int_eq(sl_bipartite_list_init(b, &list), SL_OK);
    return list;
}

static float chance_of(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                       uint32_t item)
{
    uint32_t taste;
    const float popularity = sl_bipartite_popularity(b, item, &taste);
    return sl_bipartite_taste(b, user, taste) * popularity;
}

LOOP_TEST(numbers_are_exact, 0, SL_COUNT_OF(plants))
{
    const struct sl_bipartite b = plant_of(_i);
    uint64_t n_items = 0, n_val = 0, n_test = 0, most = 0;
    for (uint64_t u = 0; u < b.n_users; u++) {
        struct sl_bipartite_user user;
        sl_bipartite_user_init(&b, u, &user);
        ck_assert_uint_lt(user.n_val + user.n_test, user.n_items); // he keeps one
        n_items += user.n_items;
        n_val += user.n_val;
        n_test += user.n_test;
        most = SL_MAX(most, user.n_items);
    }
    ck_assert_uint_eq(n_items, b.n_pairs);
    ck_assert_uint_eq(n_val, b.n_val);
    ck_assert_uint_eq(n_test, b.n_test);
    ck_assert_uint_le(most, sl_bipartite_most(&b));
    ck_assert_uint_ge(most + 1, sl_bipartite_most(&b));
}

static void check_part(const struct sl_bipartite *b, const uint32_t *items, uint64_t n, char *seen)
{
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_uint_lt(items[i], b->n_items);
        ck_assert(i == 0 || items[i - 1] < items[i]);
        ck_assert(!seen[items[i]]);
        seen[items[i]] = 1;
    }
}

LOOP_TEST(items_are_different_and_have_a_chance, 0, SL_COUNT_OF(plants))
{
    const struct sl_bipartite b = plant_of(_i);
    struct sl_bipartite_list list = list_of(&b);
    char *seen = malloc(b.n_items);
    for (uint64_t u = 0; u < b.n_users; u++) {
        struct sl_bipartite_user user;
        double sum = 0;
        sl_bipartite_user_init(&b, u, &user);
        sl_bipartite_draw(&b, &user, &list);
        const uint64_t n_train = user.n_items - user.n_val - user.n_test;
        memset(seen, 0, b.n_items);
        check_part(&b, list.items, n_train, seen);
        check_part(&b, list.items + n_train, user.n_val, seen);
        check_part(&b, list.items + n_train + user.n_val, user.n_test, seen);
        for (uint32_t i = 0; i < b.n_items; i++) {
            const double chance = (double)chance_of(&b, &user, i);
            ck_assert(!seen[i] || chance > 0);
            sum += chance;
        }
        ck_assert_double_eq_tol(sum, 1, 1e-5);
    }
    free(seen);
    sl_bipartite_list_fini(&list);
}

// ---- chances ------------------------------------------------------------------------------------

// Five standard deviations of a sum of independent events of these chances.
#define CHECK_COUNT(found, wanted)                                                                 \
    ck_assert_msg(fabs((found) - (wanted)) <= 5 * sqrt(wanted) + 1, "%.0f, wanted %.1f",           \
                  (double)(found), (double)(wanted))

TEST(the_first_item_follows_the_chances)
{
    struct sl_bipartite b = {.seed = 9,
                             .n_users = 60000,
                             .n_items = 37,
                             .n_pairs = 60000,
                             .n_tastes = 6,
                             .tastes_each = 2,
                             .stray = 0.2,
                             .user_exponent = 3,
                             .item_exponent = 2.2};
    double found[37] = {0}, wanted[37] = {0};
    sl_bipartite_init(&b);
    struct sl_bipartite_list list = list_of(&b);
    for (uint64_t u = 0; u < b.n_users; u++) {
        struct sl_bipartite_user user;
        sl_bipartite_user_init(&b, u, &user);
        sl_bipartite_draw(&b, &user, &list);
        found[list.items[0]]++;
        for (uint32_t i = 0; i < b.n_items; i++)
            wanted[i] += (double)chance_of(&b, &user, i);
    }
    for (uint32_t i = 0; i < b.n_items; i++)
        CHECK_COUNT(found[i], wanted[i]);
    sl_bipartite_list_fini(&list);
}

// The chance of a set (a bit an item) where one is drawn after another, those had already left out.
static double chance_of_set(const double *chance, unsigned set, double had)
{
    double sum = set == 0;
    for (unsigned i = 0; set >> i; i++)
        if (set >> i & 1)
            sum += chance[i] / (1 - had) * chance_of_set(chance, set & ~(1u << i), had + chance[i]);
    return sum;
}

static const struct sl_bipartite small[] = {
    {.n_items = 5, .n_tastes = 1, .tastes_each = 1, .item_exponent = 2.05},
    // Strays are rare: most users' last items come of a race.
    {.n_items = 6, .n_tastes = 3, .tastes_each = 1, .stray = 0.03, .item_exponent = 2.05},
    {.n_items = 6, .n_tastes = 6, .tastes_each = 2, .stray = 0.002, .item_exponent = 2.05},
};

LOOP_TEST(sets_follow_the_chances, 0, SL_COUNT_OF(small))
{
    enum { USERS = 30000, SETS = 1 << 6 };
    struct sl_bipartite b = small[_i];
    double found[SETS] = {0}, wanted[SETS] = {0};
    b.seed = 11;
    b.n_users = USERS;
    b.n_pairs = 3 * USERS;
    b.user_exponent = 100;
    sl_bipartite_init(&b);
    struct sl_bipartite_list list = list_of(&b);
    for (uint64_t u = 0; u < USERS; u++) {
        struct sl_bipartite_user user;
        double chance[6];
        unsigned set = 0;
        sl_bipartite_user_init(&b, u, &user);
        sl_bipartite_draw(&b, &user, &list);
        for (uint32_t i = 0; i < b.n_items; i++)
            chance[i] = (double)chance_of(&b, &user, i);
        for (uint64_t i = 0; i < user.n_items; i++)
            set |= 1u << list.items[i];
        found[set]++;
        for (unsigned s = 0; s < 1u << b.n_items; s++)
            if ((uint64_t)__builtin_popcount(s) == user.n_items)
                wanted[s] += chance_of_set(chance, s, 0);
    }
    for (unsigned s = 0; s < SETS; s++)
        CHECK_COUNT(found[s], wanted[s]);
    sl_bipartite_list_fini(&list);
}

// What is held out says nothing of an item's chance.
TEST(any_item_is_held_out_alike)
{
    struct sl_bipartite b = {.seed = 12,
                             .n_users = 20000,
                             .n_items = 60,
                             .n_pairs = 160000,
                             .n_val = 20000,
                             .n_test = 30000,
                             .n_tastes = 5,
                             .tastes_each = 2,
                             .stray = 0.1,
                             STANDARD};
    double wanted[2] = {0}, found[2] = {0};
    sl_bipartite_init(&b);
    struct sl_bipartite_list list = list_of(&b);
    for (uint64_t u = 0; u < b.n_users; u++) {
        struct sl_bipartite_user user;
        uint64_t top = 0;
        sl_bipartite_user_init(&b, u, &user);
        sl_bipartite_draw(&b, &user, &list);
        for (uint64_t i = 1; i < user.n_items; i++)
            if (chance_of(&b, &user, list.items[i]) > chance_of(&b, &user, list.items[top]))
                top = i;
        const uint64_t test = user.n_items - user.n_test, val = test - user.n_val;
        found[0] += top >= val && top < test;
        found[1] += top >= test;
        wanted[0] += (double)user.n_val / (double)user.n_items;
        wanted[1] += (double)user.n_test / (double)user.n_items;
    }
    for (int i = 0; i < 2; i++)
        CHECK_COUNT(found[i], wanted[i]);
    sl_bipartite_list_fini(&list);
}

// ---- the best ranking ---------------------------------------------------------------------------

struct product {
    float chance;
    uint32_t item;
};

static int best_first(const void *x, const void *y)
{
    const struct product *a = x, *b = y;
    if (a->chance != b->chance)
        return a->chance > b->chance ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

static bool is_known(const struct sl_bipartite_user *user, const uint32_t *items, uint32_t item)
{
    for (uint64_t i = 0; i < user->n_items - user->n_val - user->n_test; i++)
        if (items[i] == item)
            return true;
    return false;
}

LOOP_TEST(the_best_items_are_those_of_all_products, 0, SL_COUNT_OF(plants))
{
    const struct sl_bipartite b = plant_of(_i);
    struct sl_bipartite_list list = list_of(&b);
    struct product *all = malloc(b.n_items * sizeof *all);
    for (uint64_t u = 0; u < b.n_users; u++) {
        struct sl_bipartite_user user;
        uint32_t best[SL_BIPARTITE_BEST], n = 0;
        sl_bipartite_user_init(&b, u, &user);
        sl_bipartite_draw(&b, &user, &list);
        for (uint32_t i = 0; i < b.n_items; i++) {
            const struct product p = {chance_of(&b, &user, i), i};
            if (p.chance > 0 && !is_known(&user, list.items, i))
                all[n++] = p;
        }
        qsort(all, n, sizeof *all, best_first);
        n = SL_MIN(n, (uint32_t)SL_BIPARTITE_BEST);
        ck_assert_uint_eq(sl_bipartite_best(&b, &user, &list, best), n);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_uint_eq(best[i], all[i].item);
    }
    free(all);
    sl_bipartite_list_fini(&list);
}

RUN_TESTS(.timeout_s = 60)
