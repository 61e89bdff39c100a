#include "broker/telemetry/description.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/log/json_writer.h"
#include "broker/epochs/pauses.h"
#include "broker/rundir/report.h"
#include "broker/log/timeline.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/json_print.h"

// Of a message that holds at most SL_BUS_MESSAGE_MAX; the rest leaves room for everything else.
enum {
    EPOCHS_BYTES_MAX = SL_BUS_MESSAGE_MAX / 4,
    EVENTS_BYTES_MAX = SL_BUS_MESSAGE_MAX / 16,
    LIST_BYTES_MAX = SL_BUS_MESSAGE_MAX / 32,
};

// The newest entries of a list, in its order, as long as they are not more than so many bytes.
// Returns how many were left out.
static uint32_t add_newest(struct sl_json_writer *w, const char *key, const cJSON *list,
                           size_t bytes_max)
{
    uint32_t n = (uint32_t)cJSON_GetArraySize(list), kept = 0;
    char **texts = n ? calloc(n, sizeof *texts) : NULL;
    const cJSON *e = list && list->child ? list->child->prev : NULL; // the last one
    for (size_t bytes = 0; texts && kept < n; e = e->prev, kept++) {
        texts[kept] = sl_json_line(e);
        bytes += texts[kept] ? strlen(texts[kept]) : bytes_max + 1;
        if (bytes > bytes_max) {
            free(texts[kept]);
            break;
        }
    }
    sl_json_open_array(w, key);
    for (uint32_t i = kept; i-- > 0;) {
        sl_json_add_raw(w, NULL, texts[i]);
        free(texts[i]);
    }
    sl_json_close_array(w);
    free(texts);
    return n - kept;
}

static void add_config(struct sl_json_writer *w, const char *config_json)
{
    char *compact = config_json ? strdup(config_json) : NULL;
    if (compact)
        cJSON_Minify(compact);
    sl_json_add_raw(w, "config", compact);
    free(compact);
}

static void add_output(struct sl_json_writer *w, const char *output)
{
    char here[PATH_MAX], whole[2 * PATH_MAX];
    bool relative = output[0] != '/' && getcwd(here, sizeof here);
    snprintf(whole, sizeof whole, "%s%s%s", relative ? here : "", relative ? "/" : "", output);
    sl_json_add_string(w, "output", whole);
}

void sl_description_write(const struct sl_job_view *job, struct sl_live *live,
                          struct sl_json_writer *w)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = (double)(sl_now_ns() - job->start_ns) * 1e-9;
    const char *stats = sl_live_line(live);
    sl_json_open_object(w, NULL);
    sl_json_add_string(w, "schema", "sluice.describe/1");
    sl_json_add_string(w, "job", job->config->name);
    sl_json_add_string(w, "id", job->id);
    sl_json_add_string(w, "state", sl_job_state_name(job));
    add_output(w, job->config->output);
    sl_json_add_whole(w, "pid", (uint64_t)getpid());
    sl_json_add_time(w, "started", (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - age);
    add_config(w, *job->config_json);
    if (stats)
        sl_live_write_devices(live, w, "devices");
    else
        sl_json_add_null(w, "devices");
    uint32_t left_out = add_newest(w, "epochs", job->report->epochs, EPOCHS_BYTES_MAX);
    sl_json_add_whole(w, "epochs_left_out", left_out);
    add_newest(w, "allocations", job->report->allocations, LIST_BYTES_MAX);
    add_newest(w, "scales", job->report->scales, LIST_BYTES_MAX);
    add_newest(w, "restarts", job->report->restarts, LIST_BYTES_MAX);
    sl_timeline_write(job->timeline, w, "events", EVENTS_BYTES_MAX);
    sl_json_add_real(w, "paused_seconds", sl_pauses_total_seconds(job->pauses));
    sl_json_add_raw(w, "stats", stats);
    sl_json_close_object(w);
}
