#include "broker/telemetry/live.h"

#include <string.h>

#include "broker/log/client.h"
#include "broker/log/joblog.h"
#include "broker/epochs/pauses.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/seat.h"

enum { FRESH_MS = 100, SECOND_NS = 1000000000 };

void sl_live_fini(struct sl_live *live)
{
    sl_json_fini(&live->line);
    sl_live_nodes_fini(&live->nodes);
}

// Whether what a worker of a paused job has in hand stays as it is until the job goes on. By the
// ledger and the worker's own word as they are now, not as the last look found them.
static bool rests(const struct sl_arena *a, const struct sl_pool_worker *w)
{
    struct sl_worker_totals now;
    uint64_t seq;
    uint32_t cell;
    if (atomic_load(&sl_seat(a, w->slot)->activity) == SL_ACTIVITY_BLOCKED)
        return true;
    if (sl_ledger_works(a, w->worker) || !sl_stats_read(sl_stats_slot(a, w->slot), &now))
        return false;
    if (now.current_tag == 0 || now.worker != w->worker)
        return true;
    // Trained, but not yet let go of: perhaps the update is being applied.
    sl_ledger_locate(now.current_tag, &seq, &cell);
    return sl_cell_is_leased(sl_ledger_word(a, seq, cell));
}

// Where the job is. While it is paused first who rests, then what has been done: with all at rest,
// a line tells what a pause ends with.
static void find_where(struct sl_live *live)
{
    const struct sl_job_view *job = live->job;
    const enum sl_job_state state = *job->state;
    live->view = (struct sl_phases_view){.phase = "start", .seconds_left = -1};
    live->trains = false;
    if (sl_live_is_there(live) && state == SL_JOB_RUNNING) {
        sl_phases_view(job->phases, &live->loss, &live->view);
        live->trains = strcmp(live->view.phase, "train") == 0;
    } else if (state >= SL_JOB_FINISHING) {
        live->view.phase = "save";
        live->view.epoch = job->phases->trained ? job->phases->trained - 1 : 0;
    }
    if (live->trains && live->loss.weight > 0)
        live->meter->loss = live->view.loss;
    if (!sl_live_is_there(live) || !sl_pauses_is_open(job->pauses))
        return;
    for (uint32_t i = 0; i < job->workers->n; i++)
        live->rests[i] = rests(job->arena, &job->workers->list[i]);
    sl_meter_poll_cells(live->meter);
}

static void make_line(struct sl_live *live)
{
    find_where(live);
    live->lines++;
    live->line_at_ns = sl_now_ns();
    live->line_state = sl_job_state_name(live->job);
    sl_json_reset(&live->line);
    sl_live_write(live, &live->line);
}

const char *sl_live_line(struct sl_live *live)
{
    live->questions++;
    // Who asks after a pause wants to see it; many who ask at once get the same line.
    bool old = sl_now_ns() - live->line_at_ns > FRESH_MS * 1000000ull;
    if (live->line_at_ns == 0 || old || live->line_state != sl_job_state_name(live->job))
        make_line(live);
    return sl_json_text(&live->line);
}

static void tell(struct sl_live *live)
{
    Sl__Control__Stats stats = SL__CONTROL__STATS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    make_line(live);
    live->told++;
    const char *text = sl_json_text(&live->line);
    if (!text)
        return;
    stats.json = (char *)text; // only read
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STATS;
    e.stats = &stats;
    sl_clients_send(live->clients, SL_WANTS_STATS, &e);
}

// By the clock: ticks come late on a loaded machine, and ten of them are more than a second then.
static bool second_is_over(struct sl_live *live, uint64_t now)
{
    if (now < live->tell_at_ns)
        return false;
    live->tell_at_ns += ((now - live->tell_at_ns) / SECOND_NS + 1) * SECOND_NS;
    return true;
}

void sl_live_publish_node(struct sl_live *live)
{
    const struct sl_arena *a = live->job->arena;
    struct sl_node_work work;
    if (!sl_live_is_there(live) || !sl_nodes_any(a))
        return;
    find_where(live);
    sl_live_find_work(live, &work);
    work.at_ns = sl_now_ns();
    sl_node_figures_put_work(a, a->h->spec.nodes.rank, &work);
}

// Others' rows come once a second, each at its own moment.
static void poll_nodes(struct sl_live *live)
{
    if (sl_live_nodes_poll(&live->nodes, live->job->arena) < 0)
        sl_joblog_write(live->log, SL_LOG_WARN, "%s", sl_error_message());
}

void sl_live_poll(struct sl_live *live)
{
    uint64_t began = sl_now_ns(), cpu = sl_thread_cpu_ns();
    if (live->meter->there && *live->job->state == SL_JOB_RUNNING)
        sl_meter_read(live->meter);
    poll_nodes(live);
    if (second_is_over(live, began)) {
        sl_meter_read_processes(live->meter);
        sl_live_publish_node(live);
        if (sl_clients_want(live->clients, SL_WANTS_STATS))
            tell(live);
    }
    live->cpu_ns += sl_thread_cpu_ns() - cpu;
    uint64_t took = sl_now_ns() - began;
    live->tick_ns += took;
    live->longest_tick_ns = SL_MAX(live->longest_tick_ns, took);
    live->ticks++;
}

void sl_live_log(const struct sl_live *live)
{
    if (live->ticks > 0)
        sl_joblog_write(
            live->log, SL_LOG_INFO,
            "statistics: %llu looks at %llu batches; %llu lines told, %llu made for "
            "%llu questions; a look took %.0f us on average, %.0f us of a core, the "
            "longest %.0f us",
            (unsigned long long)live->ticks, (unsigned long long)live->meter->entries,
            (unsigned long long)live->told, (unsigned long long)(live->lines - live->told),
            (unsigned long long)live->questions, (double)live->tick_ns * 1e-3 / (double)live->ticks,
            (double)live->cpu_ns * 1e-3 / (double)live->ticks,
            (double)live->longest_tick_ns * 1e-3);
}
