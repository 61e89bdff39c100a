"""The part of scripts/bench that compares sluice with DGL and PyTorch Geometric on the same cores.

Their own programs are in peers.py, which runs in a virtual environment that is set up here, in
build/peers, with what PyPI has: a torch that DGL's library was built for. Each of them is a process
that is loaded once and measures when it is told to, so rounds of all take turns. What they advise
to choose by trial, the number of workers, is tried first, for each measurement of its own.
"""

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time

from benchlib import (
    BIN, QUICK, ROOT, Failed, Jobs, epoch_dataset, epoch_job, family, found_by, part, row, run,
)

FOLDER = os.path.join(ROOT, "build", "peers")
# Where one is named nothing is installed.
NAMED = os.environ.get("SLUICE_TEST_PYG")
PYTHON = NAMED or os.path.join(FOLDER, "env", "bin", "python")
PROGRAM = os.path.join(ROOT, "scripts", "peers.py")
# DGL 2.1 is the newest on PyPI for Linux, and its GraphBolt is built for torch up to 2.2.1. There
# is no pyg-lib; torch-sparse is compiled here, for the torch that stands there already.
PACKAGES = ["torch==2.2.1", "dgl==2.1.0", "torchdata==0.7.1", "numpy<2", "pandas", "pydantic"]
PACKAGES += ["pyyaml", "torch_geometric==2.8.1", "setuptools<80", "wheel", "ninja"]
COMPILED = ["torch-scatter==2.1.2", "torch-sparse==0.6.18"]
NAMES = {"dgl": "DGL DataLoader", "graphbolt": "DGL GraphBolt", "pyg": "PyG NeighborLoader"}
LOADERS = {**NAMES, "loader": "sluice.NeighborLoader"}  # of python/sluice: the part `door`
# Those of pair_peers.py: the part `pairs`.
LOADERS |= {"pyg_pairs": "PyG LinkNeighborLoader", "dgl_pairs": "DGL edge prediction sampler"}
LOADERS["loader_pairs"] = "sluice.LinkNeighborLoader"
# Those of typed_peers.py: the part `typed`.
LOADERS |= {"pyg_typed": "PyG NeighborLoader", "dgl_typed": "DGL NeighborSampler"}
LOADERS["loader_typed"] = LOADERS["loader"]

FANOUT, BATCH, HIDDEN = ([3, 3, 3], 4096, 16) if QUICK else ([15, 10, 5], 1024, 256)
SHAPE = {"fanout": FANOUT, "batch": BATCH, "hidden": HIDDEN}
ROUNDS = 1 if QUICK else 3
# A validation accuracy that takes a few epochs, and how many are waited for.
ACCURACY, EPOCHS = (0.05, 2) if QUICK else (0.67, 15)
LOOK_S = 0.05
# Adding up what all pages of a process are shared by holds its memory map: seldom.
MEMORY_LOOK_S = 0.5
CORES = sorted(os.sched_getaffinity(0))
WORKERS = [0] if QUICK else sorted({0, 1, len(CORES)})

SAMPLE, GATHER, FP32, BF16 = "sample", "gather", "epoch fp32", "epoch bf16"
PREDICT, PREDICT_MEMORY = "predict", "memory of predict"
TITLES = {
    SAMPLE: "sampling",
    GATHER: "sampling and features",
    FP32: "epoch, fp32",
    BF16: "epoch, bf16",
}


# ---- the environment ----------------------------------------------------------------------------


def install(stamp, what, *options):
    """Once: a file remembers what was installed, or could not be."""
    path, text = os.path.join(FOLDER, stamp), " ".join(what)
    with contextlib.suppress(OSError), open(path) as file:
        if file.read() == text:
            return
    try:
        run(PYTHON, "-m", "pip", "install", "--quiet", *options, *what)
    except Failed as why:
        print(f"bench: {why}", file=sys.stderr)
    with open(path, "w") as file:
        file.write(text)


def set_up(compiled=COMPILED):
    """What cannot be installed shows in the answer of peers.py."""
    os.makedirs(FOLDER, exist_ok=True)
    if NAMED:
        return
    if not os.path.exists(PYTHON):
        run(sys.executable, "-m", "venv", os.path.dirname(os.path.dirname(PYTHON)))
    install("installed", PACKAGES)
    if compiled:
        install("compiled", compiled, "--no-build-isolation", "--no-deps")


def found():
    """What peers.py can import; None where not even torch."""
    command = [PYTHON, "-W", "ignore", PROGRAM, "versions"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"SKIP: {(done.stderr.strip().splitlines() or ['no torch'])[-1]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


# ---- memory -------------------------------------------------------------------------------------


def pss(members):
    """Bytes that processes hold, shared pages divided among those who share them."""
    total = 0
    for member in members:
        with contextlib.suppress(OSError):
            with open(f"/proc/{member}/smaps_rollup") as file:
                total += int(re.search(r"^Pss: +(\d+)", file.read(), re.M)[1]) << 10
    return total


class Memory(threading.Thread):
    """`with Memory(pid) as memory:` memory.peak is the most that the family held meanwhile.
    members(pid) are the numbers of those that count, where it is not the family."""

    def __init__(self, pid, members=family, every_s=MEMORY_LOOK_S):
        super().__init__(daemon=True)
        self.pid, self.members, self.peak, self.ends = pid, members, 0, threading.Event()
        self.every_s = every_s

    def run(self):
        while not self.ends.wait(self.every_s):
            self.peak = max(self.peak, pss(self.members(self.pid)))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.join()


# ---- peers --------------------------------------------------------------------------------------


class Server:
    """A peer's process; it loads its data set when it starts."""

    def __init__(self, name, path, workers, shape=None, program=PROGRAM):
        job = {**(shape or SHAPE), "workers": workers}
        log = open(os.path.join(FOLDER, f"{name}-{workers}.log"), "w")
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [PYTHON, "-W", "ignore", program, "serve", name, path, json.dumps(job)], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )
        log.close()

    def ask(self, words, watch=None):
        """The answer, lines before it handed to watch(); Failed with the peer's reason."""
        with contextlib.suppress(BrokenPipeError):  # it ended: so do its lines
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if "error" in answer:
                raise Failed(answer["error"])
            if answer.pop("done", False):
                return answer
            if watch:
                watch(answer)
        raise Failed(f"its process ended with status {self.process.wait()}")

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()  # ends it, and its workers
        self.process.wait()
        self.process.stdout.close()


class Peers:
    """Those that there are, each with the number of workers that is best for a measurement."""

    def __init__(self, jobs, dataset, names, shape=None, program=PROGRAM):
        self.shape, self.program = shape, program
        self.jobs, self.servers, self.best, self.problems = jobs, {}, {}, {}
        self.paths = {name: jobs.path(f"{name}.bin") for name in names}
        for name, path in self.paths.items():
            command = [PYTHON, "-W", "ignore", program, "convert", name, dataset, path]
            run(*command, quiet=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.close()

    def server(self, name, workers):
        if (name, workers) not in self.servers:
            server = Server(name, self.paths[name], workers, self.shape, self.program)
            self.servers[name, workers] = server
        return self.servers[name, workers]

    def choose(self, what, names=None):
        """Tries all numbers of workers, once (of the loader of sluice: of samplers, 0: as it
        chooses)."""
        for name in names or self.paths:
            seconds, problem = {}, None
            for workers in WORKERS:
                try:
                    seconds[workers] = self.server(name, workers).ask(what)["seconds"]
                except Failed as why:
                    problem = str(why)
                    print(f"  {LOADERS[name]}, {what}, {workers} workers: {why}", flush=True)
            if not seconds:
                self.problems[name, what] = problem
            else:
                self.best[name, what] = min(seconds, key=seconds.get)
                tried = ", ".join(f"{s:.2f} s with {w}" for w, s in seconds.items())
                print(f"  {LOADERS[name]}, {what}, workers: {tried}", flush=True)

    def able(self, what):
        return [name for name in self.paths if (name, what) in self.best]

    def ask(self, name, what):
        return self.server(name, self.best[name, what]).ask(what)

    def fresh(self, name, what=FP32):
        return Server(name, self.paths[name], self.best[name, what], self.shape, self.program)


# ---- sluice -------------------------------------------------------------------------------------


def sluice_job(dataset, **changes):
    """What a user writes: devices and their split are sluice's choice."""
    model = {"kind": "graphsage", "layers": len(FANOUT), "hidden": HIDDEN, "dropout": 0.5}
    sampler = {"kind": "khop", "fanout": FANOUT, "batch_size": BATCH}
    return epoch_job(dataset, **{"model": model, "sampler": sampler, **changes})


def sluice_batches(dataset, *more):
    """Seconds of an epoch that is drawn, and of one that is drawn and gathered; a later option
    counts."""
    shape = ["--fanout", ",".join(map(str, FANOUT)), "--batch", str(BATCH)]
    shape += ["--threads", str(len(CORES)), *more]
    return found_by("batches", dataset, *shape, quiet=True)


def sluice_until(jobs, dataset, wanted, epochs):
    """Seconds from the command to an epoch's evaluation as wanted; the accuracies until then."""
    job = sluice_job(dataset, epochs=epochs, evaluate={"every": 1, "fanout": "full"})
    begin, found = time.monotonic(), []
    process = jobs.start(job, stderr=subprocess.DEVNULL)  # which says that it was stopped
    while process.poll() is None and max(found, default=0) < wanted:
        time.sleep(LOOK_S)
        with contextlib.suppress(OSError):
            with open(os.path.join(process.output, "metrics.jsonl")) as file:
                found = [json.loads(line)["val_accuracy"] for line in file if line.endswith("\n")]
    seconds = time.monotonic() - begin
    process.terminate()
    process.wait()
    return seconds, found


# ---- measurements -------------------------------------------------------------------------------


class Figures:
    """Seconds (or bytes) of each system, by measurement; "sluice" is one of the systems."""

    def __init__(self):
        self.of = {}

    def add(self, what, who, value):
        self.of.setdefault(what, {}).setdefault(who, []).append(value)
        shown = f"{value / 2**20:.0f} MiB" if what.startswith("memory") else f"{value:.3f} s"
        print(f"  {what:12} {LOADERS.get(who, who):22} {shown}", flush=True)

    def medians(self, what):
        return {who: statistics.median(values) for who, values in self.of.get(what, {}).items()}


def measure_loading(figures, peers, dataset):
    for what in (SAMPLE, GATHER):
        peers.choose(what)
    for _ in range(ROUNDS):
        batches = sluice_batches(dataset)
        for what in (SAMPLE, GATHER):
            figures.add(what, "sluice", statistics.median(batches[what]))
            for name in peers.able(what):
                figures.add(what, name, peers.ask(name, what)["seconds"])
    return batches


def epoch_seconds(report):
    """Of an epoch between the first and the last, for which much may have been drawn before it
    begins and nothing is drawn ahead; of two epochs the second."""
    seconds = [epoch["seconds"] for epoch in report["epochs"]]
    return statistics.mean(seconds[1:-1] or seconds[-1:])


def measure_epochs(figures, peers, jobs, job, what, names=None):
    peers.choose(what, names)
    for _ in range(ROUNDS):
        report = jobs.finish(jobs.start(job))
        figures.add(what, "sluice", epoch_seconds(report))
        for name in peers.able(what):
            figures.add(what, name, peers.ask(name, what)["seconds"])
    return report


def measure_fresh(figures, peers, jobs, dataset):
    """A process that loads, makes its first update, and goes on to the end of its epoch."""
    for _ in range(ROUNDS):
        begin = time.time()
        process = jobs.start(sluice_job(dataset, epochs=1))
        with Memory(process.pid) as memory:
            process.wait()
        # Reports count from the job's beginning, which an event tells, to a millisecond.
        with open(os.path.join(process.output, "events.jsonl")) as file:
            event = json.loads(file.readline())
        report = jobs.finish(process)
        job_began = event["time"] - event["seconds"]
        figures.add("start", "sluice", job_began - begin + report["first_update_seconds"])
        figures.add("memory", "sluice", memory.peak)
        print(f"  {'':12} its report says {report['peak_memory'] / 2**20:.0f} MiB", flush=True)
        for name in peers.able(FP32):
            server, first = peers.fresh(name), []
            with Memory(server.process.pid) as memory:
                server.ask("first fp32", first.append)
            server.close()
            figures.add("start", name, first[0]["first"] - server.began)
            figures.add("memory", name, memory.peak)


def measure_accuracy(figures, peers, jobs, dataset):
    """Who does not get there is not in the table."""
    epochs = {}
    seconds, found = sluice_until(jobs, dataset, ACCURACY, EPOCHS)
    runs = [("sluice", seconds, found)]
    for name in peers.able(FP32):
        server = peers.fresh(name)
        found = server.ask(f"accuracy {ACCURACY} {EPOCHS}")["accuracy"]
        runs.append((name, time.monotonic() - server.began, found))
        server.close()
    for who, seconds, found in runs:
        shown = " ".join(f"{value:.4f}" for value in found)
        print(f"  {NAMES.get(who, who)}: {shown}", flush=True)
        if max(found, default=0) >= ACCURACY:
            figures.add("accuracy", who, seconds)
            epochs[who] = len(found)
    return epochs


def measure_predict(figures, peers, jobs, dataset):
    """Every vertex's output over all its neighbours: of sluice the whole command, with its start,
    its figures and the file that it writes; of the others what they compute. Memory is that of the
    process, with the graph and its features."""
    trained = jobs.start(sluice_job(dataset, epochs=1))
    if trained.wait() != 0:
        raise Failed(f"`sluice run` ended with status {trained.returncode}")
    command = [os.path.join(BIN, "sluice"), "predict", trained.output, "--force", "--quiet"]
    for _ in range(ROUNDS):
        begin = time.monotonic()
        process = subprocess.Popen([*command, "--out", jobs.path("rows.npy")], cwd=ROOT)
        with Memory(process.pid, every_s=LOOK_S) as memory:
            if process.wait() != 0:
                raise Failed(f"{' '.join(command)}: exit status {process.returncode}")
        figures.add(PREDICT, "sluice", time.monotonic() - begin)
        figures.add(PREDICT_MEMORY, "sluice", memory.peak)
        for name in peers.paths:
            server = Server(name, peers.paths[name], 0)
            with Memory(server.process.pid, every_s=LOOK_S) as memory:
                figures.add(PREDICT, name, server.ask("predict")["seconds"])
            server.close()
            figures.add(PREDICT_MEMORY, name, memory.peak)


# ---- the table ----------------------------------------------------------------------------------


def mib(n_bytes):
    return f"{n_bytes / 2**20:.0f} MiB"


def time_of(seconds):
    return f"{seconds:.2f} s"


def has_bf16():
    with open("/proc/cpuinfo") as file:
        return re.search(r"\b(avx512_bf16|amx_bf16)\b", file.read()) is not None


def add_rows(figures, what, title, aim, show, smaller=False):
    """A row for each peer, the best one first: it is the one that the aim is of."""
    medians = figures.medians(what)
    own = medians.pop("sluice", None)
    if own is None:
        return
    for rank, (name, value) in enumerate(sorted(medians.items(), key=lambda item: item[1])):
        row(
            title, show(own), f"{show(value)} {LOADERS[name]}",
            own / value if smaller else value / own, aim if rank == 0 else None, smaller,
        )


def add_settings(peers, facts, report):
    split = report["allocations"][-1]
    row(
        "settings: sluice",
        report["isa"],
        f"{len(CORES)} cores, an untouched job: {split['samplers']} sampler(s), "
        f"{split['trainers']} trainer(s)",
    )
    for name in peers.paths:
        tried = [what for what in TITLES if (name, what) in peers.best]
        row(
            f"settings: {NAMES[name]}",
            facts[name],
            f"torch {facts['torch']}, {facts['threads']} threads, workers "
            + "/".join(str(peers.best[name, what]) for what in tried)
            + f" for {'/'.join(tried)}",
        )
    for (name, what), why in peers.problems.items():
        row(f"  {NAMES[name]}, {TITLES[what]}", "", f"not measured: {why[:80]}")
    for name, why in facts["absent"].items():
        row(f"  {NAMES[name]}", "", f"not measured: {why[:80]}")


@part
def part_peers():
    dataset, name = epoch_dataset()
    if dataset is None:
        return
    set_up()
    facts = found()
    names = [peer for peer in NAMES if facts and peer in facts]
    if not names:
        print(f"SKIP: none of {', '.join(NAMES.values())} can be had here")
        return
    figures = Figures()
    with Jobs() as jobs, Peers(jobs, dataset, names) as peers:
        batches = measure_loading(figures, peers, dataset)
        job = sluice_job(dataset, epochs=2)
        report = measure_epochs(figures, peers, jobs, {**job, "precision": "fp32"}, FP32)
        if has_bf16():
            measure_epochs(figures, peers, jobs, {**job, "precision": "bf16"}, BF16)
        measure_fresh(figures, peers, jobs, dataset)
        epochs = measure_accuracy(figures, peers, jobs, dataset)
        add_settings(peers, facts, report)

    def rate(seconds):
        return f"{batches['batches'] / seconds:.1f} batches/s"

    def per_second(seconds):
        return f"{rate(seconds)}, {batches['edges'] / seconds / 1e6:.1f} M edges/s"

    add_rows(figures, SAMPLE, f"{name}: {TITLES[SAMPLE]}", 5, per_second)
    add_rows(figures, GATHER, f"{name}: {TITLES[GATHER]}", 3, rate)
    add_rows(figures, FP32, TITLES[FP32], 2.5 if report["isa"] == "avx2" else 3, time_of)
    add_rows(figures, BF16, TITLES[BF16], 5, time_of)
    add_rows(figures, "memory", "most memory (PSS)", 0.5, mib, True)
    add_rows(figures, "start", "command to first update", 0.1, time_of, True)
    if epochs:
        shown = ", ".join(f"{NAMES.get(who, who)} {n}" for who, n in epochs.items())
        add_rows(figures, "accuracy", f"to accuracy {ACCURACY}", None, time_of)
        row("  epochs until then", "", shown)


@part
def part_predict():
    dataset, name = epoch_dataset()
    if dataset is None:
        return
    set_up([])
    facts = found()
    names = [peer for peer in ("dgl", "pyg") if facts and peer in facts]
    if not names:
        print("SKIP: neither DGL nor PyG can be had here")
        return
    figures = Figures()
    with Jobs() as jobs, Peers(jobs, dataset, names) as peers:
        measure_predict(figures, peers, jobs, dataset)
    title = f"{name}: the whole graph's outputs"
    add_rows(figures, PREDICT, title, 2, time_of)
    add_rows(figures, PREDICT_MEMORY, "  most memory (PSS)", 1 / 3, mib, True)
