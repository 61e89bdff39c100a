/*
 * notes.h - what the brokers of a job's nodes say to one another, through their links.
 *
 * A Note of this node's broker goes to the links of all others, and what comes from those goes to
 * this node's broker, each with its node. The order is kept. The last note of a broker is END.
 * Links then say READY and QUIET to one another (loop.h).
 */
#ifndef SL_LINK_NOTES_H
#define SL_LINK_NOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bus/worker.h"
#include "nodes/world.h"

enum { SL_LINK_NOTE_READY = 1000, SL_LINK_NOTE_QUIET };

// As it goes over the wire.
struct sl_link_note {
    uint32_t kind;
    int32_t status;
    char text[2048];
};
_Static_assert(sizeof(struct sl_link_note) == sizeof(struct sl_worker_note), "the same");

struct sl_link_note_out; // private

struct sl_link_notes {
    struct sl_link_note_out *out; // owned: those under way
    // (size) owned: who has said END, READY and QUIET, this node too.
    bool *ended, *ready, *quiet;
};

int sl_link_notes_init(struct sl_link_notes *n, const struct sl_world *w);
int sl_link_notes_poll(struct sl_link_notes *n, struct sl_world *w, struct sl_worker *worker,
                       bool *moved);
// To all other nodes, in place of this node's broker. SL_ENOMEM, SL_EIO.
int sl_link_notes_say(struct sl_link_notes *n, struct sl_world *w, const struct sl_link_note *note);
// Whether all nodes have said it, and what this one has said has left.
bool sl_link_notes_all(const struct sl_link_notes *n, const struct sl_world *w, const bool *said);
void sl_link_notes_fini(struct sl_link_notes *n); // safe on a zeroed struct

#endif
