/*
 * plugin.h - what moves bytes between nodes: a table of functions that the MPI plug-in fills.
 *
 * libsluice_mpi.so is built on a site against its own MPI (`make mpi MPICC=...`) and opened when a
 * world of several nodes is wanted; no program is linked to MPI. It is kept thin: it starts sends
 * and receives and says whether they are over. Waiting, heartbeats and bounds are world.h's, which
 * unit tests drive with a table of their own.
 *
 * A process is in one world, and all functions are called by one thread. Nothing but open() and
 * close() waits for another process. Messages are two-sided, between two ranks, in order for each
 * tag; one message has at most SL_WORLD_CHUNK_BYTES.
 */
#ifndef SL_NODES_PLUGIN_H
#define SL_NODES_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

enum { SL_WORLD_ABI = 3, SL_WORLD_CHUNK_BYTES = 1 << 30 };

enum sl_world_tag {
    SL_WORLD_TAG_PULSE = 1,
    SL_WORLD_TAG_DATA = 2,
    // of a job over nodes (link/loop.h)
    SL_WORLD_TAG_UPDATE = 3,  // batches, gradients, parameters: link/updates.h
    SL_WORLD_TAG_ASK = 4,     // for rows
    SL_WORLD_TAG_ROWS = 5,    // rows
    SL_WORLD_TAG_FIGURES = 6, // statistics
    SL_WORLD_TAG_STATE = 8,   // optimizer's state for a checkpoint: link/updates.h
    SL_WORLD_TAG_NOTE = 7,    // how the job goes on a node: link/notes.h
    SL_WORLD_TAG_RESULT = 9,  // of an evaluation: link/results.h
    SL_WORLD_TAG_RELAY = 10,  // questions of brokers, and answers: link/relay.h
};

// A send or receive under way: the plug-in's own words. Its memory and the message's stay where
// they are until test() has said that it is over.
struct sl_world_request {
    uint64_t word[2];
};

struct sl_world_table {
    uint32_t abi;
    uint32_t bytes;      // sizeof *this
    const char *version; // SL_VERSION of its build
    // The MPI that it runs with, as that names itself: "Open MPI v4.1.4". After open().
    const char *(*name)(void);
    // Starts MPI. SL_EUNSUPPORTED, SL_EIO.
    int (*open)(uint32_t *rank, uint32_t *size);
    // Each starts one message. SL_EIO with MPI's words.
    int (*send)(uint32_t to, enum sl_world_tag tag, const void *bytes, size_t n,
                struct sl_world_request *out);
    int (*receive)(uint32_t from, enum sl_world_tag tag, void *bytes, size_t n,
                   struct sl_world_request *out);
    // SL_OK: over; SL_EAGAIN: not yet (no message is recorded); SL_EIO; SL_EPROTO: a message of
    // another size came.
    int (*test)(struct sl_world_request *request);
    // A receive is not wanted any more: test() says when it is over, with a message or without.
    int (*cancel)(struct sl_world_request *request);
    // Whether a message of that tag is there, from whom, and how long. SL_OK, SL_EAGAIN, SL_EIO.
    int (*probe)(enum sl_world_tag tag, uint32_t *from, size_t *n);
    // Ends all processes of the world, this one too. May return when MPI cannot.
    void (*abort)(int status);
    int (*close)(void);
};

// What the program gives to the plug-in: its own errors.
struct sl_world_host {
    uint32_t abi;
    uint32_t bytes; // sizeof *this
    int (*fail)(int code, const char *message);
};

// The one symbol that the plug-in exports. NULL when the host is of another build.
#define SL_WORLD_SYMBOL "sluice_mpi"
typedef const struct sl_world_table *(*sl_world_entry)(const struct sl_world_host *host);

// Finds and opens the plug-in (common/base/plugin_file.h; SLUICE_MPI_PLUGIN names another).
// SL_ENOENT, SL_EPROTO, SL_EUNSUPPORTED as there.
int sl_world_plugin_open(const struct sl_world_table **out);

#endif
