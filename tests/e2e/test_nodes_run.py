"""One job on several nodes: it comes to what it comes to on one, whatever dies meanwhile."""

import os
import shutil
import signal

from harness import cases, fingerprint, go_on, read_json, small_job, text_of, whole
from nodes import KINDS, SIDE_BY_SIDE, Nodes, Ranks, plugin
from test_typed_jobs import papers

MPIS = ("openmpi", "mpich")
# Where a link may die. Those of nodes/ come before, but for the last.
POINTS = [f"link_{at}" for at in ("sending", "start", "attached", "arrived")]
POINTS += [f"link_{at}" for at in ("made", "slices", "flipped", "leaving")]
EVERY = 3  # in the middle of a job where a link gets there often
RUNNING = ("link_sending", "link_arrived", "link_made", "link_slices", "link_flipped")
GAT = {"model.kind": "gat", "model.heads": 2}
CLIPPED = {"model.kind": "gin", "model.norm": "batch", "optimizer.clip_norm": 0.5}
PRESC = {"cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.2}}
STORAGE = {"store": {"features": "storage"}}
SHARES = {"order.epochs_per_pass": 3, "epochs": 4}
SGD = {"optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9}}


def nodes_job(box, dataset=None, **changes):
    output = box.path("runs", "job")  # each node's working directory is another one
    first = {} if "updates" in changes else {"updates.batches_per_update": 4}
    dotted = {**first, "nodes": "auto", "output": output, **changes}
    return small_job(dataset or box.shared_dataset("small"), **dotted)


def alone(box, name="nodes", **changes):
    """What the job comes to on one node."""
    return box.undisturbed(name, nodes_job(box, **changes))


def start(box, nodes, config, *arguments, only=None, name="job", **more):
    path = box.job(config, f"{name}.json")
    return nodes.start("run", path, *arguments, only=only, **more)


def ended(nodes, running, seconds=120):
    result = running.wait(seconds)
    nodes.close()
    return result


def lose_a_node(box, nodes, config, batches):
    """The second node's link dies, behind a checkpoint: the first one's trainer stands still after
    so many batches until there is one."""
    only = {0: f"export SLUICE_FAILPOINT=trainer_gradient:{batches}:stop", 1: "export LOST=1"}
    running = start(box, nodes, config, only=only)
    pid = box.until_stopped(running, "trainer")
    running.until(box.checkpoints, "a checkpoint")
    [link] = [p for p in box.processes("link") if "LOST=1" in text_of(f"/proc/{p}/environ")]
    os.kill(link, signal.SIGKILL)
    go_on(pid)
    assert_link_killed(ended(nodes, running))


def report_of(box, output="runs/job"):
    return read_json(box.path(output, "report.json"))


def same_report(box, nodes, config, as_alone):
    """Of a job on these nodes, which comes to what it does on one."""
    ended(nodes, start(box, nodes, config)).ok()
    report = report_of(box)
    assert fingerprint(report) == as_alone
    return report


def check_same(box, kind, n, mpi, changes):
    as_alone = alone(box, f"nodes-{kind}", **changes)
    same_report(box, Ranks(box, mpi, n), nodes_job(box, **changes), as_alone)


def assert_link_killed(result):
    assert result.rc == 1, str(result)
    words = f"host {os.uname().nodename}: its link to the other nodes was killed by SIGKILL"
    assert words in result.err, str(result)


@cases(("graphsage", 2, {}), ("gat", 4, GAT), ("gin", 3, CLIPPED))
def test_bits_are_those_of_one_node(box, kind, n, changes):
    check_same(box, kind, n, MPIS[0], changes)


@whole
@cases(
    ("graphsage", 2, {}),
    ("gat", 3, GAT),
    ("gin", 4, CLIPPED),
    ("presc", 2, PRESC),
    ("storage", 3, STORAGE),
    ("sgd", 4, SGD),
)
def test_bits_are_those_of_one_node_with_mpich(box, kind, n, changes):
    check_same(box, kind, n, MPIS[1], changes)


@whole
@cases(("presc", 4, PRESC), ("storage", 2, STORAGE), ("sgd", 3, SGD), ("shares", 2, SHARES))
def test_bits_are_those_of_one_node_whatever_it_has(box, kind, n, changes):
    check_same(box, kind, n, MPIS[0], changes)


@cases(
    ("rsage", 2, {}),
    ("rgat", 3, {"model.heads": 2, "sampler.kind": "labor"}),
    ("rgatv2", 2, {"model.heads": 2}),
)
def test_bits_of_a_graph_of_several_types_are_those_of_one_node(box, kind, n, changes):
    changes = {"dataset": papers(box), "model.kind": kind, "sampler.expand": "new", **changes}
    check_same(box, f"typed-{kind}", n, MPIS[0], changes)


@whole
@cases(*MPIS)
def test_bits_are_those_of_one_node_over_a_network(box, mpi):
    same_report(box, Nodes(box, mpi, 3), nodes_job(box), alone(box))


def test_the_first_node_speaks_and_keeps(box):
    nodes = Ranks(box, MPIS[0], 2)
    result = ended(nodes, start(box, nodes, nodes_job(box))).ok()
    assert result.out.count("parameters  sha256") == 1, str(result)
    assert result.err.count("epoch 3/3") == 1, str(result)
    assert sorted(os.listdir(box.path("runs", "job", "node-1"))) == sorted(
        os.listdir(box.path("runs", "job", "log"))
    )
    assert not os.path.exists(box.path("runs", "job", "node-0"))


# ---- what dies ----------------------------------------------------------------------------------


@cases("trainer_gradient:3", "trainer_applied:3", "sampler_drawn:4", "trainer_flipped:2")
def test_a_worker_that_dies_on_one_node_changes_nothing(box, point):
    nodes = Ranks(box, MPIS[0], 2)
    only = {1: f"export SLUICE_FAILPOINT={point}"}
    ended(nodes, start(box, nodes, nodes_job(box), only=only)).ok()
    assert "was killed by SIGKILL" in log_of_node(box, 1)
    assert fingerprint(report_of(box)) == alone(box)


def log_of_node(box, node):
    with open(box.path("runs", "job", f"node-{node}" if node else "log", "broker.log")) as file:
        return file.read()


def goes_on_with(box, n, config):
    """The rest, on so many nodes."""
    if n == 1:
        box.run(config)[0].ok()
    else:
        nodes = Ranks(box, MPIS[0], n)
        ended(nodes, start(box, nodes, config, name="rest")).ok()
    assert fingerprint(report_of(box)) == alone(box)


@cases(*[(point, rank) for point in POINTS for rank in (1, 0)])
def test_a_link_that_dies_ends_the_job_which_goes_on_with_fewer(box, point, rank):
    config = nodes_job(box, **{"checkpoint.every_updates": 2})
    nodes = Ranks(box, MPIS[0], 3)
    at = f"{point}:{EVERY}" if point in RUNNING else point
    only = {rank: f"export SLUICE_FAILPOINT={at}"}
    assert_link_killed(ended(nodes, start(box, nodes, config, only=only)))
    if point != "link_leaving":
        goes_on_with(box, 2 if rank else 1, config)


@whole
@cases(*MPIS)
def test_a_node_that_dies_ends_the_job_which_goes_on_with_fewer(box, mpi):
    config = nodes_job(box, **{"checkpoint.every_updates": 2, "throttle.train": 0.05})
    nodes = Nodes(box, mpi, 3)
    frozen = {"b": f"export SLUICE_FAILPOINT=link_sending:{EVERY}:stop"}
    running = start(box, nodes, config, only=frozen)
    box.until_stopped(running)
    nodes.kill("b")
    result = ended(nodes, running)
    assert result.rc not in (0, 2), str(result)
    goes_on_with(box, 2, config)


@whole
@cases(*[(mpi, point) for point in ("link_sending", "link_slices") for mpi in MPIS])
def test_a_node_that_freezes_ends_the_job_and_is_named(box, mpi, point):
    config = nodes_job(box, **{"checkpoint.every_updates": 1})
    nodes = Nodes(box, mpi, 3)
    frozen = {"b": f"export SLUICE_FAILPOINT={point}:{EVERY}:stop"}
    running = start(box, nodes, config, only=frozen)
    pid = box.until_stopped(running)
    result = running.wait(120)
    go_on(pid)  # to a world that has ended without it
    nodes.close()
    assert result.rc not in (0, 2), str(result)
    assert "host b (rank 1) was not heard of for 10 s" in result.err, str(result)
    goes_on_with(box, 1, config)


@whole
@cases(*MPIS)
def test_a_cable_that_is_cut_ends_the_job(box, mpi):
    nodes = Nodes(box, mpi, 3)
    frozen = {"b": f"export SLUICE_FAILPOINT=link_sending:{EVERY}:stop"}
    running = start(box, nodes, nodes_job(box), only=frozen)
    pid = box.until_stopped(running)
    nodes.cut("b")
    go_on(pid)
    result = ended(nodes, running)
    assert result.rc not in (0, 2), str(result)
    assert "b" in result.out + result.err, str(result)


@cases(2, 1)
def test_a_job_that_is_stopped_goes_on_with_another_number_of_nodes(box, n):
    slow = {"throttle.train": 0.2, "allocation.switching": False}
    config = nodes_job(box, **slow)
    nodes = Ranks(box, MPIS[0], 3)
    running = start(box, nodes, config)
    box.until_epoch(running)
    running.interrupt()
    assert ended(nodes, running).rc != 0
    assert report_of(box)["status"] == "stopped"
    assert "by the user or the launcher" in report_of(box)["message"]
    assert len(box.checkpoints()) == 1  # with what the other nodes have of it
    goes_on_with(box, n, config)


def test_a_job_that_is_stopped_on_one_node_stops_on_all(box):
    slow = {"throttle.train": 0.2, "allocation.switching": False}
    nodes = Ranks(box, MPIS[0], 2)
    running = start(box, nodes, nodes_job(box, **slow))
    box.until_epoch(running)
    box.sluice("stop", box.path("runs/job"))
    result = ended(nodes, running)
    assert result.rc == 130 and "(rank 0): stopped by the user" in result.err, str(result)
    assert "nothing was left" not in result.err, str(result)


# ---- what is refused ----------------------------------------------------------------------------


@cases(
    ({"nodes": 1}, "nodes: found 1, and the launcher has started 2 processes"),
    ({"nodes": 3}, "nodes: found 3, and 2 are started"),
    ({"updates.batches_per_update": 1}, "updates.batches_per_update: found 1, wanted at least 2"),
    ({"updates": {"mode": "async"}, "nodes": 2}, 'updates.mode: found "async" with 2 nodes'),
)
def test_jobs_that_cannot_run_so_are_refused(box, changes, words):
    nodes = Ranks(box, MPIS[0], 2)
    config = nodes_job(box, **changes)
    result = ended(nodes, start(box, nodes, config))
    assert result.rc == 2 and words in result.err, str(result)
    box.assert_no_run()


def test_a_number_of_nodes_wants_a_launcher(box):
    result, _ = box.run(nodes_job(box, nodes=2))
    assert result.rc == 2 and "nodes: found 2, and 1 are started" in result.err, str(result)
    result, report = box.run(nodes_job(box, nodes="auto"))
    assert fingerprint(report) == alone(box), str(result)


@cases(*MPIS)
def test_processes_that_do_not_know_one_another_are_refused(box, mpi):
    """As where Slurm has no PMIx: each would take itself for the whole job."""
    env = {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLUICE_MPI_PLUGIN": plugin(box, mpi)}
    config = nodes_job(box, nodes=4)
    result, _ = box.run(config, env={**KINDS[mpi]["env"], **SIDE_BY_SIDE[mpi]["env"], **env})
    assert result.rc == 2, str(result)
    assert "4 processes (SLURM_NTASKS)" in result.err and "srun --mpi=pmix" in result.err
    box.assert_no_run()


def test_nodes_that_differ_are_refused_and_named(box):
    nodes = Ranks(box, MPIS[0], 2)
    other = box.path("other")
    shutil.copytree(box.shared_dataset("small"), other)
    with open(os.path.join(other, "node_feat.npy"), "r+b") as file:
        file.seek(4000)
        file.write(b"\0\0\0\0")
    changed = 'set -- "$@" --set seed=8 --set dataset=' + other
    result = ended(nodes, start(box, nodes, nodes_job(box), only={1: changed}))
    assert result.rc == 2, str(result)
    host = os.uname().nodename
    for words in ("job file seed: found 8, wanted 7", "data set node_feat.npy: found"):
        assert f"{host}: {words}" in result.err, str(result)
    box.assert_no_run()


def test_a_node_on_which_the_job_does_not_fit_is_named(box):
    """Nodes begin together: nothing is there of a job that one of them refuses."""
    nodes = Ranks(box, MPIS[0], 2)
    small = 'set -- "$@" --set memory=4MiB'
    result = ended(nodes, start(box, nodes, nodes_job(box), only={1: small}))
    assert result.rc == 2, str(result)
    host = os.uname().nodename
    assert f"host {host} (rank 1): memory: found 4194304 bytes" in result.err, str(result)
    assert "update" not in result.err, str(result)
    box.assert_no_run()


def test_a_node_without_the_data_set_is_named(box):
    nodes = Ranks(box, MPIS[0], 2)
    nowhere = 'set -- "$@" --set dataset=/nowhere'
    only = {0: "exec sleep 300", 1: nowhere}  # until the launcher ends it, too
    result = ended(nodes, start(box, nodes, nodes_job(box), only=only))
    assert result.rc == 2, str(result)
    assert f"host {os.uname().nodename} (rank 1): data set /nowhere: no such" in result.err
    box.assert_no_run()


def test_a_broker_that_dies_is_named_with_its_logs(box):
    nodes = Ranks(box, MPIS[0], 2)
    only = {1: "export SLUICE_FAILPOINT=broker_phase"}
    result = ended(nodes, start(box, nodes, nodes_job(box), only=only))
    assert result.rc == 1, str(result)
    words = f"host {os.uname().nodename} (rank 1): job 'test': the broker was killed"
    assert words in result.err, str(result)
    assert "runs/job/node-1' may say why" in result.err, str(result)


def test_numbers_that_are_not_finite_end_the_job(box):
    nodes = Ranks(box, MPIS[0], 2)
    wild = {"kind": "sgd", "lr": 1000, "momentum": 0.9}
    config = nodes_job(box, **{"optimizer": wild, "evaluate.every": 0, "epochs": 20})
    result = ended(nodes, start(box, nodes, config))
    assert result.rc == 1 and "is not finite" in result.err, str(result)


def test_a_node_without_the_plug_in_says_so(box):
    nodes = Ranks(box, MPIS[0], 2)
    missing = "export SLUICE_MPI_PLUGIN=/nowhere.so"
    result = ended(nodes, start(box, nodes, nodes_job(box), only={0: missing, 1: missing}))
    assert result.rc == 2 and "SLUICE_MPI_PLUGIN names /nowhere.so" in result.err, str(result)
