"""The part `partition` of scripts/bench: what partitioners make of three graphs in four parts.

Of each partition `sluice partition` counts what it is worth, also of those that others made:
Scotch, KaHIP (scripts/partitioners.py) and BGL's blocks (tests/bench/blocks).
"""

import json
import os
import subprocess
import sys

from benchlib import BIN, QUICK, ROOT, Failed, Jobs, part, real_graph, row, run

SLUICE = os.path.join(BIN, "sluice")
PARTS = "4"
OURS = ("metis", "metis-kway", "stream", "random")
OTHERS = ("scotch", "kahip")
BLOCKS = (200, 20000)  # vertices of a block at most
KAHIP = os.path.join(ROOT, "build", "kahip")
SMALLER = 0.6  # of the rows that are remote at random


def graphs(jobs):
    sizes = {"nodes": "5000", "scale": "12"} if QUICK else {"nodes": "100k", "scale": "16"}
    features = ("--feat-dim", "128", "--quiet", "--out")
    dataset = real_graph()
    if dataset:
        yield "ogbn_arxiv", dataset
    planted = jobs.path("communities")
    tight = ("--classes", "64", "--homophily", "0.95")
    run(SLUICE, "generate", "planted", "--nodes", sizes["nodes"], *tight, *features, planted)
    yield "communities", planted
    rmat = jobs.path("rmat")
    run(
        SLUICE, "generate", "rmat", "--scale", sizes["scale"], "--classes", "8", *features, rmat
    )
    yield "R-MAT", rmat


def count(jobs, dataset, *options):
    """What `sluice partition` says of one."""
    options += ("--parts", PARTS, "--out", jobs.path("made.npy"), "--force", "--quiet")
    if QUICK:
        options += ("--batch", "64", "--fanout", "5,5")
    return json.loads(run(SLUICE, "partition", dataset, *options, "-o", "json", quiet=True))


def other(jobs, dataset, *command):
    """The same of what another program has written; None where it is not there."""
    path = jobs.path("given.npy")
    environment = {**os.environ, "PYTHONPATH": KAHIP}
    done = subprocess.run(
        [word.format(dataset=dataset, parts=PARTS, out=path) for word in command],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    if done.returncode == 77:
        print(f"SKIP: {command[2]}: {done.stderr.strip()}")
        return None
    if done.returncode < 0:
        signal = -done.returncode
        print(f"SKIP: {command[2]}: ended by signal {signal}, as after 180 s of processor time")
        return None
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:3])}: {done.stderr.strip()}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    counted = count(jobs, dataset, "--method", "given", "--from", path)
    return {**counted, "method_cpu_seconds": said["cpu_seconds"], "peak_bytes": said["peak_bytes"]}


def all_of(jobs, dataset):
    for method in OURS:
        yield method, count(jobs, dataset, "--method", method)
    for name in OTHERS:
        command = [sys.executable, os.path.join(ROOT, "scripts", "partitioners.py"), name]
        yield name, other(jobs, dataset, *command, "{dataset}", "{parts}", "{out}")
    for block in BLOCKS:
        command = [os.path.join(BIN, "tests", "bench", "blocks"), "{dataset}", "{out}"]
        command += ["--parts", "{parts}", "--block", str(block)]
        yield f"BGL, blocks of {block}", other(jobs, dataset, *command)


def install_kahip():
    if os.path.isdir(KAHIP):
        return
    try:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        run(*install, "--target", KAHIP, "kahip")
    except Failed as error:
        print(f"SKIP: kahip: {error}")


@part
def part_partition():
    install_kahip()
    with Jobs() as jobs:
        for name, dataset in graphs(jobs):
            for method, said in all_of(jobs, dataset):
                if not said:
                    continue
                share, random = (said["rows"][f"{of}_share"] for of in ("remote", "random"))
                row(
                    f"{name}, {method}",
                    f"{100 * share:.1f} % of the rows remote, {100 * said['cut_share']:.1f} % cut",
                    f"random {100 * random:.1f} %; fullest {said['vertices']['balance']:.2f}, of"
                    f" training {said['training']['balance']:.2f};"
                    f" {said['method_cpu_seconds']:.2f} s, {said['peak_bytes'] / 2**20:.0f} MiB",
                    share / random,
                    SMALLER if (name, method) == ("ogbn_arxiv", "metis") else None,
                    at_most=True,
                )
