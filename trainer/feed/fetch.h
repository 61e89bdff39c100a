/*
 * fetch.h - the thread that brings the rows of the next batches from the drive and from other
 * nodes to the machine's cache, while batches before them are gathered and trained.
 *
 * PROBLEM. A batch's rows lie all over a file that is larger than memory, or over several nodes.
 * They have to be asked for long before the batch is trained, hundreds at a time, and by somebody
 * who may be killed meanwhile.
 *
 * DESIGN. Each trainer has such a thread, and none of them fetches for its own trainer: it claims
 * the next batch that is drawn and not fetched, whoever will train it (sl_ledger_claim_fetch).
 *
 *      ready --claim--> fetching: find in the cache, take slots, read --stage--> staged
 *
 * A worker of a third kind would have to be placed, measured and replaced as samplers and trainers
 * are, to sleep in the kernel most of the time; and trainers are there exactly while batches are
 * wanted. All read into one cache (row_cache.h), so what one of them read is there for all.
 *
 * What is fetched is a copy, so fetching has no effect but time: a lease that goes back because its
 * fetcher died is fetched again, and finds what was there already. A batch some of whose rows found
 * no slot is staged as well: extraction reads them (rows.h). Rows of a shard that are mapped here
 * are not fetched, nor are those that all trainers at work have in their caches or on their GPUs.
 * One that loses its cache meanwhile reads them when it extracts.
 *
 * A trainer on standby that sleeps fetches nothing.
 *
 * FAILURE. All waits are bounded and look at the abort word and the stop flag. An error of the
 * drive ends the thread, and with sl_fetch_check() its trainer; slots that it was filling are the
 * broker's to free.
 */
#ifndef SL_TRAINER_FEED_FETCH_H
#define SL_TRAINER_FEED_FETCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/ledger.h"
#include "common/arena/heartbeat.h"
#include "trainer/feed/rows.h"

struct sl_fetch_spec {
    struct sl_arena *arena;
    uint32_t worker, device;
    const struct sl_dataset *dataset;
    struct sl_reading *reader;        // the thread's alone; NULL: nothing is fetched
    const struct sl_heartbeat *pulse; // of another thread of the trainer
};

struct sl_fetch {
    struct sl_fetch_spec spec;
    struct sl_heartbeat pulse;
    struct sl_row_cache cache;
    uint64_t hot_size;                   // sl_row_cache_hot_size()
    struct sl_row_places places, coming; // of the batch in hand; of it what others fetch
    pthread_t thread;
    bool running, warned;

    pthread_mutex_t lock;
    struct sl_event changed; // what follows
    _Atomic bool quit, asleep;
    int failed; // guarded by lock: code of the thread's error, 0 = none
    char message[512];
};

// Starts the thread, where there is a reader and a cache. The struct must not move.
int sl_fetch_start(struct sl_fetch *f, const struct sl_fetch_spec *spec);
// Stops fetching, or starts it again.
void sl_fetch_set_asleep(struct sl_fetch *f, bool asleep);
// The error that the thread has ended with, if it has.
int sl_fetch_check(struct sl_fetch *f);
// Ends the thread and gives back what it has claimed. Safe on a zeroed struct.
void sl_fetch_stop(struct sl_fetch *f);

#endif
