/*
 * leftovers.h - what an MPI whose processes were killed has left on this machine.
 *
 * After a SIGKILL of mpirun, Open MPI's shared memory (/dev/shm/vader_segment.*, sm_segment.*) and
 * its session in TMPDIR or /tmp stay for ever: ompi.HOST.USER/pid.N on the node of mpirun, process
 * N; ompi.HOST.USER/jf.JOB on the others, made by the process of that node by which a folder in it
 * is named (pmix_dstor_KIND_N). MPICH and UCX name their memory (mpich_shar_tmp*, ucx_shm_posix_*)
 * for a moment only. Memory is left over where no process has it mapped, a session where there is
 * no process of that number; a jf.JOB without such a folder may be anybody's. Of other users' files
 * nothing is said, except to root.
 */
#ifndef SL_NODES_LEFTOVERS_H
#define SL_NODES_LEFTOVERS_H

#include "nodes/facts.h"

// Adds a warning with the files, where there are any. Looks into shm ("/dev/shm") and temp (the
// folder of temporary files). SL_ENOMEM; what cannot be read is passed over.
int sl_leftovers_look(const char *shm, const char *temp, struct sl_facts *facts);

#endif
