"""From a loader's arguments to the job that its samplers work for: what is checked here is what the
job file has no word for; everything else is checked, and said, by the job's own reader."""

from __future__ import annotations

import difflib
import json
import operator
import os
import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _dataset
from ._dataset import Dataset
from ._errors import UsageError
from ._staged import StagedDataset, stage
from ._world import World

# Arguments of torch_geometric's and torch's loaders that are not there, and what to use.
REFUSED = {
    "time_attr": "there is no sampling by time: take the edges up to a time into a data set",
    "input_time": "there is no sampling by time: take the edges up to a time into a data set",
    "temporal_strategy": "there is no sampling by time: leave it out",
    "transform_sampler_output": "samplers are other processes: use transform, of the batch",
    "neighbor_sampler": "sluice samples: use torch_geometric.loader.NodeLoader for a sampler of "
    "your own",
    "custom_cls": "batches are torch_geometric.data.Data: use transform",
    "collate_fn": "batches come whole: use transform",
    "sampler": "the order is the job's: use input_nodes, shuffle and seed",
    "batch_sampler": "the order is the job's: use input_nodes, shuffle, seed and batch_size",
    "generator": "the order is the job's: use seed",
    "dataset": "use data",
    "directed": "use subgraph_type='induced'",
}
# Those that mean nothing here: what is given is said, and does no harm.
NEEDLESS = {
    "num_workers": "samplers are processes of their own: samplers=N",
    "persistent_workers": "samplers last as long as the loader",
    "prefetch_factor": "a batch ahead is gathered: prefetch=True",
    "multiprocessing_context": "samplers are processes of their own",
    "worker_init_fn": "samplers are processes of their own",
}
# Values that say what is the case anyway.
HARMLESS = {
    "is_sorted": (True, False),
    "filter_per_worker": (True, False),
    "temporal_strategy": ("uniform",),
    "num_workers": (0,),
    "persistent_workers": (False,),
    "directed": (True,),
}


def refuse(arguments: Mapping[str, Any], known: Sequence[str] = ()) -> None:
    """Raises UsageError for an argument that is not there, by its name and with what to use; warns
    of one that means nothing. `known` are those that are there."""
    for name, value in arguments.items():
        harmless = HARMLESS.get(name, ())
        if value is None or any(value is known or value == known for known in harmless):
            continue
        if name in REFUSED:
            raise UsageError(f"{name}={value!r}: {REFUSED[name]}")
        if name not in NEEDLESS:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(
                f"NeighborLoader() got an unexpected keyword argument '{name}'"
                + (f": did you mean {near[0]}?" if near else "")
            )
        warnings.warn(f"sluice: {name}={value!r} has no effect: {NEEDLESS[name]}", stacklevel=4)


class Source(NamedTuple):
    """What a loader is made of: dataset (arrays), a job (dictionary), or a text that is none."""

    dataset: Optional[Dataset] = None
    job: Optional[Dict[str, Any]] = None
    job_text: Optional[str] = None  # no JSON object: the job's reader says why
    origin: Optional[str] = None
    pyg: Any = None  # the Data that `dataset` was made of


def source_of(data: Any, weight_attr: Optional[str] = None, split: Any = None) -> Source:
    """What the loader's first argument is; `split`: whose vertices are wanted. UsageError for
    anything else."""
    if isinstance(data, (str, os.PathLike)):
        path = os.fspath(data)
        if not path.endswith(".json") and not os.path.isfile(path):
            _dataset.check_directory(path)
            return Source(job={"dataset": path}, origin="NeighborLoader")
        if path.endswith(".npy") or os.path.basename(path) == "metadata.json":
            raise UsageError(
                f"{path}: is a file of a data set, wanted its directory, "
                f"{os.path.dirname(path) or '.'}"
            )
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        return _job_of(text, path)
    if isinstance(data, Mapping):
        try:
            return Source(job=json.loads(json.dumps(data, default=_for_json)), origin="job")
        except (TypeError, ValueError) as error:
            raise UsageError(f"job: cannot be written as JSON: {error}") from None
    if isinstance(data, Dataset):
        # Of a directory its own files are used, and its validation is remembered.
        if data.path:
            return source_of(data.path)
        if weight_attr not in (None, "edge_weight") or (
            weight_attr and weight_attr not in data.arrays
        ):
            raise UsageError(
                f"weight_attr={weight_attr!r}: wanted 'edge_weight', and weights in "
                f"{data.words['edge_weight']}"
            )
        return Source(dataset=data)
    if hasattr(data, "tocsc"):
        dataset = _dataset.from_scipy(data, weights=weight_attr is not None)
        dataset.words.update({f"{s}_idx": f"list {s!r} of a matrix" for s in _dataset.SPLITS})
        return Source(dataset=dataset)
    if hasattr(data, "edge_index") or hasattr(data, "edge_types") or _dataset.holds_graphs(data):
        # What samplers have no use for is like any attribute: gathered in this process.
        splits = [split] if isinstance(split, str) and split in _dataset.SPLITS else []
        dataset = _dataset.from_pyg(
            data,
            weight_attr or False,
            labels=False,
            splits=splits,
            edge_attr=False,
            features=not _dataset.is_other_than_features(data),
        )
        return Source(dataset=dataset, pyg=data)
    raise UsageError(
        f"data: is {type(data).__name__}, wanted a data set directory, a job file or dictionary, a "
        "torch_geometric.data.Data, a SciPy sparse matrix or a sluice.Dataset"
    )


SPLITS_AND_ALL = (*_dataset.SPLITS, "all")
HOPS_MAX = 8
BATCH_SIZE_MAX = 1 << 31
# By sampler.expand, what a job says that has the other one.
EXPANDS = {
    "new": 'sampler.expand: is "all", which draws each vertex anew in each hop, so that no single '
    'edge_index has the batch: wanted "new"; blocks hop by hop are what sluice.dgl and '
    "include/sluice.h have",
    "all": 'sampler.expand: is "new", which draws a vertex once: blocks, as DGL has them, draw it '
    'anew in each hop: wanted "all"',
}


class _Twice(ValueError):
    pass


def _job_of(text: str, origin: str) -> Source:
    def once(pairs: List[Any]) -> Dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise _Twice
        return found

    try:
        job = json.loads(text, object_pairs_hook=once)
    except ValueError:
        job = None
    if isinstance(job, dict):
        return Source(job=job, origin=origin)
    return Source(job_text=text, origin=origin)


def put(job: Dict[str, Any], key: str, value: Any, argument: str) -> None:
    """Says `value` in the job. UsageError where the job says another one."""
    *folders, name = key.split(".")
    at: Any = job
    for folder in folders:
        at = at.setdefault(folder, {})
        if not isinstance(at, dict):
            return  # which the job's reader refuses
    found = at.setdefault(name, value)
    if found != value:
        raise UsageError(
            f"{argument}={value!r}: the job says {key} {json.dumps(found)}: say it in one place"
        )


def get(job: Mapping[str, Any], key: str) -> Any:
    at: Any = job
    for name in key.split("."):
        at = at.get(name) if isinstance(at, Mapping) else None
    return at


def fanout_of(num_neighbors: Any) -> Optional[List[int]]:
    """The fanout of num_neighbors: a list of ints, the hop next to the seeds first."""
    if num_neighbors is None:
        return None
    if isinstance(num_neighbors, Mapping):
        raise UsageError(
            "num_neighbors: is a dictionary by edge type, wanted a list: graphs of one kind of "
            "edges are supported"
        )
    values = num_neighbors
    if hasattr(values, "tolist"):  # a tensor or an array
        values = values.tolist()
    values = getattr(values, "values", values)
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise UsageError(f"num_neighbors={values!r}: wanted a list, a number for each hop")
    if not 1 <= len(values) <= HOPS_MAX:
        raise UsageError(
            f"num_neighbors: has {len(values)} hops, wanted 1 to {HOPS_MAX}: a number for each"
        )
    return [whole(value, f"num_neighbors[{hop}]") for hop, value in enumerate(values)]


def check_split(name: str, source: Source) -> None:
    """UsageError where `name` is none of the lists of seeds that there are."""
    if name not in SPLITS_AND_ALL:
        meant = next((s for s in _dataset.SPLITS if name.lower().startswith(s)), None)
        advice = f": use {meant!r}" if meant else ""
        raise UsageError(
            f"input_nodes={name!r}: wanted 'train', 'val', 'test', 'all', ids or a mask{advice}"
        )
    if source.dataset is None or name == "all":
        return
    found = source.dataset.arrays.get(f"{name}_idx")
    if found is None or len(found) == 0:
        what = source.dataset.words[f"{name}_idx"]
        raise UsageError(
            f"input_nodes={name!r}: {what} is {'missing' if found is None else 'empty'}: give ids "
            "or a mask as input_nodes, or None for all vertices"
        )


def whole(value: Any, what: str) -> int:
    """The whole number that an argument is. UsageError."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{what}={value!r}: wanted a whole number") from None


class Plan(NamedTuple):
    """What a loader opens, and what it has to know of it."""

    text: str  # the job
    origin: str  # what messages call it
    staged: Optional[StagedDataset] = None  # its data set, where that is the loader's own
    split: str = "train"  # input_nodes, in the data set; "all": every vertex
    by_mask: bool = False  # a seed's place in input_nodes is the vertex itself
    edge_map: Optional[np.ndarray] = None
    pyg: Any = None
    says: Sequence[Tuple[str, str]] = ()  # replacements in messages: arguments for keys


LISTED = "listed"  # order.kind of an epoch in the list's own order
SHUFFLES = {False: LISTED, True: "shuffled"}
# Arguments that are keys of the job.
KEYS = {
    "num_neighbors": "sampler.fanout",
    "batch_size": "sampler.batch_size",
    "seed": "seed",
    "balance": "allocation.balance",
    "samplers": "allocation.samplers",
}
# Those that are only said where they are not what a job does anyway.
UNUSUAL = {
    "replace": ("sampler.replace", False),
    "subgraph_type": ("sampler.subgraph", "directional"),
    "disjoint": ("sampler.disjoint", False),
}


def plan(data: Any, asked: Dict[str, Any], world: World, expand: str = "new") -> Plan:
    """The job of a loader, by its arguments (None: not given). The data set in memory is that of
    rank 0, which starts the job."""
    weight_attr, input_nodes = asked["weight_attr"], asked["input_nodes"]
    source = source_of(data, weight_attr, input_nodes)
    if source.job_text is not None:
        return Plan(source.job_text, source.origin or "job")
    job: Dict[str, Any] = source.job if source.job is not None else {}
    is_job = source.origin not in (None, "NeighborLoader")  # not a data set
    asked = {**asked, "num_neighbors": fanout_of(asked["num_neighbors"])}
    if asked["batch_size"] is not None:
        asked["batch_size"] = whole(asked["batch_size"], "batch_size")
        if not 1 <= asked["batch_size"] <= BATCH_SIZE_MAX:
            raise UsageError(
                f"batch_size={asked['batch_size']}: wanted a whole number from 1 to "
                f"{BATCH_SIZE_MAX}"
            )
    if not is_job:
        if asked["num_neighbors"] is None:
            raise UsageError("num_neighbors: is needed: a number for each hop, such as [15, 10, 5]")
        asked["batch_size"] = 1 if asked["batch_size"] is None else asked["batch_size"]
        asked["shuffle"] = bool(asked["shuffle"])
        asked["seed"] = 0 if asked["seed"] is None else asked["seed"]
        input_nodes = "all" if input_nodes is None else input_nodes
    for argument, key in KEYS.items():
        if asked[argument] is not None:
            put(job, key, plain(asked[argument]), argument)
    if asked["shuffle"] is False or (asked["shuffle"] and get(job, "order.kind") == LISTED):
        put(job, "order.kind", SHUFFLES[asked["shuffle"]], "shuffle")
    for argument, (key, usual) in UNUSUAL.items():
        value = plain(asked[argument])
        if value is not None and (value != usual or get(job, key) not in (None, usual)):
            put(job, key, value, argument)
    if weight_attr is not None:
        if not source.dataset and weight_attr != "edge_weight":
            raise UsageError(
                f"weight_attr={weight_attr!r}: wanted 'edge_weight': a data set directory has its "
                "weights in edge_weight.npy"
            )
        put(job, "sampler.kind", "weighted", "weight_attr")
    if world.size > 1:
        put(job, "allocation.trainers", world.size, "world")
    own_list = not (input_nodes is None or isinstance(input_nodes, str))
    seeds = None
    if isinstance(input_nodes, str):
        check_split(input_nodes, source)
        put(job, "input.split", input_nodes, "input_nodes")
    elif own_list:
        put(job, "input.split", "train", "input_nodes")
    complete(job, expand)
    staged = None
    if source.dataset or own_list:
        dataset = source.dataset or _dataset.open_dataset(str(job.get("dataset")))
        if own_list:
            seeds = _dataset.vertex_ids(input_nodes, dataset.num_nodes, "input_nodes")
            if len(seeds) == 0:
                raise UsageError("input_nodes: is empty, wanted a vertex or more")
        if world.rank == 0:
            staged = stage(dataset, seeds)
            job["dataset"] = staged.path
        if source.dataset:
            put(job, "store.features", "memory", "data")
    origin = source.origin or "NeighborLoader"
    return Plan(
        json.dumps(job),
        origin,
        staged,
        get(job, "input.split") or "train",
        own_list and _dataset.is_mask(input_nodes),
        source.dataset.edge_map if source.dataset else None,
        source.pyg,
        [
            (f"{origin}: {key}: ", f"{argument}: ")
            for argument, key in KEYS.items()
            if asked[argument] is not None
        ],
    )


def plain(value: Any) -> Any:
    """A number, array, tensor or path as what JSON knows; anything else as it is."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _for_json(value: Any) -> Any:
    found = plain(value)
    if found is value:
        advice = ": give it as data, without a job" if hasattr(value, "edge_index") else ""
        raise TypeError(f"it has a {type(value).__name__}{advice}")
    return found


def complete(job: Dict[str, Any], expand: str = "new") -> None:
    """What every loader's job says. UsageError for a job whose batches are of the other kind."""
    said = get(job, "sampler.expand")
    if said in EXPANDS and said != expand:
        raise UsageError(EXPANDS[expand])
    kind = get(job, "model.kind")
    if kind not in (None, "external"):
        raise UsageError(
            f'model.kind: is {json.dumps(kind)}, wanted "external" or no model: the model is yours '
            "here; `sluice run` trains models of sluice's"
        )
    walks = get(job, "sampler.kind") == "walk"  # neighbours of a walk are no edges
    common = {"model.kind": "external", "sampler.expand": expand}
    for key, value in {**common, **({} if walks else {"sampler.edge_ids": True})}.items():
        folders, name = key.split(".")
        at = job.setdefault(folders, {})
        if isinstance(at, dict):
            at.setdefault(name, value)
    job.setdefault("epochs", "auto")
