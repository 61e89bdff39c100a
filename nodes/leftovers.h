/*
 * leftovers.h - what an MPI whose processes were killed has left on this machine.
 *
 * After a SIGKILL of mpirun, Open MPI's shared memory (/dev/shm/vader_segment.*, sm_segment.*) and
 * its session (ompi.HOST.USER/pid.N, in TMPDIR or /tmp) stay for ever. Memory is left over where no
 * process has it mapped, a session where there is no process of that number. Of other users'
 * files nothing is said, except to root.
 */
#ifndef SL_NODES_LEFTOVERS_H
#define SL_NODES_LEFTOVERS_H

#include "nodes/facts.h"

// Adds a warning with the files, where there are any. Looks into shm ("/dev/shm") and temp (the
// folder of temporary files). SL_ENOMEM; what cannot be read is passed over.
int sl_leftovers_look(const char *shm, const char *temp, struct sl_facts *facts);

#endif
