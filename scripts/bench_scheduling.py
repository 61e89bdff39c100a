"""The parts of scripts/bench that run whole jobs: allocation, switching, modes, async.

Stage times that are wanted exactly are made by `throttle`: a worker sleeps until its batch has
taken so long. Eight devices then fit on two cores, since next to nothing is computed, and what is
measured is the schedule alone: who waits for whom. An update waits for no other batch there (async,
staleness 16), so that the number of batches of an update does not round the times up.

Unless a part says otherwise, an epoch's time is the median over the epochs after the first.
"""

import contextlib
import json
import math
import os
import subprocess
import time
from statistics import mean, median

from benchlib import (
    QUICK,
    SHARED_DATA,
    SMALL,
    Failed,
    Jobs,
    cpu_devices,
    epoch_dataset,
    epoch_job,
    epoch_times,
    family,
    ledger_ns,
    part,
    row,
)

# ---- stage times made by sleeping ---------------------------------------------------------------

N_DEVICES = 8
AUTO = {"samplers": "auto", "trainers": "auto", "switching": True}
BATCHES = 40 if QUICK else 200  # of an epoch
SEEDS_OF_BATCH = 16
SMALL_GRAPH = f"planted --nodes {2 * BATCHES * SEEDS_OF_BATCH} --degree 6 --feat-dim 4 --classes 4"


def split(samplers, trainers, switching=True):
    return {"samplers": samplers, "trainers": trainers, "switching": switching}


def sleeping_job(dataset, sample_ms, train_ms, **changes):
    return {
        "dataset": dataset,
        "model": {"kind": "graphsage", "layers": 1, "hidden": 8, "dropout": 0},
        "sampler": {"kind": "khop", "fanout": [2], "batch_size": SEEDS_OF_BATCH},
        "optimizer": {"kind": "sgd", "lr": 0.001},
        "updates": {"mode": "async", "staleness": 16},
        "devices": cpu_devices(N_DEVICES),
        "throttle": {
            "sample": sample_ms / 1e3,
            "train": train_ms / 1e3,
            "standby": train_ms / 1e3,
        },
        "epochs": 2 if QUICK else 3,
        "seed": 7,
        "evaluate": {"every": 0, "fanout": [1], "batch_size": 4096},
        **changes,
    }


# ---- allocation ---------------------------------------------------------------------------------

# (T_s, T_t) in ms: K from 0.2 to 12, at least two for each N_s from 7 to 1, some close to where the
# formula changes (K = 8/n - 1), none on it: there the last digits of a measurement decide.
PAIRS = [
    *[(10, 2), (8, 2.5), (10, 4), (7, 3.85), (10, 6.5), (6, 5.5)],
    *[(8, 8.4), (10, 13), (5, 8.2), (6, 10.4), (10, 17), (5, 11.7), (8, 22.8)],
    *[(8, 25.6), (5, 16), (5, 20.5), (4, 20), (4, 26.6), (5, 34)],
    *[(5, 36), (4, 34.8), (4, 40), (3, 36)],
]
QUICK_PAIRS = [(4, 1.2), (4, 9)]


def formula(sample_ms, train_ms):
    return max(1, min(N_DEVICES - 1, math.ceil(N_DEVICES / (train_ms / sample_ms + 1))))


def allocation_of_pair(jobs, dataset, sample_ms, train_ms):
    """True when the split chosen is the formula's."""

    def job(allocation):
        return sleeping_job(dataset, sample_ms, train_ms, allocation=allocation)

    auto, *fixed = jobs.run([job(AUTO), *[job(split(s, 8 - s)) for s in range(1, 8)]], at_once=2)
    first = auto["allocations"][0]
    chosen = first["samplers"]
    times = {s: epoch_times(report) for s, report in enumerate(fixed, 1)}
    times[chosen] += [e["seconds"] for e in auto["epochs"][1:] if e["samplers"] == chosen]

    def best_other():
        best = min((s for s in times if s != chosen), key=lambda s: median(times[s]))
        return best, median(times[best]), median(times[chosen])

    best, other, mine = best_other()
    if other < 0.95 * mine:  # bad luck or worse? Both once more, one at a time.
        for s in (best, chosen):
            times[s] += epoch_times(jobs.run([job(split(s, 8 - s))], at_once=1)[0])
        best, other, mine = best_other()
    wanted = formula(sample_ms, train_ms)
    moves = [s["to"]["samplers"] for s in auto["scales"] if s["ok"]]
    print(
        f"  T_s {sample_ms} ms, T_t {train_ms} ms: chosen {chosen}, formula {wanted}; "
        + " ".join(f"{s}:{median(times[s]):.3f}" for s in sorted(times))
        + (f"; moved to {moves}" if moves else ""),
        flush=True,
    )
    row(
        f"T_s {sample_ms} ms, T_t {train_ms} ms, K {train_ms / sample_ms:.2f}",
        f"{chosen} sampling (formula {wanted}): {mine:.3f} s",
        f"best other, {best}: {other:.3f} s",
        other / mine,
        0.95,
    )
    return chosen == wanted


@part
def part_allocation():
    print(
        f"Stage times are sleeps (throttle), {N_DEVICES} CPU devices on two cores,"
        f" {BATCHES} batches an epoch, async.\n"
        "For each pair a job that chooses its split and all seven fixed ones, two jobs at a time;\n"
        "seconds an epoch by number of samplers. A split that seems more than 5 % sooner and the\n"
        "chosen one are run once more, alone."
    )
    pairs = QUICK_PAIRS if QUICK else PAIRS
    with Jobs() as jobs:
        dataset = jobs.generate("small", SMALL_GRAPH)
        print("  the job:", json.dumps(sleeping_job("small", 0, 0, allocation=AUTO)))
        same = sum(allocation_of_pair(jobs, dataset, *pair) for pair in pairs)
    row("split chosen = formula", f"{same} pairs", f"of {len(pairs)}", same / len(pairs), 1)


# ---- switching ----------------------------------------------------------------------------------


def switching_row(jobs, job, label, trainers):
    """Adds a row: epoch time without and with switching, side by side; returns the ratio."""
    without, with_it = jobs.run(
        [{**job, "allocation": split(1, trainers, switching)} for switching in (False, True)],
        at_once=2,
    )
    # The mean: whether one more round of batches is needed is a matter of luck in each epoch.
    slow, quick = (mean(epoch_times(report)) for report in (without, with_it))
    helped = sum(e["switching"]["batches"] for e in with_it["epochs"][1:])
    batches = sum(e["batches"] for e in with_it["epochs"][1:])
    print(f"  {label}: {slow:.3f} s without, {quick:.3f} s with", flush=True)
    row(
        f"{label}, with switching",
        f"{quick:.3f} s, {helped / batches:.0%} on standby",
        f"without {slow:.3f} s",
        slow / quick,
        0.97,
    )
    return slow / quick


@part
def part_switching():
    print(
        f"Stage times are sleeps (throttle), one sampler, {BATCHES} batches an epoch, mean of the"
        " epochs\nafter the first; the jobs with and without switching run side by side."
    )
    slow = (3, 12) if QUICK else (3, 40)
    similar = (6, 9) if QUICK else (10, 15)
    epochs = 2 if QUICK else 4
    with Jobs() as jobs:
        dataset = jobs.generate("small", SMALL_GRAPH)
        job = sleeping_job(dataset, *slow, epochs=epochs)
        name = f"T_s {slow[0]} ms, T_t {slow[1]} ms"
        ratios = [
            switching_row(jobs, job, f"{name}, 1 sampler + {n}", n)
            for n in ([1, 7] if QUICK else range(1, N_DEVICES))
        ]
        row("  mean of these", "", "", mean(ratios), 0.97)
        job = sleeping_job(dataset, *similar, epochs=epochs)
        name = f"T_s {similar[0]} ms, T_t {similar[1]} ms"
        for n in (1, 2):
            switching_row(jobs, job, f"{name}, 1 sampler + {n}", n)
        # Four batches an update: a fourth trainer saves a round of two, a fifth has nothing to do.
        updates = {"mode": "ordered", "batches_per_update": 4}
        job = sleeping_job(dataset, *slow, epochs=epochs, updates=updates)
        name = f"T_s {slow[0]} ms, T_t {slow[1]} ms, updates of 4"
        for n in (3, 4):
            switching_row(jobs, job, f"{name}, 1 sampler + {n}", n)


# ---- modes --------------------------------------------------------------------------------------


def command_line(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as file:
        return file.read()
    return ""


def cpu_seconds(pid):
    """CPU time of all threads: to the nanosecond where the kernel counts so, else in ticks."""
    try:
        nanoseconds = 0
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                nanoseconds += int(file.read().split()[0])
        if nanoseconds:
            return nanoseconds / 1e9
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        raise Failed("the standby trainer died while it was watched") from None


def until(condition, process, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            raise Failed(f"{what} did not come")
        time.sleep(0.02)


def sleeping_standby(jobs):
    """Updates of one batch: a second trainer could only wait, so the standby trainer sleeps."""
    job = sleeping_job(
        jobs.generate("small", SMALL_GRAPH),
        0,
        10,
        devices=cpu_devices(2),
        allocation=split(1, 1),
        updates={"mode": "ordered", "batches_per_update": 1},
        epochs=1000000,
    )
    process = jobs.start(job, stderr=subprocess.DEVNULL)  # which would say that it was stopped
    metrics = os.path.join(process.output, "metrics.jsonl")
    until(lambda: os.path.exists(metrics), process, "the first epoch of a job")
    time.sleep(0.5)
    standby = [
        pid
        for pid in family(process.pid)
        for line in [command_line(pid)]
        if "sluice-trainer" in line.split("\0")[0] and "--device\x000\0" in line
    ]
    if len(standby) != 1:
        raise Failed(f"found {len(standby)} standby trainers on device 0, wanted 1")
    begin, before = time.monotonic(), cpu_seconds(standby[0])
    time.sleep(1 if QUICK else 10)
    seconds, used = time.monotonic() - begin, cpu_seconds(standby[0]) - before
    process.terminate()  # SIGINT may be ignored: it is in a script's background jobs
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        raise Failed("a job did not stop within 20 s of SIGTERM") from None
    row(
        "CPU time of a sleeping standby trainer",
        f"{used * 1e3:.2f} ms",
        f"in {seconds:.0f} s",
        used / seconds,
        0.001,
        at_most=True,
    )


# mode -> (what it is, devices and allocation for cores x and y, jobs at once)
def modes_of(x, y):
    one, both, other = ([{"kind": "cpu", "cores": c}] for c in (x, f"{x},{y}", y))
    return {
        "a": ("1 sampler + 1 trainer, no switching", [(one + other, split(1, 1, False))]),
        "b": ("1 sampler + 1 trainer, switching", [(one + other, split(1, 1))]),
        "c": ("one device of one core, in turn", [(one, AUTO)]),
        "d": ("one device of both cores, in turn", [(both, AUTO)]),
        "e": ("time sharing: a job on each core", [(one, AUTO), (other, AUTO)]),
    }


@part
def part_modes():
    print("The standby trainer of a job with updates of one batch is watched first.")
    with Jobs() as jobs:
        sleeping_standby(jobs)
    dataset, name = epoch_dataset()
    if dataset is None:
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("SKIP: two cores are needed")
        return
    print(
        f"GraphSAGE on {name}, updates of 4 batches; runs are interleaved.\n"
        "  a  core x samples, core y trains\n"
        "  b  the same, and x helps to train when an epoch is sampled\n"
        "  c  one core is one device: it samples an epoch's batches, then trains them\n"
        "  d  both cores are one device: one thread samples an epoch's batches, two train them\n"
        "  e  two jobs at once, each as c on a core of its own; half of an epoch's time: each\n"
        "     core samples and trains in turn, as DGL's and PyG's workers do, and always has\n"
        "     work; no gradients are exchanged, so this bounds what time sharing can reach: no aim"
    )
    changes = {"epochs": 3, "updates": {"mode": "ordered", "batches_per_update": 4}}
    changes |= SMALL if QUICK else {}
    modes = modes_of(str(cores[0]), str(cores[1]))
    times, standby = {mode: [] for mode in modes}, {}
    with Jobs() as jobs:
        for _ in range(1 if QUICK else 2):
            for mode, (_, places) in modes.items():
                reports = jobs.run(
                    [
                        epoch_job(dataset, devices=devices, allocation=allocation, **changes)
                        for devices, allocation in places
                    ],
                    at_once=len(places),
                )
                took = [t / len(places) for report in reports for t in epoch_times(report)]
                times[mode] += took
                last = reports[0]["epochs"][-1]
                standby[mode] = f"{last['switching']['batches']} of {last['batches']} on standby"
                print(f"  {mode}: {' '.join(f'{t:.2f}' for t in took)} s an epoch", flush=True)
        seconds = {mode: median(times[mode]) for mode in times}
        for mode, (what, _) in modes.items():
            row(f"{name}, {mode}: {what}", f"{seconds[mode]:.2f} s", standby[mode])
        for mode, aim in (("a", 1.5), ("d", 1.0), ("e", None)):
            row(
                f"  b as fast as {mode}",
                f"{seconds['b']:.2f} s",
                f"{mode} {seconds[mode]:.2f} s",
                seconds[mode] / seconds["b"],
                aim,
            )
        changes["epochs"] = 3
        changes["cache"] = {"policy": "presc", "presample_epochs": 1, "ratio": 0.1}
        devices, allocation = modes["b"][1][0]
        job = epoch_job(dataset, devices=devices, allocation=allocation, **changes)
        ranked = [e for e in jobs.run([job], 1)[0]["epochs"] if e["cache"]["ranked"]]
    # Of a batch, medians: a sum of few milliseconds is mostly the moments a thread was not running.
    spent = {
        stage: median(e["stages"][stage]["p50"] for e in ranked)
        for stage in ("sample", "mark", "copy")
    }
    row(
        "marking and copying a batch, a tenth cached",
        f"{spent['mark'] * 1e6:.0f} + {spent['copy'] * 1e6:.0f} us",
        f"sampling {spent['sample'] * 1e6:.0f} us",
        (spent["mark"] + spent["copy"]) / spent["sample"],
        0.05,
        at_most=True,
    )
    ns = ledger_ns()
    batch = seconds["b"] / ranked[0]["batches"]
    row(
        "queue, payload memory and board, of b's epoch",
        f"{ns:.0f} ns a batch",
        f"{batch * 1e3:.1f} ms a batch",
        ns / 1e9 / batch,
        0.01,
        at_most=True,
    )


# ---- async --------------------------------------------------------------------------------------

STALENESS = 4
# Five trainers have as many gradients in flight as the bound permits.
ASYNC = {
    "updates": {"mode": "async", "staleness": STALENESS},
    "devices": cpu_devices(STALENESS + 2),
    "allocation": split(1, STALENESS + 1),
}
ORDERED = {
    "updates": {"mode": "ordered", "batches_per_update": 1},
    "devices": cpu_devices(2),
    "allocation": split(1, 1),
}


def accuracy_jobs():
    """(name, job, seeds) for the graphs that are here."""
    cora = {
        "model": {"kind": "gcn", "layers": 2, "hidden": 16, "dropout": 0.5, "input_dropout": 0.5},
        "sampler": {"kind": "khop", "fanout": [-1, -1], "batch_size": 20},
        "optimizer": {"kind": "adam", "lr": 0.01, "weight_decay": 5e-4},
        "epochs": 10 if QUICK else 200,
    }
    found = []
    for name, changes, seeds in (
        ("cora", cora, 2 if QUICK else 10),
        ("ogbn_arxiv", {"epochs": 12}, 1),
    ):
        dataset = os.path.join(SHARED_DATA, name)
        if not os.path.isdir(dataset):
            print(f"SKIP: {dataset} is not there")
            continue
        job = epoch_job(dataset, **{"evaluate": {"every": 1, "fanout": "full"}, **changes})
        if QUICK and name != "cora":
            job |= {"epochs": 2, **SMALL}
        found.append((name, job, range(1, seeds + 1)))
    return found


@part
def part_async():
    print(
        "Test accuracy at the best validation epoch, as many updates of one batch in both modes;\n"
        f"an ordered job (1 trainer) and an async one ({STALENESS + 1} trainers) run side by side"
        " on two cores."
    )
    with Jobs() as jobs:
        for name, job, seeds in accuracy_jobs():
            ordered, found, updates = [], [], []
            for seed in seeds:
                pair = [{**job, "seed": seed, **ORDERED}, {**job, "seed": seed, **ASYNC}]
                first, second = jobs.run(pair, at_once=2)
                ordered.append(first["test_accuracy"])
                found.append(second["test_accuracy"])
                updates += [epoch["updates"] for epoch in second["epochs"]]
                print(
                    f"  {name}, seed {seed}: ordered {ordered[-1]:.4f}, async {found[-1]:.4f}",
                    flush=True,
                )
            row(
                f"{name}: test accuracy, ratio = ordered - async",
                f"async {mean(found):.4f}",
                f"ordered {mean(ordered):.4f}",
                mean(ordered) - mean(found),
                0.005,
                at_most=True,
            )
            if len(seeds) > 1:
                row(
                    f"  {len(seeds)} seeds, lowest to highest",
                    f"{min(found):.4f} to {max(found):.4f}",
                    f"{min(ordered):.4f} to {max(ordered):.4f}",
                )
            most = max(epoch["staleness_max"] for epoch in updates)
            row(
                "  gradients were stale by",
                f"{mean([epoch['staleness_mean'] for epoch in updates]):.2f} updates",
                f"at most {most}, permitted {STALENESS}",
            )
            if most > STALENESS:
                raise Failed(f"a gradient was {most} updates old, permitted were {STALENESS}")
