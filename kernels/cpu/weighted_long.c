/*
 * weighted_long.c - see weighted_long.h.
 *
 * Loops over rows are plain C for the vectoriser, in f64 throughout so that all have as many lanes;
 * those that a vector has too many compute something that nobody reads.
 */
#include "kernels/cpu/weighted_long.h"

#include "common/base/bits.h"
#include "common/base/simd.h"
#include "kernels/cpu/vector.h"
#include "kernels/weighted_internal.h"

enum { ROWS = SL_WEIGHTED_LONG_ROWS, WINDOW = SL_WEIGHTED_WINDOW, STEP = 8 };

// Searches in hand: a row's edge is at low .. end - 1, and these lie closed up between the points
// before and behind.
struct search {
    sl_weighted_row_doubles x, shift, low, end, before, behind;
    int32_t window[ROWS]; // the sums that are looked at next begin here
    uint32_t edge[ROWS];
    uint32_t still[ROWS], n; // rows that go on
};

SL_INLINE void begin(const struct sl_weighted_longs *s, const uint32_t *words, uint32_t rows,
                     struct search *f)
{
    for (uint32_t r = 0; r < s->n; r++) {
        const uint32_t *word = words + 4 * (size_t)s->word[r];
        f->x[r] = sl_weighted_point(sl_weighted_bits(word[0], word[1]), s->left[r]);
    }
    for (uint32_t r = 0; r < rows; r++) {
        f->shift[r] = f->low[r] = f->before[r] = 0;
        f->end[r] = s->at[0][r];
        f->behind[r] = s->start[0][r];
    }
    for (uint32_t j = 0; j < s->slot; j++)
        for (uint32_t r = 0; r < rows; r += STEP)
            for (uint32_t i = r; i < r + STEP; i++) {
                const double start = s->start[j][i], at = s->at[j][i];
                const double next = s->at[j + 1][i], behind = s->start[j + 1][i];
                const double gone = f->shift[i] + s->weight[j][i];
                const int is = start <= f->x[i];
                f->shift[i] = is ? gone : f->shift[i];
                f->low[i] = is ? at + 1 : f->low[i];
                f->before[i] = is ? start : f->before[i];
                f->end[i] = is ? next : f->end[i];
                f->behind[i] = is ? behind : f->behind[i];
            }
}

// The window around the middle of what lies in question, or at a share of it, within the row.
SL_INLINE int32_t window_at(double low, double end, double share, double degree)
{
    double window = low + share * (end - low) - WINDOW / 2;
    double last = SL_MIN(end, degree) - WINDOW;
    window = window > low ? window : low;
    window = window < last ? window : last;
    return (int32_t)(window > 0 ? window : 0);
}

SL_INLINE void ask_for(const double *sums)
{
    __builtin_prefetch(sums);
    __builtin_prefetch(sums + WINDOW - 1);
}

// How many sums of a window lie at or before x. In vectors of four: GCC 12 takes a comparison of
// eight apart into scalars for AVX2.
SL_INLINE uint32_t count(const double *sums, double shift, double x)
{
    typedef double v4_at __attribute__((vector_size(32), aligned(8), may_alias));
    typedef int64_t v4_i64 __attribute__((vector_size(32)));
    v4_i64 n = {0}; // -1 where it holds
    for (uint32_t j = 0; j < WINDOW; j += 4)
        n += *(const v4_at *)(sums + j) - shift <= x;
    return (uint32_t) - (n[0] + n[1] + n[2] + n[3]);
}

/*
 * Looks at row r's window. Returns whether the search goes on. That a sum lies at or before x holds
 * for all edges up to some place and for none behind it, whether they have been drawn or not, so
 * that a window may be anywhere in the row.
 */
SL_INLINE uint32_t look(const struct sl_weighted_longs *s, struct search *f, uint32_t r,
                        uint32_t looks)
{
    const double *prefix = s->prefix[r];
    const uint32_t window = (uint32_t)f->window[r];
    const uint32_t n = count(prefix + window, f->shift[r], f->x[r]);
    f->edge[r] = window + n;
    if (n == 0 && window > f->low[r]) { // at its first edge, or before it
        f->end[r] = window + 1;
        f->behind[r] = prefix[window] - f->shift[r];
    } else if (n == WINDOW) {
        f->low[r] = window + n;
        f->before[r] = prefix[window + n - 1] - f->shift[r];
    } else {
        return 0;
    }
    double share = 0.5;
    if (looks < SL_WEIGHTED_GUESSES)
        share = (f->x[r] - f->before[r]) / (f->behind[r] - f->before[r]);
    f->window[r] = window_at(f->low[r], f->end[r], share, s->degree[r]);
    ask_for(prefix + f->window[r]);
    return 1;
}

SL_INLINE void find(const struct sl_weighted_longs *s, struct search *f, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++)
        f->window[r] =
            window_at(f->low[r], f->end[r],
                      (f->x[r] - f->before[r]) / (f->behind[r] - f->before[r]), s->at[s->slot][r]);
    for (uint32_t r = 0; r < s->n; r++)
        ask_for(s->prefix[r] + f->window[r]);
    f->n = 0;
    for (uint32_t r = 0; r < s->n; r++) {
        f->still[f->n] = r;
        f->n += s->left[r] > 0 && look(s, f, r, 1);
    }
    for (uint32_t looks = 2; f->n > 0; looks++) {
        uint32_t still = 0;
        for (uint32_t i = 0; i < f->n; i++) {
            uint32_t r = f->still[i];
            f->still[still] = r;
            still += look(s, f, r, looks);
        }
        f->n = still;
    }
}

// The edges that were found leave their rows.
SL_INLINE void take(struct sl_weighted_longs *s, const struct search *f, uint32_t rows)
{
    sl_weighted_row_doubles at = {0}, start = {0}, weight = {0}, gone = {0};
    for (uint32_t r = 0; r < s->n; r++) {
        const int is = s->left[r] > 0; // else nothing was found
        const uint32_t edge = is ? f->edge[r] : 0;
        const double before = edge > 0 ? s->prefix[r][edge - 1] : 0;
        at[r] = is ? edge : s->degree[r];
        weight[r] = gone[r] = is ? s->prefix[r][edge] - before : 0;
        start[r] = before - f->shift[r];
        s->drawn[r][s->n_drawn[r]] = edge;
        s->n_drawn[r] += (uint32_t)is;
    }
    // Each goes up to its place, and moves those from there on; they begin earlier without it.
    for (uint32_t j = 0; j <= s->slot; j++)
        for (uint32_t r = 0; r < rows; r += STEP)
            for (uint32_t i = r; i < r + STEP; i++) {
                const double its_at = s->at[j][i], its_weight = s->weight[j][i];
                const double its_start = s->start[j][i];
                const int is = its_at >= at[i];
                s->at[j][i] = is ? at[i] : its_at;
                s->start[j][i] = is ? start[i] : its_start;
                s->weight[j][i] = is ? weight[i] : its_weight;
                at[i] = is ? its_at : at[i];
                start[i] = is ? its_start - gone[i] : start[i];
                weight[i] = is ? its_weight : weight[i];
            }
    for (uint32_t r = 0; r < rows; r++) {
        s->at[s->slot + 1][r] = at[r];
        s->start[s->slot + 1][r] = start[r];
        s->left[r] -= gone[r];
    }
}

SL_SIMD_VOID(draw, (struct sl_weighted_longs * s, const uint32_t *words), (s, words))
{
    struct search f;
    const uint32_t rows = (uint32_t)sl_align_up(s->n, STEP);
    begin(s, words, rows, &f);
    find(s, &f, rows);
    take(s, &f, rows);
    s->slot++;
}

void sl_weighted_longs_draw(struct sl_weighted_longs *s, const uint32_t *words)
{
    if (s->n > 0)
        draw(s, words);
}
