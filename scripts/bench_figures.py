"""The part `figures` of scripts/bench: figures and tables of the FGNN paper, measured here.

Each is an SVG file with a sentence about what was measured, the chart, and what the paper says;
index.html has them in order, figures.json the numbers. `figures_lab.py` measures.
"""

import json
import os
import time
from collections import namedtuple
from statistics import mean
from xml.sax.saxutils import escape

from benchlib import OPTIONS, QUICK, Others, machine, part, row
from figures_lab import (
    BATCHES,
    DIM,
    GRAPHS,
    HIDDEN,
    KINDS,
    MODELS,
    SEEDS,
    SLEEPING_BATCHES,
    Lab,
)
from svg_chart import COLOURS, bars, lines, table
from svg_page import GREY, INK, MARGIN, WIDTH, Page, wrap

# name, title; what was measured here; what the paper says; lab -> numbers; (page, numbers) -> chart
Figure = namedtuple("Figure", "name title here paper measure draw")

INNER = WIDTH - 2 * MARGIN
POLICIES = {"random": "Random", "degree": "Degree", "presc": "PreSC#1", "optimal": "Optimal"}
# A cache of 5 GB of OGB-Papers' 53 GB, in rows of other widths.
DIMS = tuple(range(100, 1000, 100))
RATIOS_OF_DIMS = tuple(round(5 / 53 * DIM / dim, 6) for dim in DIMS)


def side_by_side(page, n, height):
    """Boxes of n charts in a row; page.y moves below them."""
    page.y += 14
    gap = 26
    wide = (INNER - gap * (n - 1)) / n
    boxes = [(MARGIN + i * (wide + gap), page.y, wide, height) for i in range(n)]
    page.y += height + 8
    return boxes


def percent_axis(value):
    return f"{100 * value:g} %"


BY_RATIO = {"x": "cache ratio", "x_name": percent_axis, "x_ticks": (0, 0.1, 0.2, 0.3)}
OF_DEGREE, OF_OPTIMAL = COLOURS[1], COLOURS[3]  # as where all policies are


def moved(found, policy, i, dim=DIM):
    """MB of features that an epoch fetches from the store."""
    return (1 - found[policy][i]) * found["inputs"] * dim * 4 / 1e6


# ---- caches -------------------------------------------------------------------------------------


def over_dims(lab):
    found = lab.hits("citation", "3-hop random", RATIOS_OF_DIMS)
    return {
        policy: [(dim, found[policy][i], moved(found, policy, i, dim))
                 for i, dim in enumerate(DIMS)]
        for policy in ("random", "degree", "presc")
    }  # fmt: skip


def draw_4b(page, data):
    hits, sizes = side_by_side(page, 2, 300)
    lines(page, hits, {"Degree": [p[:2] for p in data["degree"]]}, "Cache hit rate", "dimension",
          x_ticks=DIMS, y_name=percent_axis, marks=[(600, 0.15, "paper: 15 %")],
          colours=[OF_DEGREE])  # fmt: skip
    lines(page, sizes, {"Degree": [p[::2] for p in data["degree"]]}, "Transferred in an epoch",
          "dimension", "MB", x_ticks=DIMS, colours=[OF_DEGREE])  # fmt: skip


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


def draw_5(page, data):
    for box, letter, (title, found) in zip(side_by_side(page, 2, 320), "ab", data.items()):
        series = {POLICIES[policy]: found[policy] for policy in ("degree", "optimal")}
        lines(page, box, series, f"({letter}) {title}", y="MB transferred in an epoch",
              colours=(OF_DEGREE, OF_OPTIMAL), **BY_RATIO)  # fmt: skip
        at = next(i for i, (ratio, _) in enumerate(found["degree"]) if ratio == 0.07)
        degree, optimal = (found[policy][at][1] for policy in ("degree", "optimal"))
        many = f"{degree / optimal:.1f} times" if optimal > 0 else "what Optimal need not:"
        page.y += 18
        page.text(MARGIN, page.y, f"({letter}) With 7 % of the vertices cached Degree transfers "
                  f"{many} as much as Optimal: {degree:.1f} MB, {optimal:.1f} MB. An epoch touches "
                  f"{100 * found['touched']:.0f} % of all vertices.")  # fmt: skip


def measure_10(lab):
    return {
        kind: {
            graph: {policy: hits[policy][hits["ratios"].index(0.1)] for policy in POLICIES}
            for graph in lab.graphs()
            for hits in [lab.hits(graph, kind)]
        }
        for kind in KINDS
    }


def draw_10(page, data):
    for kind, graphs in data.items():
        groups = [
            (f"{graph} (as {GRAPHS[graph]})", [100 * found[policy] for policy in POLICIES])
            for graph, found in graphs.items()
        ]
        bars(page, side_by_side(page, 1, 220)[0], groups, list(POLICIES.values()), kind,
             "", "cache hit rate, %", top=100)  # fmt: skip
    cells = [found for graphs in data.values() for found in graphs.values()]
    of_optimal = [found["presc"] / found["optimal"] for found in cells]
    of_degree = [found["presc"] / found["degree"] for found in cells]
    page.y += 18
    page.text(MARGIN, page.y, f"PreSC#1 reaches {100 * min(of_optimal):.0f} to "
              f"{100 * max(of_optimal):.0f} % of Optimal, and hits {mean(of_degree):.2f} times as "
              f"often as Degree on average, at most {max(of_degree):.2f} times.")  # fmt: skip


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


def draw_11(page, data):
    a, b, c = side_by_side(page, 3, 360)
    rate = {**BY_RATIO, "y": "cache hit rate", "y_name": percent_axis, "top": 1}
    lines(page, a, data["a"], "(a) R-MAT, 3-hop weighted", **rate)
    lines(page, b, data["b"], "(b) citation, 3-hop random", **rate,
          marks=[(0.05, 0.96, "paper, PreSC: 96 %"), (0.05, 0.29, "Degree: under 29 %"),
                 (0.05, 0.05, "Random: under 5 %")])  # fmt: skip
    lines(page, c, data["c"], "(c) citation, 3-hop random", "dimension",
          "MB transferred in an epoch", x_ticks=DIMS[::2])  # fmt: skip


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


def draw_t2(page, data):
    graphs = list(next(iter(data.values())))
    columns = [("sampling algorithm", 180)]
    columns += [(text, 100) for graph in graphs for text in ("here", f"paper, {GRAPHS[graph]}")]
    rows = [
        [kind, *(f"{v:.1f}" for g in graphs for v in (found[g], PAPER_ALIKE[kind][GRAPHS[g]]))]
        for kind, found in data.items()
    ]
    spans = [(graph, 1 + 2 * i, 2 + 2 * i) for i, graph in enumerate(graphs)]
    table(page, MARGIN, columns, rows, spans)


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


def draw_t4(page, data):
    columns = [("GNN, graph", 190), ("space sharing", 112), ("K", 60), ("time sharing", 112),
               ("untouched job", 112), ("its split", 90), ("of", 50), ("DGL", 70), ("PyG", 70),
               ("SGNN", 70), ("FGNN", 70), ("", 40)]  # fmt: skip
    rows = []
    for model, graphs in data.items():
        for graph, found in graphs.items():
            space, shared, free = (found[mode] for mode in ("space", "shared", "free"))
            rows.append([
                f"{model}, {graph}", f"{space['seconds']:.2f} s", f"{space['k']:.1f}",
                f"{shared['seconds']:.2f} s", f"{free['seconds']:.2f} s", free["split"],
                GRAPHS[graph], *PAPER_EPOCHS[model, GRAPHS[graph]],
            ])  # fmt: skip
    table(page, MARGIN, columns, rows, [("here", 1, 5), ("paper, seconds on 8 GPUs", 6, 11)])


def draw_t5(page, data):
    names = ("S", "M", "C", "Extract", "Hit %", "Train")
    columns = [("GNN, graph", 190)]
    columns += [(n, w) for n, w in zip(names, (72, 72, 72, 78, 70, 82))]
    columns += [("of", 50), *((n, 60) for n in names)]
    rows = []
    for model, graphs in data.items():
        for graph, found in graphs.items():
            here = [f"{found['space'][stage] * 1e3:.1f}" for stage in STAGES]
            here[4] = f"{found['space']['hit_rate'] * 100:.0f}"
            there = PAPER_STAGES[model, GRAPHS[graph]]
            rows.append([f"{model}, {graph}", *here, GRAPHS[graph], *there])
    spans = [("here: milliseconds of an epoch", 1, 6), ("paper: seconds of an epoch", 7, 13)]
    table(page, MARGIN, columns, rows, spans)


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


def draw_13(page, data):
    for box, letter, (model, runs) in zip(side_by_side(page, 2, 340), "ab", data.items()):
        series = {f"{s}S": [(s + t, y) for t, y in c] for s, c in by_samplers(runs).items()}
        marks = [(5, 1.5, "paper, 2S 3T: 1.5"), (5, 2.1, "paper, 3S 2T: 2.1")]
        lines(page, box, series, f"({letter}) {model}", "devices", "seconds of an epoch",
              x_ticks=range(2, 9), marks=marks if model == "GCN" and not QUICK else ())  # fmt: skip


def draw_14(page, data):
    runs = data["GCN"]
    stages = ("sample", "extract", "train", "seconds")
    samplers = sorted(by_samplers(runs))
    for s, box in zip(samplers, side_by_side(page, len(samplers), 320)):
        mine = [run for run in runs if run["samplers"] == s]
        groups = [(f"{run['trainers']}T", [run[stage] for stage in stages]) for run in mine]
        bars(page, box, groups, ["Sample", "Extract", "Train", "Total"],
             f"{s} sampler{'s' * (s > 1)}", "trainers", "seconds of an epoch",
             top=max(run["seconds"] for run in runs) * 1.05)  # fmt: skip


def measure_16(lab):
    without, with_it = lab.slept("PinSAGE"), lab.slept("PinSAGE", switching=True)
    return {
        "switching": [
            (t, without[1, t]["seconds"], found["seconds"], found["helped"])
            for (_, t), found in with_it.items()
        ],
        "one device": trained("one", "space")(lab),
    }


ABBREVIATED = {"GCN": "GCN", "GraphSAGE": "GSG", "PinSAGE": "PSG"}


def draw_16(page, data):
    left, right = side_by_side(page, 2, 340)
    series = {
        "without switching": [p[:2] for p in data["switching"]],
        "with switching": [(p[0], p[2]) for p in data["switching"]],
    }
    lines(page, left, series, "(a) PinSAGE, stages that sleep", "trainers beside one sampler",
          "seconds of an epoch", x_ticks=[p[0] for p in data["switching"]])  # fmt: skip
    groups = [
        (
            f"{ABBREVIATED[model]}\n{GRAPHS[graph]}",
            [found["one"]["seconds"], found["space"]["seconds"]],
        )
        for model, graphs in data["one device"].items()
        for graph, found in graphs.items()
    ]  # fmt: skip
    bars(page, right, groups, ["one device of one core", "two: 1S 1T with switching"],
         "(b) a single device, computing", "",
         "seconds of an epoch; the GNN, and the graph that ours stands for")  # fmt: skip


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
        "100 epochs; on average over 75 %.",
        measure_t2, draw_t2,
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


def paragraph(page, label, text):
    page.y += 8
    for i, line in enumerate(wrap(text, 12, INNER - 84, most=12)):
        page.y += 17
        if i == 0:
            page.text(MARGIN, page.y, label, 12, GREY, bold=True)
        page.text(MARGIN + 84, page.y, line, 12, INK)


def write(figure, data, skipped, folder):
    page = Page()
    page.y += 8
    page.text(MARGIN, page.y, figure.title, 17, bold=True, width=INNER)
    without = f" Not here: {', '.join(skipped)}." if skipped else ""
    tiny = " BENCH_QUICK: the figures mean nothing." if QUICK else ""
    paragraph(page, "Here", f"{figure.here} Processor: {machine()}.{without}{tiny}")
    figure.draw(page, data)
    paragraph(page, "The paper", figure.paper)
    path = os.path.join(folder, f"figure-{figure.name}.svg")
    with open(path, "w") as file:
        file.write(page.finish(figure.title))
    print(f"  {path}", flush=True)
    return path


def write_index(names, others, folder):
    pictures = "\n".join(
        f'<p><img src="figure-{f.name}.svg" alt="{escape(f.title)}"></p>'
        for f in FIGURES
        if f.name in names
    )
    with open(os.path.join(folder, "index.html"), "w") as file:
        file.write(
            '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">'
            "<title>FGNN's figures</title>\n"
            "<style>body{font-family:sans-serif;max-width:70rem;margin:1rem auto}"
            "img{width:100%;border:1px solid #CBD2D9}</style>\n"
            f"<h1>FGNN's figures, measured with sluice</h1>\n<p>{escape(machine())}, "
            f"{time.strftime('%Y-%m-%d')}. {others} {escape(STANDS)} {escape(LEFT_OUT)}</p>\n"
            f"{pictures}\n</html>\n"
        )


@part
def part_figures():
    os.makedirs(OPTIONS.out, exist_ok=True)
    results, others = {}, Others()
    with Lab() as lab:
        for figure in FIGURES:
            begin = time.monotonic()
            results[figure.name] = figure.measure(lab)
            took = time.monotonic() - begin
            path = write(figure, results[figure.name], lab.skipped, OPTIONS.out)
            row(figure.title.split(":")[0], os.path.relpath(path), f"measured in {took:.0f} s")
            write_index(results, others, OPTIONS.out)
            with open(os.path.join(OPTIONS.out, "figures.json"), "w") as file:
                json.dump(results, file, indent=1)
