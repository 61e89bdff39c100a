/*
 * prefetch.h - the thread that fetches the next batch while this one is trained; where a standby
 * trainer sleeps.
 *
 * PROBLEM. Gathering the features of a batch's input nodes is bound by memory latency, training by
 * arithmetic; done one after the other each leaves the other's resource idle.
 *
 * DESIGN. One thread claims leases from the ledger, brings block and features to where they are
 * computed with, in one of two buffers (gather.h), and offers the work; the compute thread takes
 * it, and gives the buffer back when it is done:
 *
 *      ledger --claim--> [gather into buffer i] --offer--> compute --release--> buffer i free
 *
 * It is at most one batch ahead: it claims only while nothing is on offer and a buffer is free.
 * A GPU's buffers take turns: rows that the other one has are copied from there (match.h), also
 * while it is trained, since training only reads them; a model that masks its features is left out.
 * Buffers grow to the largest batch met, and then nothing is allocated. Leases without a payload
 * (inference) pass through untouched. The feature cache (cache.h) is this thread's: it looks
 * between batches whether the broker wants another size or there is a new hotness order.
 *
 * FAIR SHARE. Claiming ahead must not starve the other trainers: in ordered mode batches of one
 * update run in parallel, consecutive updates cannot. A trainer that already has its share
 * ceil(its node's batches of an update / trainers) of the update that the next free batch belongs
 * to leaves the batch to the others while its compute thread has work; once that is idle it takes
 * whatever there is. So a dead or slow peer costs overlap and never progress. The trainers are
 * those that work now, standby ones that are switched on among them. In async mode there is nothing
 * to share.
 *
 * LANES. Which of two lanes (ledger.h) a cell is claimed from goes by what the compute thread does:
 * nothing, then a batch that it could not begin with is left alone as long as there is evaluation
 * to be done beside training; a cell of that evaluation, then a batch would wait here for its end,
 * and the other trainers for that.
 *
 * EARLY. Where the compute thread has something to do before it reads rows (spec.early), the work
 * is offered once begins() has had it, and its rows follow: sl_prefetch_wait().
 *
 * STANDBY. Before each fetch of a trainer whose duty is STANDBY its rule is asked (standby.h). It
 * falls asleep once nothing is to be fetched and its compute thread has nothing left to do; then
 * this thread waits for the arena's event `work` and the compute thread for this one, neither of
 * them for less than SL_STANDBY_WAIT_MS: asleep costs nothing.
 *
 * WAITS. The thread sleeps on the arena's events (segment.h): on `work` while nothing is to be
 * fetched, on `progress` for a batch and while one is left to others (who signal it when they have
 * claimed an update's last one); else on `changed`. The compute thread sleeps on `changed`, that of
 * a group's trainer, or where the job has several nodes, on `progress`, which tells of what the
 * others have, too.
 *
 * FAILURE. All waits are bounded and look at the abort word and the stop flag. An error of the
 * thread is handed to the compute thread with its message by sl_prefetch_next().
 */
#ifndef SL_TRAINER_FEED_PREFETCH_H
#define SL_TRAINER_FEED_PREFETCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/arena/ledger.h"
#include "trainer/feed/cache.h"
#include "trainer/feed/fetch.h"
#include "trainer/feed/standby.h"
#include "trainer/feed/work.h"

enum { SL_PREFETCH_BUFFERS = 2, SL_PREFETCH_NO_BUFFER = -1 };

struct sl_prefetch_spec {
    struct sl_arena *arena;
    uint32_t worker;
    uint32_t device; // whose trainer seat this is
    const struct sl_dataset *dataset;
    struct sl_compute compute;
    uint64_t on_gpu; // bit d: device d of the job is the same GPU; 0 on cores
    struct sl_gather *gather;
    struct sl_reading *fetches;  // of another thread, which fetches (fetch.h); NULL: none
    struct sl_block_shape shape; // of the job's blocks
    // Claims in place of the ledger's own order (external trainers); NULL: nobody does. Codes of
    // sl_ledger_claim_beside(). Called by the thread.
    int (*claim)(void *ctx, uint32_t timeout_ms, struct sl_work *out);
    // Called by the thread before the batch's rows are gathered: whether its caller waits for one
    // now. SL_EAGAIN: is to be asked again once that has changed, or sl_prefetch_look_again() was
    // called; another error is the thread's.
    int (*begins)(void *ctx, const struct sl_work *work, bool wanted);
    void *ctx;                        // of both
    bool early;                       // work is offered before its rows are there; on cores
    bool keeps_rows;                  // a batch's rows are whole once it is trained (match.h)
    const struct sl_heartbeat *pulse; // of the computing thread
};

struct sl_prefetch {
    struct sl_prefetch_spec spec;
    struct sl_heartbeat pulse; // of the thread that extracts
    pthread_t thread;
    bool running;

    pthread_mutex_t lock;
    struct sl_event changed; // what the lock guards
    // Below: guarded by lock.
    bool offered; // `work` waits for the compute thread
    struct sl_work work;
    bool wanted; // the compute thread waits in sl_prefetch_next()
    bool aside;  // what it took last is of the side lane
    bool asleep; // nothing will be offered until something changes
    bool needed; // by others meanwhile: the compute thread sleeps on `progress`
    bool leaves; // the next free batch is left to the other trainers: it waits for `progress`
    bool ended;  // the thread is gone
    bool quit;
    bool busy[SL_PREFETCH_BUFFERS];
    int gathers; // the buffer whose work was offered, and whose rows are on their way
    struct sl_gathered gathered[SL_PREFETCH_BUFFERS]; // early: of each buffer's rows
    int next;   // the buffer to fill where both are free: a GPU's other one has the batch before
    int failed; // code of the thread's error, 0 = none
    char message[512];

    // The compute thread's own: what `progress` was at before it last looked for what others need.
    uint32_t looked;

    // The thread's own.
    struct sl_standby standby;
    uint32_t cores_seen;     // version of the cores that it has (seat.h)
    enum sl_occupation does; // of the claim that is due
    uint64_t woken_at_ns;
    struct sl_cache cache;
    struct sl_near_blocks near;
    struct sl_fetch fetch;
    struct sl_batch_buffer buffer[SL_PREFETCH_BUFFERS];
    uint64_t share_seq, share_update; // which update `share_taken` counts for
    uint32_t share_taken;
};

// Starts the thread. The struct must not move.
int sl_prefetch_start(struct sl_prefetch *x, const struct sl_prefetch_spec *spec);

// The next batch. SL_OK, SL_ETIMEDOUT (while asleep only after SL_STANDBY_WAIT_MS; where others
// may need the caller, as soon as `progress` is signalled after `looked`), or the thread's error
// (SL_EABORTED when the job stops).
int sl_prefetch_next(struct sl_prefetch *x, uint32_t timeout_ms, struct sl_work *out);

// Early: waits for the work's rows, which it then knows of (work->gathered). SL_OK; SL_ETIMEDOUT;
// the thread's error, and there will be no rows.
int sl_prefetch_wait(struct sl_prefetch *x, uint32_t timeout_ms, struct sl_work *work);

// Exchanges the memory that the work's rows are in for other memory of the same device. By whoever
// has the work: the thread in begins(), later whoever took it, also while rows are on their way.
void sl_prefetch_swap_rows(struct sl_prefetch *x, const struct sl_work *work,
                           struct sl_buffer *with);

// Gives the work's buffer back, once no operation on the device uses it any more.
void sl_prefetch_release(struct sl_prefetch *x, const struct sl_work *work);

/*
 * For a compute thread that has waited for the version of `work` in vain: true when an earlier
 * batch of the phase lies unclaimed (its trainer died), is on offer here, or finds no memory to be
 * drawn into (sl_ledger_is_in_the_way). The caller then gives `work` back to the ledger; a later
 * batch on offer has been given back already.
 */
bool sl_prefetch_must_yield(struct sl_prefetch *x, const struct sl_work *work);

// What begins() waits for has changed. By any thread.
void sl_prefetch_look_again(struct sl_prefetch *x);

// Ends the thread, gives what it has claimed back to the ledger and frees buffers and cache. Safe
// on a zeroed struct.
void sl_prefetch_stop(struct sl_prefetch *x);

#endif
