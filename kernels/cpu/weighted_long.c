/*
 * weighted_long.c - see weighted_long.h.
 *
 * Loops over rows take vectors of four, in f64 throughout so that all have as many lanes; those
 * that a vector has too many compute something that nobody reads.
 */
#include "kernels/cpu/weighted_long.h"

#include "common/base/bits.h"
#include "common/base/simd.h"
#include "kernels/cpu/vector.h"
#include "kernels/weighted_internal.h"

enum { ROWS = SL_WEIGHTED_LONG_ROWS, WINDOW = SL_WEIGHTED_WINDOW, STEP = 4 };

typedef double v4 __attribute__((vector_size(32), may_alias));
typedef int64_t v4_bits __attribute__((vector_size(32)));

// a where `is` holds, else b. Of a choice in a loop over memory GCC 12 makes a store of some lanes,
// which the next load has to wait for.
#define PICK(is, a, b) ((v4)(((is) & (v4_bits)(a)) | (~(is) & (v4_bits)(b))))

// Searches in hand: a row's edge is at low .. end - 1, and these lie closed up between the points
// before and behind.
struct search {
    _Alignas(32) sl_weighted_row_doubles x;
    sl_weighted_row_doubles shift, low, end, before, behind;
    int32_t window[ROWS]; // the sums that are looked at next begin here
    uint32_t edge[ROWS];
    uint32_t still[ROWS], n; // rows that go on
};

SL_INLINE void begin(const struct sl_weighted_longs *s, const struct sl_weighted_points *points,
                     uint32_t rows, struct search *f)
{
    for (uint32_t r = 0; r < s->n; r++)
        f->x[r] = sl_weighted_point_of(points, s->slot, s->row[r]) * s->left[r];
    for (uint32_t r = 0; r < rows; r += STEP) {
        const v4 x = *(const v4 *)&f->x[r];
        v4 shift = {0}, low = {0}, before = {0};
        v4 end = *(const v4 *)&s->at[0][r], behind = *(const v4 *)&s->start[0][r];
        for (uint32_t j = 0; j < s->slot; j++) {
            const v4 start = *(const v4 *)&s->start[j][r], weight = *(const v4 *)&s->weight[j][r];
            const v4_bits is = start <= x;
            shift += PICK(is, weight, (v4){0});
            low = PICK(is, *(const v4 *)&s->at[j][r] + 1, low);
            before = PICK(is, start, before);
            end = PICK(is, *(const v4 *)&s->at[j + 1][r], end);
            behind = PICK(is, *(const v4 *)&s->start[j + 1][r], behind);
        }
        *(v4 *)&f->shift[r] = shift;
        *(v4 *)&f->low[r] = low;
        *(v4 *)&f->before[r] = before;
        *(v4 *)&f->end[r] = end;
        *(v4 *)&f->behind[r] = behind;
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
    _Alignas(32) sl_weighted_row_doubles at, start, weight, gone;
    for (uint32_t r = s->n; r < rows; r++) // nobody reads them, but they are numbers
        at[r] = start[r] = weight[r] = gone[r] = 0;
    for (uint32_t r = 0; r < s->n; r++) {
        const int is = s->left[r] > 0; // else nothing was found
        const uint32_t edge = is ? f->edge[r] : 0;
        const double before = edge > 0 ? s->prefix[r][edge - 1] : 0;
        at[r] = is ? edge : s->degree[r];
        weight[r] = gone[r] = is ? s->prefix[r][edge] - before : 0;
        start[r] = before - f->shift[r];
        s->drawn[s->row[r]].at[s->n_drawn[r]] = edge;
        s->n_drawn[r] += (uint32_t)is;
    }
    // Each goes up to its place, and moves those from there on; they begin earlier without it.
    for (uint32_t r = 0; r < rows; r += STEP) {
        v4 its_at = *(const v4 *)&at[r], its_start = *(const v4 *)&start[r];
        v4 its_weight = *(const v4 *)&weight[r];
        const v4 less = *(const v4 *)&gone[r];
        for (uint32_t j = 0; j <= s->slot; j++) {
            const v4 there = *(const v4 *)&s->at[j][r], from = *(const v4 *)&s->start[j][r];
            const v4 weighs = *(const v4 *)&s->weight[j][r];
            const v4_bits is = there >= its_at;
            *(v4 *)&s->at[j][r] = PICK(is, its_at, there);
            *(v4 *)&s->start[j][r] = PICK(is, its_start, from);
            *(v4 *)&s->weight[j][r] = PICK(is, its_weight, weighs);
            its_at = PICK(is, there, its_at);
            its_start = PICK(is, from - less, its_start);
            its_weight = PICK(is, weighs, its_weight);
        }
        *(v4 *)&s->at[s->slot + 1][r] = its_at;
        *(v4 *)&s->start[s->slot + 1][r] = its_start;
        *(v4 *)&s->weight[s->slot + 1][r] = its_weight;
        *(v4 *)&s->left[r] -= less;
    }
}

SL_SIMD_VOID(draw,
             (struct sl_weighted_longs * s, uint32_t k, const struct sl_weighted_points *points),
             (s, k, points))
{
    struct search f;
    const uint32_t rows = (uint32_t)sl_align_up(s->n, STEP);
    for (uint32_t r = 0; r < s->n; r++) {
        s->left[r] = s->start[0][r] = s->prefix[r][s->degree[r] - 1];
        s->at[0][r] = s->degree[r];
    }
    for (; s->slot < k; s->slot++) {
        begin(s, points, rows, &f);
        find(s, &f, rows);
        take(s, &f, rows);
    }
    for (uint32_t r = 0; r < s->n; r++) {
        s->drawn[s->row[r]].n = s->n_drawn[r];
        s->drawn[s->row[r]].left = s->left[r];
    }
}

void sl_weighted_longs_draw(struct sl_weighted_longs *s, uint32_t k,
                            const struct sl_weighted_points *points)
{
    if (s->n > 0)
        draw(s, k, points);
}

void sl_weighted_longs_ask(const struct sl_weighted_longs *s, uint32_t k,
                           const struct sl_weighted_points *points)
{
    for (uint32_t r = 0; r < s->n; r++)
        for (uint32_t slot = 0; slot < k; slot++) {
            const double share = sl_weighted_point_of(points, slot, s->row[r]);
            ask_for(s->prefix[r] + window_at(0, s->degree[r], share, s->degree[r]));
        }
}
