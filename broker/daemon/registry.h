/*
 * registry.h - the jobs that the daemon knows: what each is, its state, its entry in the list.
 *
 *     submit --> QUEUED --> STARTING --> RUNNING <--> PAUSED --> FINISHING --> DONE
 *                                                                  |  +-----> FAILED
 *                                                                  |  +-----> STOPPED
 *                                                                  |  +-----> INTERRUPTED
 *     resume: FAILED, STOPPED, INTERRUPTED --> QUEUED
 *
 * QUEUED waits for its cores (queue.h). From STARTING to FINISHING it has a broker (process.h), and
 * may end from each of these states. The four on the right are over; INTERRUPTED is a job whose
 * daemon went away, and the only one of them that the daemon itself may queue again.
 *
 * An entry is one object of the schema sluice.jobs/1; what must survive the daemon is in its record
 * (record.h). Entries are few (SL_REGISTRY_OVER_KEPT that are over, SL_REGISTRY_WAITING_MAX that
 * are not), so that everything here may look at all of them.
 */
#ifndef SL_BROKER_DAEMON_REGISTRY_H
#define SL_BROKER_DAEMON_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <cjson/cJSON.h>

#include "broker/rundir/checkpoint.h"
#include "broker/workers/process_id.h"
#include "broker/daemon/queue.h"
#include "broker/sharding/gpus.h"
#include "common/device/cores.h"
#include "config/config.h"
#include "common/schema/words.h"

#define SL_JOBS_SCHEMA "sluice.jobs/1"

enum {
    SL_REGISTRY_OVER_KEPT = 200,
    SL_REGISTRY_WAITING_MAX = 1000,
    SL_ENTRY_MESSAGE_BYTES = 2048,
    SL_ENTRY_TITLE_BYTES = 160,
};

enum sl_entry_state {
#define SL_ENTRY_STATE_ENUM(sym, ...) SL_ENTRY_##sym,
    SL_JOB_STATES(SL_ENTRY_STATE_ENUM)
#undef SL_ENTRY_STATE_ENUM
        SL_ENTRY_STATE_COUNT,
};

struct sl_process;

// What the broker has told of a job that runs.
struct sl_entry_live {
    bool any;
    uint32_t epoch, samplers, trainers;
    double loss;         // not finite: not known
    double seconds_left; // negative: not known
    double progress;     // 0 to 1
    char *stats;         // the newest line of sluice.stats/1 (owned); NULL before the first
};

struct sl_entry {
    uint64_t number;
    char id[24];
    char title[SL_ENTRY_TITLE_BYTES]; // "job 3 'name'", once it has a number
    char *config_json;                // resolved (owned)
    // absolute path; the checkpoint that the next run shall begin with (owned); NULL for none
    char *report, *checkpoint;

    // of the configuration
    char name[SL_CONFIG_NAME_BYTES];
    char output[SL_CONFIG_PATH_BYTES];
    char dataset[SL_CONFIG_PATH_BYTES]; // "" before sl_entry_set_config(): not in the record
    struct sl_cores cores;
    struct sl_cores gpus; // their numbers
    uint32_t n_devices;
    uint32_t epochs; // 0: "auto", until its broker has opened the data set
    bool resumes;    // "resume": "auto"

    enum sl_entry_state state;
    int64_t order;                    // QUEUED: the smallest one was there first
    double submitted, started, ended; // Unix seconds; 0 = not yet
    int exit_status;                  // when it is over
    char message[SL_ENTRY_MESSAGE_BYTES];
    bool stopping;    // a client has asked it to stop
    bool was_paused;  // when its daemon went away
    bool began;       // it has run: there is a run directory, unless it was removed
    uint32_t resumed; // times that it was queued again
    uint32_t stuck;   // of those, the last ones in a row that came no further than `reached`
    char reached[SL_CHECKPOINT_NAME_BYTES]; // newest checkpoint when it was queued again

    pid_t pid;                   // of its broker; 0 = none
    uint64_t pid_start;          // when that began (process_id.h): a number may be used again
    char boot[SL_BOOT_ID_BYTES]; // the start of the machine that both are of; "" = not known
    bool unsaved;                // its record could not be written: to be tried again

    struct sl_entry_live live;
    struct sl_process *process; // NULL unless it runs
    uint64_t orphan_until_ns;   // an earlier daemon's broker still ends: waited for until then
};

struct sl_registry {
    uint32_t n, capacity;
    struct sl_entry **entries; // (n) ascending numbers (owned)
    uint64_t last_number;
    uint32_t n_damaged; // records that could not be read, set aside (record.h)
};

const char *sl_entry_state_name(enum sl_entry_state state);
bool sl_entry_state_parse(const char *name, enum sl_entry_state *out);

static inline bool sl_entry_is_over(const struct sl_entry *e)
{
    return e->state >= SL_ENTRY_DONE;
}

struct sl_entry *sl_entry_new(void);    // NULL without memory
void sl_entry_free(struct sl_entry *e); // NULL is fine

// Whether a job's text can only be taken with the GPUs of this machine. SL_EINVAL, SL_EFORMAT: the
// text.
int sl_entry_asks_for_gpus(const char *config_json, bool *out);

/*
 * Takes over from a job's text what the list shows and the queue needs. The text is parsed on this
 * machine, so "auto" devices become those of `cores` and `gpus` (NULL: not known; only read for a
 * job that asks for any). Waits for nothing. SL_EINVAL: the text, a path that is not absolute, a
 * core that is not among `cores`, a GPU that is not there, a job that could never be resumed as it
 * asks; SL_EAGAIN: it needs the GPUs.
 */
int sl_entry_set_config(struct sl_entry *e, const char *config_json, const struct sl_cores *cores,
                        const struct sl_gpus *gpus);

void sl_registry_fini(struct sl_registry *r); // safe on a zeroed struct

// Takes the entry over, with its number, or with the next one when that is 0.
int sl_registry_add(struct sl_registry *r, struct sl_entry *e);
void sl_registry_remove(struct sl_registry *r, struct sl_entry *e); // and frees it

struct sl_entry *sl_registry_by_number(const struct sl_registry *r, uint64_t number);

/*
 * The job that a word means: an id, else a name, else a run directory; of several the one that is
 * not over, else the newest. SL_ENOENT with the nearest names.
 */
int sl_registry_find(const struct sl_registry *r, const char *word, struct sl_entry **out);

// Whether the entry may be queued beside those that are not over: its name and run directory are
// its own. SL_EEXIST with the other job, SL_EAGAIN when there are too many.
int sl_registry_check_free(const struct sl_registry *r, const struct sl_entry *e);

// Orders that come after, and before, those of all that wait.
int64_t sl_registry_order_last(const struct sl_registry *r);
int64_t sl_registry_order_first(const struct sl_registry *r);

// Its view of the queue; items (n) is for sl_queue_*, NULL without memory (owned: free()).
struct sl_queue_item *sl_registry_queue(const struct sl_registry *r);

// Why a job that waits does: "waits for core 0, which job 1 'a' has". Returns buf.
char *sl_registry_why(const struct sl_registry *r, const struct sl_entry *e, char *buf,
                      size_t bytes);

// An entry of sluice.jobs/1; NULL without memory. `log_dir` is where records are.
cJSON *sl_entry_json(const struct sl_registry *r, const struct sl_entry *e, const char *log_dir);

#endif
