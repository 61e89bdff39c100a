"""The part `cache` of scripts/bench: hit rates of the cache policies, by tests/bench/cache, and
of a cache's division among rows of several widths, by tests/bench/widths."""

import os

from benchlib import Jobs, derive, found_by, part, read_json, real_graph, row, year_weights

# What FGNN trains with each sampling algorithm (7.1), in smaller batches: its graphs are larger.
CACHE_KINDS = [
    ["--kind", "khop", "--fanout", "15,10,5"], ["--kind", "weighted", "--fanout", "15,10,5"],
    ["--kind", "walk", "--fanout", "5,5,5", "--paths", "4", "--length", "3", "--restart", "0.5"],
]
CACHE_GRAPHS = {
    "citation": "citation --nodes 1M --feat-dim 0 --weights",
    "R-MAT": "rmat --scale 20 --classes 2 --train-ratio 0.02 --val-ratio 0 --weights",
}


def others(found, i):
    """Hit rates of the policies that are not beside the best possible."""
    lists = (key for key, value in found.items() if isinstance(value, list))
    rest = [key for key in lists if key not in ("ratios", "presc", "optimal")]
    return " ".join(f"{policy} {found[policy][i]:.1%}" for policy in rest)


def cache_rows(graph, dataset):
    for kind in CACHE_KINDS:
        found = found_by("cache", dataset, *kind)
        # PreSC is as good as the best there can be while a batch touches a small part of the graph.
        aim = 0.95 if graph == "citation" else None
        for i, ratio in enumerate(found["ratios"]):
            row(
                f"{graph}, {found['kind']}, {ratio:.0%} cached",
                f"presc {found['presc'][i]:.1%} {others(found, i)}",
                f"optimal {found['optimal'][i]:.1%}", found["presc"][i] / found["optimal"][i], aim,
            )
        row(f"  a batch touches {found['batch_share']:.1%}", f"alike {found['similarity']:.1%}")


DIVISIONS = ("equal", "widest", "narrowest", "memory")


def skewed_papers(jobs, skew):
    """Papers, authors and fields with rows of 512, 64 and 2,048 bytes, whose sources are met as
    rank^(1/skew - 1)."""
    import numpy

    made = jobs.generate(f"papers{skew}", "typed --nodes 200k --fields 20k --train-ratio 0.1 "
                                          "--feat-dim 128")
    about = read_json(os.path.join(made, "metadata.json"))
    random, first, row, at = numpy.random.default_rng(3), {}, 0, 0
    arrays = {"indices": numpy.load(os.path.join(made, "indices.npy"))}
    indptr = numpy.load(os.path.join(made, "indptr.npy"))
    for kind in about["types"]:
        first[kind["name"]] = at, kind["count"]
        at += kind["count"]
        if width := {"author": 16, "field": 512}.get(kind["name"]):
            kind["feat_dim"] = width
            arrays[f"node_feat.{kind['name']}"] = random.random((kind["count"], width), "float32")
    for relation in about["relations"]:
        start, n = first[relation["source"]]
        end = row + first[relation["target"]][1]
        edges = slice(indptr[row], indptr[end])
        ranks = (n * random.random(indptr[end] - indptr[row]) ** skew).astype(int)
        arrays["indices"][edges] = start + random.permutation(n)[ranks]
        row = end
    return derive(made, jobs.path(f"skewed{skew}"), arrays, types=about["types"])


def width_rows(jobs):
    """What the machine's cache would save the drive with its slots divided by width as they are,
    beside the order of all rows by counted visits a byte, and beside other divisions."""
    papers = {skew: skewed_papers(jobs, skew) for skew in (4, 1)}
    for skew, batch, fanout in (4, "1024", "15,10"), (4, "64", "10,5"), (1, "64", "10,5"):
        found = found_by("widths", papers[skew], "--batch", batch, "--fanout", fanout)
        for i, ratio in enumerate(found["ratios"]):
            of = {d: found[d][i]["blocks"] for d in ("model", "drive", *DIVISIONS)}
            row(
                f"types, skew {skew}, batches of {batch}, {ratio:.0%} cached: blocks of the drive",
                f"by width {of['model']:.1%} " + " ".join(f"{d} {of[d]:.1%}" for d in DIVISIONS),
                f"by row {of['drive']:.1%}", of["model"] / of["drive"], 0.9 if skew > 1 else None,
            )


@part
def part_cache():
    with Jobs() as jobs:
        width_rows(jobs)
        for graph, arguments in CACHE_GRAPHS.items():
            cache_rows(graph, jobs.generate(graph.lower(), arguments))
        if arxiv := real_graph():
            weights = {"edge_weight": year_weights(arxiv)}
            cache_rows("ogbn_arxiv", derive(arxiv, jobs.path("ogbn_arxiv"), weights))


WINDOW_SHOWN = ("presc", "fifo", "gids 16", "window 16", "hot 0", "hot 16")
# Small batches: of large ones these graphs have few, and a cache is to hold several.
WINDOW_JOB = ["--batch", "64", "--fanout", "10,5", "--epochs", "2"]

# What a batch has in common with the one before depends on how much of the graph it touches.
MATCH_JOB = ["--batch", "1024", "--fanout", "15,10,5", "--epochs", "2", "--ratios", "0.05"]


def window_rows(graph, dataset):
    for order in ("shuffled", "proximity"):
        found = found_by("window", dataset, "--order", order, *WINDOW_JOB)
        for i, ratio in enumerate((0.05, 0.1, 0.2)):  # as it has them by itself
            shown = " ".join(f"{name} {found[name][i]:.1%}" for name in WINDOW_SHOWN)
            row(
                f"{graph}, {order}, {ratio:.0%} of the rows", shown,
                f"belady {found['belady'][i]:.1%}", found["hot 16"][i] / found["belady"][i],
            )
        match_rows(f"{graph}, {order}, 64 seeds", found)
        found = found_by("window", dataset, "--order", order, *MATCH_JOB)
        match_rows(f"{graph}, {order}, 1024 seeds", found)


def match_rows(what, found):
    """What the device's batch before had: as drawn, beside the greedy order of 16 batches."""
    for trainers in (1, 2, 4):
        for cache in ("", " hot"):
            drawn, by_8, by_16 = found[f"match {trainers}{cache}"]
            row(
                f"{what}, {trainers} in turns{', 10 % cached' if cache else ''}",
                f"matched {drawn:.1%}, in windows of 8 {by_8:.1%}", f"of 16 {by_16:.1%}",
                drawn / by_16,
            )


@part
def part_window():
    with Jobs() as jobs:
        graphs = {
            "communities": "planted --nodes 100k --degree 20 --feat-dim 4 --classes 16",
            "power law": "rmat --scale 18 --classes 2 --train-ratio 0.1 --val-ratio 0",
        }
        for graph, arguments in graphs.items():
            window_rows(graph, jobs.generate(graph.split()[0], arguments))
        if arxiv := real_graph():
            window_rows("ogbn_arxiv", arxiv)
