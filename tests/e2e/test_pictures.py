"""scripts/pictures: the documents' pictures, taken from a job that runs."""

import os
import subprocess

from harness import BIN, ROOT, Skip, timeout, whole

MOST_BYTES = 60000
BLUE, ORANGE = (0, 135, 255), (215, 135, 0)  # of samplers and trainers in `top`


def colours_of(path):
    """(height, width, {colour: pixels}) of a picture with a palette."""
    from PIL import Image  # without it there are no pictures

    size = os.path.getsize(path)
    assert 2000 < size < MOST_BYTES, f"{path}: {size} bytes"
    with Image.open(path) as picture:
        assert (picture.format, picture.mode) == ("PNG", "P"), "no palette"
        colours = picture.convert("RGB").getcolors(256)
        return picture.height, picture.width, {colour: n for n, colour in colours}


def has_about(colours, wanted, least):
    near = sum(n for c, n in colours.items() if max(abs(a - b) for a, b in zip(c, wanted)) < 12)
    assert near >= least, f"{near} pixels of {wanted} in {colours}"


@whole
@timeout(240)
def test_both_are_taken(box):
    out = box.path("out")
    done = subprocess.run(
        [os.path.join(ROOT, "scripts", "pictures"), "--out", out, "--seconds", "2"]
        + ["--nodes", "20000"],
        env=box.environment({"BIN": BIN, "TMPDIR": box.folder}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )
    if done.stderr.startswith("SKIP: "):
        raise Skip(done.stderr[6:].strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(os.listdir(out)) == ["page.png", "top.png"]
    height, width, colours = colours_of(os.path.join(out, "page.png"))
    assert width == 1100 and 600 < height < 1200, (width, height)
    has_about(colours, (255, 255, 255), width * height // 3)
    height, width, colours = colours_of(os.path.join(out, "top.png"))
    assert width > 800 and height > 450, (width, height)
    has_about(colours, BLUE, 300)
    has_about(colours, ORANGE, 300)
    assert not [f for f in os.listdir(box.folder) if f.startswith("sluice-")], "something is left"
