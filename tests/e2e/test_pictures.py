"""scripts/pictures: the documents' pictures, taken from a job that runs."""

import os
import struct
import subprocess
import sys
import zlib

import numpy as np
from harness import BIN, ROOT, Skip, timeout

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import png_palette  # noqa: E402

MOST_BYTES = 60000
BLUE, ORANGE = (0, 135, 255), (215, 135, 0)  # of samplers and trainers in `top`


def colours_of(path):
    """(height, width, {colour: pixels}) of a picture with a palette."""
    with open(path, "rb") as file:
        data = file.read()
    assert 2000 < len(data) < MOST_BYTES, f"{path}: {len(data)} bytes"
    chunks = dict(png_palette.chunks_of(data))
    width, height, bits, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (bits, kind) == (8, 3), "no palette"
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    count = np.bincount(rows[:, 1:].ravel(), minlength=len(palette))
    return height, width, {tuple(map(int, c)): int(n) for c, n in zip(palette, count)}


def has_about(colours, wanted, least):
    near = sum(n for c, n in colours.items() if max(abs(a - b) for a, b in zip(c, wanted)) < 12)
    assert near >= least, f"{near} pixels of {wanted} in {colours}"


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


def test_a_palette_keeps_few_colours_and_joins_many(box):
    few = np.array([[[1, 2, 3], [250, 0, 9]], [[250, 0, 9], [1, 2, 3]]], np.uint8)
    palette, index = png_palette.to_palette(few)
    assert (palette[index] == few).all() and len(palette) == 2
    many = np.random.default_rng(1).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    palette, index = png_palette.to_palette(many)
    assert len(palette) <= 256
    off = np.abs(palette[index].astype(int) - many)
    assert off.mean() < 24 and off.max() < 64, (off.mean(), off.max())
    path = box.path("many.png")
    with open(path, "wb") as file:
        file.write(png_palette.write_png(palette, index))
    height, width, colours = colours_of(path)
    assert (height, width, sum(colours.values())) == (64, 64, 64 * 64)
