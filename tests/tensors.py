"""safetensors files as the tests read and write them: in a given order, with notes."""

import json
import struct

import numpy as np

TYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64}


def read_tensors(path):
    """{name: array}; a type that is not among TYPES is a KeyError."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(data[slice(*t["data_offsets"])], TYPES[t["dtype"]]).reshape(t["shape"])
        for name, t in header.items()
    }


def write_tensors(path, tensors, notes=None):
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    header, data = {"__metadata__": notes} if notes else {}, b""
    for name, values in tensors.items():
        header[name] = {
            "dtype": names[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + values.nbytes],
        }
        data += values.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path
