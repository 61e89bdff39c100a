"""The package python/sluice without a job: its tables are those of the header, blocks become
batches, data sets go in and out, what is not there is refused by name, and nothing of memory
stays."""

import ctypes
import json
import os
import re
import signal
import sys

import numpy as np
from harness import ROOT, Running, cases, planted, python_with, write_dataset

sys.path.insert(0, os.path.join(ROOT, "python"))
import sluice  # noqa: E402
from sluice import _batch, _job, _lib, _staged, _world  # noqa: E402

# ---- the header ---------------------------------------------------------------------------------

PLAIN = {
    "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "int": ctypes.c_int,
    "void": None,
}


def ctype_of(text):
    """The ctypes type of a C type: "const uint32_t *" is an address, "const char *" is text."""
    words = re.sub(r"\b(const|struct)\b", "", text)
    name, stars = words.replace("*", "").strip(), words.count("*")
    if name == "char" and stars:
        return ctypes.c_char_p
    if stars == 2:
        return ctypes.POINTER(ctypes.c_void_p)
    if name in _lib.STRUCTURES:
        kind = _lib.STRUCTURES[name]
        return ctypes.POINTER(kind) if stars else kind
    return ctypes.c_void_p if stars else PLAIN[name]


def declared(text):
    """[(name, ctypes type)] of "const uint32_t *indptr, *indices", "int64_t fanout[8 + 1]" or
    "int (*on_wait)(void *context)"."""
    function = re.fullmatch(r"\s*(\w+) \(\*(\w+)\)\((.*)\)", text)
    if function:
        result, name, arguments = function.groups()
        kinds = [ctype_of(re.sub(r"\w+$", "", kind)) for kind in arguments.split(",")]
        return [(name, ctypes.CFUNCTYPE(ctype_of(result), *kinds))]
    first, *others = text.split(",")
    kind, name = re.fullmatch(r"(.*?[\s*])(\w+(?:\[[^\]]+\])?)", first.strip(), re.S).groups()
    base = kind.replace("*", "")
    found = [(kind, name)]
    for other in others:
        stars, name = re.fullmatch(r"(\**)(\w+)", other.strip()).groups()
        found.append((base + stars, name))
    out = []
    for kind, name in found:
        name, _, count = name.partition("[")
        n = _lib.MAX_HOPS + count.count("+ 1")
        out.append((name, ctype_of(kind) * n if count else ctype_of(kind)))
    return out


def tables_of(header):
    """What a header declares, in the form of the package's tables."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.S)
    structures = {
        name: [field for line in body.split(";")[:-1] for field in declared(line)]
        for name, body in re.findall(r"\nstruct (sluice_\w+) \{(.*?)\};", text, re.S)
    }
    functions = {}
    for result, name, body in re.findall(r"\nSLUICE_API (.+?)(\w+)\((.*?)\);", text, re.S):
        parts = [] if body.strip() == "void" else body.split(",")
        kinds = [re.sub(r"\w+\s*$", "", part) for part in parts]
        functions[name] = (ctype_of(result), [ctype_of(kind) for kind in kinds])
    values = {}
    for enum in "sluice_result", "sluice_type":
        (body,) = re.findall(rf"enum {enum} \{{(.*?)\}};", text, re.S)
        values[enum] = {n: int(v) for n, v in re.findall(r"SLUICE_(\w+) = (-?\d+)", body)}
    hops = re.search(r"SLUICE_MAX_HOPS = (\d+)", text)[1]
    version = re.search(r"define SLUICE_API_VERSION (\d+)", text)[1]
    return structures, functions, values, (int(hops), int(version))


def own_tables():
    structures = {name: list(kind._fields_) for name, kind in _lib.STRUCTURES.items()}
    functions = {name: (result, list(kinds)) for name, (result, kinds) in _lib.FUNCTIONS.items()}
    values = {"sluice_result": _lib.RESULTS, "sluice_type": _lib.TYPES}
    return structures, functions, values, (_lib.MAX_HOPS, _lib.API_VERSION)


def test_tables_are_those_of_the_header(box):
    with open(os.path.join(ROOT, "include", "sluice.h"), encoding="utf-8") as file:
        header = file.read()
    for mine, theirs in zip(own_tables(), tables_of(header)):
        assert mine == theirs, f"python/sluice/_lib.py has {mine}, include/sluice.h {theirs}"
    for change in (
        ("uint64_t n_nodes, n_edges;", "uint64_t n_edges, n_nodes;"),
        ("uint32_t epoch;      // from 0", "uint64_t epoch;"),
        ("SLUICE_ECHANGED = -19", "SLUICE_ECHANGED = -18"),
        ("int (*on_wait)(void *context)", "int (*on_wait)(uint64_t context)"),
        ("sluice_done(sluice_loader *loader, uint64_t id)", "sluice_done(sluice_loader *loader)"),
        ("SLUICE_MAX_HOPS = 8", "SLUICE_MAX_HOPS = 9"),
    ):
        assert header.count(change[0]) == 1, change
        assert tables_of(header.replace(*change)) != tables_of(header), change


# ---- blocks -------------------------------------------------------------------------------------


class Freed:
    """A library whose memory is NumPy's: what has come back, and how often."""

    def __init__(self):
        self.memory, self.count = {}, 0

    def keep(self, array):
        at = array.__array_interface__["data"][0]
        self.memory[at] = array
        return at

    def keep_together(self, *arrays):
        """As the library does: one piece of memory, in this order."""
        starts = np.cumsum([0, *(array.nbytes + -array.nbytes % 64 for array in arrays)])
        piece = np.empty(starts[-1], np.uint8)
        for start, array in zip(starts.tolist(), arrays):
            there = piece[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            there[...] = array
            at = piece.ctypes.data + start
            self.memory[at] = there
            yield at

    def free(self, _):
        self.count += 1
        self.memory.clear()


def taken_batch(rng, freed, targets=0, beside="edge_ids"):
    """A batch as the library hands it over, and its edges as a list [(source, target, id)]."""
    n_hops = int(rng.integers(1, 5))
    after = np.cumsum(rng.integers(1, 9, n_hops + 1)).astype(np.uint32)
    counts = np.cumsum(rng.integers(0, 20, n_hops)).astype(np.uint32)
    n, n_edges, n_seeds = int(after[-1]), int(counts[-1]), int(after[0])
    drawn = zip(rng.integers(0, n, n_edges).tolist(), rng.integers(0, 1 << 40, n_edges).tolist())
    edges = [(source, k // 3, number) for k, (source, number) in enumerate(drawn)]
    lent = _lib.Batch(n_seeds=n_seeds, n_nodes=n, n_hops=n_hops, n_nodes_after=freed.keep(after))
    for k in range(n_hops):
        lent.hop[k].n_dst, lent.hop[k].n_edges = int(after[k]), int(counts[k])
    taken, numbers = _lib.Taken(freed), np.array([e[:2] for e in edges], np.int64).reshape(-1, 2)
    a = taken.arrays
    a.memory, a.n_edges = 1, n_edges
    ids = np.array([e[2] for e in edges], np.int64)
    shape = (n_seeds, targets) if targets else (n_seeds,)
    a.nodes, a.edges, of_edges, a.places, a.labels = freed.keep_together(
        rng.choice(10**9, n, replace=False),
        numbers.T,
        ids if beside == "edge_ids" else (ids % 1000).astype("f4"),
        rng.integers(0, 10**9, n_seeds),
        rng.random(shape).astype("f4") if targets else rng.integers(-1, 5, shape),
    )
    setattr(a, "edge_ids" if beside == "edge_ids" else "weights", of_edges)
    return lent, taken, edges, after.tolist(), counts.tolist()


def test_what_was_taken_becomes_a_batch(box):
    rng, freed = np.random.default_rng(5), Freed()
    for case in range(100):
        beside = ("edge_ids", "weights")[case % 2]
        lent, taken, edges, after, counts = taken_batch(rng, freed, case % 3, beside)
        labels, nodes = freed.memory[taken.arrays.labels], freed.memory[taken.arrays.nodes]
        places = freed.memory[taken.arrays.places]
        # Every third time the last hop is a subgraph of the vertices.
        hops = lent.n_hops - (case % 3 == 2 and lent.n_hops > 1)
        info = _lib.Info(n_targets=case % 3, n_hops=hops)
        fields = _batch.fields_of(lent, info, taken, _batch.finish("numpy", False))
        assert fields["edge_index"].T.tolist() == [[a, b] for a, b, _ in edges]
        assert fields["edge_index"].dtype == fields["n_id"].dtype == np.int64
        if beside == "edge_ids":
            assert fields["e_id"].tolist() == [number for _, _, number in edges]
        else:
            assert fields["edge_weight"].tolist() == [number % 1000 for _, _, number in edges]
        assert ("e_id" in fields) == (beside == "edge_ids") != ("edge_weight" in fields)
        assert fields["n_id"].tolist() == nodes.tolist() and (fields["y"] == labels).all()
        assert fields["y"].dtype == (np.float32 if case % 3 else np.int64)
        assert fields["input_id"].tolist() == places.tolist()
        assert fields["batch_size"] == after[0] and "x" not in fields
        nodes, kept = fields["num_sampled_nodes"], fields.get("num_sampled_edges")
        assert np.cumsum(nodes).tolist() == after[: hops + 1]
        if hops == lent.n_hops:
            assert np.cumsum(kept).tolist() == counts
        assert (kept is None) == (hops < lent.n_hops)
        assert all(type(value) is int for value in [*nodes, *(kept or []), fields["batch_size"]])


def info_of(lent):
    return _lib.Info(n_hops=lent.n_hops)


def test_memory_goes_back_when_nobody_has_it(box):
    rng, freed = np.random.default_rng(8), Freed()
    lent, taken, *_ = taken_batch(rng, freed)
    fields = _batch.fields_of(lent, info_of(lent), taken, _batch.finish("numpy", False))
    del taken
    part = fields["n_id"][1:]
    assert freed.count == 0 and part.flags.writeable
    fields.clear()
    assert freed.count == 0
    del part
    assert freed.count == 1
    _lib.Taken(freed)  # of a batch that was not taken in the end
    assert freed.count == 1


def test_edges_have_the_numbers_of_where_they_came_from(box):
    rng, freed = np.random.default_rng(6), Freed()
    lent, taken, edges, *_ = taken_batch(rng, freed)
    edge_ids = freed.memory[taken.arrays.edge_ids]
    edge_ids[:] = np.arange(len(edges))
    edge_map = rng.permutation(len(edges))
    known = _batch.Known(edge_map)
    fields = _batch.fields_of(lent, info_of(lent), taken, _batch.finish("numpy", False), known)
    assert fields["e_id"].tolist() == edge_map.tolist()


# ---- what is refused ----------------------------------------------------------------------------

NO_ARGUMENTS = dict.fromkeys(
    "num_neighbors batch_size input_nodes shuffle seed weight_attr replace subgraph_type disjoint "
    "balance samplers".split()
)
ONE = _world.World(0, 1, False)


def refusal(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except sluice.Error as error:
        return str(error)
    raise AssertionError(f"{function.__name__}{arguments}{named} was accepted")


REFUSED = (
    ({"directed": False}, "directed=False: use subgraph_type='induced'"),
    ({"edge_label_time": [1]}, "edge_label_time=[1]: pairs are not sampled by time: "),
    ({"batch_sampler": [1]}, "batch_sampler=[1]: the order is the job's: use input_nodes"),
)


def test_arguments_that_are_not_there(box):
    for given, words in REFUSED:
        assert refusal(_job.refuse, given).startswith(words)
    _job.refuse({"directed": True, "num_workers": 0, "time_attr": None})
    try:
        _job.refuse({"num_neighbours": 1}, ["num_neighbors"])
    except TypeError as error:
        assert "'num_neighbours': did you mean num_neighbors?" in str(error)
    else:
        raise AssertionError("an argument that nobody knows was accepted")


BAD = (
    ({"num_neighbors": None}, "num_neighbors: is needed"),
    ({"num_neighbors": 5}, "num_neighbors=5: wanted a list"),
    ({"num_neighbors": {}}, "num_neighbors: is a dictionary by edge type"),
    ({"num_neighbors": []}, "num_neighbors: has 0 hops, wanted 1 to 8"),
    ({"num_neighbors": [5] * 9}, "num_neighbors: has 9 hops, wanted 1 to 8"),
    ({"num_neighbors": [5, 5.5]}, "num_neighbors[1]=5.5: wanted a whole number"),
    ({"num_neighbors": [None]}, "num_neighbors[0]=None: wanted a whole number"),
    ({"input_nodes": []}, "input_nodes: is empty, wanted a vertex or more"),
    ({"input_nodes": np.zeros(1500, bool)}, "input_nodes: is empty, wanted a vertex or more"),
    ({"input_nodes": [[1], [2, 3]]}, "input_nodes: is list, wanted an array of numbers"),
    ({"input_nodes": ("paper", [1])}, "input_nodes: is ('paper', ...), and the graph has vertices"),
    ({"input_nodes": [[1, 2], [3]]}, "input_nodes: is list, wanted an array of numbers"),
    ({"input_nodes": "trian"}, "input_nodes='trian': wanted 'train', 'val', 'test', 'all'"),
    ({"input_nodes": [4, 1, 4]}, "input_nodes: lists vertex 4 more than once"),
    ({"input_nodes": [4, 1500]}, "input_nodes: has vertex 1500, wanted 0 to 1499"),
    ({"input_nodes": [-1]}, "input_nodes: has vertex -1, wanted 0 to 1499"),
    ({"input_nodes": np.ones(7, bool)}, "input_nodes: is a mask of 7, wanted 1500"),
    ({"input_nodes": [0.5]}, "input_nodes: is of type float64, wanted integers or bools"),
    ({"input_nodes": "train_mask"}, "input_nodes='train_mask': wanted 'train', 'val', 'test', 'all'"
     ", ids or a mask: use 'train'"),
    ({"input_nodes": "Validation"}, "input_nodes='Validation': wanted 'train', 'val', 'test', 'all'"
     ", ids or a mask: use 'val'"),
    ({"input_nodes": 5}, "input_nodes=5: is one number, wanted a list or array of vertices"),
    ({"input_nodes": b"train"}, "input_nodes=b'train': is text, wanted a list or array of"),
    ({"input_nodes": ["train"]}, "input_nodes=['train']: is text, wanted a list or array of"),
    ({"input_nodes": np.array(5)}, "input_nodes=array(5): is one number, wanted a list or array"),
    ({"input_nodes": (np.arange(1500) % 2).astype(np.uint8)},
     "input_nodes: has uint8 zeros and ones: a mask is bool: use .bool()"),
    ({"batch_size": 0}, "batch_size=0: wanted a whole number from 1 to 2147483648"),
    ({"batch_size": 16.0}, "batch_size=16.0: wanted a whole number"),
    ({"weight_attr": "w"}, "weight_attr='w': wanted 'edge_weight'"),
)


def test_bad_arguments(box):
    path = box.shared_dataset("planted")
    for change, words in BAD:
        said = refusal(_job.plan, path, {**NO_ARGUMENTS, "num_neighbors": [5], **change}, ONE)
        assert said.startswith(words), said
    for data in (5, object(), [1]):
        assert refusal(_job.plan, data, NO_ARGUMENTS, ONE).startswith("data: is "), data
    said = refusal(_job.plan, box.path("nowhere"), NO_ARGUMENTS, ONE)
    assert "no such directory" in said and "sluice.from_pyg(data).save(path)" in said, said
    said = refusal(_job.plan, os.path.join(path, "metadata.json"), NO_ARGUMENTS, ONE)
    assert said.endswith(f"is a file of a data set, wanted its directory, {path}"), said
    for job, words in (
        ({"dataset": path, "seed": object()}, "job: cannot be written as JSON: it has a object"),
        ({"dataset": Graph()}, "job: cannot be written as JSON: it has a Graph: give it as data"),
    ):
        said = refusal(_job.plan, job, NO_ARGUMENTS, ONE)
        assert said.startswith(words), said
    asked = {**NO_ARGUMENTS, "num_neighbors": np.array([5, 3])}
    assert json.loads(_job.plan(path, asked, ONE).text)["sampler"]["fanout"] == [5, 3]
    for change, words in (
        ({"shuffle": "no"}, "shuffle='no': wanted True or False"),
        ({"adj": "csr"}, "adj='csr': wanted 'csc'"),
        ({"adj": "csc", "arrays": "numpy"}, "adj='csc': wanted 'csc', with batches of"),
        ({"timeout": -1}, "timeout=-1: wanted seconds"),
        ({"start_timeout": "a"}, "start_timeout='a': wanted seconds"),
        ({"transform": 5}, "transform=5: wanted a function"),
        ({"pin_memory": True, "arrays": "numpy"}, "pin_memory=True: needs PyTorch"),
        ({"rank": "0", "world": 1}, "rank='0', world=1: wanted whole numbers"),
    ):
        said = refusal(lambda kept=change: sluice.NeighborLoader(path, [5], **kept))
        assert said.startswith(words), said


class Graph:
    """What the package looks at of a torch_geometric.data.Data."""

    def __init__(self, **change):
        ring = np.arange(100)
        self.x, self.edge_index = np.ones((100, 4)), np.stack([ring, np.roll(ring, 1)])
        self.train_mask, self.num_nodes = ring < 60, 100
        self.__dict__.update(change)

    def __contains__(self, name):
        return self.__dict__.get(name) is not None

    def __getitem__(self, name):
        return self.__dict__[name]


def changed(array, at, value):
    array = np.array(array, float)
    array[at] = value
    return array


ONES = np.ones(100)
# What is wrong with a Data, further arguments, what is said.
BAD_DATA = (
    ({"train_mask": None}, {"input_nodes": "train"},
     "input_nodes='train': data.train_mask is missing: give ids or a mask as input_nodes"),
    ({"train_mask": ONES < 0}, {"input_nodes": "train"},
     "input_nodes='train': data.train_mask is empty: give ids or a mask as input_nodes"),
    ({"train_mask": ONES.astype(np.uint8)}, {"input_nodes": "train"},
     "data.train_mask: has uint8 zeros and ones: a mask is bool"),
    ({"train_mask": np.ones((100, 2), bool)}, {"input_nodes": "train"},
     "data.train_mask: has 2 dimensions, wanted one: choose a column"),
    ({"x": np.ones((99, 4))}, {}, "data.x: is [99, 4], wanted 100 rows: one for each vertex"),
    ({"w": changed(ONES, 8, -2)}, {"weight_attr": "w"},
     "data.w: element 8 is -2, wanted a finite number from 0 on"),
    ({"w": changed(ONES, 9, np.nan)}, {"weight_attr": "w"}, "data.w: element 9 is nan, wanted"),
    ({"w": changed(ONES, 3, 1e300)}, {"weight_attr": "w"}, "data.w: element 3 is 1e+300, wanted n"),
    ({"w": np.ones((100, 2))}, {"weight_attr": "w"},
     "data.w: is [100, 2], wanted a weight an edge: [100]"),
    ({"edge_index": np.zeros((100, 2), int)}, {},
     "data.edge_index: is int64 [100, 2], wanted int64 [2, num_edges]: use edge_index.t()"),
    ({"edge_index": np.zeros((2, 5))}, {},
     "data.edge_index: is float64 [2, 5], wanted int64 [2, num_edges]: use edge_index.long()"),
)
# Features that a data set cannot have.
BAD_FEATURES = (
    (changed(np.ones((100, 4)), (7, 2), -1e300),
     "data.x: row 7, column 2 is -1e+300, wanted numbers that float32 has, up to 3.40282e+38"),
    (ONES, "data.x: is float64 [100], wanted float32 [num_nodes, feat_dim]: use data.x[:, None]"),
)


def test_a_bad_data(box):
    for change, more, words in BAD_DATA:
        asked = {**NO_ARGUMENTS, "num_neighbors": [5], **more}
        said = refusal(_job.plan, Graph(**change), asked, ONE)
        assert said.startswith(words), said
        assert box.temp not in said and os.listdir(box.temp) == [], said
    assert refusal(_job.plan, [Graph()], NO_ARGUMENTS, ONE).endswith("edge_index: use data[0]")
    for x, words in BAD_FEATURES:
        said = refusal(sluice.from_pyg, Graph(x=x))
        assert said.startswith(words), said
    # What nobody asks for is an attribute like any other, and features of other kinds as well.
    for change in (
        *({"x": x} for x, _ in BAD_FEATURES),
        {"edge_weight": np.ones((100, 2))},
        {"edge_weight": -ONES},
        {"train_mask": np.ones((100, 2), bool)},
    ):
        plan = _job.plan(Graph(**change), {**NO_ARGUMENTS, "num_neighbors": [5]}, ONE)
        assert not os.path.exists(os.path.join(plan.staged.path, "edge_weight.npy"))
        plan.staged.close()
    arrays = {"indptr": np.arange(6), "indices": np.arange(5)}
    for change, more, words in (
        ({"bogus": 1}, {}, "data.arrays: has 'bogus', wanted some of indptr, "),
        ({"edge_weight": 1}, {"weight_attr": "w"}, "weight_attr='w': wanted 'edge_weight'"),
        ({}, {"weight_attr": "edge_weight"}, "weight_attr='edge_weight': wanted 'edge_weight', and "
         "weights in data.arrays['edge_weight']"),
        ({}, {"input_nodes": "val"}, "input_nodes='val': data.arrays['val_idx'] is missing"),
    ):
        asked = {**NO_ARGUMENTS, "num_neighbors": [5], **more}
        said = refusal(_job.plan, sluice.Dataset({}, {**arrays, **change}), asked, ONE)
        assert said.startswith(words), said


JOB = {"dataset": "d", "sampler": {"fanout": [5, 5], "batch_size": 64}}


def test_what_a_job_says_is_said_once(box):
    same = {**NO_ARGUMENTS, "batch_size": np.int64(64), "num_neighbors": (5, 5)}
    job = json.loads(_job.plan(JOB, same, ONE).text)
    assert job["sampler"] == {**JOB["sampler"], "expand": "new", "edge_ids": True}
    said = refusal(_job.plan, JOB, {**NO_ARGUMENTS, "batch_size": 32}, ONE)
    assert said == "batch_size=32: the job says sampler.batch_size 64: say it in one place"
    for key, words in (
        ({"sampler": {"expand": "all"}}, 'sampler.expand: is "all"'),
        ({"model": {"kind": "gcn"}}, 'model.kind: is "gcn", wanted "external"'),
    ):
        assert refusal(_job.plan, {**JOB, **key}, NO_ARGUMENTS, ONE).startswith(words)


# ---- data sets ----------------------------------------------------------------------------------


def test_a_data_set_is_saved_and_opened(box):
    path = write_dataset(box.path("first"), planted(n=200))
    first = sluice.open(path)
    assert first.num_nodes == 200 and first.path == path
    first.save(box.path("deep", "second"))
    second = sluice.open(box.path("deep", "second"))
    assert second.metadata == first.metadata and list(second.arrays) == list(first.arrays)
    for name, array in first.to_numpy().items():
        assert (second.arrays[name] == array).all() and second.arrays[name].dtype == array.dtype
    box.sluice("inspect", box.path("deep", "second")).ok()
    assert "exists: choose another" in refusal(first.save, path)
    assert os.listdir(box.path("deep")) == ["second"]
    second.arrays["node_feat"][0] = 7  # stays in this process
    assert (sluice.open(second.path).arrays["node_feat"][0] == first.arrays["node_feat"][0]).all()
    os.makedirs(box.path("drive"))
    box.sluice("stripe", path, "--to", box.path("drive")).ok()
    third = sluice.open(sluice.open(path).save(box.path("third")))
    assert "feat_stripes" not in third.metadata and "node_feat" in third.arrays
    os.remove(os.path.join(path, "node_feat.npy"))
    striped = sluice.open(path)
    for way in lambda: striped.save(box.path("fourth")), striped.to_pyg:
        assert refusal(way).startswith(f"data set {path}: its features are in stripes"), way


def test_features_of_types_in_stripes(box):
    path = box.path("typed")
    box.sluice("generate", "typed", "--nodes", "200", "--out", path, "-q").ok()
    os.makedirs(box.path("drive"))
    box.sluice("stripe", path, "--to", box.path("drive")).ok()
    saved = sluice.open(sluice.open(path).save(box.path("saved")))
    assert not any("feat_stripes" in t for t in saved.metadata["types"]), saved.metadata
    box.sluice("inspect", saved.path).ok()
    os.remove(os.path.join(path, "node_feat.paper.npy"))
    striped = sluice.open(path)
    for way in lambda: striped.save(box.path("again")), striped.to_pyg:
        said = refusal(way)
        assert said.startswith(f"data set {path}: its features are in stripes"), said
        assert "node_feat.paper.npy" in said, said


def test_no_data_set(box):
    assert "no such directory" in refusal(sluice.open, box.path("nowhere"))
    assert "has no metadata.json" in refusal(sluice.open, box.folder)
    for name, text in (("a", "{"), ("b", "{}"), ("c", '{"types": [{"name": "paper"}]}')):
        os.makedirs(box.path(name))
        with open(box.path(name, "metadata.json"), "w") as file:
            file.write(text)
    assert "is not valid JSON" in refusal(sluice.open, box.path("a"))
    assert "has no indptr.npy" in refusal(sluice.open, box.path("b"))
    assert "types and relations are not what they should be" in refusal(sluice.open, box.path("c"))


# ---- data sets in memory ------------------------------------------------------------------------

STAGE = """
import os, signal, sys
sys.path.insert(0, {package!r})
import numpy as np, sluice
from sluice import _staged
dataset = sluice.open({path!r})
staged = _staged.stage(sluice.Dataset(dataset.metadata, dataset.to_numpy()), np.array([3, 1]))
print(staged.path, flush=True)
{then}
"""


def python(box, program, **values):
    package = os.path.join(ROOT, "python")
    text = program.format(package=package, **values)
    return Running(box, [sys.executable, "-c", text], box.environment())


def staged_folder(running):
    return running.until(lambda: running.output()[0].strip(), "the folder's name")


def test_an_array_in_memory_is_a_file_for_others(box):
    path = box.shared_dataset("planted")
    running = python(box, STAGE, path=path, then="signal.pause()")
    folder = staged_folder(running)
    box.sluice("inspect", folder).ok()
    assert np.load(os.path.join(folder, "train_idx.npy")).tolist() == [3, 1]
    assert not os.path.exists(os.path.join(folder, "val_idx.npy"))
    for name in ("indptr", "node_feat"):
        file = f"{name}.npy"
        assert (np.load(os.path.join(folder, file)) == np.load(os.path.join(path, file))).all()
    running.kill()
    running.wait()
    box.until_gone()
    assert not os.path.exists(folder)


ENDS = {
    "returns": "",
    "closes": "staged.close(); assert not os.path.exists(staged.path)",
    "is-collected": "p = staged.path; del staged; assert not os.path.exists(p)",
    "raises": "raise KeyError('user')",
    "exits": "os._exit(0)",
    "is-killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "closes-beside-a-child": "child = os.fork()\nif child == 0: signal.pause()\nstaged.close()\n"
    "assert not os.path.exists(staged.path); os.kill(child, 9); os.waitpid(child, 0)",
    "forks": "if os.fork() == 0: sys.exit()\nos.wait(); assert os.path.exists(staged.path)",
}


@cases(*ENDS)
def test_nothing_of_memory_stays_when_its_process(box, end):
    running = python(box, STAGE, path=box.shared_dataset("planted"), then=ENDS[end])
    result = running.wait()
    wanted = {"raises": 1, "is-killed": -signal.SIGKILL}.get(end, 0)
    assert result.rc == wanted, str(result)
    box.until_gone()  # the remover, too
    assert not os.path.exists(result.out.strip())


def test_the_next_one_removes_what_nobody_could(box):
    """Everything was killed at once: process and remover."""
    running = python(box, STAGE, path=box.shared_dataset("planted"), then="signal.pause()")
    folder = staged_folder(running)
    living = python(box, STAGE, path=box.shared_dataset("planted"), then="signal.pause()")
    other = staged_folder(living)
    remover = [pid for pid, line in box.processes().items() if folder in line]
    assert len(remover) == 1
    for pid in (*remover, running.process.pid):
        os.kill(pid, signal.SIGKILL)
    running.wait()
    assert os.path.exists(folder)
    _staged.sweep(box.temp)
    assert not os.path.exists(folder) and os.path.exists(other)
    living.kill()
    living.wait()


def test_the_command_line(box):
    running = Running(
        box,
        [sys.executable, "-m", "sluice", "--version"],
        box.environment(
            {"PYTHONPATH": os.path.join(ROOT, "python"), "SLUICE_PROGRAMS": box.programs}
        ),
    )
    assert running.wait().ok().out == box.sluice("--version").out


SCIPY = """
import sys
sys.path.insert(0, {package!r})
import numpy as np, scipy.sparse, sluice
first = sluice.open({path!r})
matrix = first.to_scipy()
assert scipy.sparse.issparse(matrix) and matrix.shape == (first.num_nodes,) * 2
dense = np.zeros(matrix.shape, np.float32)
for v in range(first.num_nodes):
    for u in first.arrays["indices"][first.arrays["indptr"][v] : first.arrays["indptr"][v + 1]]:
        dense[u, v] += 1
assert (matrix.toarray() == dense).all()
arrays = first.to_numpy()
x, y, train = arrays["node_feat"], arrays["node_label"], arrays["train_idx"]
for same in matrix, matrix.tocoo(), matrix.tocsr():
    again = sluice.from_scipy(same, x, y, train, weights=True)
    assert (again.to_scipy() != matrix).nnz == 0 and again.metadata["num_classes"] == 4
    for name in "node_feat", "node_label", "train_idx":
        assert (again.arrays[name] == arrays[name]).all()
again.save("saved")
try:
    sluice.from_scipy(matrix[:5])
except sluice.UsageError as error:
    assert str(error).startswith("matrix: is 5 x 60"), error
"""


def test_scipy(box):
    path = write_dataset(box.path("first"), planted(n=60))
    package = os.path.join(ROOT, "python")
    program = SCIPY.format(package=package, path=path)
    Running(box, [python_with("scipy"), "-c", program], box.environment()).wait().ok()
    box.sluice("inspect", "saved").ok()


# ---- memory of batches --------------------------------------------------------------------------
