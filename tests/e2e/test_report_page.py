"""`sluice report --html` where no script runs: pictures and words of any run in the file."""

import copy
import html.parser
import json
import os
import re
import xml.etree.ElementTree as ElementTree

from harness import cases, cpu_devices, read_json, small_job

REPORT = "runs/job/report.json"


class Elements(html.parser.HTMLParser):
    """The tags of a page as a browser reads it, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def inside(svg):
    """All shapes of a picture lie in its view, and no number in it is broken."""
    _, _, width, height = map(float, svg.get("viewBox").split())
    for e in svg.iter():
        box = [float(e.get(key, 0)) for key in ("x", "y", "width", "height")]
        points = [(box[0], box[1]), (float(e.get("cx", 0)), float(e.get("cy", 0)))]
        if e.tag == "rect":
            points.append((box[0] + box[2], box[1] + box[3]))
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", e.get("d", ""))]
        if "V" not in e.get("d", ""):
            points += zip(numbers[::2], numbers[1::2])
        for x, y in points:
            assert -0.2 <= x <= width + 0.5 and -0.2 <= y <= height + 0.5, (e.tag, e.attrib)
        assert not re.search(r"nan|inf", f"{e.text} {list(e.attrib.values())}"), (e.tag, e.attrib)


def flags_cover_nothing(root):
    circles = [c for c in root.iter("circle") if c.get("r") == "8.5"]
    places = [(float(c.get("cx")), float(c.get("cy"))) for c in circles]
    for i, (x1, y1) in enumerate(places):
        for x2, y2 in places[:i]:
            assert (x1 - x2) ** 2 + (y1 - y2) ** 2 >= 17**2, f"flags at {x1},{y1} and {x2},{y2}"
    return len(places)


def read_page(box, run="runs/job"):
    """The account in a run's page, after what holds for every one."""
    page = box.sluice("report", run, "--html", "--out", "-").ok().out
    elements = Elements(page).found
    for tag, attributes in elements:
        for key in ("src", "href"):
            address = attributes.get(key) or ""
            assert not address or address.startswith(("#", "data:")), f"{tag} loads {address}"
    assert [tag for tag, _ in elements].count("script") == 2, "the data and the page's own script"
    assert "default-src 'none'" in page
    (account,) = re.findall(r'<article class="account">.*?</article>', page, re.S)
    root = ElementTree.fromstring(account)
    assert not [e.tag for e in root.iter() if e.tag in ("script", "a", "img", "link", "style")]
    for svg in root.iter("svg"):
        inside(svg)
    (words,) = root.iter("pre")
    said = box.sluice("report", run, "--all").ok().out
    wanted = said.replace("\u0007", "?")
    assert words.text == wanted, f"found {words.text}\nwanted, as `sluice report` says, {wanted}"
    return root


def texts_of(root):
    return [" ".join("".join(e.itertext()).split()) for e in root.iter()]


def shares_of(root):
    """The stages' shares in percent, and the longest bar of that picture."""
    (svg,) = [e for e in root.iter("svg") if e.get("aria-label") == "Stages"]
    shares = [int(m[1]) for t in texts_of(svg) if (m := re.fullmatch(r"(\d+) %", t))]
    return shares, max(float(r.get("width")) for r in svg.iter("rect"))


def report_of(box, **changes):
    config = small_job(
        box.shared_dataset("small"),
        **{"sampler.batch_size": 48, "updates.batches_per_update": 4, "epochs": 3, **changes},
    )
    result, report = box.run(config)
    result.ok()
    return report


AUTO = {"samplers": "auto", "trainers": "auto", "switching": True}
PRESC = {"policy": "presc", "ratio": 0.2, "report_optimal": True}
JOBS = {
    "one-device": {"allocation": AUTO, "devices": cpu_devices(1), "cache": PRESC},
    "eight-devices": {"allocation": AUTO, "devices": cpu_devices(8), "cache": PRESC},
    "no-cache-no-switching": {"allocation.switching": False, "evaluate.every": 0},
    "async": {"updates": {"mode": "async"}, "updates.batches_per_update": 1},
    "pool": {"devices": "cpu", "allocation": {}},
    "scaled": {
        "devices": cpu_devices(4),
        "schedule": [{"epoch": 1, "samplers": 1, "trainers": 3}],
    },
}


@cases(*JOBS)
def test_it_shows(box, job):
    report = report_of(box, **JOBS[job])
    root = read_page(box)
    texts = texts_of(root)
    assert any(t.startswith("done in ") for t in texts)
    for device in report["devices"]:
        assert device["name"] in texts, texts
        for worker, role in zip(device["workers"], device["roles"]):
            shown = worker + (", standby" if role == "standby" else "")
            assert any(t == shown or t.startswith(f"{shown} cache ") for t in texts), shown
    for e in report["epochs"]:
        n = e["epoch"] + 1
        assert f"epoch {n}: training {e['loss']:.4f}" in texts, texts
        if e["val"]:
            assert f"epoch {n}: validation {e['val']['accuracy']:.4f}" in texts, texts
        assert any(t.startswith(f"epoch {n}: {e['batches']} batches in ") for t in texts), texts
    first = report["epochs"][0]
    assert f"{first['samplers']}+{first['trainers']}" in texts, "the split under the first bar"
    assert report["epochs"][-1]["bottleneck"] in texts, "the bottleneck"
    assert {"sample", "extract", "train"} <= {t.split(" ")[0] for t in texts if t}, "stages"
    idle = any(not {"sampler", "trainer"} & set(d["roles"]) for d in report["devices"])
    assert idle == ("without a role at the end" in texts)
    assert (job == "one-device") == any("No device only trains" in t for t in texts)
    assert any("of the rows hit a cache" in t for t in texts) == ("cache" in JOBS[job])
    shares, longest = shares_of(root)
    assert shares and max(shares) <= 100 and longest <= 330, (shares, longest)
    assert any("the schedule changes the split" in t for t in texts) == (job == "scaled")
    flags_cover_nothing(root)


def rewrite(box, report):
    with open(box.path(REPORT), "w") as file:
        json.dump(report, file)


def test_any_numbers_fit(box):
    small = report_of(box, cache=PRESC)
    few = copy.deepcopy(small)
    few.update(status="failed", message="trainer 0 died <5> times & more", epochs=[], scales=[])
    few.update(allocations=[], test_accuracy=None, restarts=[])
    rewrite(box, few)
    texts = texts_of(read_page(box))
    assert "No epoch was completed." in texts and few["message"] in texts, texts

    # A full queue is how it should be, and so is a job that somebody stopped.
    calm = copy.deepcopy(small)
    calm.update(status="stopped", message="stopped by the user after update 7")
    for e in calm["epochs"]:
        e["bottleneck"] = "trainers: forward and backward took 97 % of the time"
        e["stages"]["backpressure"]["seconds"] = 99 * e["seconds"]  # of few samplers
        e["stages"]["backpressure"]["count"] = 99
    rewrite(box, calm)
    root = read_page(box)
    assert max(shares_of(root)[0]) == 100, shares_of(root)
    classes = [e.get("class") or "" for e in root.iter()]
    assert "neck calm" in classes and not any("c-bad" in c for c in classes), classes

    bare = {"schema": "sluice.report/1", "job": "bare", "status": "failed", "epochs": []}
    rewrite(box, bare)
    assert "bare" in texts_of(read_page(box))

    large = copy.deepcopy(small)
    large["config"]["dataset"] = "/far" * 200
    large["devices"] = [
        {"index": i, "kind": "cpu", "cores": list(range(64)), "memory": 1 << 40,
         "workers": [f"sampler {i}", f"trainer {63 - i}"][i >= 40:],
         "roles": ["sampler", "standby"] if i < 40 else ["trainer"]}
        for i in range(64)
    ]  # fmt: skip
    large["epochs"] = [dict(small["epochs"][i % 3], epoch=i) for i in range(400)]
    large["wall_seconds"] = sum(e["seconds"] + e["evaluate_seconds"] for e in large["epochs"]) + 1
    split = {"samplers": 40, "trainers": 24}
    large["scales"] = [
        {"seconds": 0.5 + 0.01 * i, "epoch": 0, "by": "user", "from": split, "to": split,
         "took_seconds": 1e-7, "ok": i % 2 == 0, "message": "no " * 99}
        for i in range(40)
    ]  # fmt: skip
    large["restarts"] = [{"worker": "trainer 3", "seconds": 1e9, "cause": "signal 9", "held": None}]
    rewrite(box, large)
    root = read_page(box)
    assert flags_cover_nothing(root) == 20
    assert any(re.match("and 2[12] more", t) for t in texts_of(root))
    assert "cores 0-63 1.00 TiB" in texts_of(root)


CURVES = {
    "one": [0.7],
    "equal": [2, 2, 2],
    "zero": [0, 0],
    "unknown": [None] * 3,
    "holes": [None, 1, None, 2],
    "negative": [-3, -1, -7],
    "huge": [1e20, 3, 1e308],
    "opposite": [-1e299, 1e299],
    "tiny": [1e-12, 5e-324],
    "near": [1e16, 1e16 + 2],
}


def test_any_curve_fits(box):
    report = report_of(box, epochs=1)
    (epoch,) = report["epochs"]
    for name, values in CURVES.items():
        val = [None if v is None else {"accuracy": v, "loss": v} for v in values]
        report["epochs"] = [
            dict(epoch, epoch=i, loss=v, train_accuracy=v, val=w, seconds=v, evaluate_seconds=v)
            for i, (v, w) in enumerate(zip(values, val))
        ]
        rewrite(box, report)
        root = read_page(box)
        dots = [c for c in root.iter("circle") if c.get("class") == "dot"]
        known = [v for v in values if v is not None and abs(v) < 1e300]
        assert len(dots) == 4 * len(known), f"{name}: {len(dots)} dots"
        heights = [float(c.get("cy")) for c in dots]
        assert all(8 <= h <= 182 for h in heights), f"{name}: {heights} are outside of the axes"
        falling = [h for _, h in sorted(zip(known, heights), key=lambda at: at[0])]
        assert falling == sorted(falling, reverse=True), f"{name}: more is not higher"


def test_a_text_of_a_run_is_no_markup(box):
    """Every text that there is, at every place of the report."""
    bad = "<script>alert(1)</script><b a=\"'>&amp;\u0007</article>"

    def spoil(value, key=""):
        if isinstance(value, dict):
            return {k: spoil(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [spoil(v, key) for v in value]
        return value if not isinstance(value, str) or key in ("schema", "roles") else value + bad

    report = report_of(box, cache=PRESC)
    report["restarts"] = [{"worker": "t", "pid": 1, "seconds": 1, "cause": "c", "held": "b"}]
    report["scales"] = [{"seconds": 1, "epoch": 0, "by": "u", "ok": False, "message": "no"}]
    report["message"] = "why"
    rewrite(box, spoil(report))
    texts = texts_of(read_page(box))
    shown = bad.replace("\u0007", "?")
    for words in ("test", "why", "cpu 0", "t", report["epochs"][-1]["bottleneck"]):
        assert any(words + shown in t for t in texts), f"{words} is not shown as it is"


def test_the_page_is_the_same_each_time(box):
    report_of(box)
    first = box.sluice("report", "runs/job", "--html").ok().out.strip()
    with open(box.path(first)) as file:
        page = file.read()
    assert os.path.exists(box.path(first)) and read_json(box.path(REPORT))["status"] == "done"
    assert box.sluice("report", "runs/job", "--html", "--out", "-").ok().out == page + "\n"
