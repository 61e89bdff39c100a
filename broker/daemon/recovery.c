/*
 * recovery.c - takes over the jobs of the daemon before this one.
 *
 * PROBLEM. A daemon may die at any instruction. Its jobs' brokers get SIGHUP from the kernel then;
 * they stop their workers, write a checkpoint and a report, and end, which may take a while. So the
 * next daemon finds jobs whose records say that they run, in one of three conditions.
 *
 *   the broker still lives   it is named in the record by process id, the moment it began and the
 *                            start of the machine. The job is interrupted, keeps its cores, and is
 *                            looked at every second; after ORPHAN_MS the broker is killed
 *   it has left a report     written after the job was started: what it says holds. A job that was
 *                            stopped because its daemon died says "stopped", and is interrupted
 *                            unless a user had asked for the stop
 *   neither                  interrupted
 *
 * An interrupted job with "resume": "auto" is queued again, before everything that has not begun
 * yet, and goes on from its newest checkpoint. One that comes back STUCK_MAX times in a row without
 * any newer checkpoint has failed: whatever kills the daemon may well be this job. One whose run
 * directory is gone stays interrupted and says so: to begin from nothing is not to go on, and the
 * directory's disk may only not be mounted yet.
 *
 * The daemon may have died between a launch and its record: the job is queued then and is launched
 * again, and the second broker waits for the first one's run directory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "broker/daemon/archive.h"
#include "broker/daemon/daemon_internal.h"
#include "broker/workers/process_id.h"
#include "broker/rundir/resume.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"

enum { ORPHAN_MS = 150000, STUCK_MAX = 5 };

static void newest_checkpoint(const struct sl_entry *e, char out[SL_CHECKPOINT_NAME_BYTES])
{
    struct sl_checkpoint_list list;
    out[0] = '\0';
    if (sl_checkpoint_list(e->output, &list) < 0)
        return;
    if (list.n)
        memcpy(out, list.names[0], SL_CHECKPOINT_NAME_BYTES);
    sl_checkpoint_list_fini(&list);
}

int sl_daemon_check_run(const struct sl_entry *e)
{
    struct stat st;
    if (!e->began || (stat(e->output, &st) == 0 && S_ISDIR(st.st_mode)))
        return SL_OK;
    return sl_fail(
        SL_ENOENT,
        "its run directory '%s' is gone, so there is nothing to go on from: put it back, "
        "or give the job to 'sluice submit' again",
        e->output);
}

char *sl_daemon_outlook(const struct sl_entry *e, bool by_itself, char *buf, size_t bytes)
{
    char outlook[SL_RESUME_OUTLOOK_BYTES];
    if (sl_daemon_check_run(e) < 0)
        snprintf(buf, bytes, "%s", sl_error_message());
    else if (sl_resume_outlook(e->output, outlook) < 0)
        snprintf(buf, bytes, "give it to 'sluice submit' again: %s", sl_error_message());
    else if (by_itself)
        snprintf(buf, bytes, "the next daemon %s", outlook);
    else
        snprintf(buf, bytes, "'sluice resume %s' %s", e->id, outlook);
    return buf;
}

void sl_daemon_interrupt(struct sl_daemon *d, struct sl_entry *e)
{
    char then[SL_ENTRY_MESSAGE_BYTES];
    sl_daemon_end_entry(d, e, SL_ENTRY_INTERRUPTED, 130, "its daemon went away while it ran: %s",
                        sl_daemon_outlook(e, e->resumes, then, sizeof then));
}

// Puts an interrupted job back, or says why not.
static void go_on(struct sl_daemon *d, struct sl_entry *e)
{
    char newest[SL_CHECKPOINT_NAME_BYTES];
    newest_checkpoint(e, newest);
    if (!e->resumes) {
        sl_daemon_interrupt(d, e);
        return;
    }
    if (sl_daemon_check_run(e) < 0) {
        sl_daemon_end_entry(d, e, SL_ENTRY_INTERRUPTED, 130, "%s", sl_error_message());
        return;
    }
    e->stuck = e->resumed && strcmp(newest, e->reached) == 0 ? e->stuck + 1 : 0;
    if (e->stuck >= STUCK_MAX) {
        sl_daemon_end_entry(d, e, SL_ENTRY_FAILED, 1,
                            "its daemon went away %d times in a row before it had written a newer "
                            "checkpoint: 'sluice resume %s' tries again",
                            STUCK_MAX + 1, e->id);
        return;
    }
    memcpy(e->reached, newest, sizeof e->reached);
    e->pid = 0;
    e->pid_start = 0;
    // One that was asked for is there as long as no run has begun with it.
    const char *from = e->checkpoint ? e->checkpoint : newest;
    sl_log_info("%s: was interrupted, goes on %s%s%s", e->title,
                from[0] ? "from checkpoint " : "from the beginning", from,
                e->was_paused ? " (it was paused, and is not any more)" : "");
    sl_daemon_requeue(e, sl_registry_order_first(&d->registry));
    sl_daemon_set_state(d, e, SL_ENTRY_QUEUED);
}

// Its broker is gone: how did it end?
static void settle(struct sl_daemon *d, struct sl_entry *e)
{
    char status[16], message[SL_ENTRY_MESSAGE_BYTES];
    bool said = e->started > 0 &&
                sl_archive_outcome(e->output, e->started, status, message, sizeof message);
    e->orphan_until_ns = 0;
    if (said && strcmp(status, "done") == 0)
        sl_daemon_end_entry(d, e, SL_ENTRY_DONE, 0, "%s", "");
    else if (said && strcmp(status, "failed") == 0)
        sl_daemon_end_entry(d, e, SL_ENTRY_FAILED, 1, "%s", message);
    else if (e->stopping)
        sl_daemon_end_entry(d, e, SL_ENTRY_STOPPED, 130, "%s",
                            said ? message : "stopped by the user while its daemon went away");
    else
        go_on(d, e);
}

static bool lives(const struct sl_entry *e)
{
    char boot[SL_BOOT_ID_BYTES];
    bool same_boot = !e->boot[0] || strcmp(e->boot, sl_process_id_boot(boot)) == 0;
    return e->pid > 0 && e->pid_start && same_boot && sl_process_id_start(e->pid) == e->pid_start;
}

static void poll_orphan(struct sl_daemon *d, struct sl_entry *e)
{
    if (!lives(e)) {
        settle(d, e);
        return;
    }
    e->orphan_until_ns = sl_now_ns() + ORPHAN_MS * 1000000ull;
    snprintf(e->message, sizeof e->message,
             "its daemon went away; its broker (process %d) is still saving", (int)e->pid);
    sl_daemon_set_state(d, e, SL_ENTRY_INTERRUPTED);
}

// A job that waits for a core that is not given away any more would wait for ever.
static void check_waiting(struct sl_daemon *d, struct sl_entry *e)
{
    for (uint32_t core = 0; core < SL_CORES_MAX; core++) {
        if (!sl_cores_has(&e->cores, core) || sl_cores_has(&d->cores, core))
            continue;
        sl_daemon_end_entry(d, e, SL_ENTRY_FAILED, 2,
                            "it names core %u, which is not one of the daemon's cores any more: "
                            "submit it again with other devices",
                            core);
        return;
    }
}

void sl_daemon_recover(struct sl_daemon *d)
{
    // Each that goes on is put before the others: from the last one to the first.
    for (uint32_t i = d->registry.n; i-- > 0;) {
        struct sl_entry *e = d->registry.entries[i];
        switch (e->state) {
        case SL_ENTRY_QUEUED: break;
        case SL_ENTRY_STARTING:
        case SL_ENTRY_RUNNING:
        case SL_ENTRY_PAUSED:
        case SL_ENTRY_FINISHING: poll_orphan(d, e); break;
        case SL_ENTRY_INTERRUPTED:
            if (e->pid)
                poll_orphan(d, e);
            else if (e->resumes)
                go_on(d, e);
            break;
        default: break;
        }
    }
    for (uint32_t i = 0; i < d->registry.n; i++)
        if (d->registry.entries[i]->state == SL_ENTRY_QUEUED)
            check_waiting(d, d->registry.entries[i]);
}

void sl_daemon_poll_orphans(struct sl_daemon *d)
{
    for (uint32_t i = d->registry.n; i-- > 0;) {
        struct sl_entry *e = d->registry.entries[i];
        if (!e->orphan_until_ns)
            continue;
        if (!lives(e)) {
            settle(d, e);
            if (e->state == SL_ENTRY_QUEUED)
                check_waiting(d, e); // this daemon may give away other cores than the last one
            if (sl_entry_is_over(e))
                sl_daemon_emit_finished(d, e);
        } else if (sl_now_ns() >= e->orphan_until_ns) {
            sl_log_warn("job %s: its broker (process %d) is still there after %d s and is killed",
                        e->id, (int)e->pid, ORPHAN_MS / 1000);
            sl_process_id_kill(e->pid, e->pid_start);
        }
    }
}
