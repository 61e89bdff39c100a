/*
 * launcher.h - what the launcher says of the processes that it started: mpirun, mpiexec, srun.
 *
 * Where a launcher and an MPI do not know each other, N processes start as N worlds of one, and
 * each takes itself for the whole job. MPI does not say so; the environment does. Under srun
 * without PMI some MPIs end the process instead, with words of their own: so that is looked at
 * before.
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

// How many processes a launcher says that it started, this one among them: 1 where there is none;
// 0: one is there that does not say. *rank is this one's.
uint32_t sl_launcher_size(uint32_t *rank);
// Whether that number is of an allocation of Slurm's and not of processes that srun has started: in
// its batch script there is one.
bool sl_launcher_is_batch(void);

/*
 * MPICH's launcher talks to a process by a descriptor that it inherits (PMI_FD). Moves it to a
 * number at which no process of a job has another one, and says so in the environment. The number;
 * -1: there is none. SL_ESYS.
 */
int sl_launcher_keep_descriptor(void);

/*
 * For a process that leaves with an error before it has begun with MPI: MPICH's launcher then takes
 * it for one that the others do not need, and they wait for it. Ends them all with this status;
 * other launchers have seen to that.
 */
void sl_launcher_abort(int status);

// Whether the world that MPI found is the launcher's. SL_EINVAL with what to do. mpi: its name.
int sl_launcher_check(const struct sl_launcher *launcher, uint32_t size, uint32_t rank,
                      const char *mpi);

#endif
