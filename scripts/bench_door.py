"""The part of scripts/bench about the Python package: its loader beside what the same cores can do
(tests/bench/batches), and beside the loaders of PyTorch Geometric and DGL.

Each loader is in a process of peers.py, and all take turns, so that they see the same machine. The
environment is that of the part `peers`, or the Python that $SLUICE_TEST_PYG names.
"""

import statistics

from bench_peers import (
    CORES, FP32, GATHER, LOADERS, ROUNDS, Figures, Memory, Peers, found, set_up, sluice_batches,
)
from benchlib import Failed, Jobs, Others, epoch_dataset, part, row

OURS, PYG, DGL = "loader", "pyg", "dgl"
TIMES = {PYG: 9, DGL: 5}  # aims: how many times their batches a second
LOADING, OPEN = "loading", "first batch"
MIB = 2**20


class Door:
    """Loaders of one data set, each with the number of workers that loads fastest."""

    def __init__(self, peers, dataset):
        self.peers, self.dataset, self.figures = peers, dataset, Figures()
        self.edges, self.n_batches = {}, 0
        self.memory, self.family = {}, {}
        self.calls = {}  # of ours: microseconds of each batch, by where they went

    def able(self, *names):
        """Those that load here."""
        return [name for name in names if name in self.peers.able(GATHER)]

    def ask(self, name, what):
        return self.peers.server(name, self.peers.best[name, GATHER]).ask(what)

    def fresh(self, name):
        """A process that has loaded nothing yet."""
        return self.peers.fresh(name, GATHER)

    def median(self, what, name):
        return self.figures.medians(what)[name]

    def measure_batches(self):
        """Epochs of batches with features and nothing to train; and the same, drawn and gathered by
        all cores without a loader."""
        self.peers.choose(GATHER)
        if not self.able(OURS):
            raise Failed(f"{LOADERS[OURS]}: {self.peers.problems[OURS, GATHER]}")
        for _ in range(ROUNDS):
            alone = sluice_batches(self.dataset, "--expand-new", "--epochs", "3")
            self.figures.add(GATHER, "alone", statistics.median(alone["gather"]))
            for name in self.able(OURS, PYG, DGL):
                answer = self.ask(name, GATHER)
                self.figures.add(GATHER, name, answer["seconds"])
                self.edges[name] = answer["edges"]
        # A block's hops have the edges of those before once more: the loader's are counted once.
        self.edges["alone"], self.n_batches = self.edges[OURS], alone["batches"]

    def measure_epochs(self):
        """One model of PyG's, trained from either loader."""
        for _ in range(ROUNDS):
            for name in self.able(OURS, PYG):
                answer = self.ask(name, FP32)
                self.figures.add(FP32, name, answer["seconds"])
                self.figures.add(LOADING, name, answer["loading"])

    def measure_fresh(self):
        for name in self.able(OURS, PYG):
            for _ in range(ROUNDS):
                server = self.fresh(name)
                self.figures.add(OPEN, name, server.ask("open")["seconds"])
                server.close()
            server = self.fresh(name)
            with Memory(server.process.pid) as memory:
                self.memory[name] = server.ask("memory")
            server.close()
            self.family[name] = memory.peak


# ---- the table ----------------------------------------------------------------------------------


def add_batches(door, graph):
    def rate(name):
        seconds = door.median(GATHER, name)
        edges = door.edges[name] / seconds / 1e6
        return f"{door.n_batches / seconds:.1f} batches/s, {edges:.1f} M edges/s"

    own = door.median(GATHER, OURS)
    title = f"{graph}: batches with features, nothing to train"
    row(
        title, rate(OURS), f"{rate('alone')}, the cores alone", door.median(GATHER, "alone") / own,
        0.85,
    )
    for name in door.able(PYG, DGL):
        row(
            "  beside", rate(OURS), f"{rate(name)} {LOADERS[name]}",
            door.median(GATHER, name) / own, TIMES[name],
        )


def add_python(door):
    """What the package takes of a batch, and libsluice beside it; the wait is no part of it."""
    for share, aim_us in ((0.50, 300), (0.99, 1000)):
        us = {
            where: sorted(values)[min(int(share * len(values)), len(values) - 1)]
            for where, values in door.calls.items()
        }
        row(
            f"Python's part of a batch, p{100 * share:.0f}", f"{us['python']:.0f} us",
            f"{aim_us} us", us["python"] / aim_us, 1, True,
        )
        row(
            "  of the processor's time", f"{us['cpu']:.0f} us",
            f"in libsluice: take {us['take']:.0f} us, done {us['done']:.0f} us",
        )


def add_epochs(door):
    seconds = {name: door.median(FP32, name) for name in door.able(OURS, PYG)}
    share = {name: door.median(LOADING, name) / seconds[name] for name in seconds}
    beside = f"{seconds[PYG]:.2f} s {LOADERS[PYG]}" if PYG in seconds else ""
    row(
        "epoch of PyG's GraphSAGE", f"{seconds[OURS]:.2f} s", beside,
        seconds[PYG] / seconds[OURS] if beside else None, 3,
    )
    row(
        "  share of the loader", f"{100 * share[OURS]:.1f} %",
        f"{100 * share[PYG]:.1f} % {LOADERS[PYG]}" if beside else "", share[OURS], 0.05, True,
    )


def add_memory(door):
    for name, found_of in door.memory.items():
        two = 2 * found_of["batch"]
        own, shared = (found_of[key] / MIB for key in ("own", "shared"))
        of = "" if name == OURS else f", {LOADERS[name]}"
        row(
            "memory that loading adds to the process" + of,
            f"{own:.0f} MiB, and {shared:.0f} of what processes share",
            f"{two / MIB:.0f} MiB: two batches", found_of["own"] / two,
            1.1 if name == OURS else None, name == OURS,
        )
    beside = f"{door.family[PYG] / MIB:.0f} MiB {LOADERS[PYG]}" if PYG in door.family else ""
    row(
        "  of all its processes (PSS)", f"{door.family[OURS] / MIB:.0f} MiB", beside,
        door.family[OURS] / door.family[PYG] if beside else None,
    )
    beside = f"{door.median(OPEN, PYG):.2f} s {LOADERS[PYG]}" if PYG in door.memory else ""
    seconds = door.median(OPEN, OURS)
    row("constructor to first batch", f"{seconds:.2f} s", beside, seconds / 0.5, 1, True)


def add_settings(door, facts):
    for name in (OURS, PYG, DGL):
        why = facts["absent"].get(name) or door.peers.problems.get((name, GATHER))
        if why:
            row(f"settings: {LOADERS[name]}", "", f"not measured: {why[:80]}")
            continue
        workers = door.peers.best[name, GATHER]
        loads = "samplers: its own choice" if name == OURS and not workers else f"{workers} workers"
        row(
            f"settings: {LOADERS[name]}", facts[name],
            f"torch {facts['torch']}, {facts['threads']} threads, {len(CORES)} cores, {loads}",
        )


@part
def part_door():
    dataset, name = epoch_dataset()
    if dataset is None:
        return
    set_up()
    facts = found()
    if not facts:
        return
    names = [OURS, *(peer for peer in (PYG, DGL) if peer in facts)]
    others = Others()
    with Jobs() as jobs, Peers(jobs, dataset, names) as peers:
        door = Door(peers, dataset)
        door.measure_batches()
        door.calls = door.ask(OURS, "python")["us"]
        door.measure_epochs()
        door.measure_fresh()
    print(others)
    add_batches(door, name)
    add_python(door)
    add_epochs(door)
    add_memory(door)
    add_settings(door, facts)
