"""Features on several drives: how they come there, jobs that read them, and wrong files."""

import json
import os
import signal

from harness import cases, fingerprint, planted, read_json, small_job, write_dataset


def stripes_of(box, dataset, n=3):
    folders = [box.path(f"drive{i}") for i in range(n)]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    arguments = [word for folder in folders for word in ("--to", folder)]
    made = box.sluice("stripe", dataset, *arguments, "--unit", "64k", "-o", "json").ok().json()
    assert made["schema"] == "sluice.stripe/1" and len(made["files"]) == n, made
    return made["files"]


@cases("memory", "storage")
def test_results_are_those_of_one_file(box, store):
    arrays = planted(n=3000, feat_dim=331)
    whole, striped = (write_dataset(box.path(name), arrays) for name in ("whole", "striped"))
    files = stripes_of(box, striped)
    os.remove(os.path.join(striped, "node_feat.npy"))
    said = box.sluice("inspect", striped).ok().out
    assert all(os.path.basename(file) in said for file in files), said
    found = []
    for name, dataset in (("whole", whole), ("striped", striped)):
        config = small_job(dataset, output=f"runs/{name}", store={"features": store})
        result, report = box.run(config, name=name)
        result.ok()
        found.append(fingerprint(report))
        box.sluice("predict", f"runs/{name}", "--out", f"{name}.npy").ok()
    assert found[0] == found[1], found
    with open(box.path("whole.npy"), "rb") as a, open(box.path("striped.npy"), "rb") as b:
        assert a.read() == b.read()


def test_a_file_that_is_missing_or_in_the_wrong_place(box):
    dataset = write_dataset(box.path("data"), planted(n=3000, feat_dim=331))
    files = stripes_of(box, dataset)
    config = small_job(dataset, store={"features": "storage"})
    os.rename(files[1], files[1] + ".aside")
    result, _ = box.run(config)
    assert result.rc == 2 and files[1] in result.err and "is missing" in result.err, str(result)
    os.rename(files[1] + ".aside", files[1])
    path = os.path.join(dataset, "metadata.json")
    metadata = read_json(path)
    metadata["feat_stripes"]["files"].reverse()
    with open(path, "w") as file:
        json.dump(metadata, file)
    result, _ = box.run(config)
    assert result.rc == 2 and "stands where stripe 0 belongs" in result.err, str(result)


def test_a_file_that_is_cut_while_a_job_reads_it(box):
    """Early in an epoch: at its end the broker would see it, and say that the file was changed."""
    dataset = write_dataset(box.path("data"), planted(n=4000, feat_dim=331))
    files = stripes_of(box, dataset, 2)
    config = small_job(
        dataset,
        store={"features": "storage", "cache": 1100000},
        allocation={"samplers": 1, "trainers": 1, "switching": False},
        **{"evaluate.fanout": [3, 3], "sampler.batch_size": 32},
    )
    point = {"SLUICE_FAILPOINT": "trainer_gradient:5:stop"}
    running = box.start("run", box.job(config), env=point)
    trainer = box.until_stopped(running, "trainer")
    os.truncate(files[1], 4096)
    os.kill(trainer, signal.SIGCONT)
    result = running.wait()
    assert result.rc == 1, str(result)
    assert files[1] in result.err and "was cut while it was in use" in result.err, str(result)


def test_killed_while_it_is_made_nothing_has_changed(box):
    dataset = write_dataset(box.path("data"), planted(n=3000, feat_dim=331))
    before = read_json(os.path.join(dataset, "metadata.json"))
    os.mkdir(box.path("drive"))
    words = ("stripe", dataset, "--to", box.path("drive"))
    killed = box.sluice(*words, env={"SLUICE_FAILPOINT": "command_staged"})
    assert killed.rc == -signal.SIGKILL, str(killed)
    assert read_json(os.path.join(dataset, "metadata.json")) == before
    box.sluice("inspect", dataset).ok()
    for name in os.listdir(box.path("drive")):
        assert name.startswith("."), name
    box.sluice(*words).ok()


def test_a_reordered_data_set_has_one_file(box):
    dataset = write_dataset(box.path("data"), planted(n=500, feat_dim=8))
    stripes_of(box, dataset)
    os.remove(os.path.join(dataset, "node_feat.npy"))
    box.sluice("reorder", dataset, "--by", "degree", "--out", box.path("ordered")).ok()
    assert "feat_stripes" not in read_json(box.path("ordered", "metadata.json"))
    assert os.path.exists(box.path("ordered", "node_feat.npy"))
    box.sluice("inspect", box.path("ordered")).ok()
