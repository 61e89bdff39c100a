/*
 * failpoint.h - named points at which a process kills or stops itself, for tests.
 *
 * SLUICE_FAILPOINT=name[:count][:stop|:hold][,...] makes the process that reaches the named point
 * for the count-th time (default 1) in the whole run kill itself with SIGKILL, or with `stop` stand
 * still (SIGSTOP) until somebody sends SIGCONT: a test waits for the state, acts, and lets go. With
 * `hold` the thread alone stands still, and the process goes on: it reads the named pipe
 * SLUICE_FAILPOINT_HOLD to its end, so a test that has opened it for writing knows that the thread
 * is there, and lets go by closing it. In test and release builds alike. Reaches are counted in
 * shared memory once a job's arena is mapped (sl_failpoint_bind), so a replacement worker does not
 * die at the same point again. `sluice doctor --failpoints` lists the names.
 */
#ifndef SL_BASE_FAILPOINT_H
#define SL_BASE_FAILPOINT_H

#include <stdatomic.h>
#include <stdint.h>

// X(symbol, name, where it is)
#define SL_FAILPOINT_MAP(X)                                                                        \
    X(SHARED_COPY, "shared_copy", "sampler, trainer: a copy that GPUs read is half made")          \
    X(SAMPLER_START, "sampler_start", "sampler: before it says hello")                             \
    X(SAMPLER_CLAIMED, "sampler_claimed", "sampler: batch claimed, no memory taken yet")           \
    X(SAMPLER_ALLOCATED, "sampler_allocated", "sampler: payload memory taken, nothing drawn")      \
    X(SAMPLER_DRAWN, "sampler_drawn", "sampler: block written, not published")                     \
    X(SAMPLER_PUBLISHED, "sampler_published", "sampler: block published, waiters not yet woken")   \
    X(SAMPLER_MARKED, "sampler_marked", "sampler: visits counted and ranks marked")                \
    X(TRAINER_START, "trainer_start", "trainer: before it says hello")                             \
    X(TRAINER_FETCHING, "trainer_fetching", "trainer: slots of the cache taken, nothing read")     \
    X(TRAINER_ASKED, "trainer_asked", "trainer: rows of other nodes asked for, not yet there")     \
    X(TRAINER_FETCHED, "trainer_fetched", "trainer: a batch's rows in the cache, not yet staged")  \
    X(TRAINER_CLAIMED, "trainer_claimed", "trainer: batch claimed, nothing extracted")             \
    X(TRAINER_EXTRACTED, "trainer_extracted", "trainer: features extracted, not trained")          \
    X(TRAINER_GRADIENT, "trainer_gradient", "trainer: gradient half written")                      \
    X(TRAINER_DONE, "trainer_done", "trainer: gradient committed, payload not yet freed")          \
    X(TRAINER_APPLY, "trainer_apply", "trainer: in the middle of applying an update")              \
    X(TRAINER_ROWS_MADE, "trainer_rows_made", "trainer: learned rows in the journal, not marked")  \
    X(TRAINER_ROWS_MARKED, "trainer_rows_marked", "trainer: journal whole, rows not yet written")  \
    X(TRAINER_ROWS_COPY, "trainer_rows_copy", "trainer: in the middle of writing learned rows")    \
    X(TRAINER_ROWS_COPIED, "trainer_rows_copied", "trainer: learned rows written, journal full")   \
    X(TRAINER_ROWS_DONE, "trainer_rows_done", "trainer: learned rows made, version not flipped")   \
    X(TRAINER_APPLIED, "trainer_applied", "trainer: update written, version not yet flipped")      \
    X(TRAINER_FLIPPED, "trainer_flipped", "trainer: update made, waiters not yet woken")           \
    X(TRAINER_JOINED, "trainer_joined", "trainer: async gradient outstanding, nothing computed")   \
    X(TRAINER_OFFERED, "trainer_offered", "trainer: async gradient written, batch not yet done")   \
    X(TRAINER_HELD, "trainer_held", "trainer: gradient in its own sum, batch held")                \
    X(TRAINER_REDUCE, "trainer_reduce", "trainer: all batches held, about to sum with the others") \
    X(TRAINER_REDUCED, "trainer_reduced", "trainer: gradients summed, nothing of it written")      \
    X(TRAINER_WRITTEN, "trainer_written", "trainer: its part of the sum written, not yet counted") \
    X(TRAINER_COUNTED, "trainer_counted", "trainer: its part counted, its batches still held")     \
    X(TRAINER_CACHE, "trainer_cache", "trainer: in the middle of filling its cache")               \
    X(LENT_PLANNING, "lent_planning", "broker: rows of caches written, their plan not yet")        \
    X(LENT_OFFERED, "lent_offered", "sampler, trainer: memory of its GPU just lent, not read yet") \
    X(LENT_FILLING, "lent_filling", "sampler, trainer: in the middle of filling what it lends")    \
    X(LENT_WITHDRAWN, "lent_withdrawn", "sampler, trainer: withdrawn, its memory still as it was") \
    X(LENT_MOVING, "lent_moving", "sampler, trainer: parts that it keeps are on their way")        \
    X(LENT_OPENED, "lent_opened", "sampler, trainer: memory of another GPU open, nothing read")    \
    X(LENT_BLOCK, "lent_block", "trainer: a block within its GPU asked for, not yet there")        \
    X(LENT_GATHERING, "lent_gathering", "trainer: a batch's features asked for, not yet there")    \
    X(LENT_DRAWING, "lent_drawing", "sampler: a batch asked for that is read of others' memory")   \
    X(STANDBY_ASLEEP, "standby_asleep", "standby trainer: about to fall asleep")                   \
    X(STANDBY_WOKEN, "standby_woken", "standby trainer: switched on, nothing claimed")             \
    X(TRAINER_INFER, "trainer_infer", "trainer: in the middle of a chunk of inference")            \
    X(RUN_CHECKED, "run_checked", "sluice run: job checked, nothing started, signals not caught")  \
    X(RUN_LAUNCHED, "run_launched", "sluice run: broker launched, not yet connected to it")        \
    X(BROKER_START, "broker_start", "broker: before it reads its job")                             \
    X(BROKER_SCALE, "broker_scale", "broker: in the middle of a change of the split")              \
    X(BROKER_PHASE, "broker_phase", "broker: about to open a phase")                               \
    X(BROKER_CHECKPOINT, "broker_checkpoint", "broker: checkpoint half written, still hidden")     \
    X(BROKER_CHECKPOINT_NAMED, "broker_checkpoint_named",                                          \
      "broker: checkpoint has its name, older ones not yet removed")                               \
    X(BROKER_ROWS_FILL, "broker_rows_fill", "broker: learned rows half made, or half loaded")      \
    X(BROKER_ROWS_COPY, "broker_rows_copy", "broker: learned rows half copied for a checkpoint")   \
    X(BROKER_ROWS_BEST, "broker_rows_best", "broker: learned rows half copied as the best ones")   \
    X(BROKER_ROWS_SAVE, "broker_rows_save", "broker: last checkpoint written, final rows not yet") \
    X(BROKER_STOP, "broker_stop", "broker: workers told to leave, none has been seen to")          \
    X(BROKER_REPORT, "broker_report", "broker: report half written under its temporary name")      \
    X(DAEMON_SUBMITTED, "daemon_submitted", "daemon: job recorded, its client not answered")       \
    X(DAEMON_STARTED, "daemon_started", "daemon: a job's broker launched, not yet recorded")       \
    X(DAEMON_FINISHED, "daemon_finished", "daemon: a job's end recorded, nobody told")             \
    X(NODES_START, "nodes_start", "a node's process: before it starts MPI")                        \
    X(NODES_MET, "nodes_met", "a node's process: hosts are known, nothing compared")               \
    X(NODES_COMPARED, "nodes_compared", "a node's process: has sent what it has")                  \
    X(NODES_MEASURING, "nodes_measuring", "a node's process: in the middle of measuring a link")   \
    X(NODES_CLOSING, "nodes_closing", "a node's process: all is done, about to leave")             \
    X(LINK_START, "link_start", "link: nodes are alike, before it says hello")                     \
    X(LINK_ATTACHED, "link_attached", "link: the arena is mapped, nothing sent or taken")          \
    X(LINK_ASKED, "link_asked", "link: rows of other nodes asked for, none there")                 \
    X(LINK_ANSWERING, "link_answering", "link: rows for another node copied, not yet sent")        \
    X(LINK_SENDING, "link_sending", "link: a batch's entry is sent, its gradient not")             \
    X(LINK_ARRIVED, "link_arrived", "link: a batch of another node is here, not yet counted")      \
    X(LINK_MADE, "link_made", "link: this node's slice is made, nobody has been sent it")          \
    X(LINK_SLICES, "link_slices", "link: all slices are here, the version not yet flipped")        \
    X(LINK_FLIPPED, "link_flipped", "link: the version is flipped, nobody has been told")          \
    X(LINK_RESULT, "link_result",                                                                  \
      "link: an evaluation's result is copied, nobody has been sent it")                           \
    X(LINK_LEAVING, "link_leaving", "link: all nodes have ended the job, about to leave")          \
    X(COMMAND_STAGED, "command_staged", "command: at work on a data set, still hidden")

enum sl_failpoint {
#define SL_FAILPOINT_ENUM(sym, name, where) SL_FAILPOINT_##sym,
    SL_FAILPOINT_MAP(SL_FAILPOINT_ENUM)
#undef SL_FAILPOINT_ENUM
        SL_FAILPOINT_COUNT,
};

// Parses SLUICE_FAILPOINT; 0, or SL_EINVAL when it names an unknown point or a bad count.
int sl_failpoint_init(void);

// From now on reaches are counted in shared[SL_FAILPOINT_COUNT] instead of this process's memory.
void sl_failpoint_bind(_Atomic uint32_t *shared);

// Between these two nothing counts: measuring a step is not the job's work. Returns what to pass to
// resume. Only while the process has one thread.
int sl_failpoint_suspend(void);
void sl_failpoint_resume(int before);

const char *sl_failpoint_name(enum sl_failpoint point);
const char *sl_failpoint_where(enum sl_failpoint point);

extern int sl_failpoint_armed; // any entry at all: keeps the check to one load in normal runs
void sl_failpoint_reach(enum sl_failpoint point);

#define SL_FAILPOINT(sym)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(sl_failpoint_armed, 0))                                               \
            sl_failpoint_reach(SL_FAILPOINT_##sym);                                                \
    } while (0)

#endif
