"""TensorBoard event files: read back with a reader of our own, compared with the report."""

import os
import struct

from harness import cases, read_json, small_job


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """The bytes of each TFRecord; both checksums are looked at."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at : at + 8]), at
        body = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), at
        yield body
        at += 16 + length
    assert at == len(data)


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{number: [value, ...]} of one protobuf message: ints, and bytes of whatever has a length."""
    at, found = 0, {}
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            length = {1: 8, 5: 4}[key & 7]
            value, at = data[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def setting(data):
    """google.protobuf.Value"""
    ((number, (value,)),) = fields(data).items()
    if number == 2:
        return struct.unpack("<d", value)[0]
    return value.decode() if number == 3 else bool(value)


def hparams(value, found):
    """What the page of hyperparameters gets: settings and the end, by its tags."""
    tag = value[1][0].decode()
    plugin = fields(fields(value[9][0])[1][0])
    assert plugin[1] == [b"hparams"], plugin
    content = fields(plugin[2][0])
    if tag == "_hparams_/session_start_info":
        entries = [fields(entry) for entry in fields(content[3][0])[1]]
        found["start"] = {e[1][0].decode(): setting(e[2][0]) for e in entries}
    else:
        assert tag == "_hparams_/session_end_info", tag
        found["end"] = fields(content[4][0])[1][0]


def read_events(path, run=None):
    """[(step, {tag: value}), ...] of a file's epochs; what else must be there is looked at. run:
    gets the "start", the "end" and the "test" of the run."""
    first, *rest = [fields(body) for body in records(path)]
    assert first[3] == [b"brain.Event:2"], first
    found, started, run = [], False, {} if run is None else run
    for event in rest:
        assert 1e9 < struct.unpack("<d", event[1][0])[0] < 1e11
        if 7 in event:  # the session begins
            assert fields(event[7][0]) == {1: [1]} and not found
            started = event[2][0]
            continue
        values = [fields(value) for value in fields(event[5][0])[1]]
        if 9 in values[0]:
            hparams(values[0], run)
            continue
        scalars = {v[1][0].decode(): struct.unpack("<f", v[2][0])[0] for v in values}
        if any(tag.endswith("/test_final") for tag in scalars):
            run["test"] = (event[2][0], scalars)
            continue
        found.append((event[2][0], scalars))
    assert not found or started == found[0][0]
    return found


def event_files(box, output="runs/job"):
    folder = box.path(output, "tensorboard")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def same(value, wanted):
    return abs(value - wanted) <= 1e-6 * abs(wanted)


def assert_like(scalars, epoch):
    wanted = {
        "loss/train": epoch["loss"],
        "accuracy/train": epoch["train_accuracy"],
        "time/epoch_seconds": epoch["seconds"],
        "time/evaluate_seconds": epoch["evaluate_seconds"] if epoch["val"] else None,
        "cache/hit_rate": epoch["cache"]["hit_rate"] if epoch["cache"]["ranked"] else None,
        "rate/batches_per_second": epoch["batches"] / epoch["seconds"],
        "rate/edges_per_second": epoch["sampled_edges"] / epoch["seconds"],
        "queue/depth_mean": epoch["queue"]["depth_mean"],
        "split/samplers": epoch["samplers"],
        "split/trainers": epoch["trainers"],
        "split/switches": epoch["switches"],
        "optimizer/learning_rate": epoch["learning_rate"],
        "updates/staleness_mean": epoch.get("updates", {}).get("staleness_mean"),
    }
    for part in ("val", "test"):
        wanted.update({f"{key}/{part}": value for key, value in (epoch[part] or {}).items()})
    wanted = {key: value for key, value in wanted.items() if value is not None}
    assert set(scalars) == set(wanted), set(scalars) ^ set(wanted)
    for tag, value in wanted.items():
        assert same(scalars[tag], value), (tag, scalars[tag], value)


@cases("ordered", "async")
def test_it_says_what_the_report_says(box, mode):
    changes = {"updates.mode": mode, "evaluate.every": 2}
    changes.update({"cache.policy": "degree", "cache.ratio": 0.2})
    if mode == "async":
        changes["updates.staleness"] = 2
    else:
        changes["evaluate.test"] = "each"
    config = small_job(box.shared_dataset("small"), **changes)
    result, report = box.run(config)
    result.ok()
    (file,) = event_files(box)
    run = {}
    events = read_events(file, run)
    assert len(events) == len(report["epochs"]) == 3
    for (_, scalars), epoch in zip(events, report["epochs"]):
        assert_like(scalars, epoch)
    steps = [step for step, _ in events]
    assert steps == [(i + 1) * report["epochs"][0]["batches"] for i in range(3)], steps
    assert run["end"] == 1, "not a success"
    step, test = run["test"]
    assert step == steps[report["best_epoch"]]
    wanted = {f"{key}/test_final": x for key, x in report["test"].items() if x is not None}
    assert set(test) == set(wanted) and all(same(test[tag], wanted[tag]) for tag in wanted)
    settings, job = run["start"], report["config"]
    assert settings["optimizer.lr"] == job["optimizer"]["lr"]
    assert settings["model.kind"] == job["model"]["kind"]
    assert settings["digest"] is job["digest"]
    assert settings["sampler.fanout"].replace(" ", "") == "[5,5]"
    # Both layers of GraphSAGE: two matrices and a bias.
    metadata = read_json(os.path.join(box.shared_dataset("small"), "metadata.json"))
    dim, hidden, classes = metadata["feat_dim"], job["model"]["hidden"], metadata["num_classes"]
    params = (2 * dim + 1) * hidden + (2 * hidden + 1) * classes
    assert settings["num_params"] == report["num_params"] == params


def test_whole_records_survive_a_kill_and_a_resumed_job_begins_another_file(box):
    changes = {"checkpoint": {"every_updates": 5}, "epochs": 4}
    config = small_job(box.shared_dataset("small"), **changes)
    result, _ = box.run(config, env={"SLUICE_FAILPOINT": "broker_report:1"})
    assert result.rc == 1, str(result)
    box.until_gone()
    assert len(read_events(event_files(box)[0])) == 4
    box.run(dict(config, epochs=6))[0].ok()
    first, second = event_files(box)
    report = read_json(box.path("runs/job/report.json"))
    before, after = read_events(first), read_events(second)
    assert [step for step, _ in before] == [12, 24, 36, 48]
    assert [step for step, _ in after] == [60, 72]
    for (_, scalars), epoch in zip(before + after, report["epochs"]):
        assert same(scalars["loss/train"], epoch["loss"])
