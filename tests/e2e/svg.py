"""A picture that a script drew: what can be checked of every one."""

import re
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def sound(path):
    """The texts and the root of a picture that lies within its page and shows no broken number."""
    root = ElementTree.parse(path).getroot()
    width, height = float(root.get("width")), float(root.get("height"))
    for e in root.iter():
        for key, most in (("x", width), ("y", height), ("cx", width), ("cy", height)):
            value = float(e.get(key, 0))
            assert -0.1 <= value <= most + 0.1, f"{path}: {key}={value} of {e.tag} is outside"
    for rect in root.iter(f"{SVG}rect"):
        right = float(rect.get("x", 0)) + float(rect.get("width"))
        assert right <= width + 0.1, f"{path}: a rectangle ends at {right} of {width}"
    texts = ["".join(e.itertext()) for e in root.iter(f"{SVG}text")]
    assert not any(re.search(r"\b(nan|inf|None|null)\b", t) for t in texts), texts
    return texts, root
