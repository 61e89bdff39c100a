"""For loaders of PyTorch Geometric: `Sampler`, which draws for them as sluice does."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch_geometric.data import Data
from torch_geometric.sampler import BaseSampler, SamplerOutput

from . import _job
from ._draws import Draws
from ._errors import UsageError
from ._world import World

__all__ = ["Sampler"]

# What a loader's job is asked for, and a sampler has no use for.
OF_LOADERS = ("batch_size", "input_nodes", "shuffle", "balance", "samplers")


class Sampler(BaseSampler):
    """A sampler for torch_geometric.loader.NodeLoader:

        sampler = sluice.pyg.Sampler(data, [15, 10, 5])
        loader = NodeLoader(data, node_sampler=sampler, input_nodes=..., batch_size=1024)

    It draws the seeds that the loader names when it names them, in the loader's process or in its
    workers (num_workers). sluice.NeighborLoader, whose samplers work ahead, is faster; this is for
    loops whose order or batches are another loader's.

    data            as of sluice.NeighborLoader. That loader's data has to be the same graph: the
                    Data itself, or sluice.open(directory).to_pyg()
    num_neighbors   list of int: neighbours sampled of each vertex, the hop next to the seeds first;
                    -1 takes all. Of a job file or dictionary None is what that says
    seed            int. A batch is a function of it, of the seeds, and of torch's random state, of
                    which each batch takes one number, as torch_geometric's own sampler does
    weight_attr, replace, subgraph_type, disjoint   as of sluice.NeighborLoader

    Raises UsageError for what is wrong with arguments, job or data set.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Optional[Sequence[int]] = None,
        seed: Optional[int] = None,
        *,
        weight_attr: Optional[str] = None,
        replace: Optional[bool] = None,
        subgraph_type: Any = None,
        disjoint: Optional[bool] = None,
    ) -> None:
        self._arguments: Tuple[Any, Dict[str, Any]] = (
            data,
            {
                "num_neighbors": num_neighbors,
                "seed": seed,
                "weight_attr": weight_attr,
                "replace": replace,
                "subgraph_type": getattr(subgraph_type, "value", subgraph_type),
                "disjoint": disjoint,
            },
        )
        asked = {**dict.fromkeys(OF_LOADERS), **self._arguments[1]}
        plan = _job.plan(_topology(data, weight_attr), asked, World(0, 1, False))
        self._draws = Draws(plan)
        if self._draws.info.n_types:
            self._draws.close()
            raise UsageError("data: is a graph with types, which sluice.NeighborLoader takes")

    def sample_from_nodes(self, index: Any, **_: Any) -> SamplerOutput:
        """The batch of a NodeSamplerInput `index`, whose node (n) are different vertices.

        node        int64 (n_nodes): vertices, the seeds first and in order, then by hop
        row, col    int64 (n_edges): sources and destinations in local numbers, sorted by col
        edge        int64 (n_edges): column of data.edge_index; of a directory the place in
                    indices.npy. None with sampler.kind "walk"
        num_sampled_nodes, num_sampled_edges   lists of int by hop
        batch       int64 (n_nodes): number of the seed that a vertex is of, where disjoint
        metadata    (input_id, None) as torch_geometric's loaders want it

        UsageError for seeds that are no vertices or are there twice, and for sampling by time.
        """
        if index.time is not None:
            raise UsageError(f"input_time: {_job.REFUSED['input_time']}")
        if index.input_type is not None:
            raise UsageError(
                "input_nodes: have a type: graphs of one kind of vertices are supported"
            )
        number = int(torch.randint(1 << 62, ()))
        key = number >> 32, number & 0xFFFFFFFF
        fields = self._draws.draw(key, index.node.numpy(), torch.from_numpy)
        row, col = fields["edge_index"]
        return SamplerOutput(
            node=fields["n_id"],
            row=row,
            col=col,
            edge=fields.get("e_id"),
            num_sampled_nodes=fields["num_sampled_nodes"],
            num_sampled_edges=fields.get("num_sampled_edges"),
            batch=fields.get("batch"),
            metadata=(index.input_id, None),
        )

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        raise UsageError(
            "sample_from_edges: batches begin at vertices: use NodeLoader, or LinkNeighborLoader "
            "with torch_geometric's own sampler"
        )

    @property
    def num_neighbors(self) -> List[int]:
        info = self._draws.info
        return list(info.fanout[: info.n_hops])

    def close(self) -> None:
        """Lets go of the data set, which otherwise goes with the sampler."""
        self._draws.close()

    def __reduce__(self) -> Any:
        # To a worker that was not forked: it opens the data set itself.
        data, named = self._arguments
        return _sampler, (data, named)

    def __repr__(self) -> str:
        data, named = self._arguments
        given = "".join(f", {k}={v!r}" for k, v in named.items() if v is not None)
        return f"Sampler({data!r}{given})"


def _sampler(data: Any, named: Mapping[str, Any]) -> Sampler:
    return Sampler(data, **named)


def _topology(data: Any, weight_attr: Optional[str]) -> Any:
    """What is drawn from: of a Data its edges, without the features, which would be copied."""
    if not isinstance(data, Data) or data.edge_index is None:
        return data
    weights = {name: data[name] for name in (weight_attr,) if name is not None and name in data}
    return Data(edge_index=data.edge_index, num_nodes=data.num_nodes, **weights)
