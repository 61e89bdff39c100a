/*
 * world.h - the processes of a job on several nodes, one on each: messages between them, and the
 * certainty that every wait ends.
 *
 * PROBLEM. MPI waits for ever, and at the full speed of a core. A node that is frozen or cut off is
 * noticed by nobody: mpirun sees processes end, and nothing else.
 *
 * DESIGN. Ranks send a pulse every second, each to rank 0 and rank 0 to each. A wait looks whether
 * its message is over, sleeps (a growing time, a millisecond at most), and keeps the pulses going.
 * It fails once
 *
 *      rank 0, or for rank 0 any of the others, was not heard of for SL_WORLD_SILENCE_S;
 *      its own bound is over: the one that is waited for lives, but does not answer;
 *      this process is told to end (SIGTERM): what starts the job ends it so when a rank dies;
 *      MPI says that a peer is lost.
 *
 * The message names the host. Whoever fails ends the world (sl_world_abort), so others follow at
 * once, or by their own count where they cannot be reached. A process that stood still itself
 * does not count that time against others.
 *
 * STUCK. A call of MPI that does not return is not helped by any of that: a second thread counts
 * while the first does not look (SL_WORLD_STUCK_S) and then ends the process through `give_up`.
 * While MPI starts, which waits for all, that is SL_WORLD_START_S, and who has come says so before.
 *
 * All functions are called by the thread that opened the world, and fail with a recorded message.
 */
#ifndef SL_NODES_WORLD_H
#define SL_NODES_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nodes/launcher.h"
#include "nodes/plugin.h"

enum {
    SL_WORLD_HOST_BYTES = 64,
    SL_WORLD_PULSE_S = 1,
    SL_WORLD_SILENCE_S = 10,
    SL_WORLD_ANSWER_S = 3600, // the bound of a wait for one who lives
    SL_WORLD_STUCK_S = 60,
    SL_WORLD_START_S = 300,        // for all to come: one may still read its data set, others have
    SL_WORLD_TEXT_BYTES = 1 << 20, // the longest text
};

#define SL_WORLD_SECOND UINT64_C(1000000000) // ns

struct sl_world_member {
    char host[SL_WORLD_HOST_BYTES];
    uint64_t heard_ns;
    bool pulsing;          // a pulse to it is under way
    uint64_t given, taken; // pulses to it, and of it
    struct sl_world_request pulse;
};

struct sl_world {
    const struct sl_world_table *table;
    uint32_t rank, size;
    struct sl_world_member *member; // (size), owned
    bool is_open, leaving;
    uint64_t looked_ns, pulsed_ns;
    uint64_t spin_ns;  // a wait looks so long without sleeping
    const char *doing; // for messages: "comparing the nodes"
    // The second thread.
    void (*give_up)(const char *sentence);
    uint32_t stuck_s, start_s;
    char self[SL_WORLD_HOST_BYTES + 32]; // as it is called in a message, before others are known
    pthread_t watch;
    bool watched;
    _Atomic uint32_t looks;       // of the first
    _Atomic bool started, closed; // MPI
};

struct sl_world_spec {
    const struct sl_world_table *table;
    const char *host; // this one's name
    struct sl_launcher launcher;
    void (*give_up)(const char *sentence); // called by another thread; must end the process
    uint32_t stuck_s, start_s;             // 0: SL_WORLD_STUCK_S, SL_WORLD_START_S
};

/*
 * Starts MPI and meets the others: everybody knows every host's name then. SL_EINVAL: MPI cannot
 * find the others, or finds another number than the launcher says (launcher.h); SL_EPROTO: a node
 * runs a sluice that speaks another protocol; errors of waiting as above (SL_ETIMEDOUT,
 * SL_EABORTED, SL_EIO). After a failure only sl_world_abort() and sl_world_fini() may be called.
 */
int sl_world_open(struct sl_world *w, const struct sl_world_spec *spec);

// n bytes to or from another rank, who gets or puts as many. A message (a piece of at most
// SL_WORLD_CHUNK_BYTES) fails after `bound_s`, whoever lives.
int sl_world_put(struct sl_world *w, uint32_t to, const void *bytes, size_t n, uint32_t bound_s);
int sl_world_get(struct sl_world *w, uint32_t from, void *bytes, size_t n, uint32_t bound_s);

// A text below SL_WORLD_TEXT_BYTES. *text is owned by the caller: free().
int sl_world_say(struct sl_world *w, uint32_t to, const char *text);
int sl_world_hear(struct sl_world *w, uint32_t from, char **text);

// Runs work(ctx) in a thread while this one keeps the pulses going, and returns what it did, with
// its message. No bound but that of the pulses.
int sl_world_during(struct sl_world *w, int (*work)(void *ctx), void *ctx);

/*
 * For who waits in another way than above, for messages of several at once: to be called at least
 * every few milliseconds. Keeps the pulses going and looks whether all are there: errors of
 * waiting.
 */
int sl_world_look(struct sl_world *w);

// How a process is called in a message: "host b (rank 1)".
struct sl_world_name {
    char text[SL_WORLD_HOST_BYTES + 32];
};
struct sl_world_name sl_world_name(const struct sl_world *w, uint32_t rank);

// Waits until everybody is at this point, then ends MPI.
int sl_world_close(struct sl_world *w);
// Ends all processes of the world with this status, this one too where there is a world.
void sl_world_abort(struct sl_world *w, int status);
void sl_world_fini(struct sl_world *w); // safe on a zeroed struct

#endif
