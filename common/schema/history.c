#include "common/schema/history.h"

#include <math.h>
#include <string.h>

#include "common/text/json.h"

#define COLUMN(name, path) {#name, path},
static const struct {
    const char *name, *path;
} columns[] = {SL_HISTORY_COLUMNS(COLUMN)};

void sl_stats_history_add(struct sl_stats_history *h, const cJSON *line)
{
    double last = h->n ? h->values[SL_HISTORY_time][h->n - 1] : NAN;
    double time = sl_json_number(line, columns[SL_HISTORY_time].path);
    if (time <= last && time > last - SL_HISTORY_SET_BACK_S)
        return;
    if (h->n == SL_HISTORY_LINES) {
        for (int c = 0; c < SL_HISTORY_N_COLUMNS; c++)
            memmove(h->values[c], h->values[c] + 1, (SL_HISTORY_LINES - 1) * sizeof(double));
        h->n--;
        h->first++;
    }
    for (int c = 0; c < SL_HISTORY_N_COLUMNS; c++)
        h->values[c][h->n] = sl_json_number(line, columns[c].path);
    h->n++;
}

// Four digits are what a picture shows; points in time need more.
static void put_value(struct sl_text *out, enum sl_stats_history_column c, double value)
{
    if (!isfinite(value))
        sl_text_puts(out, "null");
    else if (c == SL_HISTORY_time || c == SL_HISTORY_seconds)
        sl_text_printf(out, "%.1f", value);
    else
        sl_text_printf(out, "%.4g", value);
}

void sl_stats_history_write(const struct sl_stats_history *h, const char *job, struct sl_text *out)
{
    sl_text_puts(out, "{\"schema\":\"sluice.history/1\",\"job\":");
    sl_text_json_string(out, job);
    for (int c = 0; c < SL_HISTORY_N_COLUMNS; c++) {
        sl_text_printf(out, ",\"%s\":[", columns[c].name);
        for (size_t i = 0; h && i < h->n; i++) {
            sl_text_puts(out, i ? "," : "");
            put_value(out, (enum sl_stats_history_column)c, h->values[c][i]);
        }
        sl_text_puts(out, "]");
    }
    sl_text_puts(out, "}");
}
