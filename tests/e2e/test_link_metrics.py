"""Metrics of links beside those of the `ogb` package's evaluator (1.3.6) and of scikit-learn."""

import json
import subprocess

import numpy as np

from harness import cases, python_with

# Reads scores, and says what the evaluators do of each pair of files.
PROGRAM = """
import json, sys
import numpy as np, torch
from ogb.linkproppred import Evaluator
from sklearn.metrics import average_precision_score
by_hits, by_rank, auc = (Evaluator(f"ogbl-{n}") for n in ("collab", "citation2", "vessel"))
said = []
for name, ks in json.load(sys.stdin):
    positive, negative = (np.load(f"{name}.{part}.npy") for part in ("positive", "negative"))
    flat = {"y_pred_pos": positive, "y_pred_neg": negative.reshape(-1)}
    labels = np.repeat([1, 0], [positive.size, negative.size])
    found = {
        "roc_auc": auc.eval(flat)["rocauc"],
        "average_precision": average_precision_score(labels, np.concatenate([*flat.values()])),
    }
    own = negative.ndim == 2
    rows = negative if own else np.broadcast_to(negative, (positive.size, negative.size))
    ranked = by_rank.eval(
        {"y_pred_pos": torch.tensor(positive), "y_pred_neg": torch.tensor(rows.copy())})
    means = {key[:-5]: value.double().mean().item() for key, value in ranked.items()}
    found["mrr"] = means["mrr"]
    for k in ks:
        by_hits.K = k
        found[f"hits@{k}"] = means[f"hits@{k}"] if own else by_hits.eval(flat)[f"hits@{k}"]
    said.append(found)
print(json.dumps(said))
"""


def scores(rng, shape, values):
    """Of so many values, which makes ties; of all there are where that is None."""
    if values is None:
        return rng.normal(size=shape).astype(np.float32)
    return (rng.integers(-values, values, shape) / 16).astype(np.float32)


def ogb_says(python, box, asked):
    done = subprocess.run(
        [python, "-c", PROGRAM],
        cwd=box.folder,
        env=box.environment(),
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@cases("shared", "own")
def test_values_are_those_of_ogb(box, kind):
    python = python_with("ogb.linkproppred")
    rng = np.random.default_rng(7)
    asked = []
    for n in (1, 3, 64, 500):
        for m in (1, 9, 10, 11, 300):
            for values in (1, 2, 40, None):
                name = f"{n}-{m}-{values}"
                shape = (n, m) if kind == "own" else m
                np.save(box.path(f"{name}.positive.npy"), scores(rng, n, values))
                np.save(box.path(f"{name}.negative.npy"), scores(rng, shape, values))
                asked.append((name, [1, 3, 10] if kind == "own" else [1, 3, 10, 11, 300, 301]))
    for (name, ks), wanted in zip(asked, ogb_says(python, box, asked), strict=True):
        found = box.start(
            *(f"{name}.{part}.npy" for part in ("positive", "negative")),
            *ks,
            program="tests/e2e/link_metrics",
        ).wait().ok().json()
        assert found.keys() == wanted.keys(), (found, wanted)
        for key, value in wanted.items():
            assert abs(found[key] - value) < 1e-7, (name, key, found, wanted)
