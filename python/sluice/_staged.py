"""A data set directory for one loader: arrays in memory, and files of another directory.

A data set is a directory with names, since the job's processes open its files at any time (a
sampler that is added later, too). Memory without names serves such a directory: each array is a
memfd of this process, and the directory has a symbolic link /proc/PID/fd/N to it. So no array is
copied to a disk, all of them are gone with this process however it ends, and what could stay is a
folder of links. It is removed by `close()`; when this process dies, by a shell that waits for the
end of a pipe that only this process holds; and when that shell was killed as well, by the next
loader (whoever still uses a folder holds a lock in it).

Files of another data set directory are linked by their paths, so that a list of seeds of the
caller's stands beside a graph on disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import weakref
from typing import Any, Dict, List, Mapping, Optional, Union

import numpy as np

from ._dataset import SPLITS, Dataset, names_of
from ._errors import UsageError

PREFIX = "sluice-data-"
REMOVER = 'trap "" INT TERM HUP; read -r _; rm -rf -- "$1"'


class StagedDataset:
    """A directory (`path`) with these arrays, or links to files where a path stands for an array.
    Removed by close(), and when it is collected. words: what messages call arrays, by their names,
    and under "" the whole. The user has never seen the directory, of which others' messages speak:
    `says` are replacements in them."""

    def __init__(
        self,
        metadata: Mapping[str, Any],
        arrays: Mapping[str, Union[np.ndarray, str]],
        words: Optional[Mapping[str, str]] = None,
    ) -> None:
        base = _base()
        sweep(base)
        self.path = path = tempfile.mkdtemp(prefix=PREFIX, dir=base)
        words = words or {}
        self.what = words.get("", "the data set")
        self.says = [(f"{path}/{name}.npy", word) for name, word in words.items() if name]
        self.says += [(f"{path}/metadata.json", f"{self.what}.metadata")]
        self.says += [(f"data set {path}", self.what), (path, self.what)]
        held: List[int] = []
        self._finalizer = weakref.finalize(self, _remove, self.path, held, os.getpid(), [])
        remover = subprocess.Popen(
            ["/bin/sh", "-c", REMOVER, "sluice-data", self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        self._finalizer.peek()[2][3].append(remover)  # type: ignore[index]
        try:
            held.append(_lock(self.path))
            for name, array in arrays.items():
                target = array if isinstance(array, str) else _memory(name, array, held)
                os.symlink(target, os.path.join(self.path, f"{name}.npy"))
            with open(os.path.join(self.path, "metadata.json"), "w", encoding="utf-8") as file:
                json.dump({**metadata, "temporary": True}, file)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._finalizer()


def stage(
    dataset: Dataset,
    seeds: Optional[np.ndarray],
    pairs: Optional[np.ndarray] = None,
    times: Optional[np.ndarray] = None,
    of: Optional[Mapping[str, str]] = None,
) -> StagedDataset:
    """A data set for one loader, with `seeds` (n) as its training vertices, `pairs` (n, 2) as its
    training pairs and `times` (num_nodes) of vertices; None: as they are. of: what metadata.json
    says of a graph with types, "list_type" of the seeds and "pair_relation" of the pairs."""
    arrays: Dict[str, Union[np.ndarray, str]] = dict(dataset.arrays)
    metadata = {**dataset.metadata, **(of or {})}
    words = {**dataset.words, "": "data"}
    if dataset.path:
        arrays = {
            name: _file_of(os.path.join(dataset.path, f"{name}.npy")) for name in arrays
        }
        words = {name: os.path.join(dataset.path, f"{name}.npy") for name in arrays}
        words[""] = f"data set {dataset.path}"
        metadata = _with_whole_paths(metadata, os.path.realpath(dataset.path))
        if isinstance(metadata.get("types"), list):
            metadata["types"] = [
                _with_whole_paths(t, os.path.realpath(dataset.path)) for t in metadata["types"]
            ]
    if seeds is not None:
        for split in SPLITS:
            arrays.pop(f"{split}_idx", None)
        arrays["train_idx"], words["train_idx"] = seeds, "input_nodes"
    if times is not None:
        arrays["node_time"], words["node_time"] = times, "input_time"
    for name in arrays:
        known = names_of(dataset.schema)
        if name not in known:
            raise UsageError(f"data.arrays: has {name!r}, wanted some of {', '.join(known)}")
    for name in "indptr", "indices":
        if name not in arrays:
            raise UsageError(f"data.arrays: has no {name!r}: it is the graph's")
    if pairs is not None:
        same = metadata.get("pair_relation") == dataset.metadata.get("pair_relation")
        # Lists that negatives may have to keep clear of.
        for split in SPLITS if dataset.path and same else ():
            path = os.path.join(dataset.path, f"{split}_edges.npy")
            if os.path.exists(path):
                arrays[f"{split}_edges"], words[f"{split}_edges"] = _file_of(path), path
        arrays["train_edges"], words["train_edges"] = pairs, "edge_label_index"
    return StagedDataset(metadata, arrays, words)


def _with_whole_paths(of: Any, path: str) -> Any:
    """An object of metadata.json whose stripes are named wherever it stands."""
    stripes = of.get("feat_stripes") if isinstance(of, dict) else None
    if not isinstance(stripes, dict) or not isinstance(stripes.get("files"), list):
        return of
    files = [os.path.join(path, f) for f in stripes["files"]]
    return {**of, "feat_stripes": {**stripes, "files": files}}


def _file_of(path: str) -> str:
    """The file that a path leads to. Memory of a process has no other name than the link to it."""
    target = os.readlink(path) if os.path.islink(path) else ""
    return target if target.startswith("/proc/") else os.path.realpath(path)


def _base() -> str:
    """The user's own folder in memory where the machine has one, else where temporary files are."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = os.path.isabs(folder) and os.access(folder, os.W_OK | os.X_OK)
    return folder if usable else tempfile.gettempdir()


def _lock(path: str) -> int:
    """A locked file `path`/lock, under that name only when it is locked."""
    fd = os.open(os.path.join(path, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.rename(os.path.join(path, ".lock"), os.path.join(path, "lock"))
    return fd


def sweep(base: str) -> None:
    """Removes folders whose owner was killed together with its remover."""
    for entry in os.listdir(base):
        path = os.path.join(base, entry)
        if not entry.startswith(PREFIX):
            continue
        try:
            fd = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # just being made, being removed, or somebody else's
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(fd)


def _memory(name: str, array: np.ndarray, held: List[int]) -> str:
    """A memfd with the array as a .npy file, which nobody can change any more; its path."""
    fd = os.memfd_create(f"sluice-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    held.append(fd)
    with open(os.dup(fd), "wb") as file:
        np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    add_seals, no_shrink, no_grow, no_write = 1033, 2, 4, 8  # linux/fcntl.h
    fcntl.fcntl(fd, add_seals, no_shrink | no_grow | no_write)
    return f"/proc/{os.getpid()}/fd/{fd}"


def _remove(path: str, held: List[int], owner: int, removers: List[Any]) -> None:
    if os.getpid() != owner:  # a child that was forked: the folder is its parent's
        return
    for remover in removers:
        # A line, since processes that were forked hold the other end of the pipe, too.
        try:
            remover.communicate(b"\n")
        except OSError:  # it was killed
            pass
    shutil.rmtree(path, ignore_errors=True)
    while held:
        os.close(held.pop())
