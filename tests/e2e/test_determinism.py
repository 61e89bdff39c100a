"""Elastic determinism: who samples and who trains changes neither samples nor parameters."""

import json

from harness import CORES, cases, fingerprint, isa_levels, small_job
from test_bad_input import refused

SPLITS = [(1, 1), (2, 1), (1, 2), (2, 2)]


def digests(box, label, config, env=None):
    result, report = box.run(dict(config, output=f"runs/{label}"), name=label, env=env)
    result.ok()
    return fingerprint(report)


@cases(
    ("graphsage", 1, "full"),
    ("graphsage", 4, "full"),
    ("graphsage", 1, "sampled"),
    ("graphsage", 4, "sampled"),
    ("gcn", 1, "full"),
    ("gcn", 4, "full"),
    ("gcn", 1, "sampled"),
    ("gcn", 4, "sampled"),
)
def test_same_result_for_every_split(box, kind, batches_per_update, evaluate):
    dataset = box.shared_dataset("small")
    found = {}
    for samplers, trainers in SPLITS:
        config = small_job(
            dataset,
            **{
                "model.kind": kind,
                "model.input_dropout": 0.1,
                "updates.batches_per_update": batches_per_update,
                "evaluate.fanout": "full" if evaluate == "full" else [4, 4],
                "sampler.expand": "all" if evaluate == "full" else "new",
                "allocation": {"samplers": samplers, "trainers": trainers},
                "sampler.batch_size": 48,
            },
        )
        found[samplers, trainers] = digests(box, f"s{samplers}t{trainers}", config)
    first = found[SPLITS[0]]
    for split, value in found.items():
        assert value == first, f"samplers, trainers = {split}: {value}, but {SPLITS[0]}: {first}"


def test_proximity_order_does_not_depend_on_the_split(box):
    """And is another order than the shuffled one, of the same vertices."""
    dataset = box.shared_dataset("small")
    order = {"order": {"kind": "proximity"}}
    found = [
        digests(
            box,
            f"p{s}{t}",
            small_job(dataset, allocation={"samplers": s, "trainers": t}, **order),
        )
        for s, t in SPLITS
    ]
    assert all(value == found[0] for value in found), found
    _, report = box.run(small_job(dataset, output="runs/shuffled"), name="shuffled")
    assert fingerprint(report)["samples_digest"] != found[0]["samples_digest"]
    assert set(report["order"]) == {"kind", "input_nodes", "spread_input_nodes"}, report["order"]
    assert report["order"]["kind"] == "shuffled"


def test_the_report_tells_of_the_order(box):
    order = {"kind": "proximity", "sequences": 3}
    result, report = box.run(small_job(box.shared_dataset("small"), order=order))
    result.ok()
    assert "order       proximity, 3 sequences" in result.out + result.err, str(result)
    told = report["order"]
    assert told["sequences"] == 3 and told["kind"] == "proximity"
    assert 0 < told["uniform_error"] and 0 < told["shuffling_error"] < 1
    epochs = report["epochs"]
    mean = sum(e["input_nodes"] for e in epochs) / sum(e["batches"] for e in epochs)
    assert abs(told["input_nodes"] - mean) < 1e-6 * mean, (told, mean)
    assert told["spread_input_nodes"] > 0


@cases("gcn", "gat")
def test_cores_of_a_device_do_not_matter(box, kind):
    """With each instruction set of the processor, which the report names."""
    dataset = box.shared_dataset("small")
    for level in isa_levels(box):
        found = []
        for cores in ([CORES[0]], CORES):
            config = small_job(dataset, **{"model.kind": kind, "model.hidden": 48, "epochs": 1})
            config["devices"] = [
                {"kind": "cpu", "cores": ",".join(str(core) for core in cores)} for _ in range(2)
            ]
            label = f"{level}-{len(found)}"
            found.append(digests(box, label, config, env={"SLUICE_ISA": level}))
            with open(box.path(f"runs/{label}/report.json")) as f:
                assert json.load(f)["isa"] == level
        assert found[0] == found[1], f"{level}: {found}"


def test_an_unknown_instruction_set(box):
    config = small_job(box.shared_dataset("small"))
    result, _ = box.run(config, env={"SLUICE_ISA": "avx3"})
    refused(box, result, "SLUICE_ISA", "'avx3'", "avx512")
