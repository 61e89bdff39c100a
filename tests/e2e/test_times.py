"""Sampling by time: what an import keeps of times, and that no batch has an edge later than its
seed, whoever draws it."""

import os

import libsluice as s
import numpy as np
from harness import cases, cpu_devices, planted, small_job, whole, write_dataset
from test_bad_input import refused
from test_libsluice import opened
from test_python_loader import run

NOT_UNDER = dict.fromkeys(
    ("address", "undefined", "thread"), "the interpreter is built without the sanitizer"
)


# ---- data ---------------------------------------------------------------------------------------


def load(folder):
    return {
        name[:-4]: np.load(os.path.join(folder, name))
        for name in os.listdir(folder)
        if name.endswith(".npy")
    }


def lists(arrays, *names):
    """Of each vertex its edges: tuples of what each of the arrays has."""
    ends = arrays["indptr"]
    rows = list(zip(*(arrays[name].tolist() for name in names)))
    return [rows[a:b] for a, b in zip(ends, ends[1:])]


@cases("directed", "undirected", "relabel", "by-time")
def test_an_import_keeps_times(box, kind):
    """Each list by time, of equal times by source; times of vertices from text, or an array."""
    os.chdir(box.folder)
    rng, n = np.random.default_rng(4), 60
    edges = (n * rng.random((900, 2)) ** 2).astype(int)
    edges = np.concatenate([edges, np.arange(n)[:, None].repeat(2, 1)])  # all vertices are there
    time = rng.integers(0, 30, len(edges)) + rng.choice([0, 2_139_095_000], len(edges))
    of_vertex = rng.integers(-(2**62), 2**62, n)
    with open("list.txt", "w") as file:
        file.writelines(f"{u} {v} {t}\n" for (u, v), t in zip(edges.tolist(), time.tolist()))
    options = ["--times", "--node-times", "vertices.csv", "--out", "made"]
    options += [f"--{kind}"] if kind in ("undirected", "relabel") else []
    options += ["--holdout", "0.1,0.1", "--by-time", "--pairs", "directed"] * (kind == "by-time")
    with open("vertices.csv", "w") as file:
        file.writelines(["vertex,born\n"] + [f"{v},{of_vertex[v]}\n" for v in rng.permutation(n)])
    if kind == "undirected":
        np.save("vertices.npy", of_vertex)
        options[2] = "vertices.npy"
    said = box.sluice("import", "edgelist", "list.txt", *options).ok().out
    made = load("made")
    assert "edge_weight" not in made and ("with times" in said or kind == "by-time"), said
    assert made["edge_time"].dtype == made["node_time"].dtype == np.int64
    assert np.array_equal(made["node_time"], of_vertex)
    held = made.get("val_edges", []), made.get("test_edges", [])
    held = {tuple(pair) for pairs in held for pair in np.asarray(pairs).tolist()}
    assert bool(held) == (kind == "by-time")
    wanted = [[] for _ in range(n)]
    for (u, v), t in zip(edges.tolist(), time.tolist()):
        if (u, v) not in held:
            wanted[v].append((t, u))
        if kind == "undirected" and u != v:
            wanted[u].append((t, v))
    assert lists(made, "edge_time", "indices") == [sorted(row) for row in wanted]
    shown = box.sluice("inspect", "made", "-o", "json").ok().json()
    assert shown["edge_times_rise"] and shown["edge_time"] and shown["node_time"]
    assert "times  " in box.sluice("inspect", "made").ok().out


BAD_TIMES = {
    "weights": (["--times", "--weights"], "--times and --weights both given", "leave one out"),
    "loops": (["--times", "--add-self-loops"], "--times and --add-self-loops", "leave one out"),
    "columns": (["--times", "--columns", "1,2"], "line 1", "no time"),
    "fraction": (["--times", "--columns", "1,2,4"], "line 1", "1.5", "an edge's time"),
    "missing": (["--times", "--node-times", "few.csv"], "few.csv", "none of vertex '1'"),
    "text": (["--times", "--node-times", "text.csv"], "text.csv", "'soon'", "a whole number"),
    "length": (["--times", "--node-times", "few.npy"], "few.npy", "a number for each vertex"),
}


@cases(*BAD_TIMES)
def test_times_that_cannot_be(box, name):
    os.chdir(box.folder)
    options, *words = BAD_TIMES[name]
    texts = {"list.txt": "0 1 7 1.5\n1 0 8 2\n", "few.csv": "0,5\n", "text.csv": "0,5\n1,soon\n"}
    for path, text in texts.items():
        with open(path, "w") as file:
            file.write(text)
    np.save("few.npy", np.zeros(1, int))
    if "--columns" not in options:
        options = [*options, "--columns", "1,2,3"]
    command = ["import", "edgelist", "list.txt", *options, "--out", "made"]
    box.sluice(*command).error(2, *words)
    assert not os.path.exists("made")


def timed(n=1500, seed=5, **more):
    """A planted graph whose edges and vertices have times, many of them equal."""
    arrays, rng = planted(n, **more), np.random.default_rng(seed)
    arrays["edge_time"] = rng.integers(0, 50, len(arrays["indices"]))
    target = np.repeat(np.arange(n), np.diff(arrays["indptr"]))
    order = np.lexsort((arrays["edge_time"], target))
    for name in ("edge_time", "indices"):
        arrays[name] = arrays[name][order]
    arrays["node_time"] = rng.integers(-2, 55, n)
    return arrays


@cases("reorder", "split-edges")
def test_times_go_with_their_edges(box, command):
    os.chdir(box.folder)
    write_dataset("data", timed(300))
    options = ["--by", "degree"] if command == "reorder" else ["--val", "0.1", "--test", "0.1"]
    options += ["--pairs", "directed"] if command == "split-edges" else []
    box.sluice(command, "data", *options, "--out", "made").ok()
    assert box.sluice("inspect", "made", "-o", "json").ok().json()["edge_times_rise"]
    old, new = load("data"), load("made")
    before = new.get("vertex_map", np.arange(300))
    assert np.array_equal(new["node_time"], old["node_time"][before])
    new["indices"] = before[new["indices"]]
    was, now = (lists(a, "edge_time", "indices") for a in (old, new))
    for v, row in enumerate(now):
        left = iter(was[before[v]])  # in their order, and all of them where none is held out
        assert all(edge in left for edge in row), v
        assert command == "split-edges" or len(row) == len(was[before[v]])


# ---- jobs ---------------------------------------------------------------------------------------


def shared(box):
    return box.shared_folder("timed", lambda path: write_dataset(path, timed()))


def job(box, rule, /, output="runs/job", **changes):
    more = {"sampler.time": rule, "evaluate.fanout": [-1, -1], **changes}
    return small_job(shared(box), output, **more)


def lent(box, rule, **changes):
    config = job(box, rule, name=box.unique("timed"), **{"sampler.edge_ids": True, **changes})
    for key in ("model", "optimizer", "updates", "evaluate", "epochs"):
        del config[key]
    return {**config, "devices": cpu_devices(config["allocation"]["samplers"] + 1)}


def trees(batch):
    """Of each hop its edges' targets, sources, numbers and seeds; the vertices' seeds."""
    seed_of = np.full(batch.n_nodes, -1)
    seed_of[: batch.n_seeds] = np.arange(batch.n_seeds)
    for h in range(batch.n_hops):
        hop = batch.hop[h]
        ends = s.array(hop.indptr, hop.n_dst + 1)
        target = np.repeat(np.arange(hop.n_dst), np.diff(ends))
        source = s.array(hop.indices, hop.n_edges)
        numbers = s.array(hop.edge_ids, hop.n_edges, "<u8")
        seed_of[source] = seed_of[target]
        assert (seed_of[target] >= 0).all()
        yield target, source, numbers, seed_of[target]


RULES = (
    ("uniform", False, "all"),
    ("latest", False, "new"),
    ("uniform", True, "new"),
    ("latest", True, "all"),
)


@cases(*RULES)
def test_no_edge_is_later_than_the_seed(box, rule, strict, expand):
    """In any hop; and of each vertex as many as there are, and of the latest ones exactly those."""
    os.chdir(box.folder)
    more = {"sampler.time_strict": strict, "sampler.expand": expand, "allocation.samplers": 2}
    config, arrays, n_cut = lent(box, rule, **more), timed(), 0
    fanout = config["sampler"]["fanout"]
    with opened(box, config) as loader:
        for batch in loader.epoch():
            nodes = s.nodes(batch)
            bound = arrays["node_time"][s.seeds(batch)] - strict
            for h, (target, source, numbers, seeds) in enumerate(trees(batch)):
                assert (arrays["edge_time"][numbers] <= bound[seeds]).all()
                assert (arrays["indices"][numbers] == nodes[source]).all()
                seed_of = np.zeros(target.max(initial=0) + 1, int)
                seed_of[target] = seeds
                taken = np.split(numbers, np.flatnonzero(np.diff(target)) + 1)
                for row, edges in zip(np.unique(target), taken):
                    first, last = arrays["indptr"][nodes[row] : nodes[row] + 2]
                    times = arrays["edge_time"][first:last]
                    n = int(np.searchsorted(times, bound[seed_of[row]], "right"))
                    k = fanout[h] if expand == "all" else len(edges)
                    n_cut += n < last - first
                    assert len(edges) == min(n, k) and len(set(edges.tolist())) == len(edges)
                    if rule == "latest":
                        assert edges.tolist() == list(range(first + n - len(edges), first + n))
    assert n_cut > 1000


def test_times_that_let_every_edge_in_change_nothing(box):
    """Batches are those of the disjoint job without times."""
    os.chdir(box.folder)
    arrays = timed(400)
    arrays["node_time"][:] = arrays["edge_time"].max()
    write_dataset("data", arrays)
    found = []
    for keys in {"time": "uniform"}, {"disjoint": True}:
        config = {**lent(box, "none"), "dataset": "data", "output": f"runs/{len(found)}"}
        config["sampler"] = {**config["sampler"], "time": "none", **keys}
        with opened(box, config) as loader:
            batches = []
            for batch in loader.epoch():
                batches.append([x.tolist() for x in s.everything(batch)])
                found.append(batches)
    assert found[0] == found[1] and len(found[0]) > 3


KINDS = {"khop": {}, "weighted": {"sampler.kind": "weighted"}, "labor": {"sampler.kind": "labor"}}


@cases("uniform", "latest")
def test_who_draws_changes_nothing(box, rule):
    """Training, with its evaluations: by one sampler, by two, and by one of which others die."""
    os.chdir(box.folder)
    found = []
    for samplers, env in ((1, None), (2, None), (2, {"SLUICE_FAILPOINT": "sampler_drawn:3"})):
        config = job(box, rule, f"runs/{len(found)}", **{"allocation.samplers": samplers})
        result, report = box.run(config, env=env)
        result.ok()
        keys = "params_sha256", "samples_digest", "test", "best_metric"
        found.append([report[key] for key in keys])
        assert bool(report["restarts"]) == bool(env), report["restarts"]
    assert found[0] == found[1] == found[2]
    assert found[0][2]["accuracy"] > 0.3


def test_seeds_that_share_vertices_fit_a_cache_of_all_rows(box):
    """A batch of disjoint seeds has vertices several times, here more than the graph has."""
    os.chdir(box.folder)
    arrays, found = timed(400), []
    write_dataset("data", arrays)
    for place in "memory", "storage":
        keys = {"store.features": place, "sampler.batch_size": 100, "sampler.fanout": [10, 10]}
        result, report = box.run({**job(box, "uniform", f"runs/{place}", **keys),
                                  "dataset": "data"})
        result.ok()
        found.append(report["params_sha256"])
    assert found[0] == found[1] and report["store"]["cache_rows"] == 400
    assert report["epochs"][0]["input_nodes"] > 400 * report["epochs"][0]["batches"]


@whole
@cases(*KINDS)
def test_kinds_of_sampling(box, kind):
    os.chdir(box.folder)
    arrays, found = timed(), []
    arrays["edge_weight"] = np.ones(len(arrays["indices"]), np.float32)
    write_dataset("data", arrays)
    for samplers in 1, 2:
        keys = {**KINDS[kind], "allocation.samplers": samplers}
        config = {**job(box, "uniform", f"runs/{samplers}", **keys), "dataset": "data"}
        result, report = box.run(config)
        result.ok()
        found.append([report[k] for k in ("params_sha256", "samples_digest", "test")])
    assert found[0] == found[1]


def test_times_that_fall_are_refused(box):
    """By name, before anything runs; sorted, as the message says, the job runs."""
    os.chdir(box.folder)
    arrays = timed(400)
    edge = int(arrays["indptr"][np.argmax(np.diff(arrays["indptr"]))]) + 2
    arrays["edge_time"][edge] = -9
    write_dataset("data", arrays)
    config = {**job(box, "uniform"), "dataset": "data"}
    result = box.sluice("run", box.job(config))
    said = f"edge_time.npy: element {edge} (edge 2 of vertex"
    refused(box, result, said, "is -9, earlier than the one before it", "sort each list")
    target = np.repeat(np.arange(400), np.diff(arrays["indptr"]))
    order = np.lexsort((arrays["edge_time"], target))
    for name in ("edge_time", "indices"):
        np.save(f"data/{name}.npy", arrays[name][order])
    box.run(config)[0].ok()
    os.remove("data/node_time.npy")
    config["output"] = "runs/again"
    result = box.sluice("run", box.job(config))
    refused(box, result, "has no node_time.npy", "numpy.save", output="runs/again")


def test_a_model_of_seeds_with_times_predicts_no_whole_graph(box):
    os.chdir(box.folder)
    box.run(job(box, "latest"))[0].ok()
    for command in "predict", "embed":
        result = box.sluice(command, "runs/job", "--out", "p.npy")
        refused(box, result, "sampler.time", "--dataset", output="p.npy")
    with_all = ["predict", "runs/job", "--out", "p.npy"]
    box.sluice(*with_all, "--dataset", shared(box)).ok()  # a graph of one time, the caller says


# ---- the Python package --------------------------------------------------------------------------

TIMES = """
rng, n = np.random.default_rng(3), len(graph["indptr"]) - 1
time = np.sort(rng.integers(0, 90, len(graph["indices"])))
for first, last in zip(graph["indptr"], graph["indptr"][1:]):  # rising in each list
    time[first:last] = np.sort(rng.integers(0, 90, last - first))
graph.update(edge_time=time, node_time=rng.integers(0, 99, n))
memory = sluice.Dataset(sluice.open(path).metadata, graph)
memory.save("timed")
fanout, nodes = [5, -1], rng.permutation(n)[:300]

def check(batch, bound, last):  # of each seed; and how many edges were too late
    n_late = 0
    assert (time[batch.e_id] <= bound[batch.batch[batch.edge_index[1]]]).all()
    for row in range(batch.batch_size):
        v = batch.n_id[row]
        first, end = graph["indptr"][v], graph["indptr"][v + 1]
        there = first + np.flatnonzero(time[first:end] <= bound[row])
        mine = batch.e_id[batch.edge_index[1] == row]
        assert len(mine) == min(len(there), fanout[0])
        assert not last or (mine == there[len(there) - len(mine):]).all()
        n_late += end - first - len(there)
    return n_late

for data in "timed", memory:
    for strategy in "uniform", "last":
        more = dict(time_attr="time", temporal_strategy=strategy, input_nodes=nodes)
        for input_time in None, rng.integers(0, 90, len(nodes)):
            with open_loader(data, fanout, input_time=input_time, **more) as loader:
                n_late = 0
                for batch in loader:
                    bound = graph["node_time"][batch.n_id[:batch.batch_size]]
                    if input_time is not None:
                        bound = input_time[batch.input_id]
                    n_late += check(batch, bound, strategy == "last")
                assert n_late > 100
                bound = graph["node_time"][nodes] if input_time is None else input_time
                check(loader(np.arange(9)), bound[:9], strategy == "last")
with open_loader("timed", fanout, time_attr="time", input_nodes=None, shuffle=False,
                 input_time=np.full(n, 40)) as loader:
    for batch in loader:
        check(batch, np.full(batch.batch_size, 40), False)
for said, more in (
    ("time_attr='t': wanted 'time'", dict(time_attr="t")),
    ("temporal_strategy='first': wanted 'uniform' or 'last'",
     dict(time_attr="time", temporal_strategy="first")),
    ("temporal_strategy='last': is for sampling by time", dict(temporal_strategy="last")),
    ("input_time: is for sampling by time", dict(input_time=[1], input_nodes=[5])),
    ("input_time: is int64 [1], wanted whole numbers [2]",
     dict(time_attr="time", input_time=[1], input_nodes=[5, 6])),
    ("input_time: is for seeds that are given", dict(time_attr="time", input_time=[1])),
):
    assert said in refused(open_loader, "timed", **more), said
made = refused(open_loader, path, time_attr="time")
assert "has no edge_time.npy: sampling by time needs it" in made, made
"""


def test_python(box):
    """No edge of a seed's part is later than the seed, by its own time or the given one; of the
    first hop exactly those are there that should be."""
    run(box, TIMES)
