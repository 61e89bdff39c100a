"""The loader of pairs of vertices: what it takes and hands out beside what every loader does."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from . import _job
from ._errors import UsageError
from ._loader import Loader, class_of, refuse_beside_attach


class LinkLoader(Loader):
    """Mini-batches of pairs of vertices and drawn negatives, in the manner of
    torch_geometric.loader.LinkNeighborLoader, of which this is a subclass where that is installed.
    Arguments and fields that are not here are those of sluice.NeighborLoader.

    edge_label_index  the positives: "train", "val", "test" of a data set directory, which has them
                    in train_edges.npy and so on ("train" without it: all edges); pairs (2, n) of
                    sources and targets as an array or tensor; None: all edges of a Data, in the
                    order of its edge_index, "train" of a directory. Of a graph with types the
                    relation, ("author", "writes", "paper"), or (relation, one of these), numbers
                    within both types; without it a directory's lists say it
    edge_label      labels (n, ...) of these pairs
    neg_sampling    None: no negatives; "binary", "triplet"; ("triplet", 5), {"mode", "amount"}, or
                    PyG's NegativeSampling; a number: so many for each positive, binary. Whole
                    numbers. Of a job None is what it says, binary
    neg_sampling_ratio  the same as ("binary", ratio)
    negatives       where targets of negatives come from: "uniform" (the default), "degree",
                    "batch"; their source is that of their positive
    strict          what a negative never is: an edge of the "graph" (the default); nor one of the
                    directory's lists ("all"); "none": it may be either
    exclude         which edges a batch is drawn without: those of its positives ("self"), and their
                    reverses ("reverse", the default); "none": they are edges like others
    label_shift     whether given labels are raised by 1, so that 0 is the negatives' alone

    A batch has
        edge_label_index  int64 (2, n): pairs as local numbers, positives first; with negatives,
                    number j of positive i is pair batch_size + i * amount + j
        edge_label  (n, ...): given labels and 0 of negatives; or float32, 1 and 0 of negatives; of
                    neither labels nor negatives there is none
        src_index, dst_pos_index  int64 (batch_size), with "triplet" in place of these two;
        dst_neg_index  int64 (batch_size), (batch_size, amount) where that is above 1
        edge_label_weight  float32 (n): 1, or the pair's weight in the data set; 0 where a source
                    has no vertex that it could not be linked to: the target is the source then, or
                    between two types the positive's, and the pair is to count for nothing
        n_id        the first ones are the ends of the pairs, each once, as the pairs name them
        batch_size, input_id  of the positives: how many, and their places (columns) in
                    edge_label_index

    Of a graph with types these stand where PyG has them: batch[relation] has edge_label_index in
    numbers of the source's and the target's n_id, and what is not said here; batch[source type]
    src_index, batch[target type] dst_pos_index and dst_neg_index. Negatives are of the target type.
    exclude's default is "self" where nothing says which relation has the reverses: "reverse_of" in
    metadata.json, or in a HeteroData the name "rev_writes" that ToUndirected gives it.
    """

    def __init__(
        self,
        data: Any = None,
        num_neighbors: Optional[Sequence[int]] = None,
        edge_label_index: Any = None,
        edge_label: Any = None,
        *,
        neg_sampling: Any = None,
        neg_sampling_ratio: Optional[float] = None,
        negatives: Optional[str] = None,
        strict: Optional[str] = None,
        exclude: Optional[str] = None,
        label_shift: bool = False,
        attach: Optional[str] = None,
        **others: Any,
    ) -> None:
        for name in "input_nodes", "disjoint", "time_attr", "temporal_strategy", "input_time":
            given = others.pop(name, None)
            if given is not None and given is not False:
                raise UsageError(f"{name}: is none of a loader of links: leave it out")
        keys = {"negatives": negatives, "strict": strict, "exclude": exclude}
        self._links = _job.links_of(neg_sampling, neg_sampling_ratio, edge_label, label_shift, keys)
        if attach is not None:
            asked = {**keys, "edge_label_index": edge_label_index}
            refuse_beside_attach(asked)
        super().__init__(data, num_neighbors, input_nodes=edge_label_index, attach=attach, **others)


def link_neighbor_loader() -> type:
    return class_of(LinkLoader, "LinkNeighborLoader")
