"""A loader whose data set has another one in its place: what it would open again is refused."""

from test_python_loader import NOT_UNDER, run  # noqa: F401

REPLACED = """
import os, shutil
shutil.copytree(path, "mine")
loader, other = open_loader("mine"), open_loader("mine")
wanted = [batch.n_id.tolist() for batch in loader]
assert loader([3]).batch_size == 1
os.rename("mine", "away")
shutil.copytree("away", "mine")
loader.load_state_dict({**loader.state_dict(), "epoch": 0, "number": 0})
for way in lambda: loader([3]), lambda: other([3]), lambda: other.data, lambda: iter(loader):
    said = refused(way)
    assert "mine/metadata.json: was replaced or changed since this loader was opened" in said, said
assert [batch.n_id.tolist() for batch in other] == wanted  # of the files that it has open
shutil.rmtree("mine")
assert "mine/metadata.json: is gone since" in refused(other, [3])
shutil.rmtree("away")
"""


def test_another_data_set_under_its_name(box):
    run(box, REPLACED)
