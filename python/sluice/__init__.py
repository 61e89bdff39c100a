"""sluice: mini-batches of large graphs for models of your own.

    import sluice
    loader = sluice.NeighborLoader("data/products", num_neighbors=[15, 10, 5], batch_size=1024,
                                   input_nodes="train", shuffle=True, seed=7)
    for epoch in range(10):
        for batch in loader:
            ...  # batch.x, batch.edge_index, batch.y, batch.batch_size, as torch_geometric has them

Samplers, queue and caches are processes of sluice, which end with the loader, however that ends.

    NeighborLoader, LinkNeighborLoader     help(sluice.NeighborLoader)
    pyg.Sampler, dgl.NeighborLoader        for PyG's NodeLoader; blocks of DGL (import sluice.pyg)
    open, from_pyg, from_scipy, Dataset    data sets from and to PyTorch Geometric, SciPy, NumPy
    Error, UsageError, JobError, ...       what goes wrong, in the words of the command line
    python -m sluice                       the command line
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from ._dataset import Dataset, from_pyg, from_scipy
from ._dataset import open_dataset as open
from ._errors import Error, JobError, LoaderTimeoutError, OutOfMemoryError, UsageError

if TYPE_CHECKING:
    from ._link_loader import LinkLoader as LinkNeighborLoader
    from ._loader import Loader as NeighborLoader

__all__ = [
    "Dataset",
    "Error",
    "JobError",
    "LinkNeighborLoader",
    "LoaderTimeoutError",
    "NeighborLoader",
    "OutOfMemoryError",
    "UsageError",
    "from_pyg",
    "from_scipy",
    "open",
    "version",
]


def version() -> str:
    """The version of the library, such as "0.2.0"."""
    from . import _lib

    return _lib.library().version_text


def __getattr__(name: str) -> Any:
    # Whether it is a subclass of torch_geometric's is known, and that package read, on first use.
    if name not in ("NeighborLoader", "LinkNeighborLoader"):
        raise AttributeError(f"module 'sluice' has no attribute '{name}'")
    from . import _link_loader, _loader

    links = name == "LinkNeighborLoader"
    globals()[name] = _link_loader.link_neighbor_loader() if links else _loader.neighbor_loader()
    return globals()[name]


def __dir__() -> List[str]:
    return __all__
