"""Several nodes on one machine: processes side by side (Ranks), or network namespaces behind a
switch, each with a host name, a cable and a /dev/shm of its own (Nodes); and an MPI that starts a
process in each.

A namespace lives as long as a process is in it: that is a `sleep` for each node, which dies with
the test. So nothing is to be cleaned up, whatever happens.
"""

import ctypes
import glob
import os
import shutil
import signal
import stat
import subprocess

from cable import DIE_WITH_PARENT, LongCable
from harness import BIN, ROOT, Running, Skip, default_signals, gone, small_job

# How each MPI is told where to start what, and to use the cables: between namespaces of one machine
# it would take shared memory.
KINDS = {
    "openmpi": {
        "start": "--host {hosts} --bind-to none --mca plm_rsh_agent {agent}",
        "env": {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "tcp,self",
            "OMPI_MCA_btl_tcp_if_include": "eth0",
            "OMPI_MCA_oob_tcp_if_include": "eth0",
            # Else it does not notice for five minutes that a cable is cut.
            "OMPI_MCA_oob_tcp_keepalive_time": "3",
            "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
            "OMPI_MCA_oob_tcp_keepalive_probes": "3",
        },
    },
    "mpich": {
        "start": "-hosts {hosts} -launcher ssh -launcher-exec {agent} -iface eth0",
        "env": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"},
    },
}
HOLDER = """
hostname {name} && ip link set lo up && mount -t tmpfs shm /dev/shm -o mode=1777 &&
mount --bind {hosts} /etc/hosts && echo ready && exec sleep 1000000
"""
AGENT = """#!/bin/sh
while :; do
    case $1 in {pids}
    esac
    shift
done
shift
exec nsenter -t $pid -n -u -m -- /bin/sh -c "$*"
"""


def plugin(box, mpi):
    """`make mpi` against this MPI."""
    compiler = f"mpicc.{mpi}"
    for tool in (compiler, f"mpirun.{mpi}"):
        if not shutil.which(tool):
            raise Skip(f"there is no {tool}")

    def build(folder):
        make = ["make", "-C", ROOT, "mpi", f"MPICC={compiler}", f"O={folder}", "CUDA=0"]
        done = subprocess.run(make, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return os.path.join(box.shared_folder(f"plugin-{mpi}", build), "lib", "libsluice_mpi.so")


SIDE_BY_SIDE = {
    "openmpi": {
        "start": "--bind-to none --oversubscribe",
        "env": {"OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"},
    },
    "mpich": {"start": "", "env": {"UCX_NET_DEVICES": "lo"}},
}


def rank_script(box, name, asked, only):
    """What mpirun starts: $PROGRAM, in some places with shell text before it."""
    cases = "".join(f"{where}) {text} ;;\n" for where, text in (only or {}).items())
    path = box.path(name)
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\ncase {asked} in\n{cases}esac\nexec "$PROGRAM" "$@"\n')
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


class Ranks:
    """n processes of one world on this host, by whoever runs the test. program: one that finds a
    plug-in of its own."""

    def __init__(self, box, mpi, n, program=None):
        self.box, self.mpi, self.n = box, mpi, n
        self.program = program or os.path.join(BIN, "sluice")
        self.plugin = "" if program else plugin(box, mpi)

    def start(self, *arguments, only=None, more=None):
        """mpirun of `sluice`. only: {rank: shell text before it}; more: of the environment."""
        asked = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
        rank = rank_script(self.box, f"rank-{self.box.next_number()}", asked, only)
        kind = SIDE_BY_SIDE[self.mpi]
        env = {
            **KINDS[self.mpi]["env"],
            **kind["env"],
            **(more or {}),
            "SLUICE_MPI_PLUGIN": self.plugin,
            "PROGRAM": self.program,
        }
        command = [f"mpirun.{self.mpi}", *kind["start"].split(), "-n", str(self.n), rank]
        return Running(self.box, [*command, *map(str, arguments)], self.box.environment(env))

    def close(self):
        """When mpirun has ended: what its nodes' brokers still do has a bound."""
        self.box.until_gone()


def runs_over_nodes(box, home, program=None):
    """An unpacked or installed sluice builds a plug-in from what it has, and runs a job with it."""
    compiler = "mpicc.openmpi"
    if not shutil.which(compiler):
        raise Skip(f"there is no {compiler}")
    build = os.path.join(home, "share", "sluice", "mpi", "build")
    made = subprocess.run([build, compiler], capture_output=True, text=True, cwd="/", check=False)
    assert made.returncode == 0 and not made.stderr, made
    assert made.stdout.startswith(os.path.join(home, "lib", "libsluice_mpi.so")), made
    nodes = Ranks(box, "openmpi", 2, program or os.path.join(home, "bin", "sluice"))
    changes = {"nodes": "auto", "updates.batches_per_update": 2, "output": box.path("over")}
    job = box.job(small_job(box.shared_dataset("small"), epochs=1, **changes), "over.json")
    nodes.start("run", job).wait(60).ok()
    nodes.close()
    assert os.path.isdir(box.path("over", "node-1"))


class Nodes:
    """Nodes named a, b, ... with cables to one switch; mpi: None where none is needed. far: {name:
    seconds that its cable takes for each frame}."""

    def __init__(self, box, mpi, n, far=None):
        tools = ("ip", "nsenter", "unshare")
        if os.getuid() != 0 or not box.own_shm:
            raise Skip("not root, or no mounts: only root has namespaces")
        if missing := [tool for tool in tools if not shutil.which(tool)]:
            raise Skip(f"there is no {missing[0]}")
        self.box, self.mpi, self.kind = box, mpi, KINDS.get(mpi)
        self.holders, self.killed, self.cables = [], [], []
        self.names = "abcdefgh"[:n]
        self.address = {name: f"10.77.0.{i + 1}" for i, name in enumerate(self.names)}
        self.plugin = plugin(box, mpi) if mpi else None
        hosts = box.path("hosts")
        with open(hosts, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{address} {name}\n" for name, address in self.address.items())
        self.switch = self.hold("switch", hosts)
        self.inside(self.switch, "ip link add br0 type bridge && ip link set br0 up")
        self.pid = {name: self.hold(name, hosts) for name in self.names}
        for name in self.names:
            self.connect(name, (far or {}).get(name))
        self.agent = self.script(
            "agent",
            AGENT.format(pids="".join(f"{n}) pid={p}; break ;; " for n, p in self.pid.items())),
        )

    def hold(self, name, hosts):
        """A process in namespaces of its own; its number."""

        def set_up():
            default_signals()
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)

        command = ["unshare", "--net", "--uts", "--mount", "/bin/sh", "-c"]
        process = subprocess.Popen(
            [*command, HOLDER.format(name=name, hosts=hosts)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.box.environment(),
            cwd=self.box.folder,
            preexec_fn=set_up,
        )
        self.holders.append(process)
        said = process.stdout.readline()
        if said != b"ready\n":
            raise Skip(f"no namespaces here: {said.decode()}")
        return process.pid

    def connect(self, name, seconds=None):
        """A cable from its eth0 to the switch."""
        pid = self.pid[name]
        if seconds:
            self.cables.append(LongCable(pid, "eth0", self.switch, f"to-{name}", seconds))
        else:
            self.inside(self.switch, f"ip link add to-{name} type veth peer name eth0 netns {pid}")
        self.inside(self.switch, f"ip link set to-{name} master br0 up")
        address = self.address[name]
        self.inside(pid, f"ip addr add {address}/24 dev eth0 && ip link set eth0 up")

    def inside(self, pid, command):
        done = subprocess.run(
            ["nsenter", "-t", str(pid), "-n", "-u", "-m", "/bin/sh", "-c", command],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"

    def cut(self, name):
        """Pulls the cable of a node."""
        self.inside(self.switch, f"ip link set to-{name} down")

    def kill(self, name):
        """All processes of a node at once, but for the one that keeps its namespaces."""
        there = os.readlink(f"/proc/{self.pid[name]}/ns/uts")
        for pid in set(self.box.processes()) - {self.pid[name]}:
            try:
                if os.readlink(f"/proc/{pid}/ns/uts") == there:
                    os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has gone with another one
        self.killed.append(name)

    def script(self, name, text):
        path = self.box.path(name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def start_on(self, name, command, env):
        """A command on one node."""
        inside = ["nsenter", "-t", str(self.pid[name]), "-n", "-u", "-m", "--"]
        return Running(self.box, [*inside, *command], self.box.environment(env))

    def start(self, *arguments, only=None):
        """mpirun, from the first node, of `sluice` on each. only: {node: shell text before it}."""
        rank = rank_script(self.box, "rank", "$(uname -n)", only)
        options = self.kind["start"].format(hosts=",".join(self.names), agent=self.agent)
        command = [f"mpirun.{self.mpi}", *options.split(), "-n", str(len(self.names)), rank]
        env = {
            **self.kind["env"],
            "SLUICE_MPI_PLUGIN": self.plugin,
            "PROGRAM": os.path.join(BIN, "sluice"),
        }
        return self.start_on("a", [*command, *map(str, arguments)], env)

    def close(self):
        """When mpirun has ended: nothing of it is left on any node. Takes them away."""
        holders = {process.pid for process in self.holders}
        for pid in set(self.box.processes()) - holders:
            gone(pid)
        for name in self.killed:  # MPI's daemon there could not clean up
            for left in glob.glob(os.path.join(self.box.temp, f"ompi.{name}.*")):
                shutil.rmtree(left)
        for name, pid in self.pid.items():
            names = os.listdir(f"/proc/{pid}/root/dev/shm")
            assert not names, f"left in /dev/shm of {name}: {names}"
        self.release()

    def release(self):
        """Takes the nodes away."""
        for cable in self.cables:
            cable.close()
        for process in self.holders:
            process.kill()
            process.wait()
            process.stdout.close()
