"""TensorBoard's event files of real jobs: as many as sessions, and whole.

What is in them is read back in tests/unit/test_broker_tensorboard.c."""

import os
import struct

from harness import read_json, small_job


def records(path):
    """The bytes of each TFRecord: length, its checksum, the body, its checksum."""
    with open(path, "rb") as file:
        data = file.read()
    at, found = 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 12 : at + 12 + length])
        at += 16 + length
    assert at == len(data), "the last record is cut"
    return found


def losses(path):
    """The loss of each epoch, where a summary has its tag: a float32 behind the name."""
    tag = b"loss/train"
    values = [body[body.index(tag) + len(tag) :] for body in records(path) if tag in body]
    return [struct.unpack_from("<f", value, 1)[0] for value in values]


def test_whole_records_survive_a_kill_and_a_resumed_job_begins_another_file(box):
    changes = {"checkpoint": {"every_updates": 5}, "epochs": 4}
    config = small_job(box.shared_dataset("small"), **changes)
    result, _ = box.run(config, env={"SLUICE_FAILPOINT": "broker_report:1"})
    assert result.rc == 1, str(result)
    box.until_gone()
    box.run(dict(config, epochs=6))[0].ok()
    folder = box.path("runs/job/tensorboard")
    first, second = (losses(os.path.join(folder, name)) for name in sorted(os.listdir(folder)))
    assert (len(first), len(second)) == (4, 2), (first, second)
    epochs = read_json(box.path("runs/job/report.json"))["epochs"]
    for found, epoch in zip(first + second, epochs):
        assert abs(found - epoch["loss"]) <= 1e-6 * epoch["loss"], (found, epoch["loss"])
