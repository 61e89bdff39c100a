"""`sluice import pyg`: the tensors of PyTorch Geometric's Data, as .npz or as a folder of .npy."""

import json
import os
import re
import subprocess

import numpy as np

from harness import ROOT, cases, python_with, read_json
from test_bad_input import refused
from test_data_tools import check_dataset, in_edges, leftovers
from tensors import write_tensors

N, E = 40, 200


def graph(**changes):
    rng = np.random.default_rng(3)
    order = rng.permutation(N)
    masks = {
        f"{name}_mask": np.isin(np.arange(N), part)
        for name, part in zip(("train", "val", "test"), np.split(order, [20, 30]))
    }
    made = {
        "edge_index": rng.integers(0, N, (2, E)),
        "x": rng.normal(size=(N, 5)).astype(np.float32),
        "y": rng.permutation(np.arange(N) % 3),
        **masks,
        **changes,
    }
    return {name: array for name, array in made.items() if array is not None}


def write(box, arrays, folder=False):
    if not folder:
        np.savez(box.path("graph.npz"), **arrays)
        return "graph.npz"
    os.makedirs(box.path("graph"), exist_ok=True)
    for name, array in arrays.items():
        np.save(box.path("graph", f"{name}.npy"), array)
    return "graph"


def import_pyg(box, arrays, *options, folder=False):
    source = write(box, arrays, folder)
    return box.sluice("import", "pyg", source, "--out", "made", "--force", *options)


def triples(edges, *weights):
    return sorted(zip(*(np.asarray(row).tolist() for row in (*edges, *weights))))


@cases("npz", "folder", "pairs")
def test_a_graph(box, kind):
    wanted = graph()
    edges = wanted["edge_index"]
    written = {"pairs": edges.T, "columns": np.asfortranarray(edges)}.get(kind, edges)
    names = np.array(["a", "b"])  # text that nobody asks for is no harm
    arrays = {**wanted, "edge_index": written, "pos": np.zeros((N, 2)), "names": names}
    result = import_pyg(box, arrays, folder=kind == "folder").ok()
    meta, made = check_dataset(box.path("made"))
    assert sorted(in_edges(made)) == triples(edges)
    assert (made["node_feat"] == wanted["x"]).all() and (made["node_label"] == wanted["y"]).all()
    assert meta["num_classes"] == 3 and meta["source"]["format"] == "pyg", meta
    for name in ("train", "val", "test"):
        assert made[f"{name}_idx"].tolist() == np.flatnonzero(wanted[f"{name}_mask"]).tolist()
    assert "names, pos" in result.out or "pos, names" in result.out, result
    box.sluice("inspect", "made").ok()
    assert not leftovers(box, "made", "graph.npz", "graph")


@cases("list", "of zeros and ones", "no test")
def test_splits(box, kind):
    arrays = graph()
    ids = {s: np.flatnonzero(arrays[f"{s}_mask"]) for s in ("train", "val", "test")}
    ids["train"] = ids["train"][::-1]  # a list keeps its order, a mask has none
    for split, list_of_ids in ids.items():
        mask = arrays.pop(f"{split}_mask")
        if kind == "list":
            arrays[f"{split}_mask"] = list_of_ids
        elif kind == "of zeros and ones":
            arrays[f"{split}_mask"] = mask.astype(np.int64)
        elif split != "test":
            arrays[f"{split}_idx"] = list_of_ids
    if kind == "of zeros and ones":
        ids["train"] = ids["train"][::-1]
    if kind == "no test":
        ids["test"] = None
    import_pyg(box, arrays).ok()
    for split, list_of_ids in ids.items():
        path = box.path("made", f"{split}_idx.npy")
        if list_of_ids is None:
            assert not os.path.exists(path)
        else:
            assert np.load(path).tolist() == list_of_ids.tolist()


# y, --task, the task, num_classes and labels that are made of it (None: as they are), a word said
Y = {
    "column": (lambda y: y[:, None], [], "multiclass", 3, lambda y: y[:, 0], ""),
    "unlabelled": (lambda y: np.where(y == 0, -1, y), [], "multiclass", 3, lambda y: y, "without"),
    "numbers": (lambda y: y / 7, [], "regression", 1, lambda y: y[:, None], "--task multiclass"),
    "whole floats": (lambda y: y * 1.0, ["--task", "multiclass"], "multiclass", 3, lambda y: y, ""),
    "bool": (lambda y: y == 1, [], "multiclass", 2, lambda y: y, ""),
    "labels": (lambda y: np.stack([y > 0, y == 2], 1), [], "multilabel", 2, lambda y: y, ""),
    "float labels": (lambda y: np.stack([y > 0, y == 2], 1) * 1.0, [], "multilabel", 2, None, ""),
    "columns of numbers": (lambda y: np.stack([y / 3, y], 1), [], "regression", 2, None, "floats"),
    "one-hot": (lambda y: np.eye(3)[y], ["--task", "multiclass"], "multiclass", 3, "argmax", ""),
}


def test_y(box):
    for kind, (change, options, task, n_classes, stored, said) in Y.items():
        arrays = graph()
        arrays["y"] = change(arrays["y"])
        y = arrays["y"]
        wanted = y.argmax(1) if stored == "argmax" else (stored or np.asarray)(y)
        result = import_pyg(box, arrays, *options).ok()
        meta = read_json(box.path("made", "metadata.json"))
        assert meta["task"] == task and meta["num_classes"] == n_classes, (kind, meta)
        label = np.load(box.path("made", "node_label.npy"))
        assert label.shape == wanted.shape and np.allclose(label, wanted), (kind, label, wanted)
        assert said in result.out, (kind, result)


@cases("edge_weight", "both", "pairs")
def test_weights(box, kind):
    weight = np.random.default_rng(5).random(E)
    arrays = graph()
    edges = arrays["edge_index"]
    if kind != "edge_weight":
        arrays["edge_attr"] = weight[:, None] + (kind == "both")
    if kind in ("edge_weight", "both"):
        arrays["edge_weight"] = weight
    if kind == "pairs":
        arrays["edge_index"] = edges.T
    import_pyg(box, arrays, "--no-weights").ok()
    assert "edge_weight" not in check_dataset(box.path("made"))[1]
    import_pyg(box, arrays).ok()
    _, made = check_dataset(box.path("made"))
    assert sorted(in_edges(made)) == triples(edges, weight.astype(np.float32))


def test_attributes_of_several_columns_are_no_weights(box):
    result = import_pyg(box, graph(edge_attr=np.ones((E, 3)))).ok()
    assert "edge_weight" not in check_dataset(box.path("made"))[1]
    assert np.array_equal(np.load(box.path("made/edge_feat.npy")), np.ones((E, 3), np.float32))
    assert "with features" in result.out and "left out" not in result.out, result


def test_two_edges_are_rows_of_sources_and_targets(box):
    result = import_pyg(box, graph(edge_index=np.array([[1, 2], [3, 4]]))).ok()
    assert sorted(in_edges(check_dataset(box.path("made"))[1])) == [(1, 3), (2, 4)]
    assert "2 x 2: row 0 has the sources" in result.out, result


def test_vertices_without_edges_are_counted(box):
    """And a graph without x and y needs to be told how many there are."""
    bare = {"edge_index": np.array([[0, 1, 2], [1, 2, 0]])}
    refused(box, import_pyg(box, bare, "-q"), "none of x, y and num_nodes", output="made")
    import_pyg(box, {**bare, "num_nodes": 7}, folder=True).ok()
    assert check_dataset(box.path("made"))[0]["num_nodes"] == 7


BAD = {
    "no-edges": ({"edge_index": None}, ["wanted edge_index", "train_mask", "--help"]),
    "three-rows": ({"edge_index": np.zeros((3, 9), int)}, ["edge_index", "(3, 9)"]),
    "vertex": ({"edge_index": np.array([[0, 1, 2], [1, N, 0]])}, ["edge_index", f"found {N}"]),
    "text": ({"y": np.array(["a"] * N)}, ["y", "'<u1', text"]),
    "graph-label": ({"y": np.array([1])}, ["y", "(1,)", f"({N}, columns)"]),
    "rows": ({"x": np.zeros((N - 1, 2)), "num_nodes": np.array(N)}, ["x", f"({N - 1}, 2)"]),
    "no-vertices": ({"num_nodes": np.array(0)}, ["num_nodes", "0 vertices"]),
    "splits": ({"val_mask": np.ones((N, 10), bool)}, ["val_mask", "(40, 10)", "[:, 0]"]),
    "mask": ({"val_mask": np.ones(N - 1, bool)}, ["val_mask", "(39,)", "a mask"]),
    "list": ({"test_mask": np.array([3, N])}, ["test_mask", "entry 1", f"found {N}"]),
    "twice": ({"test_mask": np.array([3, 3])}, ["test_mask", "second time"]),
    "attributes": ({"edge_attr": np.zeros((E, 3))}, ["edge_attr", "(200, 3)", "a weight for each"]),
    "weights": ({}, ["--weights", "neither edge_weight nor edge_attr"]),
}


def test_refused(box):
    for name, (changes, words) in BAD.items():
        options = ["--weights"] if name in ("attributes", "weights") else []
        refused(box, import_pyg(box, graph(**changes), "-q", *options), *words, output="made")
    assert not leftovers(box, "graph.npz")


def test_npz_points_here(box):
    write(box, graph())
    refused(box, box.sluice("import", "npz", "graph.npz", "--out", "made"), "sluice import pyg")


def run_pyg(box, program):
    """Python with PyTorch Geometric, in the box."""
    subprocess.run(
        [python_with("torch_geometric"), "-c", program], cwd=box.folder, check=True
    )


BEFORE = """
import torch_geometric
from torch_geometric.transforms import RandomNodeSplit
torch_geometric.seed_everything(7)
import torch
data = torch_geometric.data.Data(
    x=torch.randn(60, 4), y=torch.randint(0, 5, (60,)), edge_index=torch.randint(0, 50, (2, 300)),
    edge_attr=torch.rand(300, 1), title="no tensor")
data = RandomNodeSplit(num_val=10, num_test=20)(data)
"""
AFTER = """
sums = torch_geometric.nn.SimpleConv(aggr="sum")(data.x, data.edge_index, data.edge_attr[:, 0])
np.savez("wanted.npz", sums=sums.numpy(), test=data.test_mask.nonzero()[:, 0].numpy(), y=data.y)
"""


def test_what_pytorch_geometric_writes(box):
    """The lines of Python in dataset/README.md, and the sums over neighbours that PyG has."""
    with open(f"{ROOT}/dataset/README.md", encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    (lines,) = [block for block in blocks if "torch" in block]
    run_pyg(box, BEFORE + lines + AFTER)
    box.sluice("import", "pyg", "mine.npz", "--out", "made").ok()
    _, made = check_dataset(box.path("made"))
    wanted = np.load(box.path("wanted.npz"))
    sums = np.zeros_like(wanted["sums"])
    for source, target, weight in in_edges(made):
        sums[target] += np.float32(weight) * made["node_feat"][source]
    np.testing.assert_allclose(sums, wanted["sums"], atol=1e-4)
    assert made["test_idx"].tolist() == wanted["test"].tolist()
    assert (made["node_label"] == wanted["y"]).all()


# model of the job; what makes PyTorch Geometric's class the same; what makes it another one
UNTOLD = {
    "layer-norm": ({"kind": "graphsage", "norm": "layer"}, "norm_kwargs=dict(mode='node')", ""),
    "act_first": ({"kind": "gcn", "norm": "batch"}, "norm='batch'", "norm='batch', act_first=True"),
    "normalize": ({"kind": "graphsage"}, "", "normalize=True"),
    "aggr": ({"kind": "graphsage"}, "", "aggr='sum'"),
    "degrees": ({"kind": "gcn"}, "", "normalize=False"),
    "slope": ({"kind": "gat"}, "", "negative_slope=0.5"),
    "slope-of-v2": ({"kind": "gatv2"}, "v2=True", "v2=True, negative_slope=0.5"),
    "act": ({"kind": "gin"}, "norm='batch'", "norm='batch', act='elu'"),
}
MODELS = """
import json, numpy as np, torch, torch_geometric
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE
torch.manual_seed(4)
graph = dict(np.load("graph.npz"))
x, edges = torch.from_numpy(graph["x"]), torch.from_numpy(graph["edge_index"])
classes = {"graphsage": GraphSAGE, "gcn": GCN, "gat": GAT, "gatv2": GAT, "gin": GIN}
made = {}
for name, (job, *arguments) in json.load(open("untold.json")).items():
    layer = {"norm": "layer"} if job.get("norm") == "layer" else {}
    same, other = (
        classes[job["kind"]](5, 8, 2, 3, **layer, **eval(f"dict({a})")).eval() for a in arguments
    )
    state = same.state_dict()
    for key, tensor in state.items():
        if "norm" in key and tensor.is_floating_point():
            state[key] = torch.rand_like(tensor) + 0.5
    for kind, model in ("same", same), ("other", other):
        model.load_state_dict(state)
        made[f"{name}/{kind}"] = model(x, edges).detach().numpy()
    made.update({f"{name}/state/{key}": tensor.numpy() for key, tensor in state.items()})
np.savez("made.npz", **made)
"""


def test_what_tensors_of_pytorch_geometric_do_not_tell(box):
    """Each fits the job's model by names and shapes, and --check finds the one that is another."""
    import_pyg(box, graph(edge_index=np.unique(graph()["edge_index"], axis=1))).ok()
    with open(box.path("untold.json"), "w", encoding="utf-8") as file:
        json.dump(UNTOLD, file)
    run_pyg(box, MODELS)
    made = dict(np.load(box.path("made.npz")))
    job_of_two = {"dataset": "made", "output": "run", "sampler": {"fanout": [5, 5]}}
    for name, (model, _, _) in UNTOLD.items():
        begin = f"{name}/state/"
        tensors = {k[len(begin) :]: v for k, v in made.items() if k.startswith(begin)}
        floats = {k: v for k, v in tensors.items() if v.dtype == np.float32}
        file = write_tensors(box.path(f"{name}.safetensors"), floats)
        model = {"layers": 2, "hidden": 8, **({"heads": 1} if "slope" in name else {}), **model}
        with open(box.path("job.json"), "w", encoding="utf-8") as job:
            json.dump({**job_of_two, "model": model}, job)
        for kind, rc in ("same", 0), ("other", 1):
            np.save(box.path("logits.npy"), made[f"{name}/{kind}"])
            result = box.sluice(
                "import-weights", file, "--job", "job.json", "--out", f"{name}-{kind}",
                "--check", "logits.npy",
            )  # fmt: skip
            assert result.rc == rc, f"{name}, {kind}: {result}"
