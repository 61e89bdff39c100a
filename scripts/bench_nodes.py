"""The part `nodes` of scripts/bench: jobs over two nodes, beside DGL's distributed loader.

The nodes are network namespaces of this machine (tests/e2e/nodes.py), which share its cores. Both
sides have one partition, that of `sluice partition`, one fanout, and features that come over the
wire where another node has them. DGL has a graph server and a trainer a node, and the number of
sampler processes with which it is fastest; its step is empty. sluice has no empty step: its model
is as small as a model can be, so its figure holds a training that DGL's does not.
"""

import contextlib
import itertools
import json
import os
import statistics
import sys
import time

from bench_peers import BATCH, CORES, FANOUT, PYTHON, ROUNDS, WORKERS, Memory, found, set_up
from benchlib import (
    BIN, ROOT, Failed, Jobs, derive, epoch_dataset, epoch_job, part, read_json, row, run,
)

sys.path += [os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "tests")]

PROGRAM = os.path.join(ROOT, "scripts", "dgl_nodes.py")
NODES, PORT, MPI = 2, 30050, "openmpi"
EPOCHS = ROUNDS + 1  # the first pays for page faults and first touches
WIDTHS = (None, 512)  # columns of the features, None: as they are
WAIT_S = 600  # for a run of a few epochs
STAGES = ("sample", "extract", "train")
TIMES, SHARE = 4, 0.5  # aims: of DGL's batches a second, and of its memory


class Figures:
    """Of one side: seconds, batches and edges of an epoch, most memory, and how it was run."""

    def __init__(self, epochs, peak, settings):
        later = epochs[1:] or epochs
        self.seconds = statistics.median(epoch["seconds"] for epoch in later)
        self.batches, self.edges = (later[-1][key] for key in ("batches", "edges"))
        self.peak, self.settings = peak, settings

    def rate(self):
        return self.batches / self.seconds

    def __str__(self):
        edges = self.edges / self.seconds / 1e6
        return f"{self.rate():.1f} batches/s, {edges:.2f} M edges/s"


# ---- the nodes ----------------------------------------------------------------------------------


@contextlib.contextmanager
def world(jobs, make):
    """What make(box) starts programs with, in a folder of their own; nothing of it runs afterwards,
    whatever has happened."""
    import harness  # here, since NumPy is not everywhere

    jobs.count += 1
    number = jobs.count
    box = harness.Box(jobs.path(f"nodes-{number}"), f"bench.{os.getpid()}.{number}", jobs.folder)
    box.own_shm = harness.can_mount()
    nodes = None
    try:
        nodes = make(box)
        yield nodes
    except (harness.Skip, AssertionError) as why:  # a command, and all that it has said
        raise Failed(str(why)) from None
    finally:
        box.kill_all()
        if hasattr(nodes, "release"):
            nodes.release()


def two_nodes(jobs, mpi=None):
    from nodes import Nodes  # as above

    return world(jobs, lambda box: Nodes(box, mpi, NODES))


def finished(nodes, running):
    """Standard outputs of commands that were started on nodes, and their most memory together; the
    programs that start them on each node count as theirs."""
    holders = {process.pid for process in nodes.holders}
    with Memory(None, lambda _: set(nodes.box.processes()) - holders) as memory:
        end = time.monotonic() + WAIT_S
        while not all([command.finished() for command in running]):  # a list: all are asked
            if time.monotonic() > end or any(c.process.returncode for c in running):
                break  # and the wait says why
            time.sleep(0.05)
        # Who has failed is asked first: the others wait for it.
        running = sorted(running, key=lambda command: not command.process.returncode)
        outputs = {c: c.wait(max(end - time.monotonic(), 1)).ok().out for c in running}
    return outputs, memory.peak


# ---- DGL ----------------------------------------------------------------------------------------


def dgl_run(jobs, folder, samplers, graphbolt):
    """Epochs of DGL's loader with so many sampler processes a node, and either way of sampling."""
    with two_nodes(jobs) as nodes:
        ip_config = nodes.box.path("ip_config")
        with open(ip_config, "w") as file:
            file.writelines(f"{address} {PORT}\n" for address in nodes.address.values())
        job = {"fanout": FANOUT, "batch": BATCH, "epochs": EPOCHS, "graphbolt": graphbolt}
        command = [PYTHON, "-W", "ignore", PROGRAM, "run", folder, ip_config, json.dumps(job)]
        env = {
            "DGL_NUM_SERVER": "1",  # a node
            "DGL_NUM_SAMPLER": str(samplers),
            "DGL_NUM_CLIENT": str(NODES * (1 + samplers)),
        }
        servers, trainers = [], []
        for number, name in enumerate(nodes.names):
            # Threads as DGL's launch.py has them: servers one, trainers their share of the cores.
            server = {"DGL_ROLE": "server", "DGL_SERVER_ID": str(number), "OMP_NUM_THREADS": "1"}
            trainer = {"DGL_ROLE": "client", "OMP_NUM_THREADS": str(max(len(CORES) // NODES, 1))}
            servers.append(nodes.start_on(name, command, {**env, **server}))
            trainers.append(nodes.start_on(name, command, {**env, **trainer}))
        outputs, peak = finished(nodes, servers + trainers)
    lines = [line for t in trainers for line in outputs[t].splitlines()]
    by_node = [json.loads(line) for line in lines if line.startswith("[{")]  # others are DGL's
    epochs = [
        {"seconds": max(e["seconds"] for e in epoch)}
        | {key: sum(e[key] for e in epoch) for key in ("batches", "edges")}
        for epoch in zip(*by_node)
    ]
    kind = "GraphBolt" if graphbolt else "DGL's graph"
    return Figures(epochs, peak, f"{kind}, {samplers} sampler(s) a node")


def measure_dgl(jobs, dataset, partition):
    """With the graph and the number of samplers that are fastest."""
    folder = jobs.path(f"{os.path.basename(dataset)}-dgl")
    run(PYTHON, "-W", "ignore", PROGRAM, "convert", dataset, partition, folder, quiet=True)
    best = None
    for graphbolt, samplers in itertools.product((False, True), WORKERS):
        figures = dgl_run(jobs, folder, samplers, graphbolt)
        print(f"  DGL, {figures}, {figures.peak >> 20} MiB: {figures.settings}", flush=True)
        if best is None or figures.rate() > best.rate():
            best = figures
    return best


# ---- sluice -------------------------------------------------------------------------------------


def make_partition(dataset, place):
    """`sluice partition` into a file of its own, or a directory of shards."""
    command = [os.path.join(BIN, "sluice"), "partition", dataset, "--parts", str(NODES)]
    run(*command, "--out", place, "--quiet", quiet=True)


def cannot_run():
    """Why these programs cannot run one job over nodes; None where they can."""
    schema = json.loads(run(os.path.join(BIN, "sluice"), "schema", quiet=True))
    return None if "nodes" in schema["properties"] else 'this `sluice run` has no key "nodes" yet'


def smallest_job(dataset):
    """As little training as a job can have: layers of one value."""
    return epoch_job(
        dataset, model={"kind": "graphsage", "layers": len(FANOUT), "hidden": 1, "dropout": 0},
        sampler={"kind": "khop", "fanout": FANOUT, "batch_size": BATCH},
        updates={"batches_per_update": NODES}, epochs=EPOCHS, nodes="auto",
        evaluate={"every": 0, "fanout": [1] * len(FANOUT), "test": "never"},
    )


def measure_sluice(jobs, dataset, partition):
    """One job over both nodes, each of which has the features of its part."""
    import numpy

    shards = jobs.path(f"{os.path.basename(dataset)}-shards")
    make_partition(dataset, shards)
    for number in range(NODES):
        own = os.path.join(shards, str(number), "node_part.npy")
        if not numpy.array_equal(numpy.load(own), numpy.load(partition)):
            raise Failed(f"{own} is another partition than DGL has")
    job, _ = jobs.write(smallest_job(shards))
    with two_nodes(jobs, MPI) as nodes:
        running = nodes.start("run", job, "--report", f"{job}.report", "--quiet")
        _, peak = finished(nodes, [running])
    epochs = read_json(f"{job}.report")["epochs"]
    stages = epochs[-1]["stages"]
    spent = ", ".join(f"{name} {stages[name]['seconds']:.2f}" for name in STAGES)
    counted = [{**epoch, "edges": epoch["sampled_edges"]} for epoch in epochs]
    return Figures(counted, peak, f"{spent} s of all workers in the last epoch")


# ---- the table ----------------------------------------------------------------------------------


def add_rows(title, dgl, ours):
    """ours: figures, or why there are none."""
    has = isinstance(ours, Figures)
    row(
        f"{title}: two nodes", str(ours) if has else "", f"{dgl} DGL, distributed",
        ours.rate() / dgl.rate() if has else None, TIMES,
    )
    row(
        "  most memory (PSS)", f"{ours.peak >> 20} MiB" if has else "", f"{dgl.peak >> 20} MiB",
        ours.peak / dgl.peak if has else None, SHARE, True,
    )
    row("  settings: sluice", "", ours.settings if has else f"not measured: {ours}")
    row("  settings: DGL", "", dgl.settings)


def widened(jobs, dataset, width):
    """The data set with its columns repeated until there are so many."""
    import numpy

    rows = numpy.load(os.path.join(dataset, "node_feat.npy"))
    rows = numpy.resize(rows.T, (width, len(rows))).T
    path = jobs.path(f"{os.path.basename(dataset)}-{width}")
    return derive(dataset, path, {"node_feat": numpy.ascontiguousarray(rows)}, feat_dim=width)


@part
def part_nodes():
    dataset, name = epoch_dataset()
    if dataset is None:
        return
    with Jobs() as jobs, two_nodes(jobs):
        pass  # it fails where there can be none, before anything is installed
    set_up(compiled=())
    facts = found()
    if not facts or "dgl" not in facts:
        print(f"SKIP: no DGL: {facts['absent']['dgl'] if facts else 'no torch'}")
        return
    problem = cannot_run()
    with Jobs() as jobs:
        partition = jobs.path("node_part.npy")
        make_partition(dataset, partition)
        for width in WIDTHS:
            data = widened(jobs, dataset, width) if width else dataset
            columns = read_json(os.path.join(data, "metadata.json"))["feat_dim"]
            dgl = measure_dgl(jobs, data, partition)
            ours = problem or measure_sluice(jobs, data, partition)
            print(f"  sluice, {ours}", flush=True)
            add_rows(f"{name}, {columns} features", dgl, ours)
