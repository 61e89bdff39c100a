"""What a site does to a job on several nodes: a long cable, a slow node, a full disk, a clock that
is wrong, the death of everything. It comes to the same or says why not, and nothing hangs."""

import contextlib
import glob
import os
import shutil
import subprocess

from harness import Skip, cases, fingerprint, go_on, not_under, text_of, whole
from nodes import Nodes, Ranks
from test_limits import Group
from test_nodes_run import MPIS, alone, ended, nodes_job, report_of, start
from test_nodes_shards import alone as spread_alone
from test_nodes_shards import shards, spread_job
from test_trace import check_trace

DELAY_S = 0.2
HOUR_S = 3600
DAY_S = 24 * HOUR_S
HOST = os.uname().nodename


# ---- the network --------------------------------------------------------------------------------


@whole
@cases(*MPIS)
def test_a_long_way_to_a_node_changes_nothing(box, mpi):
    nodes = Nodes(box, mpi, 2, far={"b": DELAY_S})
    config = spread_job(box, shards(box, 2), output=box.path("runs/job"))
    result = ended(nodes, start(box, nodes, {**config, "checkpoint": {"every_updates": 4}})).ok()
    report = report_of(box)
    assert fingerprint(report) == spread_alone(box), str(result)
    for wire in report["wires"]:  # the way was as long as that
        assert wire["ask_seconds"] >= 2 * DELAY_S * wire["asks"] > 0, wire


@whole
@cases(*MPIS)
def test_a_long_way_to_a_node_is_measured(box, mpi):
    nodes = Nodes(box, mpi, 3, far={"b": DELAY_S})
    said = ended(nodes, nodes.start("doctor", "--nodes", "-o", "json")).ok().json()
    assert said["verdict"] == "ok", said
    for link in said["links"]:
        if 1 in (link["from"], link["to"]):
            assert link["trip_8_b_s"] >= 2 * DELAY_S, said


# ---- a slow node --------------------------------------------------------------------------------


@contextlib.contextmanager
def processor_time(share):
    """A control group that gets so much of a core: shell text by which a process enters it."""
    for version in ("version 1", "version 2"):
        try:
            group = Group(version, int(share * 100_000))
            break
        except Skip as last:
            why = last
    else:
        raise why
    try:
        yield f"echo $$ >{group.folder}/cgroup.procs"
    finally:
        group.remove()


@whole
@cases(*MPIS)
def test_a_node_that_gets_little_of_a_core_changes_nothing(box, mpi):
    with processor_time(0.05) as slow:
        nodes = Nodes(box, mpi, 2)
        ended(nodes, start(box, nodes, nodes_job(box), only={"b": slow})).ok()
    assert fingerprint(report_of(box)) == alone(box)


@whole
def test_a_slow_node_is_waited_for_and_named(box):
    nodes = Ranks(box, MPIS[0], 2)
    slow = 'set -- "$@" --set throttle.train=0.2 --set throttle.standby=0.2'
    ended(nodes, start(box, nodes, nodes_job(box), only={1: slow})).ok()
    report = report_of(box)
    assert fingerprint(report) == alone(box)
    first, second = report["wires"]
    assert first["late_seconds"] > second["late_seconds"], report["wires"]
    assert first["late_seconds"] > first["wire_seconds"], first
    assert report["epochs"][0]["latest"]["node"] == 1, report["epochs"][0]
    assert "waited for node 1" in report["epochs"][0]["bottleneck"], report["epochs"][0]


# ---- a full disk --------------------------------------------------------------------------------


def fill(folder):
    """Shell text: no byte more goes into the file system."""
    return f"cat /dev/zero >{folder}/ballast 2>/dev/null; :"


def full(folder):
    """Shell text: a file system of its own at that folder, which is full."""
    return f"mount -t tmpfs -o size=64k,mode=1777 disk {folder} && {fill(folder)}"


@whole
def test_a_node_whose_disk_is_full_changes_nothing(box):
    """It writes nothing but logs."""
    nodes = Nodes(box, MPIS[0], 2)
    os.makedirs(box.path("runs"))
    ended(nodes, start(box, nodes, nodes_job(box), only={"b": full(box.path("runs"))})).ok()
    assert fingerprint(report_of(box)) == alone(box)


@whole
def test_a_first_node_whose_disk_is_full_begins_nothing(box):
    nodes = Nodes(box, MPIS[0], 2)
    os.makedirs(box.path("runs"))
    result = start(box, nodes, nodes_job(box), only={"a": full(box.path("runs"))}).wait()
    left = os.listdir(f"/proc/{nodes.pid['a']}/root{box.path('runs')}")
    left += os.listdir(box.path("runs"))  # of b
    nodes.close()
    assert result.rc == 2 and left == ["ballast"], f"{left}\n{result}"
    assert "host a (rank 0): write " in result.err, str(result)
    assert "No space left on device" in result.err, str(result)


def test_a_disk_that_fills_up_ends_the_job_which_goes_on(box):
    with box.small_disk("4m") as disk:
        config = nodes_job(box, output=os.path.join(disk, "job"))
        config["checkpoint"] = {"every_updates": 2}
        nodes = Ranks(box, MPIS[0], 2)
        only = {0: "export SLUICE_FAILPOINT=trainer_gradient:12:stop"}
        running = start(box, nodes, config, only=only)
        pid = box.until_stopped(running, "trainer")
        running.until(lambda: box.checkpoints("disk/job"), "a checkpoint")
        subprocess.run(fill(disk), shell=True, check=True)
        go_on(pid)
        result = ended(nodes, running)
        assert result.rc == 1, str(result)
        said = "after update {}, from which the same command goes on: the logs are in {}"
        said = said.format(int(box.checkpoints("disk/job")[-1]), disk)
        assert f"No space left on device {said}" in result.err, str(result)
        os.unlink(os.path.join(disk, "ballast"))
        nodes = Ranks(box, MPIS[0], 2)
        result = ended(nodes, start(box, nodes, config, name="rest")).ok()
        assert "going on from update" in result.err, str(result)
        assert fingerprint(report_of(box, "disk/job")) == alone(box)


@whole
@cases(*MPIS)
def test_a_full_dev_shm_of_a_node_is_named_and_changes_nothing(box, mpi):
    """A process alone on its host wants none of it."""
    nodes = Nodes(box, mpi, 2)
    nodes.inside(nodes.pid["b"], "mount -o remount,size=64k /dev/shm; " + fill("/dev/shm"))
    running = start(box, nodes, nodes_job(box))
    result = running.wait().ok()
    said = nodes.start("doctor", "--nodes", "-o", "json").wait().ok().json()
    nodes.inside(nodes.pid["b"], "rm /dev/shm/ballast")
    nodes.close()
    assert [note["text"][:30] for note in said["notes"]] == ["b: /dev/shm has 0 B left, and "], said
    assert "nodes: b: /dev/shm has 0 B left" in result.err, str(result)
    assert fingerprint(report_of(box)) == alone(box)


# Two processes on one host share memory, unless it is said that they do not.
SHARES = "unset UCX_TLS OMPI_MCA_btl OMPI_MCA_pml"


@contextlib.contextmanager
def dev_shm(box, size):
    """So large, until it is as large as ever."""
    if not box.own_shm:
        raise Skip("no mounts of its own here")
    remount = ["mount", "/dev/shm", "-o"]
    subprocess.run([*remount, f"remount,size={size}"], check=True)
    try:
        yield
    finally:
        subprocess.run([*remount, "remount,size=50%"], check=True)


def test_a_full_dev_shm_at_the_start_is_named(box):
    nodes = Ranks(box, "mpich", 2)
    with dev_shm(box, "4k"):
        subprocess.run(fill("/dev/shm"), shell=True, check=True)
        result = ended(nodes, start(box, nodes, nodes_job(box), only={0: SHARES, 1: SHARES}))
        os.unlink("/dev/shm/ballast")
    assert result.rc != 0, str(result)
    why = "SIGBUS (bus error): /dev/shm has 0 B left"
    assert f"host {HOST}: its link to the other nodes was killed by {why}" in result.err, result
    box.assert_no_run()
    assert check_named(box, "mpich") == 1  # as long as the processes of a host have not met


@whole
def test_a_dev_shm_that_fills_up_is_named(box):
    nodes = Ranks(box, "openmpi", 2)
    config = nodes_job(box, **{"checkpoint.every_updates": 2})
    only = {0: SHARES, 1: f"{SHARES}; export SLUICE_FAILPOINT=link_start:stop"}
    running = start(box, nodes, config, only=only)
    pid = box.until_stopped(running)
    used = os.statvfs("/dev/shm")
    with dev_shm(box, f"{(used.f_blocks - used.f_bfree) * used.f_frsize}"):
        go_on(pid)
        result = ended(nodes, running)
    assert result.rc == 1, str(result)
    assert "SIGBUS (bus error): " in result.err and "/dev/shm is full" in result.err, str(result)
    nodes = Ranks(box, "openmpi", 2)
    ended(nodes, start(box, nodes, config, name="rest")).ok()
    assert fingerprint(report_of(box)) == alone(box)


@whole
def test_a_full_folder_of_temporary_files_is_named(box):
    nodes = Nodes(box, "openmpi", 2)
    nodes.inside(nodes.pid["b"], full(box.temp))
    result = ended(nodes, start(box, nodes, nodes_job(box)))
    assert result.rc != 0, str(result)
    why = f"ended with exit status 1: {box.temp} has 0 B left"
    assert f"host b: its link to the other nodes {why}" in result.err, str(result)
    box.assert_no_run()


# ---- clocks -------------------------------------------------------------------------------------

CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const int rc = (int)syscall(SYS_clock_gettime, clock, t);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        t->tv_sec += atoi(getenv("TEST_CLOCK_AHEAD_S"));
    return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return t ? *t = now.tv_sec : now.tv_sec;
}
"""


def clock_ahead(box, seconds):
    """Shell text: from there on the time of day is another one."""

    def build(folder):
        os.makedirs(folder)
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", os.path.join(folder, "clock.so")]
        subprocess.run(command, input=CLOCK, text=True, check=True)

    library = os.path.join(box.shared_folder("clock", build), "clock.so")
    return f"export TEST_CLOCK_AHEAD_S={seconds} LD_PRELOAD={library}"


def up_longer(seconds):
    """Shell text: sluice runs on a machine that was started so much earlier."""
    clocks = f"--time --monotonic {seconds} --boottime {seconds}"
    if subprocess.run(f"unshare {clocks} --fork true", shell=True, capture_output=True).returncode:
        raise Skip("no clocks of its own here: not root, or an older kernel")
    options = f"{clocks} --fork --kill-child"
    return f'set -- {options} -- "$PROGRAM" "$@"; PROGRAM=unshare'


PRELOADED = not_under("address", "its runtime has to come before any other library")


@PRELOADED
def test_a_node_whose_clocks_are_others_changes_nothing(box):
    """The hour is wrong, and it has been up for a day longer: figures and trace are right."""
    nodes = Ranks(box, MPIS[0], 2)
    name = box.unique("clocks")
    held = "export SLUICE_FAILPOINT=trainer_gradient:2:stop"
    only = {0: held, 1: f"{clock_ahead(box, HOUR_S)}; {up_longer(DAY_S)}"}
    running = start(box, nodes, nodes_job(box, name=name), only=only)
    pid = box.until_stopped(running, "trainer")
    tracing = box.start("trace", name, "--seconds", "600")
    tracing.until(lambda: " events, " in tracing.output()[1], "progress of the trace")
    go_on(pid)
    result = ended(nodes, running).ok()
    tracing.wait().ok()
    report = report_of(box)
    assert fingerprint(report) == alone(box)
    assert f"{HOST}: its clock is 3600.0 s ahead of that of {HOST}" in result.err, str(result)
    for row in report["nodes"] + report["wires"]:
        assert 0 <= row["late_seconds"] + row["wire_seconds"] <= report["wall_seconds"], row
    for epoch in report["epochs"]:
        assert 0 <= epoch["latest"]["seconds"] <= epoch["seconds"], epoch
    found = check_trace(box.path("trace.json"), report["wall_seconds"])
    assert found["X", "train"], sorted(found)




@whole
@PRELOADED
@cases(*MPIS)
def test_a_clock_that_is_wrong_is_named(box, mpi):
    nodes = Nodes(box, mpi, 2)
    only = {"b": clock_ahead(box, -HOUR_S)}
    said = ended(nodes, nodes.start("doctor", "--nodes", "-o", "json", only=only)).ok().json()
    (note,) = said["notes"]
    assert note["text"].startswith("b: its clock is 3600."), note
    assert "s behind that of a: times in logs and reports" in note["text"], note
    assert -HOUR_S - 10 < said["nodes"][1]["clock_ahead_s"] < -HOUR_S + 10, said


@PRELOADED
def test_a_job_goes_on_where_the_clock_is_an_hour_behind(box):
    """From the newest checkpoint, whatever the time of its files is."""
    slow = {"throttle.train": 0.02, "throttle.standby": 0.02}
    each = {"checkpoint.every_updates": 1, "checkpoint.keep": 2}
    config = nodes_job(box, epochs=500, **slow, **each)
    nodes = Ranks(box, MPIS[0], 2)
    running = start(box, nodes, config, only=dict.fromkeys((0, 1), clock_ahead(box, HOUR_S)))
    running.until(lambda: len(box.checkpoints()) == 2, "two checkpoints")
    box.kill_everything()
    running.wait()
    box.until_gone()
    check_named(box, MPIS[0])
    old, new = box.checkpoints()
    os.utime(box.path("runs/job/checkpoints", old), (2e9, 2e9))
    config["epochs"] = len(text_of(box.path("runs/job/metrics.jsonl")).splitlines()) + 2
    nodes = Ranks(box, MPIS[0], 2)
    result = ended(nodes, start(box, nodes, config, name="rest")).ok()
    assert f"going on from update {int(new)}" in result.err, str(result)
    report = report_of(box)
    assert fingerprint(report)["batches"] == 12 * config["epochs"], report["batches"]
    assert 0 < report["total_seconds"] < HOUR_S, report["total_seconds"]


# ---- the death of everything --------------------------------------------------------------------


def check_named(box, mpi):
    """What is left is MPI's alone, and doctor names it; takes it away."""
    sessions = glob.glob(box.path("tmp", "ompi.*", "*"))
    segments = glob.glob("/dev/shm/*")
    strangers = {os.path.dirname(path) for path in sessions} ^ set(glob.glob(box.path("tmp", "*")))
    assert not strangers, strangers
    nodes = Ranks(box, mpi, 1)
    said = ended(nodes, nodes.start("doctor", "--nodes", "-o", "json")).ok().json()
    left = len(sessions) + len(segments)
    found = [note["text"] for note in said["notes"] if "of MPI left by" in note["text"]]
    wanted = [f": {left} file{'s' if left > 1 else ''} of MPI left by"] if left else []
    assert len(found) == len(wanted) and all(w in f for w, f in zip(wanted, found)), (
        found,
        sessions,
        segments,
    )
    for path in sessions + segments:
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    return left


@whole
@cases(*[(mpi, at) for at in ("nodes_start", "nodes_met", "link_sending:3") for mpi in MPIS])
def test_the_death_of_everything_leaves_what_doctor_names(box, mpi, at):
    nodes = Ranks(box, mpi, 2)
    frozen = {0: SHARES, 1: f"{SHARES}; export SLUICE_FAILPOINT={at}:stop"}
    running = start(box, nodes, nodes_job(box), only=frozen)
    box.until_stopped(running)
    box.kill_everything()
    running.wait()
    box.until_gone()
    left = check_named(box, mpi)
    assert (left > 0) == (mpi == "openmpi"), left
