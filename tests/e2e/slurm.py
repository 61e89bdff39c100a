"""Slurm on the nodes of nodes.py: munged and slurmctld on the first one, slurmd on each.

Each node is a process namespace too, whose first process dies with the test, and with it all that
Slurm has started there: nothing is to be cleaned up, whatever happens.

Slurm's PMIx makes a folder TmpFS/spmix_appdir_UID_JOB.STEP on each node of a step, and does not
start where it is there already ("task launch failed: Unspecified error"; slurmd's log says more).
So nodes that share /tmp start no step over two of them, and TmpFS has the node's name in it here.
"""

import os
import shutil
import signal
import subprocess

from harness import PATIENCE, SLOW, Running, Skip, gone, text_of
from nodes import Nodes

TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
# More cores and memory than there are: a job gets what it asks for. Slurm waits longer for answers
# than by itself, since a busy machine is no broken one. cred_expire is also how long a job that is
# queued again waits before it starts: else two minutes.
CONF = """
ClusterName=test
SlurmctldHost={first}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
MessageTimeout=100
TCPTimeout=30
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
TmpFS={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={names} CPUs=64 RealMemory=262144
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE
"""
MASTER = """
munged --force --foreground --socket={folder}/munge.socket --key-file={folder}/munge.key \
    --pid-file={folder}/munge.pid --seed-file={folder}/munge.seed 2>{folder}/munge.log &
until [ -S {folder}/munge.socket ]; do sleep 0.02; done
slurmctld -D 2>{folder}/slurmctld.log &
"""
# The shell also waits for processes whose parents have died, as the first one of a machine does.
NODE = "slurmd -D 2>{folder}/{name}.log & wait"
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


class Slurm:
    """A cluster of nodes a, b, ... that are idle."""

    def __init__(self, box, n=2):
        if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
            raise Skip(f"there is no {missing[0]} (Debian's packages slurm-wlm and munge)")
        self.box, self.folder, self.daemons = box, box.path("slurm"), {}
        self.nodes = Nodes(box, "openmpi", n)
        self.env = {
            **self.nodes.kind["env"],
            "SLURM_CONF": os.path.join(self.folder, "slurm.conf"),
            "SLUICE_MPI_PLUGIN": self.nodes.plugin,
        }
        for name in ("state", *self.nodes.names):
            os.makedirs(os.path.join(self.folder, name))
        with open(os.path.join(self.folder, "munge.key"), "wb") as file:
            os.fchmod(file.fileno(), 0o400)
            file.write(os.urandom(1024))
        names = ",".join(self.nodes.names)
        with open(self.env["SLURM_CONF"], "w") as file:
            file.write(CONF.format(folder=self.folder, first=self.nodes.names[0], names=names))
        for name in self.nodes.names:
            self.begin(name)
        idle = [f"{name} idle" for name in self.nodes.names]
        self.until(lambda: self.ask("sinfo", "-hNo", "%N %T").splitlines() == idle, "idle nodes")
        listed = self.do("srun", "--mpi=list").ok()
        if "pmix" not in listed.out + listed.err:
            self.close()
            raise Skip("this Slurm is built without PMIx")

    def begin(self, name):
        """The daemons of a node."""
        text = (MASTER if name == self.nodes.names[0] else "") + NODE
        own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c"]
        command = [*self.at(name), "setpriv", "--pdeathsig", "KILL", *own]
        command.append(text.format(folder=self.folder, name=name))
        self.daemons[name] = Running(self.box, command, self.box.environment(self.env))

    def at(self, name):
        pid = str(self.nodes.pid[name])
        return ["nsenter", "-t", pid, "-n", "-u", "-m", f"--wd={self.box.folder}"]

    def until(self, condition, what):
        """Waits until condition() is true, while the daemons live."""
        return self.daemons[self.nodes.names[0]].until(condition, what)

    def start(self, *command, env=None):
        """A command of Slurm, on the first node."""
        command = [*self.at(self.nodes.names[0]), *map(str, command)]
        return Running(self.box, command, self.box.environment({**self.env, **(env or {})}))

    def do(self, *command, env=None, seconds=PATIENCE):
        return self.start(*command, env=env).wait(seconds)

    def ask(self, *command):
        """What a command says that is asked again and again."""
        return subprocess.run(
            [*self.at(self.nodes.names[0]), *command],
            env=self.box.environment(self.env),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=PATIENCE * SLOW,
        ).stdout

    # ---- jobs -----------------------------------------------------------------------------------

    def submit(self, *arguments, env=None):
        """sbatch; the job's number."""
        return self.do("sbatch", "--parsable", *arguments, env=env).ok().out.strip()

    def job(self, number):
        """What scontrol says of a job: {key: value}."""
        words = self.ask("scontrol", "show", "-o", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def until_over(self, number):
        """What scontrol says of a job that has ended, and is not queued again."""
        self.until(lambda: self.job(number)["JobState"] in OVER, f"end of job {number}")
        return self.job(number)

    def during(self, number, condition, what):
        """Waits for what a job does before it ends."""

        def look():
            said = self.job(number)
            if said["JobState"] in OVER:
                log = text_of(said["StdOut"])
                raise AssertionError(f"job {number} ended before {what}: {said}\n{log}")
            return condition()

        return self.until(look, what)

    # ---- the end --------------------------------------------------------------------------------

    def lose(self, name):
        """A node's processes die, all at once."""
        (first,) = children(self.daemons[name].process.pid)
        os.kill(first, signal.SIGKILL)
        gone(first)
        self.daemons.pop(name).wait()

    def close(self):
        """Where no job is left: nothing is left of any on a node. Takes the nodes away."""
        for name in set(self.nodes.names) - set(self.daemons):  # else Slurm waits for it
            self.ask("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=lost")
        self.until(lambda: not self.ask("squeue", "-h"), "a queue without jobs")
        for name in reversed(self.nodes.names):
            if name in self.daemons:
                self.lose(name)
        self.nodes.close()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))
