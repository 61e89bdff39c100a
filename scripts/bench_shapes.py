"""The part `shapes` of scripts/bench: an untouched job against every shape written by hand."""

from statistics import median

from benchlib import QUICK, Failed, Jobs, epoch_times, part, row, two_cores

GRAPH = "planted --nodes 120000 --degree 30 --feat-dim 64 --classes 8 --seed 3"
SMALL = "planted --nodes 4000 --degree 10 --feat-dim 8 --classes 4 --seed 3"

# From sampling as the most of the work to training as nearly all of it; the first epochs of each
# take about a second on two cores.
WORK = {
    "sampling alone": {"layers": 2, "hidden": 4, "fanout": [40, 25]},
    "mostly sampling": {"layers": 2, "hidden": 16, "fanout": [25, 10]},
    "narrow layers": {"layers": 2, "hidden": 64, "fanout": [15, 10]},
    "wide layers": {"layers": 2, "hidden": 256, "fanout": [10, 5]},
    "three wide layers": {"layers": 3, "hidden": 256, "fanout": [10, 5, 3]},
}
WIDTHS = [1, 8]
EPOCHS = 3
ROUNDS, DUELS = (1, 1) if QUICK else (2, 7)


def shapes(width):
    """Name -> what a user would write, on two cores."""
    a, b = (str(core) for core in two_cores())
    both = f"{a},{b}"

    def written(samplers, trainers, switching=False):
        devices = [{"kind": "cpu", "cores": c} for c in (*samplers, *reversed(trainers))]
        split = {"samplers": len(samplers), "trainers": len(trainers), "switching": switching}
        return {"devices": devices, "allocation": split}

    alternating = {"devices": [{"kind": "cpu", "cores": both}], "allocation": {}}
    found = {
        "a core each": written([a], [b]),
        "a core each, switching": written([a], [b], True),
        "one device of both": alternating,
        "both share both": written([both], [both]),
        "sampler beside": written([a], [both]),
        "two samplers beside": written([a, b], [both]),
    }
    if width > 1:
        found |= {
            "two trainers, sampler on both": written([both], [a, b]),
            "two trainers, two samplers": written([a, b], [a, b]),
            "two devices alternating": {
                **written([a, b], [], True),
                "allocation": {"samplers": 2, "trainers": 1, "switching": True},
                "devices": [{"kind": "cpu", "cores": c} for c in (a, b, both)],
            },
        }
    return found


def compare(jobs, dataset, name, width):
    work = WORK[name]
    job = {
        "dataset": dataset,
        "model": {"kind": "graphsage", "layers": work["layers"], "hidden": work["hidden"]},
        "sampler": {"kind": "khop", "fanout": work["fanout"], "batch_size": 512},
        "updates": {"batches_per_update": width},
        "epochs": EPOCHS,
        "seed": 7,
        "evaluate": {"every": 0, "fanout": [2] * work["layers"]},
    }
    hands = shapes(width)

    def rounds(names, n):
        """What each takes, the median epoch of each of n rounds, and why the last untouched job
        has its shape; interleaved, since the machine changes."""
        times, said = {shape: [] for shape in names}, None
        for _ in range(n):
            for shape in names:
                (report,) = jobs.run([{**job, **hands.get(shape, {})}], at_once=1)
                times[shape].append(median(epoch_times(report)))
                if shape is None:
                    said = report["allocations"][-1]["reason"]
        return times, said

    # Of shapes that are equal the fastest in some rounds is faster than they all are, so the best
    # one is found in rounds of its own, and the untouched job stands beside it in others.
    by_hand, _ = rounds(hands, ROUNDS)
    best = min(hands, key=lambda shape: median(by_hand[shape]))
    times, said = rounds([None, best], DUELS)
    print(f"  {name}, updates of {width}: {said}")
    for shape in sorted(hands, key=lambda s: median(by_hand[s])):
        print(f"    {median(by_hand[shape]):7.3f} s  {shape}")
    print(f"    {median(times[None]):7.3f} s  untouched", flush=True)
    row(
        f"{name}, updates of {width}", f"untouched {median(times[None]):.3f} s",
        f"best by hand, {best}: {median(times[best]):.3f} s",
        median(a / b for a, b in zip(times[None], times[best])), 1.10, at_most=True,
    )


@part
def part_shapes():
    print(
        "An epoch of a job that says nothing of devices against shapes of two cores written by\n"
        "hand, interleaved; medians. More cores are a unit test (tests/unit/test_broker_shape.c),\n"
        "where a pipeline is played event by event on up to 64."
    )
    if len(two_cores()) < 2:
        raise Failed("shapes: wanted two cores")
    with Jobs() as jobs:
        dataset = jobs.generate("graph", SMALL if QUICK else GRAPH)
        for name in list(WORK)[-1:] if QUICK else WORK:
            for width in WIDTHS[:2] if QUICK else WIDTHS:
                compare(jobs, dataset, name, width)
