/*
 * job.h - one job from its configuration to its report: the state machine.
 *
 *                 every worker has said Hello: arena made, parameters set, Attach
 *                 every worker is Ready: phases opened, run directory made
 *      STARTING ------------------------------------------------------------> RUNNING
 *          |                                                                     |
 *          |  a worker failed or keeps dying, it does not fit, Ctrl-C            | last phase read,
 *          |                                                                     | or the same
 *          +-------------------------> FINISHING <-------------------------------+
 *                                          |  abort word set, Stop sent; whoever does not leave in
 *                                          |  time is killed; the last one is gone
 *                                          v
 *                                        ENDED    results written, clients told, loop closed
 *
 * The seats of the arena (common/arena/seat.h) are the workers; `split` says how many
 * devices sample and train, and worker_assign.c brings the seats there, at the start as at any
 * change while the job runs.
 *
 * The reason to finish is kept from its first occurrence: what goes wrong while workers are being
 * stopped is a consequence. Nothing is written before RUNNING, so a job that cannot run leaves
 * nothing behind; from RUNNING on there is always a report, however it ends.
 */
#ifndef SL_BROKER_JOB_JOB_H
#define SL_BROKER_JOB_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/log/client.h"
#include "broker/workers/crash_log.h"
#include "broker/sharding/access_forecast.h"
#include "broker/telemetry/job_view.h"
#include "broker/scheduler/node_scale.h"
#include "broker/telemetry/trace_nodes.h"
#include "broker/log/joblog.h"
#include "broker/epochs/judging.h"
#include "broker/telemetry/live.h"
#include "broker/job/loop.h"
#include "broker/scheduler/capacity.h"
#include "broker/meter/meter.h"
#include "broker/rundir/params.h"
#include "broker/epochs/pauses.h"
#include "broker/epochs/phases.h"
#include "broker/rundir/report.h"
#include "broker/log/run_files.h"
#include "broker/rundir/rundir.h"
#include "broker/rundir/saving.h"
#include "broker/scheduler/role_split.h"
#include "broker/workers/external_desk.h"
#include "broker/workers/stalls.h"
#include "broker/workers/worker_pool.h"
#include "broker/epochs/switches.h"
#include "broker/rundir/tensorboard.h"
#include "broker/log/timeline.h"
#include "broker/telemetry/trace.h"
#include "broker/scheduler/trainer_group.h"
#include "broker/meter/usage.h"
#include "broker/log/writer.h"
#include "common/data/dataset.h"
#include "common/data/wider_graph.h"
#include "common/arena/arena.h"
#include "common/base/stopped.h"
#include "config/config.h"

// The values are exit statuses.
enum sl_outcome {
    SL_OUTCOME_DONE = 0,
    SL_OUTCOME_FAILED = 1,
    SL_OUTCOME_REFUSED = 2, // it cannot run as it is
    SL_OUTCOME_STOPPED = 130,
};

enum { SL_JOB_MESSAGE_BYTES = 2048 };

struct sl_job;

// What a thread of libuv's pool does with all learned rows: one thing at a time.
struct sl_job_row_work {
    uv_work_t work;
    int (*body)(struct sl_job *job);
    bool busy;
    atomic_bool cancel; // nobody wants them any more
    int rc;             // once it is not busy, with its message
    char message[512];
    uint64_t done_ns;
};

// How far the job has come in writing what is left of it.
enum sl_job_ending {
    SL_ENDING_NOTHING,
    SL_ENDING_CHECKPOINT, // the last one is begun
    SL_ENDING_ROWS,       // it is written, and final learned rows are begun
    SL_ENDING_ALL,
};

// What was found not to be finite; the message then says it, and divergence.h the rest.
enum sl_job_numbers { SL_NUMBERS_FINITE, SL_NUMBERS_OF_UPDATE, SL_NUMBERS_OF_EVALUATION };

struct sl_job_options {
    const char *endpoint;
    const char *key; // of the bus, and the descriptor that workers inherit it by
    int key_fd;
    const char *config_text; // resolved job file
    size_t config_bytes;
    const char *dataset_record; // as it was validated before; NULL or "": it is looked at now
    const char *report_path;    // NULL for none but the run directory's
    const char *resume;         // the checkpoint to go on from, NULL to begin anew
    const char *worker_directory;
    const char *id;   // the daemon's number of the job; NULL: it is `sluice run`'s
    bool checks;      // launch.h
    const char *page; // its address, NULL for none
    bool no_output;   // there is no run directory: nothing is kept but what clients are told
    int owner_fd;     // pidfd of the process with which the job ends; 0: none (launch.h)
    bool over_nodes;  // ... launch.h
    uint32_t nodes, node;
};

// The other nodes of a job (job/nodes.c). All zero but n where there are none.
struct sl_job_nodes {
    struct sl_worker_pool pool; // of one worker, this node's link
    uint32_t n, rank;           // 1 and 0 until the link has said Hello
    char *hosts;                // (n, SL_NODES_HOST_BYTES) owned
    bool *ended;                // (n) owned: which have said how the job ended there
    off_t *log_at;              // (n) owned: where this run's lines begin in their logs
    uint64_t ended_ns;          // when it did here
    bool doubted;               // one that has not is told of
    struct sl_stopped stopped;  // whether the link is, before it has met
    bool warned;                // of another one: the first knows what it could not write
    bool met;                   // the link has said Hello
    uint32_t fit;               // of the first node: others that could begin
    bool told_fit, begun;       // of another one: it has said so; the first one has begun
    bool awaits_state;          // of other nodes, for the last checkpoint; or their last figures
    uint64_t awaits_ns;         // these since then; 0: not yet
    bool concluded;             // what there is is written
    bool told_to_leave;         // the link
    bool lost;                  // one of them, or the link: that is why the job ends
    bool broken;                // the link has failed
    bool killed;                // nobody waits for anything
    bool abandoned;             // what started this process is dead: nobody waits for other nodes
    char path[4200];            // where a node that is not the first writes its logs
    // Of the first node: what clients ask all of them.
    struct sl_node_scale scale;
    struct sl_trace_nodes trace;
};

struct sl_job {
    struct sl_job_options options;
    enum sl_job_state state;
    enum sl_outcome outcome;
    char message[SL_JOB_MESSAGE_BYTES]; // why, when the outcome is not DONE
    enum sl_job_numbers numbers;
    uint64_t start_ns, running_ns;

    struct sl_config config;
    char *config_json;                       // resolved (owned)
    char epochs_note[SL_CONFIG_EPOCHS_TEXT]; // how many "auto" became, and why; "": the job says it
    struct sl_dataset dataset;
    struct sl_judging judging;
    int config_fd, arena_fd, doorbell_fd; // -1 when closed
    int acts_fd;                          // of activations (startup.c); -1 when closed
    int shared_fd[SL_SHARED_COUNT];       // of arrays that workers share; -1 when closed
    uint64_t acts_bytes;                  // that it holds, 0: none
    struct sl_row_table rows;             // learned ones; without head: none
    struct sl_wider_found widened;        // the test's graph; without bytes: there is none
    struct sl_job_row_work row_work;
    uint64_t arena_shared_bytes; // of the arena, and of what else was shared before it was made

    struct sl_loop loop;
    struct sl_bus *bus;
    struct sl_clients clients;
    struct sl_joblog log;
    struct sl_worker_pool workers;
    struct sl_job_nodes nodes;
    struct sl_external_desk desk; // of a job for external trainers
    struct sl_crash_log deaths;
    bool workers_placed;

    struct sl_access_forecast foresight;
    struct sl_role_split split;
    struct sl_trainer_group group;
    struct sl_stalls stalls;
    double lived_seconds[SL_ROLE_COUNT];           // of all workers, until the last epoch was told
    uint64_t cache_load_ns[SL_CONFIG_MAX_DEVICES]; // last known: a seat's words die with its worker

    uint64_t block_bytes_max, block_bytes_mean, probe_bytes;
    uint64_t probe_input_nodes; // of a mini-batch whose seeds are spread evenly
    struct sl_params params;
    struct sl_arena arena; // base is NULL until every worker has said Hello
    struct sl_phases phases;
    struct sl_report report;
    struct sl_rundir rundir;
    struct sl_run_files files;
    struct sl_checkpoint resumed; // path is "" for a job that begins
    struct sl_saving saving;

    // what clients see of it while it runs
    struct sl_job_view view;
    struct sl_meter meter;
    struct sl_live live;
    struct sl_timeline timeline;
    struct sl_trace trace;
    struct sl_tensorboard tensorboard;
    struct sl_switches switches;
    struct sl_loss_sum loss; // of the progress that is told
    struct sl_pauses pauses;

    uint64_t ticks;
    struct sl_memory_use memory, before; // now; when the arena was sized
    struct sl_capacity_need capacity;    // which that went by
    cJSON *warnings;                     // of report.json (owned)
    char *report_text;                   // owned
    enum sl_job_ending ending;
    char rows_sha256[SL_SHA256_HEX_BYTES]; // of final learned rows, "": there are none
    bool useful;                           // from SL_ENDING_CHECKPOINT on: the final parameters are
    bool awaits_best;                      // the end does, of learned rows
    bool told;                             // a client has been sent Finished
    bool signalled;                        // by a user or program, once
    bool orphaned;                         // its owner is gone: nobody waits to be told
    uint64_t ended_ns;
};

/*
 * Runs one job to its end and returns an exit status (enum sl_outcome). The reason for anything but
 * success goes to the clients; when no client was there it goes to standard error.
 */
int sl_job_run(const struct sl_job_options *options);

// --- between the files of a job: each calls those below it ---
//
//   job.c         the loop: messages, ticks, signals
//   startup.c     what is done before workers work
//   job_wiring.c  the parts, and what is done about what they tell
//   job_finish.c  how it ends, and what it leaves
//   nodes.c       the other nodes of the job
//   requests.c, job_memory.c

// The epoch that is being trained, or comes next.
static inline uint32_t sl_job_epoch(const struct sl_job *job)
{
    uint32_t epoch = 0;
    uint64_t batches;
    if (job->phases.arena)
        sl_phases_trains(&job->phases, &epoch, &batches);
    return epoch;
}

// job_wiring.c: makes the parts of a job known to one another; its configuration is empty as yet.
void sl_job_wire(struct sl_job *job);
extern const struct sl_worker_pool_events sl_job_pool_events;
extern const struct sl_phases_events sl_job_phases_events;

// job_finish.c: begins to finish, for this reason. Only the first call counts.
void sl_job_end(struct sl_job *job, enum sl_outcome outcome, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The same of numbers that are not finite.
void sl_job_end_broken(struct sl_job *job, enum sl_job_numbers numbers, const char *what);
// Ends a job that holds more than its own bound, as it was last looked at.
void sl_job_check_memory(struct sl_job *job);
// Ends a job whose data set was changed in place: nothing that comes of it counts. False: it does.
bool sl_job_check_data(struct sl_job *job);
void sl_job_warn(struct sl_job *job, const char *text); // the log, clients, events, and the report
void sl_job_conclude(struct sl_job *job);      // no worker is left: results, report, Finished
void sl_job_emit_finished(struct sl_job *job); // to the clients there are
void sl_job_emit_saving(struct sl_job *job);   // ... that the end takes longer

// job_rows.c: begins to make learned rows; sl_job_go_on() follows. And to save them: it may be busy
// until sl_job_conclude() is called again.
int sl_job_make_rows(struct sl_job *job);
void sl_job_save_rows(struct sl_job *job);
int sl_job_check_rows(const struct sl_job *job); // what came of it
// Memory that rows which are being made are going to take.
uint64_t sl_job_rows_to_come(const struct sl_job *job);
// job_graph.c: what there is to say of the job's graph; that of the test, where it is another one
int sl_job_make_graph(struct sl_job *job);
void sl_job_tell_graph(struct sl_job *job);

// startup.c
int sl_job_prepare(struct sl_job *job); // configuration, data set, workers
void sl_job_on_hello(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Hello *hello);
void sl_job_on_ready(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Ready *ready);
void sl_job_check_start(struct sl_job *job); // from time to time while STARTING

// Shared memory that the job would have under another bound, with ctx the job; UINT64_MAX: there is
// no arena that small. Of a job that has sized its arena.
uint64_t sl_job_shared_under(void *ctx, uint64_t bound);

// What workers inherit. SL_ESYS.
int sl_job_pool_setup(struct sl_job *job, struct sl_worker_pool_setup *out);
// Places and starts them: at once, or when this node has met the others.
int sl_job_start_workers(struct sl_job *job);
// Tells a worker that the arena is there.
void sl_job_send_attach(struct sl_job *job, struct sl_pool_worker *w);

// startup.c: takes the next step of the start, where what it waits for is there.
void sl_job_go_on(struct sl_job *job);

// nodes.c
void sl_job_nodes_wire(struct sl_job *job);
enum { SL_NODES_HOST_BYTES = 64 };
// Whether another node keeps the results.
static inline bool sl_job_follows(const struct sl_job *job)
{
    return job->options.node > 0;
}
int sl_job_nodes_start(struct sl_job *job); // of a job over nodes: starts the link
// Whether the message is the link's, or one for all nodes, and is then done.
bool sl_job_nodes_on_message(struct sl_job *job, const struct sl_bus_peer *peer,
                             const Sl__Control__Envelope *m);
void sl_job_nodes_attach(struct sl_job *job);
// All workers are ready: whether those of all nodes are. sl_job_go_on() follows once they are.
bool sl_job_nodes_may_begin(struct sl_job *job);
int sl_job_nodes_begin(struct sl_job *job); // the job runs: says so, opens the link's log
void sl_job_nodes_check_start(struct sl_job *job);
void sl_job_nodes_end(struct sl_job *job);  // the job ends here: the other nodes are told why
void sl_job_nodes_poll(struct sl_job *job); // on each tick
// Nobody waits for the other nodes: the link is killed, now or once the job has ended here.
void sl_job_nodes_abandon(struct sl_job *job, bool kill);
// No worker is left: whether what other nodes have of the last checkpoint is here, and what they
// say for the report; or does not come.
bool sl_job_nodes_have_state(struct sl_job *job);
// The job has written what it writes. False: the link has to leave first, and sl_job_conclude() is
// called again.
bool sl_job_nodes_left(struct sl_job *job);
void sl_job_nodes_fini(struct sl_job *job);

// requests.c
void sl_job_on_pause(struct sl_job *job, const struct sl_bus_peer *peer);
void sl_job_on_resume(struct sl_job *job, const struct sl_bus_peer *peer);
void sl_job_end_pause(struct sl_job *job); // the job ends
void sl_job_on_describe(struct sl_job *job, const struct sl_bus_peer *peer);
void sl_job_on_subscribe(struct sl_job *job, const struct sl_bus_peer *peer,
                         const Sl__Control__Subscribe *subscribe);

// job_memory.c
void sl_job_sample_memory(struct sl_job *job);
// job->memory as it is now.
void sl_job_poll_memory(struct sl_job *job);
// What its processes share.
struct sl_usage_shared sl_job_shared(const struct sl_job *job);
// Of the arrays that workers share, from that one on; from when a worker began to make them.
uint64_t sl_job_copied_bytes(const struct sl_job *job, enum sl_shared from);
// What the job's own bound leaves, with ctx the job.
uint64_t sl_job_memory_left(void *ctx);

#endif
