/*
 * room.h - whether an MPI has room for its files on this machine.
 *
 * Processes on one host share memory in /dev/shm; Open MPI has what its processes have to know of
 * one another in TMPDIR or /tmp. Where these are full, MPI ends a process with words of its own, or
 * the kernel does so with a bus error, also long after the start: there is no name of a file in it.
 */
#ifndef SL_NODES_ROOM_H
#define SL_NODES_ROOM_H

#include "nodes/facts.h"

#define SL_ROOM_WANTED_BYTES (UINT64_C(16) << 20) // by a process

// Where MPI's temporary files are: TMPDIR, or /tmp. Borrowed.
const char *sl_room_temp(void);

// Adds a warning for each of the two folders that has less room. SL_ENOMEM.
int sl_room_look(struct sl_facts *facts);
// The same for one folder and so many bytes; none where its file system does not say.
int sl_room_look_at(const char *folder, uint64_t wanted, struct sl_facts *facts);

#endif
