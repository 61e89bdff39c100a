"""The part `figures` of scripts/bench: figures and tables of the FGNN paper, measured here.

index.html has them in order, each with a sentence about what was measured and what the paper says;
charts are SVG files beside it, figures.json has the numbers. `figures_lab.py` measures.
"""

import json
import os
import time
from collections import namedtuple
from statistics import mean

from benchlib import OPTIONS, QUICK, Others, machine, part, row
from charts import bars, curves, drawn, page, save, sheet, table
from figures_lab import (BATCHES, DIM, GRAPHS, HIDDEN, KINDS, MODELS, SEEDS, SLEEPING_BATCHES, Lab)

# name, title; what was measured here; what the paper says; lab -> numbers; numbers -> what is shown
# of them: charts, tables, sentences
Figure = namedtuple("Figure", "name title here paper measure draw")

POLICIES = {"random": "Random", "degree": "Degree", "presc": "PreSC#1", "optimal": "Optimal"}
# A cache of 5 GB of OGB-Papers' 53 GB, in rows of other widths.
DIMS = tuple(range(100, 1000, 100))
RATIOS_OF_DIMS = tuple(round(5 / 53 * DIM / dim, 6) for dim in DIMS)


def moved(found, policy, i, dim=DIM):
    """MB of features that an epoch fetches from the store."""
    return (1 - found[policy][i]) * found["inputs"] * dim * 4 / 1e6


def percent(points):
    return [(x, 100 * y) for x, y in points]


# ---- caches -------------------------------------------------------------------------------------


def over_dims(lab):
    found = lab.hits("citation", "3-hop random", RATIOS_OF_DIMS)
    return {
        policy: [(dim, found[policy][i], moved(found, policy, i, dim))
                 for i, dim in enumerate(DIMS)]
        for policy in ("random", "degree", "presc")
    }  # fmt: skip


def draw_4b(data):
    figure, (hits, sizes) = sheet(1, 2)
    curves(hits, {"Degree": percent(p[:2] for p in data["degree"])}, "Cache hit rate, %",
           "dimension", marks=[(600, 15, "paper: 15 %")])  # fmt: skip
    curves(sizes, {"Degree": [p[::2] for p in data["degree"]]}, "MB transferred", "dimension")
    return [figure]


def measure_5(lab):
    cases = {"citation": "3-hop random", "R-MAT": "3-hop weighted"}
    found = {}
    for graph, kind in cases.items():
        hits = lab.hits(graph, kind)
        found[f"{graph}, {kind}"] = {
            "touched": hits["epoch_share"],
            **{
                policy: [(r, moved(hits, policy, i)) for i, r in enumerate(hits["ratios"])]
                for policy in ("degree", "optimal")
            },
        }
    return found


def draw_5(data):
    figure, charts = sheet(1, 2)
    said = []
    for chart, letter, (title, found) in zip(charts, "ab", data.items()):
        series = {POLICIES[policy]: found[policy] for policy in ("degree", "optimal")}
        curves(chart, series, f"({letter}) {title}", "cache ratio", "MB transferred in an epoch")
        at = next(i for i, (ratio, _) in enumerate(found["degree"]) if ratio == 0.07)
        degree, optimal = (found[policy][at][1] for policy in ("degree", "optimal"))
        many = f"{degree / optimal:.1f} times" if optimal > 0 else "what Optimal need not:"
        said.append(
            f"({letter}) With 7 % of the vertices cached Degree transfers {many} as much as Optimal:"
            f" {degree:.1f} MB, {optimal:.1f} MB. An epoch touches {100 * found['touched']:.0f} % of"
            " all vertices."
        )
    return [figure, *said]


def measure_10(lab):
    return {
        kind: {
            graph: {policy: hits[policy][hits["ratios"].index(0.1)] for policy in POLICIES}
            for graph in lab.graphs()
            for hits in [lab.hits(graph, kind)]
        }
        for kind in KINDS
    }


def draw_10(data):
    figure, charts = sheet(len(data))
    for chart, (kind, graphs) in zip(charts, data.items()):
        groups = {
            f"{graph} (as {GRAPHS[graph]})": [100 * found[policy] for policy in POLICIES]
            for graph, found in graphs.items()
        }
        bars(chart, groups, list(POLICIES.values()), kind, "cache hit rate, %")
    cells = [found for graphs in data.values() for found in graphs.values()]
    of_optimal = [found["presc"] / found["optimal"] for found in cells]
    of_degree = [found["presc"] / found["degree"] for found in cells]
    return [
        figure,
        f"PreSC#1 reaches {100 * min(of_optimal):.0f} to {100 * max(of_optimal):.0f} % of Optimal,"
        f" and hits {mean(of_degree):.2f} times as often as Degree on average, at most"
        f" {max(of_degree):.2f} times.",
    ]


def measure_11(lab):
    weighted = {k: lab.hits("R-MAT", "3-hop weighted", presample=k) for k in (1, 2, 3)}
    uniform = lab.hits("citation", "3-hop random")

    def curve(hits, policy):
        return list(zip(hits["ratios"], hits[policy]))

    return {
        "a": {
            "Random": curve(weighted[1], "random"),
            "Degree": curve(weighted[1], "degree"),
            "PreSC#1": curve(weighted[1], "presc"),
            "Optimal": curve(weighted[1], "optimal"),
            **{f"PreSC#{k}": curve(weighted[k], "presc") for k in (2, 3)},
        },
        "b": {name: curve(uniform, policy) for policy, name in POLICIES.items()},
        "c": {POLICIES[p]: [q[::2] for q in points] for p, points in over_dims(lab).items()},
    }


def draw_11(data):
    figure, (a, b, c) = sheet(1, 3)
    rates = {part: {name: percent(points) for name, points in data[part].items()} for part in "ab"}
    rate = {"x": "cache ratio", "y": "cache hit rate, %"}
    curves(a, rates["a"], "(a) R-MAT, 3-hop weighted", **rate)
    curves(b, rates["b"], "(b) citation, 3-hop random", **rate,
           marks=[(0.05, 96, "paper, PreSC: 96 %"), (0.05, 29, "Degree: under 29 %"),
                  (0.05, 5, "Random: under 5 %")])  # fmt: skip
    curves(c, data["c"], "(c) citation, 3-hop random", "dimension", "MB transferred in an epoch")
    return [figure]


PAPER_ALIKE = {
    "3-hop random": {"PR": 73.97, "TW": 78.89, "PA": 91.29, "UK": 77.46},
    "Random walk": {"PR": 78.16, "TW": 72.68, "PA": 87.14, "UK": 64.40},
    "3-hop weighted": {"PR": 77.69, "TW": 66.64, "PA": 89.57, "UK": 72.96},
}


def measure_t2(lab):
    return {
        kind: {graph: 100 * lab.hits(graph, kind)["similarity"] for graph in lab.graphs()}
        for kind in KINDS
    }


def draw_t2(data):
    graphs = list(next(iter(data.values())))
    heading = ["sampling algorithm"]
    heading += [text for graph in graphs for text in (graph, f"paper, {GRAPHS[graph]}")]
    rows = [
        [kind, *(f"{v:.1f}" for g in graphs for v in (found[g], PAPER_ALIKE[kind][GRAPHS[g]]))]
        for kind, found in data.items()
    ]
    return [table(heading, rows)]


# ---- jobs that compute --------------------------------------------------------------------------


def from_paper(text):
    """{(GNN, graph): [value, ...]} of lines as the paper has them."""
    rows = [line.split("|") for line in text.strip().splitlines()]
    return {tuple(name.split()): values.split() for name, values in rows}


# DGL, PyG, SGNN, FGNN and the GPUs that sample there (Table 4)
PAPER_EPOCHS = from_paper("""
GCN PR       | 1.33 11.91 0.22 0.33 3S
GCN TW       | 3.86 12.15 1.80 0.47 2S
GCN PA       | 4.56 14.82 2.46 0.84 2S
GCN UK       | OOM  15.04 OOM  1.47 2S
GraphSAGE PR | 0.79 8.17  0.07 0.11 4S
GraphSAGE TW | 1.81 8.18  0.35 0.20 2S
GraphSAGE PA | 2.47 9.68  0.85 0.30 2S
GraphSAGE UK | OOM  9.86  2.01 0.61 1S
PinSAGE PR   | 0.86 x     0.30 0.40 1S
PinSAGE TW   | 2.38 x     0.98 0.58 1S
PinSAGE PA   | 2.79 x     1.65 1.05 1S
PinSAGE UK   | OOM  x     OOM  1.81 1S
""")
# Sampling, marking, copying, extraction, hits in %, training of FGNN (Table 5)
PAPER_STAGES = from_paper("""
GCN PR       | 0.29 0.01 0.09 0.19 100 1.18
GCN TW       | 0.26 0.03 0.08 0.80 89  1.50
GCN PA       | 0.68 0.10 0.18 0.61 99  3.81
GCN UK       | 0.38 0.03 0.14 3.08 70  3.12
GraphSAGE PR | 0.15 0.01 0.04 0.10 100 0.24
GraphSAGE TW | 0.11 0.01 0.04 0.44 89  0.42
GraphSAGE PA | 0.32 0.06 0.08 0.34 99  1.12
GraphSAGE UK | 0.18 0.02 0.06 1.44 72  1.02
PinSAGE PR   | 0.15 0.01 0.04 0.10 100 1.72
PinSAGE TW   | 0.22 0.02 0.05 0.55 86  2.54
PinSAGE PA   | 0.47 0.04 0.09 0.41 97  5.97
PinSAGE UK   | 0.48 0.03 0.13 3.39 57  6.99
""")
STAGES = ("sample", "mark", "copy", "extract", "hit_rate", "train")


def trained(*modes):
    """Measures all models on all graphs in these modes."""
    return lambda lab: {
        model: {
            graph: {mode: lab.trained(model, graph, mode) for mode in modes}
            for graph in lab.graphs()
        }
        for model in MODELS
    }


def draw_t4(data):
    heading = ["GNN, graph", "space sharing", "K", "time sharing", "untouched job", "its split"]
    heading += ["paper, 8 GPUs:", "DGL", "PyG", "SGNN", "FGNN", "split"]
    rows = []
    for model, graphs in data.items():
        for graph, found in graphs.items():
            space, shared, free = (found[mode] for mode in ("space", "shared", "free"))
            seconds = (f"{f['seconds']:.2f} s" for f in (space, shared, free))
            here = [next(seconds), f"{space['k']:.1f}", *seconds, free["split"]]
            there = PAPER_EPOCHS[model, GRAPHS[graph]]
            rows.append([f"{model}, {graph}", *here, GRAPHS[graph], *there])
    return [table(heading, rows)]


def draw_t5(data):
    names = ("S", "M", "C", "Extract", "Hit %", "Train")
    rows = []
    for model, graphs in data.items():
        for graph, found in graphs.items():
            here = [f"{found['space'][stage] * 1e3:.1f}" for stage in STAGES]
            here[4] = f"{found['space']['hit_rate'] * 100:.0f}"
            there = PAPER_STAGES[model, GRAPHS[graph]]
            rows.append([f"{model}, {graph}", *here, GRAPHS[graph], *there])
    heading = ["GNN, graph, milliseconds of an epoch", *names, "paper, seconds:", *names]
    return [table(heading, rows)]


# ---- jobs whose stages sleep --------------------------------------------------------------------


def slept(lab, *models):
    return {
        model: [
            {"samplers": s, "trainers": t, **found} for (s, t), found in lab.slept(model).items()
        ]
        for model in models
    }


def by_samplers(runs, name="seconds"):
    """{samplers: [(trainers, value), ...]}"""
    found = {}
    for run in runs:
        found.setdefault(run["samplers"], []).append((run["trainers"], run[name]))
    return found


def draw_13(data):
    figure, charts = sheet(1, 2)
    for chart, letter, (model, runs) in zip(charts, "ab", data.items()):
        series = {f"{s}S": [(s + t, y) for t, y in c] for s, c in by_samplers(runs).items()}
        marks = [(5, 1.5, "paper, 2S 3T: 1.5"), (5, 2.1, "paper, 3S 2T: 2.1")]
        marks = marks if model == "GCN" and not QUICK else ()
        curves(chart, series, f"({letter}) {model}", "devices", "seconds of an epoch", marks=marks)
    return [figure]


def draw_14(data):
    runs, stages = data["GCN"], ("sample", "extract", "train", "seconds")
    samplers = sorted(by_samplers(runs))
    figure, charts = sheet(1, len(samplers))
    for s, chart in zip(samplers, charts):
        groups = {
            f"{run['trainers']}T": [run[stage] for stage in stages]
            for run in runs
            if run["samplers"] == s
        }
        names = ["Sample", "Extract", "Train", "Total"]
        bars(chart, groups, names, f"{s} sampling", "seconds of an epoch")
    return [figure]


def measure_16(lab):
    without, with_it = lab.slept("PinSAGE"), lab.slept("PinSAGE", switching=True)
    return {
        "switching": [
            (t, without[1, t]["seconds"], found["seconds"], found["helped"])
            for (_, t), found in with_it.items()
        ],
        "one device": trained("one", "space")(lab),
    }


def draw_16(data):
    figure, (left, right) = sheet(1, 2)
    series = {
        "without switching": [p[:2] for p in data["switching"]],
        "with switching": [(p[0], p[2]) for p in data["switching"]],
    }
    curves(left, series, "(a) PinSAGE, stages that sleep", "trainers beside one sampler",
           "seconds of an epoch")  # fmt: skip
    groups = {
        f"{model[:5]}\n{GRAPHS[graph]}": [found[how]["seconds"] for how in ("one", "space")]
        for model, graphs in data["one device"].items()
        for graph, found in graphs.items()
    }
    names = ["one device of one core", "two: 1S 1T with switching"]
    bars(right, groups, names, "(b) a single device, computing", "seconds of an epoch")
    return [figure]


# ---- the table ----------------------------------------------------------------------------------

STANDS = (
    "ogbn_arxiv stands for OGB-Products (PR), a generated R-MAT graph for Twitter (TW), a"
    " generated citation graph for OGB-Papers (PA), cnr_2000 with random features for UK-2006"
    " (UK)."
)
CACHES = (
    "counted by tests/bench/cache, which samples as a job does (batches of 1024) and trains nothing"
)
COMPUTED = (
    f"jobs that compute on two processor cores in place of GPUs: {BATCHES} batches of {SEEDS} an"
    f" epoch, hidden layers of {HIDDEN}, features of {DIM}"
)
SLEPT = (
    "Nothing is computed: a batch takes the sampler and the trainer what it took the paper's GPUs"
    " (Table 5, PA, an epoch / 151), made by sleeping, so that eight devices fit on two cores and"
    f" only the schedule is measured; {SLEEPING_BATCHES} batches an epoch."
)
FIGURES = [
    Figure(
        "4b", "Figure 4(b): a cache of fixed size and wider features",
        "Hit rate of the degree policy and features fetched, citation graph, 3-hop random"
        f" sampling, {CACHES}; the cache has the share of the features that 5 GB are of the"
        " paper's 53 GB.",
        "OGB-Papers with 5 GB: the hit rate drops to 15 % at 600 dimensions, and more than 1 GB"
        " is loaded.",
        lambda lab: {"degree": over_dims(lab)["degree"]}, draw_4b,
    ),
    Figure(
        "5", "Figure 5: data transferred with the degree policy and with the best there is",
        f"Features that miss the cache in an epoch, {CACHES}.",
        "(a) OGB-Papers: Degree transfers 69.0 times as much as Optimal at 7 %. (b) Twitter,"
        " weighted: far from Optimal in spite of its skewed degrees.",
        measure_5, draw_5,
    ),
    Figure(
        "T2", "Table 2: similarity of the access footprints of adjacent epochs, in percent",
        f"The top 10 % of the vertices, defined as in 6.2, mean of few epochs, {CACHES}. {STANDS}",
        "100 epochs; on average over 75 %.", measure_t2, draw_t2,
    ),
    Figure(
        "10", "Figure 10: hit rates with 10 % of the vertices cached",
        f"Four policies, three sampling algorithms, {CACHES}; where an epoch touches most of a"
        f" small graph no policy can hit often. {STANDS}",
        "PreSC reaches 90 to 99 % of Optimal in all tests, and hits 1.5 times as often as Degree"
        " on average, up to 2.2 times.",
        measure_10, draw_10,
    ),
    Figure(
        "11", "Figure 11: cache policies by cache ratio and by feature dimension",
        f"PreSC#K counts K epochs, {CACHES}; (c) has a cache as in Figure 4(b).",
        "(b) OGB-Papers, 5 % cached: PreSC 96 %, Degree under 29 %, Random under 5 %. (c) At 900"
        " dimensions PreSC moves less than 500 MB, Degree and Random nearly 2 GB, four times as"
        " much.",
        measure_11, draw_11,
    ),
    Figure(
        "T4", "Table 4: seconds of an epoch, space sharing and time sharing",
        f"Times of {COMPUTED}. Space sharing is a core that samples and one that trains, with"
        " switching; time sharing is one device of both cores that does both in turn; the"
        f" untouched job chooses itself. {STANDS} DGL and PyG are not run here: scripts/bench"
        " peers compares them on the same cores.",
        "Eight V100 GPUs, batches of 8000; nS says that n of them sample. Graphs and machines"
        " differ: compare ratios within a row, not seconds.",
        trained("space", "shared", "free"), draw_t4,
    ),
    Figure(
        "T5", "Table 5: what the stages of an epoch take",
        "Sampling (S), marking (M), copying (C), extraction and training, from reports of"
        f" {COMPUTED}; one core samples, one trains, PreSC#1 with the paper's cache ratios. A"
        f" cache in the memory that the features are in saves little. {STANDS} DGL's and PyG's"
        " columns are left out.",
        "One V100 each, batches of 8000.",
        trained("space"), draw_t5,
    ),
    Figure(
        "13", "Figure 13: scaling with the number of devices",
        f"{SLEPT} No DGL curve: there is no time of it here.",
        "(a) GCN, (b) PinSAGE on OGB-Papers: linear at first, then slower, when the samplers are"
        " the limit; GCN took 1.5 s with 2S 3T and 2.1 s with 3S 2T (7.5).",
        lambda lab: slept(lab, "GCN", "PinSAGE"), draw_13,
    ),
    Figure(
        "14", "Figure 14: what an epoch of GCN is made of, by numbers of samplers and trainers",
        f"Busy seconds of a sampler and of a trainer. {SLEPT} Extraction is a real one of four"
        " features, and hidden behind training.",
        "Training and the whole drop with more trainers; with one sampler not beyond five, where"
        " the sampler is the limit; with two and three they go on.",
        lambda lab: slept(lab, "GCN"), draw_14,
    ),
    Figure(
        "16", "Figure 16: dynamic switching, and a single device",
        f"(a) {SLEPT} (b) Times of {COMPUTED}: a single core that samples an epoch and then trains"
        f" it, beside two. {STANDS} DGL on a single device is not run here (scripts/bench peers).",
        "(a) The gain is large with fewer than three trainers, and there is no need with enough."
        " (b) On one GPU FGNN is 1.7 to 6.8 times as fast as DGL.",
        measure_16, draw_16,
    ),
]  # fmt: skip
LEFT_OUT = (
    "Left out: Table 1, Figures 3, 4(a) and 12 and Table 6 are about the memory of GPUs and the"
    " bus to them; Figure 15 trains beside DGL (scripts/bench peers, scripts/accuracy). The"
    " paper's curves are known here only as far as its text names their values; those are hollow"
    " marks."
)


def shown(figure, data, folder):
    """A figure as parts of the page."""
    parts = [f"<h2>{figure.title}</h2>\n", f"Here: {figure.here}", f"The paper: {figure.paper}"]
    for made in drawn(figure.draw, data):
        path = os.path.join(folder, f"figure-{figure.name}.svg")
        parts.append(made if isinstance(made, str) else save(made, path))
    return parts


@part
def part_figures():
    os.makedirs(OPTIONS.out, exist_ok=True)
    results, parts, others = {}, [], Others()
    with Lab() as lab:
        for figure in FIGURES:
            begin = time.monotonic()
            results[figure.name] = figure.measure(lab)
            took = time.monotonic() - begin
            parts += shown(figure, results[figure.name], OPTIONS.out)
            row(figure.title.split(":")[0], "", f"measured in {took:.0f} s")
            tiny = " BENCH_QUICK: the figures mean nothing." if QUICK else ""
            without = f" Not here: {', '.join(lab.skipped)}." if lab.skipped else ""
            about = f"{machine()}, {time.strftime('%Y-%m-%d')}. {others} {STANDS} {LEFT_OUT}"
            index = os.path.join(OPTIONS.out, "index.html")
            page(index, "FGNN's figures, measured with sluice", [about + without + tiny, *parts])
            with open(os.path.join(OPTIONS.out, "figures.json"), "w") as file:
                json.dump(results, file, indent=1)
    print(f"  {index}")
