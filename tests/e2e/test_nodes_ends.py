"""How a job on several nodes ends, and what it says: whatever process of a node dies or is stopped,
the first node names that node, and nothing waits for it for long."""

import os
import re

from harness import cases, text_of, whole
from nodes import Ranks
from test_nodes_run import EVERY, MPIS, ended, goes_on_with, log_of_node, nodes_job, start

HOST = os.uname().nodename


def last_word(box):
    """What the first node says of the end, in its log: a launcher may end its command before."""
    (said,) = re.findall("the job ends: (.*)", log_of_node(box, 0))
    return said


def end_by_link(box, mpi):
    config = nodes_job(box, **{"checkpoint.every_updates": 2})
    nodes = Ranks(box, mpi, 3)
    killed = {1: f"export SLUICE_FAILPOINT=link_sending:{EVERY}"}
    result = ended(nodes, start(box, nodes, config, only=killed))
    assert result.rc not in (0, 2), str(result)
    return last_word(box)


def test_the_first_node_knows_whose_link_has_died(box):
    said = end_by_link(box, MPIS[0])
    words = f"host {HOST} (rank 1): its link to the other nodes was killed by SIGKILL"
    assert said.startswith(words), said


@whole
def test_the_first_node_knows_whose_link_has_died_with_mpich(box):
    """Its messages may be quicker than its launcher."""
    said = end_by_link(box, MPIS[1])
    assert f"host {HOST} (rank 1): " in said, said


@whole
@cases(*MPIS)
def test_a_node_that_cannot_say_why_is_named(box, mpi):
    """Its broker has died, so neither a note nor its log says it."""
    nodes = Ranks(box, mpi, 2)
    killed = {1: "export SLUICE_FAILPOINT=broker_phase"}
    result = ended(nodes, start(box, nodes, nodes_job(box), only=killed))
    assert result.rc not in (0, 2), str(result)
    assert f"host {HOST} (rank 1)" in last_word(box), last_word(box)


# ---- what is stopped ----------------------------------------------------------------------------


@whole
@cases(("broker_phase:4", 1), ("broker_phase:4", 0), ("broker_stop", 1), ("broker_stop", 0))
def test_a_broker_that_is_stopped_ends_the_job_and_is_named(box, point, rank):
    nodes = Ranks(box, MPIS[0], 3)
    config = nodes_job(box, **{"checkpoint.every_updates": 1})
    stopped = {rank: f"export SLUICE_FAILPOINT={point}:stop"}
    running = start(box, nodes, config, only=stopped)
    pid = box.until_stopped(running, "broker")
    result = ended(nodes, running)
    assert result.rc == 1, str(result)
    words = f"host {HOST} (rank {rank}): the job over nodes: its broker (process {pid}) was stopped"
    assert words in result.err, str(result)
    if rank == 1 and point == "broker_phase:4":
        assert last_word(box).startswith(words), last_word(box)
        goes_on_with(box, 2, config)


@whole
@cases(*MPIS)
def test_a_link_that_is_stopped_before_it_meets_the_others_is_named(box, mpi):
    nodes = Ranks(box, mpi, 3)
    stopped = {1: "export SLUICE_FAILPOINT=nodes_start:stop"}
    running = start(box, nodes, nodes_job(box), only=stopped)
    pid = box.until_stopped(running, "link")
    result = ended(nodes, running)
    assert result.rc == 1, str(result)
    words = f"host {HOST} (rank 1): its link to the other nodes (process {pid}) was stopped"
    assert words in result.err, str(result)
    box.assert_no_run()


def test_a_node_that_cannot_begin_ends_the_others(box):
    """They wait in MPI for it, and MPICH's launcher for them."""
    nodes = Ranks(box, MPIS[1], 2)
    nowhere = {1: 'set -- "$@" --set dataset=/nowhere'}
    result = ended(nodes, start(box, nodes, nodes_job(box), only=nowhere))
    assert result.rc == 2, str(result)
    assert f"host {HOST} (rank 1): data set /nowhere: no such" in result.err, str(result)
    box.assert_no_run()


# ---- what cannot be written ---------------------------------------------------------------------


def test_a_log_that_another_node_cannot_write_is_told_by_the_first(box):
    nodes = Ranks(box, MPIS[0], 2)
    os.makedirs(box.path("runs", "job", "node-1"))
    os.symlink("/dev/full", box.path("runs", "job", "node-1", "broker.log"))
    slow = {"throttle.train": 0.2, "allocation.switching": False, "epochs": 1000}
    running = start(box, nodes, nodes_job(box, **slow))
    log = box.path("runs", "job", "log", "broker.log")
    words = f"host {HOST} (rank 1): writing '{box.path('runs/job/node-1/broker.log')}': No space"
    running.until(lambda: words in text_of(log), "the first node's warning")
    box.sluice("stop", box.path("runs/job"))
    ended(nodes, running)
    assert text_of(log).count(words) == 1
