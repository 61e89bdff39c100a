"""The part `nodes` of scripts/bench: batches for trainers on two nodes, beside DGL's distributed
loader.

The nodes are network namespaces of this machine (tests/e2e/nodes.py), which share its cores. Both
sides have one partition, that of `sluice partition`, one fanout, features that come over the wire
where another node has them, and a trainer a node, whose step is empty. DGL has a graph server a
node beside it, and the number of sampler processes with which it is fastest. sluice has a program
on libsluice (tests/bench/lend), and one in Python that gets the same objects as DGL's, its blocks
(dgl_nodes.py): most of the latter's memory is torch and DGL, in both. Both sides draw around
training vertices of the node's own part: DGL's node_split() does, and order.kind "parts". Of each
the settings that are fastest count, also for memory.
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
ARENA = "24MiB"
TRIED_AGAIN = 2  # of DGL's settings, with wider features
TIMES, SHARE = 4, 0.5  # aims: of DGL's batches a second, and of its memory


class Figures:
    """Of one side: seconds, batches and edges of an epoch, most memory, and how it was run."""

    def __init__(self, outputs, peak, settings):
        lines = [line for text in outputs for line in text.splitlines()]
        by_node = [json.loads(line) for line in lines if line.startswith("[{")]  # others are DGL's
        epochs = list(zip(*by_node))
        # From when all nodes have had an epoch until all have had the next.
        ends = [max(node["end"] for node in epoch) for epoch in epochs]
        self.seconds = statistics.median(b - a for a, b in zip(ends, ends[1:]))
        self.batches, self.edges = (
            sum(node[key] for node in epochs[-1]) for key in ("batches", "edges")
        )
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
    kind = "GraphBolt" if graphbolt else "DGL's graph"
    texts = [outputs[trainer] for trainer in trainers]
    return Figures(texts, peak, f"{kind}, {samplers} sampler(s) a node")


def measure_dgl(jobs, dataset, partition, settings):
    """[(figures, setting)] of graphs and numbers of samplers, the fastest first."""
    folder = jobs.path(f"{os.path.basename(dataset)}-dgl")
    run(PYTHON, "-W", "ignore", PROGRAM, "convert", dataset, partition, folder, quiet=True)
    tried = []
    for graphbolt, samplers in settings:
        figures = dgl_run(jobs, folder, samplers, graphbolt)
        print(f"  DGL, {figures}, {figures.peak >> 20} MiB: {figures.settings}", flush=True)
        tried.append((figures, (graphbolt, samplers)))
    return sorted(tried, key=lambda one: -one[0].rate())


# ---- sluice -------------------------------------------------------------------------------------


def make_partition(dataset, place):
    """`sluice partition` into a file of its own, or a directory of shards."""
    command = [os.path.join(BIN, "sluice"), "partition", dataset, "--parts", str(NODES)]
    run(*command, "--out", place, "--quiet", quiet=True)


def lent_job(dataset):
    """Batches for one trainer a node. Drawn ahead is what memory for a few batches holds, and not
    an epoch."""
    job = epoch_job(
        dataset, sampler={"kind": "khop", "fanout": FANOUT, "batch_size": BATCH},
        order={"kind": "parts"}, epochs=EPOCHS, nodes="auto", model={"kind": "external"},
        arena={"memory": ARENA},
    )
    return {key: job[key] for key in job if key not in ("optimizer", "evaluate")}


def sluice_run(jobs, shards, trainer, settings):
    """One job over both nodes, each of which has the features of its part, and a trainer: a command
    that is given what the job is called there."""
    job, output = jobs.write(lent_job(shards))
    with two_nodes(jobs, MPI) as nodes:
        running = nodes.start("run", job, "--quiet")
        trainers = []
        for number, name in enumerate(nodes.names):
            place = os.path.join(output, f"node-{number}") if number else output
            trainers.append(nodes.start_on(name, trainer(place), {}))
        outputs, peak = finished(nodes, [running, *trainers])
    return Figures([outputs[trainer] for trainer in trainers], peak, settings)


def in_python(place):
    words = json.dumps({"epochs": EPOCHS})
    return [PYTHON, "-W", "ignore", PROGRAM, "attach", place, words]


def in_c(*more):
    program = os.path.join(BIN, "tests", "bench", "lend")
    return lambda place: [program, place, "--epochs", str(EPOCHS), *more]


def make_shards(jobs, dataset, partition):
    import numpy

    shards = jobs.path(f"{os.path.basename(dataset)}-shards")
    make_partition(dataset, shards)
    for number in range(NODES):
        own = os.path.join(shards, str(number), "node_part.npy")
        if not numpy.array_equal(numpy.load(own), numpy.load(partition)):
            raise Failed(f"{own} is another partition than DGL has")
    return shards


def measure_sluice(jobs, shards, ways):
    """Figures of the trainer that is fastest; ways: {words: trainer}."""
    tried = [sluice_run(jobs, shards, trainer, words) for words, trainer in ways.items()]
    for figures in tried:
        print(f"  sluice, {figures}, {figures.peak >> 20} MiB: {figures.settings}", flush=True)
    return max(tried, key=Figures.rate)


IN_C = {"when asked for": in_c(), "a batch ahead": in_c("--ahead")}


# ---- the table ----------------------------------------------------------------------------------


def add_rows(title, dgl, ours):
    row(title, str(ours), f"{dgl} DGL, distributed", ours.rate() / dgl.rate(), TIMES)
    row(
        "  most memory (PSS)", f"{ours.peak >> 20} MiB", f"{dgl.peak >> 20} MiB",
        ours.peak / dgl.peak, SHARE, True,
    )
    row("  settings", f"features gathered {ours.settings}", dgl.settings)


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
    settings = list(itertools.product((False, True), WORKERS))
    with Jobs() as jobs:
        partition = jobs.path("node_part.npy")
        make_partition(dataset, partition)
        for width in WIDTHS:
            data = widened(jobs, dataset, width) if width else dataset
            columns = read_json(os.path.join(data, "metadata.json"))["feat_dim"]
            shards = make_shards(jobs, data, partition)
            python = measure_sluice(jobs, shards, {"when asked for": in_python})
            tried = measure_dgl(jobs, data, partition, settings)
            c = measure_sluice(jobs, shards, IN_C)
            settings = [setting for _, setting in tried[:TRIED_AGAIN]]
            dgl = tried[0][0]
            add_rows(f"{name}, {columns} features, two nodes: C", dgl, c)
            add_rows("  in Python, DGL's blocks", dgl, python)
