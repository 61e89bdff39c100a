"""The parts of scripts/bench that run whole jobs: allocation, async.

Stage times that are wanted exactly are made by `throttle`: a worker sleeps until its batch has
taken so long. Eight devices then fit on two cores, since next to nothing is computed, and what is
measured is the schedule alone: who waits for whom. An update waits for no other batch there (async,
staleness 16), so that the number of batches of an update does not round the times up.

Unless a part says otherwise, an epoch's time is the median over the epochs after the first.
"""

import json
import math
from statistics import mean, median

from benchlib import (
    QUICK, SMALL, Failed, Jobs, cpu_devices, epoch_job, epoch_times, part, real_graph, row,
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
        f"{chosen} sampling (formula {wanted}): {mine:.3f} s", f"best other, {best}: {other:.3f} s",
        other / mine, 0.95,
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
        if dataset := real_graph(name):
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
                f"{name}: test accuracy, ratio = ordered - async", f"async {mean(found):.4f}",
                f"ordered {mean(ordered):.4f}", mean(ordered) - mean(found), 0.005, at_most=True,
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
