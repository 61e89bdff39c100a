"""Files as torch.save() writes them, made without torch: in the form since PyTorch 1.6, a zip file,
and in the one before it. Arrays are kept as NumPy's, or as tensors where they are wrapped."""

import io
import pickle
import sys
import types
import zipfile
from collections import OrderedDict

import numpy as np

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
STORAGES = {"int64": "Long", "int32": "Int", "float32": "Float", "float64": "Double"}


def rebuild(*_):
    raise AssertionError("for its name only")


def fake_torch():
    """What the pickle names, where pickle looks for it."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for kind in STORAGES.values():
        name = f"{kind}Storage"
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    rebuild.__module__, rebuild.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = rebuild
    return {"torch": torch, "torch._utils": utils}


class Storage:
    def __init__(self, array):
        self.array = array


class Tensor:
    """A tensor with the array's numbers, of which the first `skip` numbers are a part."""

    def __init__(self, array, skip=0):
        self.array, self.skip = np.asarray(array), skip

    def __reduce__(self):
        a = self.array
        flat = a.ravel("K")
        storage = Storage(np.concatenate([flat[:1].repeat(self.skip), flat]))
        strides = tuple(s // a.itemsize for s in a.strides)
        return rebuild, (storage, self.skip, a.shape, strides, False, OrderedDict())


class Pickler(pickle.Pickler):
    def __init__(self, file, protocol, old):
        super().__init__(file, protocol)
        self.old, self.storages = old, []

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        self.storages.append(value.array)
        kind = getattr(sys.modules["torch"], STORAGES[str(value.array.dtype)] + "Storage")
        key = str(len(self.storages) - 1)
        return ("storage", kind, key, "cpu", value.array.size) + ((None,) if self.old else ())


def dumps(value, old=False, protocol=2):
    """The bytes of the file."""
    out, modules = io.BytesIO(), fake_torch()
    sys.modules.update(modules)
    try:
        file = out if old else io.BytesIO()
        for head in (MAGIC, VERSION, {"protocol_version": VERSION}) if old else ():
            pickle.dump(head, file, protocol)
        pickler = Pickler(file, protocol, old)
        pickler.dump(value)
    finally:
        for name in modules:
            del sys.modules[name]
    if old:
        keys = [str(i) for i in range(len(pickler.storages))]
        pickle.dump(keys, out, protocol)
        for array in pickler.storages:
            out.write(np.int64(array.size).tobytes() + array.tobytes())
        return out.getvalue()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("saved/data.pkl", file.getvalue())
        archive.writestr("saved/byteorder", "little")
        for i, array in enumerate(pickler.storages):
            archive.writestr(f"saved/data/{i}", array.tobytes())
        archive.writestr("saved/version", "3\n")
    return out.getvalue()


def save(path, value, **form):
    with open(path, "wb") as file:
        file.write(dumps(value, **form))
