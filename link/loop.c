#include "link/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "link/figures.h"
#include "link/relay.h"
#include "link/results.h"
#include "link/rows.h"
#include "link/updates.h"

enum { SLEEP_MIN_US = 20, SLEEP_MAX_US = 1000 };

static const struct sl_link_part parts[] = {
    {sl_link_updates_init, sl_link_updates_poll, sl_link_updates_quiet, sl_link_updates_fini},
    {sl_link_results_init, sl_link_results_poll, sl_link_results_quiet, sl_link_results_fini},
    {sl_link_rows_init, sl_link_rows_poll, sl_link_rows_quiet, sl_link_rows_fini},
    {sl_link_figures_init, sl_link_figures_poll, sl_link_figures_quiet, sl_link_figures_fini},
    {sl_link_relay_init, sl_link_relay_poll, sl_link_relay_quiet, sl_link_relay_fini},
};

// --- rounds --------------------------------------------------------------------------------------

static void rest(struct sl_node_link *l, unsigned *sleep_us, bool moved)
{
    if (moved) {
        *sleep_us = SLEEP_MIN_US;
        return;
    }
    if (*sleep_us < SLEEP_MAX_US || !l->worker.arena.base) {
        usleep(*sleep_us);
        *sleep_us = SL_MIN(2 * *sleep_us, (unsigned)SLEEP_MAX_US);
        return;
    }
    // What this node's workers do wakes it.
    struct sl_event *progress = &l->worker.arena.h->progress;
    sl_event_wait(progress, sl_event_read(progress), 1);
}

static int attach(struct sl_node_link *l, bool *moved)
{
    int rc = sl_worker_poll_attach(&l->worker);
    if (rc == SL_EAGAIN || rc == SL_EABORTED)
        return SL_OK;
    SL_TRY(rc);
    SL_FAILPOINT(LINK_ATTACHED);
    for (size_t i = 0; i < SL_COUNT_OF(parts); i++)
        if (parts[i].init)
            SL_TRY(parts[i].init(l));
    *moved = true;
    return sl_worker_ready(&l->worker);
}

static int poll_parts(struct sl_node_link *l, bool *moved)
{
    for (size_t i = 0; i < SL_COUNT_OF(parts); i++)
        if (parts[i].poll)
            SL_TRY(parts[i].poll(l, moved));
    return SL_OK;
}

bool sl_link_broker_is_stopped(struct sl_node_link *l)
{
    return sl_stopped_look(&l->stopped, l->broker, sl_now_ns()) >= SL_WORLD_SILENCE_S;
}

static int look_around(struct sl_node_link *l)
{
    if (sl_link_broker_is_stopped(l))
        return sl_fail(SL_ETIMEDOUT,
                       "%s: its broker (process %d) was stopped (SIGSTOP: look by whom) and has "
                       "not gone on for %d s",
                       l->world.doing, (int)l->broker, SL_WORLD_SILENCE_S);
    return sl_world_look(&l->world);
}

static int round_of(struct sl_node_link *l, bool *moved)
{
    SL_TRY(look_around(l));
    SL_TRY(sl_link_notes_poll(&l->notes, &l->world, &l->worker, moved));
    if (l->worker.arena.base)
        return poll_parts(l, moved);
    return atomic_load(&l->worker.stop) ? SL_OK : attach(l, moved);
}

// --- the end -------------------------------------------------------------------------------------

// Takes what nobody waits for any more.
static int throw_away(struct sl_world *w, enum sl_world_tag tag)
{
    struct sl_world_request request;
    uint32_t from;
    size_t n;
    int rc;
    while ((rc = w->table->probe(tag, &from, &n)) == SL_OK) {
        void *bytes = malloc(SL_MAX(n, (size_t)1));
        if (!bytes)
            return sl_fail(SL_ENOMEM, "%s: no memory for a message of %zu bytes", w->doing, n);
        rc = w->table->receive(from, tag, bytes, n, &request);
        while (rc == SL_OK && (rc = w->table->test(&request)) == SL_EAGAIN) {
            rc = sl_world_look(w);
            usleep(SLEEP_MIN_US);
        }
        free(bytes);
        SL_TRY(rc);
    }
    return rc == SL_EAGAIN ? SL_OK : rc;
}

static int throw_all_away(struct sl_world *w)
{
    static const enum sl_world_tag tags[] = {
        SL_WORLD_TAG_UPDATE,  SL_WORLD_TAG_STATE,  SL_WORLD_TAG_ASK,  SL_WORLD_TAG_ROWS,
        SL_WORLD_TAG_FIGURES, SL_WORLD_TAG_RESULT, SL_WORLD_TAG_RELAY};
    for (size_t i = 0; i < SL_COUNT_OF(tags); i++)
        SL_TRY(throw_away(w, tags[i]));
    return SL_OK;
}

static int become_quiet(struct sl_node_link *l)
{
    static const struct sl_link_note note = {.kind = SL_LINK_NOTE_QUIET};
    bool quiet = true, moved;
    for (size_t i = 0; i < SL_COUNT_OF(parts) && l->worker.arena.base; i++) {
        bool one = true;
        if (parts[i].quiet)
            SL_TRY(parts[i].quiet(l, &one));
        quiet &= one;
    }
    SL_TRY(throw_all_away(&l->world));
    if (quiet && !l->notes.quiet[l->world.rank])
        SL_TRY(sl_link_notes_say(&l->notes, &l->world, &note));
    SL_TRY(sl_world_look(&l->world));
    return sl_link_notes_poll(&l->notes, &l->world, &l->worker, &moved);
}

static int leave(struct sl_node_link *l)
{
    l->world.doing = "leaving the other nodes";
    SL_FAILPOINT(LINK_LEAVING);
    while (!sl_link_notes_all(&l->notes, &l->world, l->notes.quiet)) {
        SL_TRY(become_quiet(l));
        usleep(SLEEP_MIN_US);
    }
    SL_TRY(throw_all_away(&l->world));
    return sl_world_close(&l->world);
}

// This node's broker has written what it writes, and all nodes have ended the job.
static int say_ready(struct sl_node_link *l)
{
    static const struct sl_link_note note = {.kind = SL_LINK_NOTE_READY};
    if (l->notes.ready[l->world.rank] || !atomic_load(&l->worker.stop) ||
        !sl_link_notes_all(&l->notes, &l->world, l->notes.ended))
        return SL_OK;
    return sl_link_notes_say(&l->notes, &l->world, &note);
}

int sl_link_run(struct sl_node_link *l)
{
    unsigned sleep_us = SLEEP_MIN_US;
    l->world.doing = "the job over nodes";
    while (!sl_link_notes_all(&l->notes, &l->world, l->notes.ready)) {
        bool moved = false;
        SL_TRY(round_of(l, &moved));
        SL_TRY(say_ready(l));
        rest(l, &sleep_us, moved);
    }
    return leave(l);
}

void sl_link_fini(struct sl_node_link *l)
{
    for (size_t i = 0; i < SL_COUNT_OF(parts); i++)
        if (parts[i].fini)
            parts[i].fini(l);
    sl_link_notes_fini(&l->notes);
    free(l->clock_ahead_ns);
    sl_dataset_close(&l->dataset);
    sl_world_fini(&l->world);
}
