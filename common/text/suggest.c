#include "common/text/suggest.h"

#include <string.h>

#include "common/base/bits.h"

enum { WORD_MAX = 63 }; // longer words are compared by their first 63 characters

unsigned sl_suggest_distance(const char *a, const char *b)
{
    // Optimal string alignment: three rows of the table are enough.
    unsigned rows[3][WORD_MAX + 1];
    size_t n = strnlen(a, WORD_MAX), m = strnlen(b, WORD_MAX);
    unsigned *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = SL_MIN(best, last[j] + 1);
            best = SL_MIN(best, now[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = SL_MIN(best, before[j - 2] + 1);
            now[j] = best;
        }
        unsigned *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[m];
}

const char *sl_suggest_closest(const char *word, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    unsigned best_distance = ~0u;
    const char *prefixed = NULL;
    size_t n_prefixed = 0;
    size_t length = strlen(word);
    for (size_t i = 0; i < n; i++) {
        unsigned d = sl_suggest_distance(word, candidates[i]);
        unsigned allowed = (unsigned)((SL_MAX(length, strlen(candidates[i])) + 2) / 3);
        if (d <= allowed && d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
        if (length >= 2 && strncmp(word, candidates[i], length) == 0) {
            prefixed = candidates[i];
            n_prefixed++;
        }
    }
    return n_prefixed == 1 ? prefixed : best;
}
