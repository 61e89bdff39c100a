/*
 * bipartite.h - a planted graph of users and items, of which the chance of every edge is known.
 *
 * Items are of one taste each, users have some. A user's next item is of taste c with a chance of
 * taste(u, c), and is item i of that taste with a chance of popularity(i): stray / n_tastes for any
 * taste and (1 - stray) times a random share for each of the user's own; a power law of the item's
 * rank within its taste. Items that he has already are drawn again. So the chance of every (u, i)
 * is taste(u, c(i)) * popularity(i), a product of vectors of n_tastes numbers.
 *
 * Which of a user's items are held out is drawn without a look at them. Of two items that he is not
 * known to have, the one with the larger chance is then more probably held out (a set that has it
 * in the other's place has the larger probability), so the K items of the largest chances are the
 * best answer that there is: no ranking has more hits to expect.
 *
 * All of it is a function of the seed and the user: nothing is stored for a vertex or an edge.
 */
#ifndef SL_DATASET_BIPARTITE_H
#define SL_DATASET_BIPARTITE_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/permutation.h"

enum {
    SL_BIPARTITE_TASTES_MAX = 16, // of a user
    SL_BIPARTITE_BEST = 20,       // items that are an answer
};

// Rank r of n in proportion to the integral of x^-steepness from r + 1 to r + 2.
struct sl_power_law {
    uint64_t n;
    double flat; // 1 - steepness
    double span; // (n + 1)^flat - 1
};

struct sl_bipartite {
    // Set before sl_bipartite_init().
    uint64_t seed;
    uint64_t n_users, n_items; // below 2^32 - 1 together
    uint64_t n_pairs;          // 0, or one a user at least
    uint64_t n_val, n_test;    // of the pairs; each user keeps one
    uint32_t n_tastes;         // n_items at most
    uint32_t tastes_each;      // of a user: n_tastes and SL_BIPARTITE_TASTES_MAX at most
    double stray;
    double user_exponent, item_exponent; // of the power laws of degrees, above 2

    // Set by it.
    struct sl_power_law activity;    // of users
    struct sl_power_law fame[2];     // of the items of a taste, of the larger and smaller ones
    uint64_t n_large;                // tastes that have one item more
    uint64_t n_spare;                // pairs beside the one of each user
    struct sl_permutation of_rank;   // users by activity
    struct sl_permutation item_rank; // items by rank * n_tastes + taste
};

struct sl_bipartite_user {
    uint64_t id;
    uint64_t n_items, n_val, n_test; // how many he has, and how many of these are held out
    uint32_t taste[SL_BIPARTITE_TASTES_MAX];
    double share[SL_BIPARTITE_TASTES_MAX]; // together 1
};

void sl_bipartite_init(struct sl_bipartite *b);
uint64_t sl_bipartite_most(const struct sl_bipartite *b);  // items of the most active users
uint64_t sl_bipartite_offer(const struct sl_bipartite *b); // items that any user can have, at least

void sl_bipartite_user_init(const struct sl_bipartite *b, uint64_t id,
                            struct sl_bipartite_user *user);
// Chance that his next item is of this taste.
float sl_bipartite_taste(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                         uint32_t taste);
// The taste of an item (from 0), and its chance among the items of that taste.
float sl_bipartite_popularity(const struct sl_bipartite *b, uint64_t item, uint32_t *taste);
// Logarithms of how popular and active they are, against the mean of their taste, and of all.
double sl_bipartite_log_popularity(const struct sl_bipartite *b, uint64_t item);
double sl_bipartite_log_activity(const struct sl_bipartite *b, uint64_t user);

// ---- the items of a user ------------------------------------------------------------------------

// Memory for any user's.
struct sl_bipartite_list {
    uint32_t *items; // (most + 1) those of training, then validation, then test, each ascending
    uint32_t *table; // hash table of items
    struct sl_bipartite_racer *racers; // (most + 1)
};

int sl_bipartite_list_init(const struct sl_bipartite *b, struct sl_bipartite_list *list);
void sl_bipartite_list_fini(struct sl_bipartite_list *list); // safe on a zeroed struct

// user->n_items items, of which he can have as many (sl_bipartite_offer()).
void sl_bipartite_draw(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                       const struct sl_bipartite_list *list);

/*
 * The best items by chance, equal chances by id, without those of the user's training: how many,
 * fewer where no others have a chance. Chances are products of the two float32 numbers above,
 * rounded to float32, so that a product of their vectors ranks alike.
 */
uint32_t sl_bipartite_best(const struct sl_bipartite *b, const struct sl_bipartite_user *user,
                           const struct sl_bipartite_list *list, uint32_t best[SL_BIPARTITE_BEST]);

#endif
