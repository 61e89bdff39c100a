/*
 * charts.h - bars, sparklines and histograms in an area of a screen.
 *
 * Values that are not known (NaN) leave a gap. Curves are of eighths of a character in height; a
 * curve that has at least twice as many values as columns shows means of groups of 2, 4, 8 ...
 * values, as many as still fill it; groups begin at fixed values, so that a curve moves and does
 * not flicker.
 */
#ifndef SL_CLI_TOP_CHARTS_H
#define SL_CLI_TOP_CHARTS_H

#include <stddef.h>
#include <stdint.h>

#include "cli/top/screen.h"

// A share of w columns, row y.
void sl_chart_bar(struct sl_area a, int x, int y, int w, int style, double share);

struct sl_curve_values {
    const double *values; // oldest first
    size_t n;
    uint64_t first;   // number of the oldest value since the beginning: groups begin at multiples
    double low, high; // what the lowest and the highest place stand for; low = high: a flat line
};

// Fills the area; the newest value is in its last column.
void sl_chart_curve(struct sl_area a, int style, const struct sl_curve_values *v);
// How many values one column stands for.
size_t sl_chart_group(int columns, size_t n);

// A column of `columns_each` for each count; the highest fills the area.
void sl_chart_histogram(struct sl_area a, int style, const double *counts, size_t n,
                        int columns_each);

#endif
