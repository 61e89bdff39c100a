/*
 * launcher.h - what the launcher says of the processes that it started: mpirun, mpiexec, srun.
 *
 * Where a launcher and an MPI do not know each other, N processes start as N worlds of one, and
 * each takes itself for the whole job. MPI does not say so; the environment does. Under srun without
 * PMI another MPI ends the process in MPI_Init, with words of its own: so that is looked at before.
 */
#ifndef SL_NODES_LAUNCHER_H
#define SL_NODES_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

struct sl_launcher {
    const char *variable; // that says so
    uint32_t size;        // processes; 0: it does not say how many
    uint32_t rank;        // of this one; 0 where it does not say
    bool no_pmi;          // Slurm started them, and nothing by which MPI could find the others
};

// Reads the environment. SL_EINVAL: no launcher is seen, with what to do; a variable is no number.
int sl_launcher_read(struct sl_launcher *out);

// Before MPI starts: whether it can find the others. SL_EINVAL with what to do.
int sl_launcher_check_pmi(const struct sl_launcher *launcher);

// Whether the world that MPI found is the launcher's. SL_EINVAL with what to do. mpi: its name.
int sl_launcher_check(const struct sl_launcher *launcher, uint32_t size, uint32_t rank,
                      const char *mpi);

#endif
