"""Examples with graphs in memory and with Lightning, run as a user runs them."""

import os
import re

from harness import ROOT, Skip, python_with, whole
from test_python_loader import NOT_UNDER  # noqa: F401
from test_python_pyg import ENV, start


def source(name):
    with open(os.path.join(ROOT, "examples", name), encoding="utf-8") as file:
        return file.read()


def start_example(box, python, text, *options, env=None):
    """The text of an example, maybe changed, as a script of its own."""
    path = box.path("example.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.makedirs(box.path(ENV["TMPDIR"]), exist_ok=True)
    program = (
        f"import runpy\nsys.argv = {[path, *options]!r}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    env = {**ENV, "TMPDIR": box.path(ENV["TMPDIR"]), **(env or {})}
    return start(box, program, python=python, env=env)


def accuracies(result):
    return [float(found) for found in re.findall(r"^epoch .* val ([\d.]+)$", result.out, re.M)]


@whole
def test_edge_features(box):
    """What shows in edge_attr alone is learned, and not without it: then it ends with 1. A data
    set directory gets edge features of the script's."""
    python, text = python_with("torch_geometric"), source("gatv2_edges.py")
    result = start_example(box, python, text, "--epochs", "4").wait().ok()
    assert accuracies(result)[-1] > 0.9, str(result)
    result = start_example(box, python, text, "--epochs", "2", "--blind").wait()
    assert result.rc == 1 and "has learned nothing" in result.err, str(result)
    planted = box.shared_dataset("planted")
    result = start_example(box, python, text, "--epochs", "2", "--data", planted).wait().ok()
    assert len(accuracies(result)) == 2


def python_with_lightning():
    python_with("torch_geometric")
    for module in ("lightning", "pytorch_lightning"):
        try:
            return python_with(module)
        except Skip as skip:
            last = skip
    raise last


OPTIONS = ["--batch-size", "64", "--hidden", "16", "--lr", "0.02", "--epochs", "3"]
# Lines of the example that the test changes: it says each batch's first seed, has a state every
# four batches, of twelve in an epoch, and dies where it is told to.
CHANGES = (
    ("(number + 1) % 20 == 0", "(number + 1) % 4 == 0"),
    (
        "    def training_step(self, batch, _):\n",
        "    def training_step(self, batch, _):\n"
        "        print('seed', self.current_epoch, _, int(batch.n_id[0]), flush=True)\n"
        "        if os.environ['DIE'] == f'{self.current_epoch} {_}':\n"
        "            os.kill(os.getpid(), 9)\n",
    ),
)


@whole
def test_lightning_goes_on_after_a_kill(box):
    """The batches behind a checkpoint of Lightning are those of a run that was not killed: behind
    one of an epoch's end, and one in the middle."""
    python, text = python_with_lightning(), source("lightning_data.py")
    for change in CHANGES:
        assert text.count(change[0]) == 1, change
        text = text.replace(*change)
    planted = box.shared_dataset("planted")

    def seeds(state, die=""):
        options = [planted, *OPTIONS, "--state", box.path(state)]
        result = start_example(box, python, text, *options, env={"DIE": die}).wait()
        assert result.rc == (-9 if die else 0), str(result)
        assert die or accuracies(result)[-1] > 0.7, str(result)
        return re.findall(r"^seed .*$", result.out, re.M)

    undisturbed, first, second, rest = (
        seeds("whole.ckpt"),
        seeds("cut.ckpt", "1 1"),
        seeds("cut.ckpt", "1 9"),
        seeds("cut.ckpt"),
    )
    assert len(undisturbed) == 36 and len(first) == 14 and len(second) == 10
    assert first[:12] + second[:8] + rest == undisturbed


@whole
def test_lightning_on_two_processes(box):
    python, text = python_with_lightning(), source("lightning_data.py")
    planted = box.shared_dataset("planted")
    options = [planted, *OPTIONS, "--devices", "2"]
    result = start_example(box, python, text, *options).wait().ok()
    assert len(accuracies(result)) == 3 and accuracies(result)[-1] > 0.7, str(result)
