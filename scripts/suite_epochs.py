"""gpu_suite's epochs: the matrix of what may matter, and the same epoch in other systems."""

import itertools
import json
import os
import statistics
import sys
import time

from suite_jobs import WAYS, sage
from suitelib import (
    DOUBTED, OUT, ROOT, Failed, Late, Parts, Server, Skipped, cores, left_s, run, say, tool,
)

MPS = os.path.join(ROOT, "scripts", "mps")
PEER = os.path.join(ROOT, "scripts", "gpu_peer.py")


def job_of(box):
    """What every epoch is of: GraphSAGE of 3 x 256, fanout 15,10,5, batches of 1024."""
    fanout, batch, hidden = ([3, 2, 2], 100, 16) if box.tiny else ([15, 10, 5], 1024, 256)
    job = sage(fanout, batch, hidden)
    # Evaluated once, at the end, of a few vertices.
    job.update(evaluate={"every": 0, "fanout": fanout, "test": "never"})
    return job


# ---- the matrix ---------------------------------------------------------------------------------

# What is worth most first.
RATIOS = {"0.2": 0.2, "1.0": 1.0, "none": 0}
PRECISIONS = ["fp32", "bf16", "tf32"]
WAYS_OF_ONE_GPU = {
    "one device": ("cuda", ()),
    "two roles": ("two roles", ()),
    "two roles, MPS": ("two roles", (MPS, "run")),
}
EPOCHS = 4  # the first warms up, and counts which features are worth keeping
CELL_S = 60


class Matrix:
    """Median seconds of an epoch; a cell that has none says why."""

    def __init__(self, rows):
        self.keys = list(itertools.product(rows, WAYS_OF_ONE_GPU))
        self.cells, self.rows, self.reasons = {}, rows, []

    def put(self, key, seconds):
        mark = f", {DOUBTED}" if OUT.doubts() else ""
        self.write(key, f"{seconds:.3f} s{mark}")

    def refuse(self, key, why):
        why = " ".join(why.split())
        if why not in self.reasons:
            self.reasons.append(why)
        self.write(key, f"no ({self.reasons.index(why) + 1})")

    def write(self, key, text):
        self.cells[key] = text
        OUT.note("epochs.md", self.text())

    def text(self):
        lines = [f"| cache | precision | {' | '.join(WAYS_OF_ONE_GPU)} |"]
        lines.append("| --- " * (2 + len(WAYS_OF_ONE_GPU)) + "|")
        for row in self.rows:
            cells = (self.cells.get((row, way), "no time") for way in WAYS_OF_ONE_GPU)
            lines.append(f"| {' | '.join((*row, *cells))} |")
        lines += [f"({i}) {why}" for i, why in enumerate(self.reasons, 1)]
        return "\n".join(lines)


def no_mps():
    """Why there is none; None where there may be one."""
    if tool("nvidia-cuda-mps-control"):
        return None
    return "there is no nvidia-cuda-mps-control in PATH"


def measure(box, ratio, precision, way):
    """Median seconds of an epoch, behind the first."""
    cache = {"policy": "presc", "ratio": RATIOS[ratio]} if RATIOS[ratio] else {"policy": "none"}
    devices, under = WAYS_OF_ONE_GPU[way]
    name = f"epoch-{ratio}-{precision}-{way}".replace(", ", "-").replace(" ", "-")
    job = dict(job_of(box), dataset=box.large(), precision=precision, cache=cache, epochs=EPOCHS)
    # A daemon that the machine has shall not serve the other ways.
    env = {} if under else {"CUDA_MPS_PIPE_DIRECTORY": box.at("no-mps")}
    report = box.train(name, *WAYS[devices], CELL_S, env, under, **job)
    return statistics.median(e["seconds"] for e in report["epochs"][1:])


def reason(e):
    """Why a job failed: what the suite says of its time, or the last that it said itself."""
    first, *said = [line for line in str(e).splitlines() if line.strip()]
    return first.rsplit(": ", 1)[-1] if isinstance(e, Late) or not said else said[-1]


def epoch(box):
    """GraphSAGE of 3 x 256, fanout 15,10,5, batches of 1024, on a generated graph of 1 M vertices,
    30 M edges and 128 features: features cached or not, types of products, one device that does
    both in turn, two roles on one GPU, and these under MPS"""
    box.large()
    rows = list(itertools.product(list(RATIOS)[:: 2 if box.tiny else 1], PRECISIONS))
    rows.sort(key=lambda row: PRECISIONS.index(row[1]))
    matrix, mps, longest, failed = Matrix(rows[: 3 if box.tiny else None]), no_mps(), 5, []
    for key in matrix.keys:
        row, way = key
        what = f"cache {row[0]}, {row[1]}, {way}"
        if way.endswith("MPS") and mps:
            matrix.refuse(key, mps)
            continue
        if left_s() < longest:  # half a cell says nothing
            continue
        begin = time.monotonic()
        try:
            seconds = measure(box, *row, way)
        except Failed as e:
            why = reason(e)
            if why.startswith("mps: "):  # and so it would the next time
                mps = why
            failed.append(what)
            say(f"  {what}: failed: {e}")
            matrix.refuse(key, why)
        else:
            say(f"  {what}: {seconds:.3f} s")
            matrix.put(key, seconds)
        longest = max(longest, time.monotonic() - begin)
    left = len(matrix.keys) - len(matrix.cells)
    if left:
        say(f"  {left} of {len(matrix.keys)} cells did not fit into the time")
    if failed:
        raise Failed(f"{len(failed)} cells failed: {'; '.join(failed)}")
    if left:
        raise Skipped(f"{left} of {len(matrix.keys)} cells for want of time; the others are there")


# ---- other systems ------------------------------------------------------------------------------

PEERS = {
    "pyg": ("PyG NeighborLoader", "features in the machine's memory"),
    "cugraph": ("cuGraph-PyG", "features on the GPU"),
    "wholegraph": ("WholeGraph", "features on the GPU"),
}
ROUNDS = 3
LOAD_S, ROUND_S = 120, 60


class Race:
    """Seconds of an epoch by system, a round at a time: `table.md` has what there is."""

    def __init__(self):
        self.seconds, self.notes = {}, {}

    def add(self, who, seconds, note):
        self.seconds.setdefault(who, []).append(seconds)
        self.notes[who] = note
        middle = {who: statistics.median(found) for who, found in self.seconds.items()}
        for who, found in self.seconds.items():
            beside = f"{min(found):.3f} to {max(found):.3f} s in {len(found)} rounds"
            beside += f", {self.notes[who]}"
            if who != "sluice" and "sluice" in middle:
                beside = f"{middle[who] / middle['sluice']:.2f} times sluice's; {beside}"
            OUT.add(f"{EPOCH_OF}: {who}", f"{middle[who]:.3f} s", beside)


EPOCH_OF = "epoch of GraphSAGE 3 x 256, fanout 15,10,5, batch 1024, fp32"


def start_peers(box, parts):
    """{name: its server, loaded and warm}; the others are visibly left out."""
    job = job_of(box)
    words = {
        "fanout": job["sampler"]["fanout"],
        "batch": job["sampler"]["batch_size"],
        "hidden": job["model"]["hidden"],
        "workers": min(cores(), 16),
    }
    servers = {}
    for name, (title, _) in PEERS.items():
        try:
            run([sys.executable, PEER, "look", name], 90, show=False)
        except Late as e:
            parts.failed.append(f"{title}: {e}")
            continue
        except Failed as e:
            why = (e.text.strip().splitlines() or [str(e)])[-1]
            say(f"  {title}: skipped: {why}")
            OUT.add(f"{EPOCH_OF}: {title}", "skipped", why)
            continue
        command = [sys.executable, "-W", "ignore", PEER, "serve", name, box.large()]
        log = OUT.at("reports", f"peer-{name}.log")
        servers[name] = Server([*command, json.dumps(words)], log)
        ready = parts.do(ask_peer, servers, name, "", LOAD_S)
        if ready and parts.do(ask_peer, servers, name, "epoch\n", LOAD_S):
            say(f"  {title}: loaded and warm")
    return servers


def ask_peer(servers, name, words, limit_s):
    """Its answer; one that fails does not go on."""
    try:
        return servers[name].ask(words, limit_s)
    except Failed as e:
        servers.pop(name).close()
        raise Failed(f"{PEERS[name][0]}: {e}; reports/peer-{name}.log says more") from None


def take_sluice(box, race, n):
    devices, allocation = WAYS["cuda"]
    cache = {"policy": "presc", "ratio": 1.0}
    job = dict(job_of(box), dataset=box.large(), cache=cache, epochs=EPOCHS)
    report = box.train(f"peer-sluice-{n}", devices, allocation, ROUND_S, **job)
    seconds = statistics.median(e["seconds"] for e in report["epochs"][1:])
    say(f"  round {n}, sluice: {seconds:.3f} s")
    race.add("sluice", seconds, "one device in turn, features on the GPU")


def take_peer(servers, name, race, n):
    title, note = PEERS[name]
    seconds = ask_peer(servers, name, "epoch\n", ROUND_S)["seconds"]
    say(f"  round {n}, {title}: {seconds:.3f} s")
    race.add(title, seconds, note)


def peer(box):
    """the same epoch in PyTorch Geometric, cuGraph-PyG and WholeGraph on the same GPU, in turn with
    sluice's, where they are installed"""
    box.large()
    parts, race = Parts(), Race()
    servers = start_peers(box, parts)
    try:
        for n in range(1, ROUNDS + 1):
            if servers:
                parts.do(take_sluice, box, race, n)
            for name in list(servers):
                parts.do(take_peer, servers, name, race, n)
        parts.end()
        if not race.seconds:
            raise Skipped("none of them can be imported by this python3")
    finally:
        for server in servers.values():
            server.close()
