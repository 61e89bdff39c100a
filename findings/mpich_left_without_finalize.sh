#!/bin/sh
# MPICH 5.0.2 with mpi4py 4.1.2 (the wheels of PyPI): where one process leaves with status 0 and without
# MPI_Finalize, mpiexec kills the others in the middle of their work, says nothing, and ends with
# status 0 itself: a script takes the job for done.
# Seen: status 0 and no output; status 3 where the process leaves with 3; status 0 and the other one's
# work done where it calls MPI_Finalize.
exec "$(dirname "$0")/with" mpich==5.0.2 mpi4py==4.1.2 <<'PYTHON'
import subprocess
import sys

CODE = """
import os, time
from mpi4py import MPI

MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 1:
    {}
else:
    time.sleep(3)
    print("work is done", flush=True)
"""


def run(leave):
    command = ["mpiexec", "-n", "2", sys.executable, "-c", CODE.format(leave)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout.count("work is done"), bool(done.stderr.strip())


seen = {leave: run(leave) for leave in ("os._exit(0)", "os._exit(3)", "pass")}
print("status, work done, words on standard error:", seen)
assert seen["os._exit(0)"] == (0, 0, False)
assert seen["os._exit(3)"][:2] == (3, 0)
assert seen["pass"] == (0, 1, False)
PYTHON
