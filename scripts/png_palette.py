"""PNG files of at most 256 colours: what `pictures` makes of a browser's, a third as large.

Needs numpy alone. `read_png` takes what Chromium writes: 8 bits, RGB or RGBA, not interlaced.
"""

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks_of(data):
    assert data[:8] == SIGNATURE, "not a PNG"
    at = 8
    while at < len(data):
        (n,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + n]
        at += 12 + n


def paeth(a, b, c):
    """Of three neighbours the one that is nearest to a + b - c (PNG, 9.4)."""
    p = a + b - c
    da, db, dc = abs(p - a), abs(p - b), abs(p - c)
    return a if da <= db and da <= dc else b if db <= dc else c


def unfilter(kind, line, above, step):
    """A row of bytes as it was before its filter; `step`: bytes of a pixel."""
    if kind == 0:
        return line
    if kind == 2:
        return line + above  # modulo 256
    out, row = np.zeros_like(line), line.tolist()
    up, left = above.tolist(), [0] * (len(row) + step)
    for i, x in enumerate(row):
        a, b, c = left[i], up[i], up[i - step] if i >= step else 0
        x += {1: a, 3: (a + b) // 2, 4: 0}[kind] + (paeth(a, b, c) if kind == 4 else 0)
        left[i + step] = x & 255
    out[:] = left[step:]
    return out


def read_png(data):
    """The picture as (height, width, 3) bytes; what shines through is left out of account."""
    head, packed = None, b""
    for kind, body in chunks_of(data):
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
    width, height, bits, colour, _, _, interlaced = head
    assert bits == 8 and colour in (2, 6) and not interlaced, head
    step = 3 if colour == 2 else 4
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * step)
    above, rows = np.zeros(width * step, np.uint8), []
    for line in raw:
        above = unfilter(int(line[0]), line[1:], above, step)
        rows.append(above)
    return np.array(rows).reshape(height, width, step)[:, :, :3]


def to_palette(picture, most=256):
    """(palette (n, 3), index of each pixel): the picture's colours, or where they are more than
    `most`, those that are alike as one, which is their mean."""
    flat = picture.reshape(-1, 3).astype(np.uint32)
    for dropped in range(8):
        alike = (flat >> dropped) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
        found, index, count = np.unique(alike, return_inverse=True, return_counts=True)
        if len(found) <= most:
            break
    index = index.reshape(-1)
    sums = [np.bincount(index, flat[:, c], len(found)) for c in range(3)]
    palette = np.rint(np.array(sums).T / count[:, None]).astype(np.uint8)
    return palette, index.astype(np.uint8).reshape(picture.shape[:2])


def write_png(palette, index):
    def chunk(kind, body):
        end = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + end

    height, width = index.shape
    rows = np.hstack([np.zeros((height, 1), np.uint8), index])  # no filter: few colours
    return b"".join(
        [
            SIGNATURE,
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", palette.tobytes()),
            chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            chunk(b"IEND", b""),
        ]
    )
