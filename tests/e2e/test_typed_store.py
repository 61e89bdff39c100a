"""Features of a graph with types that are read from the drive: of several widths, from a file for
each type or from several drives, with the results of mapped ones."""

import json
import os
import shutil
import signal

import numpy as np

from harness import cases, fingerprint, read_json, small_job
from test_bad_input import refused
from test_typed_jobs import papers

# Of 48, 800 and 128 bytes; half precision is trained on as float32.
ADDED = {"author": (24, np.float16), "field": (200, np.float32)}
SLOT = 8


def wide(box, types=("author", "field"), n=1600):
    """The n papers, whose authors and fields have features as well."""
    def make(folder):
        box.sluice("generate", "typed", "--nodes", str(n), "--out", folder, "-q").ok()
        meta = read_json(folder + "/metadata.json")
        random = np.random.default_rng(3)
        for t in meta["types"]:
            if t["name"] in types:
                width, dtype = ADDED[t["name"]]
                x = random.standard_normal((t["count"], width)).astype(dtype)
                np.save(f"{folder}/node_feat.{t['name']}.npy", x)
                t["feat_dim"] = width
        box.write_json(folder + "/metadata.json", meta)

    return box.shared_folder(f"wide-{n}-" + "-".join(types), make)


def job(box, dataset, name, **changes):
    config = small_job(
        dataset,
        output=f"runs/{name}",
        **{
            "model": {"kind": "rsage", "layers": 2, "hidden": 16, "dropout": 0.1},
            "sampler": {"fanout": [3, 4], "expand": "new", "batch_size": 16},
            "epochs": 3,
            "allocation": {"samplers": 1, "trainers": 2},
            "updates.batches_per_update": 2,
            **changes,
        },
    )
    return config


def trained(box, dataset, name, env=None, **changes):
    result, report = box.run(job(box, dataset, name, **changes), name=name, env=env)
    result.ok()
    return report


def rows_of(report, key):
    return sum(e["store"][key] for e in report["epochs"])


TIGHT = {"cache": 170 * 1024, "window": 1}
PRESC = {"policy": "presc", "presample_epochs": 1, "ratio": 0.2}
DRIVE = {
    "roomy": ({}, {"policy": "auto"}, {}),
    "tight": (TIGHT, {"policy": "expected"}, {}),
    "presc": (TIGHT, PRESC, {"sampler.kind": "weighted"}),
    "named": ({"cache": 260 * 1024, "window": 1}, {"policy": "degree"},
              {"sampler.fanout": {"reviews": [0, 2], "*": [2, -1]}}),
}


@cases("roomy", "tight", "presc", "named")
def test_results_are_those_of_memory(box, way):
    store, cache, changes = DRIVE[way]
    dataset = papers(box) if changes else wide(box)
    memory = trained(box, dataset, "memory", **changes)
    drive = trained(box, dataset, "drive", store={"features": "storage", **store}, cache=cache,
                    **changes)
    assert fingerprint(drive) == fingerprint(memory)
    sizes = sum(t["feature_bytes"] for t in drive["types"])
    assert drive["store"]["feature_bytes"] == sizes and drive["store"]["features"] == "storage"
    found = rows_of(drive, "cached") + rows_of(drive, "read") + rows_of(drive, "beside")
    inputs = sum(e["input_nodes"] for e in drive["epochs"])
    if changes:  # authors and fields have no features: nothing is read for them
        assert 0 < found < inputs, (found, inputs)
    else:
        assert found == inputs, (found, inputs)
    assert rows_of(drive, "read") > 0 and rows_of(drive, "read_bytes") >= rows_of(drive, "read")
    if store:
        assert drive["store"]["cache_bytes"] <= store["cache"] + 8 * 4096, drive["store"]


def test_a_fetcher_that_dies_changes_nothing(box):
    """While slots of several widths are being filled."""
    changes = {"store": {"features": "storage", **TIGHT}}
    dataset = wide(box)
    one = trained(box, dataset, "one", **changes)
    env = {"SLUICE_FAILPOINT": "trainer_fetching:11"}
    killed = trained(box, dataset, "killed", env=env, **changes)
    assert killed["restarts"], killed
    assert fingerprint(killed) == fingerprint(one)


def test_a_dry_run_says_what_each_width_gets(box):
    dataset = wide(box)
    store = {"features": "storage", "cache": 300 * 1024}
    path = box.job(job(box, dataset, "plan", store=store))
    found = box.sluice("run", path, "--dry-run", "-o", "json").ok().json()["store"]
    types = read_json(dataset + "/metadata.json")["types"]
    widths = found["widths"]
    assert [w["row_bytes"] for w in widths] == [128, 48, 800]
    assert [w["rows"] for w in widths] == [t["count"] for t in types]
    used = sum(w["cache_rows"] * (w["row_bytes"] + SLOT) for w in widths)
    all_rows = sum(w["rows"] for w in widths)
    assert found["cache_rows"] == sum(w["cache_rows"] for w in widths)
    assert 300 * 1024 - 8 * all_rows - 3000 < used <= 300 * 1024 - 8 * all_rows, found
    assert 0 < found["hit_rate"] <= 1 and found["input_nodes"] > 16, found
    for w in widths:
        assert 0 < w["wanted"] <= w["rows"] and 0 < w["cache_rows"] <= w["rows"], w
    said = box.sluice("run", path, "--dry-run").ok().out
    line = f"of 128 bytes: {widths[0]['cache_rows']:,} of 1,600 rows"
    assert line in said, said
    # And a run does it, of the fanouts that relations have by name.
    named = {"store": store, "sampler.fanout": {"reviews": [0, 0], "*": [9, 9]}}
    path = box.job(job(box, dataset, "named", **named))
    plan = box.sluice("run", path, "--dry-run", "-o", "json").ok().json()["store"]
    assert plan["cache_rows"] != found["cache_rows"], plan
    assert trained(box, dataset, "named", **named)["store"]["cache_rows"] == plan["cache_rows"]


def striped(box, dataset, name="striped"):
    """A copy of it whose features lie on two drives, and the files of each type."""
    shutil.copytree(dataset, box.path(name))
    folders = [box.path(f"drive{i}") for i in range(2)]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    to = [word for folder in folders for word in ("--to", folder)]
    made = box.sluice("stripe", name, *to, "--unit", "4KiB", "-o", "json").ok().json()
    for t in made["types"]:
        os.remove(box.path(name, f"node_feat.{t}.npy"))
    return box.path(name), {t: of["files"] for t, of in made["types"].items()}


@cases("memory", "storage")
def test_on_several_drives_results_are_the_same(box, store):
    dataset = wide(box)
    data, files = striped(box, dataset)
    assert {t: len(of) for t, of in files.items()} == {"paper": 2, "author": 2, "field": 2}
    said = box.sluice("inspect", data).ok().out
    for t, of in files.items():
        assert f"{t} in turns from" in said and all(file in said for file in of), said
    one = trained(box, dataset, "one", store={"features": store})
    two = trained(box, data, "two", store={"features": store})
    assert fingerprint(one) == fingerprint(two)
    for run in "one", "two":
        box.sluice("predict", f"runs/{run}", "--out", f"{run}.npy").ok()
    with open(box.path("one.npy"), "rb") as a, open(box.path("two.npy"), "rb") as b:
        assert a.read() == b.read()


def edit_types(data, change):
    path = os.path.join(data, "metadata.json")
    meta = read_json(path)
    change({t["name"]: t for t in meta["types"]})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(meta, file)


def test_stripes_of_a_type_that_are_wrong(box):
    data, files = striped(box, wide(box))
    config = job(box, data, "wrong", store={"features": "storage"})

    def told(*words):
        result, _ = box.run(config)
        assert result.rc == 2 and all(word in result.err for word in words), str(result)

    os.rename(files["author"][1], files["author"][1] + ".aside")
    told(files["author"][1], 'type "author"', "stripe 1 of 2 is missing")
    os.rename(files["author"][1] + ".aside", files["author"][1])
    size = os.path.getsize(files["field"][0])
    os.truncate(files["field"][0], size - 1)
    told(files["field"][0], f"has {size - 1} bytes, wanted {size}", "copy the file again")
    os.truncate(files["field"][0], size)
    edit_types(data, lambda t: t["field"].update(feat_stripes=t["author"]["feat_stripes"]))
    told(files["author"][0], "is float16 (800, 24)", "(80, 200) of type")
    edit_types(data, lambda t: t["field"].update(feat_stripes={"files": files["field"][::-1]}))
    told(files["field"][1], "stands where stripe 0 belongs")
    edit_types(data, lambda t: t["field"].update(feat_stripes={"files": []}))
    told("types[2].feat_stripes", "1 to 64 names of files")


@cases(2, 4, 5, 10)
def test_killed_at_any_file_nothing_has_changed(box, at):
    """While one of three types is written, once all are, and behind the first and last of six files
    that has its name."""
    data = shutil.copytree(wide(box), box.path("data"))
    before = box.sluice("inspect", data, "-o", "json").ok().json()
    os.mkdir(box.path("drive"))
    os.mkdir(box.path("other"))
    words = ("stripe", data, "--to", box.path("drive"), "--to", box.path("other"))
    killed = box.sluice(*words, env={"SLUICE_FAILPOINT": f"command_staged:{at}"})
    assert killed.rc == -signal.SIGKILL, str(killed)
    after = box.sluice("inspect", data, "-o", "json").ok().json()
    assert after["digest"] == before["digest"] and after["files"] == before["files"]
    box.sluice(*words, "--force").ok()
    said = box.sluice(*words, "--force")
    assert said.rc != 0 and "is read as features of the data set already" in said.err, str(said)


def test_commands_take_stripes_of_types(box):
    """As whole files, or where they lie."""
    data, files = striped(box, wide(box, types=("field",)))
    box.sluice("reorder", data, "--by", "degree", "--out", box.path("ordered")).ok()
    found = read_json(box.path("ordered", "metadata.json"))["types"]
    assert not any("feat_stripes" in t for t in found), found
    box.sluice("featurize", data, "--by", "rev_writes", "--out", box.path("all")).ok()
    box.sluice("split-edges", data, "--relation", "writes", "--out", box.path("links")).ok()
    for name in "all", "links":
        found = read_json(box.path(name, "metadata.json"))["types"]
        of = {t["name"]: t["feat_stripes"]["files"] for t in found if "feat_stripes" in t}
        assert of == files, of
    assert os.path.exists(box.path("all", "node_feat.author.npy"))
    digests = []
    for name in "ordered", "all", "links":
        found = box.sluice("inspect", box.path(name), "-o", "json").ok().json()
        assert {t["name"] for t in found["types"] if t["feat_dim"]} >= {"paper", "field"}, found
        digests.append(found["digest"])
    assert len(set(digests)) == 3


def test_what_force_replaces_is_a_data_set_alone(box):
    """Neither somebody's folder in it nor stripes of the features that the new one reads."""
    data = box.path("data")
    shutil.copytree(wide(box, types=("field",)), data)
    os.mkdir(box.path("data", "mine"))
    split = ("split-edges", data, "--relation", "writes", "--out", data, "--force", "-q")
    refused(box, box.sluice(*split), "directory 'mine'", "move it away")
    os.rmdir(box.path("data", "mine"))
    box.sluice("stripe", data, "--to", data, "-q").ok()
    refused(box, box.sluice(*split), "lie in it", "another --out")
    featurize = ("featurize", data, "--by", "rev_writes", "--out", data, "--force", "-q")
    refused(box, box.sluice(*featurize), "lie in it", "another --out")
    box.sluice("inspect", data).ok()
    box.sluice("reorder", data, "--by", "degree", "--out", data, "--force", "-q").ok()
    box.sluice("inspect", data).ok()
    assert not [name for name in os.listdir(box.folder) if ".partial-" in name]
