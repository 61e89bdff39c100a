// view_internal.h - the parts of the view, each drawn into an area of its own.
#ifndef SL_CLI_TOP_VIEW_INTERNAL_H
#define SL_CLI_TOP_VIEW_INTERNAL_H

#include "cli/top/model.h"
#include "cli/top/screen.h"

enum { SL_SAMPLERS_STYLE = SL_STYLE_BLUE, SL_TRAINERS_STYLE = SL_STYLE_ORANGE };

void sl_view_overview(const struct sl_top_model *m, struct sl_area a);
void sl_view_workers(struct sl_top_model *m, struct sl_area a);
void sl_view_stages(const struct sl_top_model *m, struct sl_area a);
void sl_view_events(struct sl_top_model *m, struct sl_area a);
void sl_view_jobs(struct sl_top_model *m, struct sl_area a);
// In the place of a view, of a graph of several types.
void sl_view_types(struct sl_top_model *m, struct sl_area a);

// A heading: words in a line across the area. Returns the area below it.
struct sl_area sl_view_heading(struct sl_area a, const char *title);

// The newest events without the `skip` last ones, the newest at the bottom. `rare`: without those
// that every epoch brings. How many are drawn.
int sl_view_event_lines(const struct sl_top_model *m, struct sl_area a, size_t skip, bool rare);

// Devices in as few rows as the width allows; more rows than there are end in "and 3 more".
// What they are under: "devices", or of a pool of cores "cores".
const char *sl_view_devices_title(const struct sl_top_model *m);
void sl_view_devices(const struct sl_top_model *m, struct sl_area a);
// Rows that show all in full: a line each when `easily` are enough, else side by side.
int sl_view_device_rows(const struct sl_top_model *m, int columns, int easily);

// Of each device that reads what GPUs hold together, a row or a few: how much from where, now and
// in all. Where they do not fit other devices are one sum; then the last row says how many readers
// are left out. Nothing without links.
void sl_view_links(const struct sl_top_model *m, struct sl_area a);
// Rows that show all, headings too: in full when `easily` are enough, else with such sums; 0
// without links.
int sl_view_link_rows(const struct sl_top_model *m, int columns, int easily);

// A row for each node of a job on several. Rows that show all, headings too; 0 for one node.
void sl_view_nodes(const struct sl_top_model *m, struct sl_area a);
int sl_view_node_rows(const struct sl_top_model *m);

// Of the workers of a role: the mean share of time that they are busy. NaN when there are none.
double sl_view_busy(const struct sl_stats *s, const char *role);
int sl_view_role_style(const char *role);

// Rows that a text takes in the area's width, broken at blanks.
int sl_view_text_rows(struct sl_area a, const char *text);

// Brings scroll into its range.
void sl_view_clamp_scroll(int *scroll, int rows, int room);

// A number that came from a line as a count that can be drawn; 0 when it is not known.
static inline int sl_view_count(double x)
{
    return x > 0 && x < 1e9 ? (int)x : 0;
}

#endif
