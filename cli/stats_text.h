/*
 * stats_text.h - a line of statistics (sluice.stats/1) as people and spreadsheets read it.
 */
#ifndef SL_CLI_STATS_TEXT_H
#define SL_CLI_STATS_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "common/schema/stats.h"

/*
 * One line: where it is, how fast, what limits it. Without a newline. It has at most so many
 * columns (0 = any number), for which whole fields are left out; true when what limits the job is
 * on it.
 */
bool sl_stats_text_line(const struct sl_stats *stats, unsigned columns, FILE *out);

// What limits it as lines of their own, with a newline; nothing when it does not say.
void sl_stats_text_bottleneck(const struct sl_stats *stats, unsigned columns, FILE *out);

// That sentence without its numbers, which are others every second. Returns buf.
char *sl_stats_text_bottleneck_kind(const struct sl_stats *stats, char *buf, size_t bytes);

// A page: the same in full, stages and devices as tables.
void sl_stats_text_page(const struct sl_stats *stats, FILE *out);

/*
 * CSV (RFC 4180, lines end in a newline alone): the names of the columns, and a line's values; not
 * known is empty. Columns are only ever added, at the end.
 */
void sl_stats_text_csv_head(FILE *out);
void sl_stats_text_csv(const struct sl_stats *stats, FILE *out);

// What a stage is, in the order of tables.
struct sl_stage_text {
    enum sl_live_stage stage;
    bool samplers; // whose time it is; else the trainers'
    const char *what;
};
extern const struct sl_stage_text sl_stage_texts[SL_LIVE_STAGES];

#endif
