"""The page in a real browser: it draws a job, follows it, steers it, and says when it is alone."""

import json
import os
import re

from browser import Browser
from harness import Daemon, read_json, small_job
from test_http import TOKEN, slow_job, start_shown, write_token
from test_typed_jobs import job as typed_job

LOAD_MAX_BYTES = 64 << 10
SCREENS = os.environ.get("SLUICE_TEST_SCREENS")  # a folder that pictures are kept in


def screenshot(box, browser, name, whole=False):
    browser.screenshot(os.path.join(SCREENS or box.folder, f"{name}.png"), whole)


def start(box, *arguments, **changes):
    """A job that is shown: (its command, its address)."""
    run, page = start_shown(box, *arguments, **changes)
    return run, page.group()


def assert_sound(browser, url):
    assert browser.problems() == [], browser.problems()
    elsewhere = [u for u in browser.requests() if not u.startswith((url, "data:"))]
    assert not elsewhere, f"asked for something from elsewhere: {elsewhere}"


def assert_fits(browser):
    wide = browser.value(
        "[...document.querySelectorAll('main *')].filter((e) => e.getClientRects().length"
        " && !e.closest('.scroll, pre') && e.getBoundingClientRect().right > innerWidth + 1)"
        ".map((e) => e.outerHTML.slice(0, 120))"
    )
    assert not wide, f"reaches beyond the window: {wide}"
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")


def assert_whole(browser, plots=("draws", "trains")):
    """Shares of a whole, as the legend has them and as they stand on one another."""
    for plot in plots:
        shares = browser.value(
            f"[...document.querySelectorAll('#plot-{plot} .legend b')].map((b) =>"
            " parseFloat(b.textContent) || 0)"
        )
        assert shares and sum(shares) <= 100.1, f"{plot}: {shares}"


def styles_of_series(browser):
    """Of each series' name how it is drawn: colour and dashes, in legends and as curves."""
    return browser.value(
        "[...document.querySelectorAll('.plot')].flatMap((p) =>"
        " [...p.querySelectorAll('.legend span')].map((s, k) => {"
        " const path = p.querySelectorAll('.path')[k], css = getComputedStyle(path);"
        " return [[...s.childNodes].slice(2).map((n) => n.textContent).join('').trim(),"
        " getComputedStyle(s.querySelector('i')).borderTopStyle,"
        " css.strokeDasharray, css.stroke].join('|'); }))"
    )


def visible_controls(browser):
    return browser.value(
        "[...document.querySelectorAll('button, select, input')].filter((e) =>"
        " e.getClientRects().length).map((e) => e.id || e.textContent)"
    )


def test_a_running_job_is_drawn_and_its_numbers_move(box):
    run, url = start(box)
    with Browser(box, moves=True) as browser:
        browser.open(url)
        browser.until("document.querySelector('#name')?.textContent === 'test'", "name of the job")
        browser.until("document.querySelector('#link').textContent === 'live'", "live stream")
        browser.until("document.querySelectorAll('#pipe .worker').length >= 3", "three workers")
        received = browser.received_bytes()
        assert 40000 < received < LOAD_MAX_BYTES, received
        browser.until("document.querySelector('#state').textContent === 'running'", "running job")
        first, seconds = browser.text("#phase"), browser.text("#tiles")
        browser.until(
            f"document.querySelector('#phase').textContent !== {json.dumps(first)}"
            f" && document.querySelector('#tiles').textContent !== {json.dumps(seconds)}",
            "number that moves",
        )
        browser.until("document.querySelector('#neck-text').textContent.length > 20", "bottleneck")
        browser.until("document.querySelectorAll('#plot-rate .path').length === 1", "curve")
        browser.until("document.querySelectorAll('#plot-loss .path').length === 2", "loss")
        browser.until("document.querySelectorAll('#stages .stage').length >= 4", "stage times")
        browser.until("document.querySelectorAll('#devices .device').length === 4", "devices")
        # None at the moment when a phase begins.
        loss = "document.querySelector('#tiles div:nth-child(2) dd').textContent"
        browser.until(f"parseFloat({loss}) > 0", "a loss")
        flow = "document.querySelector('.flow.run')?.outerHTML"
        before = browser.value(flow)
        browser.until(f"{flow} && {flow} !== {json.dumps(before)}", "flow that moves")
        browser.until("document.querySelectorAll('#plot-trains .path').length === 3", "shares")
        assert_whole(browser)
        screenshot(box, browser, "page-live")
        assert_fits(browser)
        assert_sound(browser, url)
    run.stop()


def test_it_fits_every_window(box):
    run, url = start(box)
    with Browser(box, 1900, 1000, True) as browser:
        browser.open(url)
        browser.until("document.querySelectorAll('#pipe .worker').length >= 3", "pipeline")
        browser.until("document.querySelectorAll('#plot-loss .path').length === 2", "loss")
        for name, width, height in ("wide", 1900, 1000), ("dark", 1280, 800), ("phone", 390, 844):
            browser.size(width, height)
            browser.until(f"innerWidth === {width}", "new size")
            screenshot(box, browser, f"page-{name}", whole=name == "phone")
            assert_fits(browser)
        assert_sound(browser, url)
    run.stop()


def test_a_click_changes_the_split(box):
    run, url = start(box, "--http-token", write_token(box))
    with Browser(box) as browser:
        browser.open(f"{url}#token={TOKEN}")
        browser.until("!document.querySelector('#steer-set')?.disabled", "controls")
        assert TOKEN not in browser.value("location.href"), "the token stays in the address"
        browser.until("document.querySelector('#step-trainers output').textContent === '2'", "2")
        browser.click("#step-trainers button:last-child")
        assert browser.text("#step-trainers output") == "3"
        browser.until(
            "/would/i.test(document.querySelector('#steer-text').textContent)"
            " && /3 trainers/.test(document.querySelector('#steer-text').textContent)",
            "words on what it would do",
        )
        assert "2 trainers" in browser.text("#pipe"), "nothing has changed yet"
        browser.click("#apply")
        browser.until("/3 trainers/.test(document.querySelector('#pipe').textContent)", "3 of them")
        browser.until("/trainer/.test(document.querySelector('#steer-text').textContent)", "answer")
        browser.until("[...document.querySelectorAll('#events .kind')]"
                      ".some((e) => e.textContent === 'scale')", "event")
        screenshot(box, browser, "page-scaled")
        browser.click("#undo")
        browser.until("/2 trainers/.test(document.querySelector('#pipe').textContent)", "undo")
        assert_sound(browser, url)
    run.stop()
    scales = read_json(box.path("report.json"))["scales"]
    assert [s["to"]["trainers"] for s in scales if s["ok"]][:2] == [3, 2], scales


def test_pause_and_stop(box):
    run, url = start(box, "--http-token", write_token(box))
    with Browser(box) as browser:
        browser.open(f"{url}#token={TOKEN}")
        browser.until("!document.querySelector('#steer-set')?.disabled", "controls")
        browser.click("#pause")
        browser.until("document.querySelector('#state').textContent === 'paused'", "pause")
        browser.until("document.querySelector('#pause').textContent === 'Go on'", "way back")
        browser.click("#pause")
        browser.until("document.querySelector('#state').textContent === 'running'", "running job")
        browser.click("#stop")
        browser.until("document.querySelector('#ask').open", "question")
        assert not run.finished()
        browser.click("#ask button[value=no]")
        browser.until("!document.querySelector('#ask').open", "end of the question")
        assert browser.text("#state") == "running"
        browser.click("#stop")
        browser.until("document.querySelector('#ask').open", "question")
        browser.click("#ask-yes")
        result = run.wait()
        assert result.rc == 130, result
        browser.until("document.querySelector('#link').classList.contains('lost')", "lost server")
        browser.until("/stopped/.test(document.querySelector('#state').textContent)", "its end")
    assert read_json(box.path("report.json"))["status"] == "stopped"


def test_the_controls_are_locked_without_the_token(box):
    run, url = start(box, "--http-token", write_token(box))
    with Browser(box) as browser:
        browser.open(url)
        browser.until("/Locked/.test(document.querySelector('#steer-text').textContent)", "lock")
        assert browser.value("document.querySelector('#steer-set').disabled")
        assert visible_controls(browser) == ["lock", "every"], visible_controls(browser)
        for token in ("wrong-token", TOKEN):
            browser.click("#lock")
            browser.until("document.querySelector('#ask').open", "question")
            browser.value("document.querySelector('#ask-input').focus()")
            browser.type(token)
            browser.click("#ask-yes")
            browser.until("!document.querySelector('#steer-set').disabled", "controls")
            if token != TOKEN:
                browser.click("#step-trainers button:last-child")
                browser.until(
                    "/token is wrong/.test(document.querySelector('#steer-text').textContent)",
                    "refusal",
                )
                assert browser.value("document.querySelector('#steer-set').disabled")
        browser.open(url)  # the token outlives a reload, in this window alone
        browser.until("!document.querySelector('#steer-set')?.disabled", "controls")
    run.stop()
    run, url = start(box)
    with Browser(box) as browser:
        browser.open(url)
        browser.until("/read-only/.test(document.querySelector('#steer-text').textContent)", "why")
        assert browser.value("document.querySelector('#steer-set').disabled")
        # What cannot be pressed is not there: a job alone needs no choice, nor one that is not
        # to be steered its buttons.
        assert visible_controls(browser) in ([], ["every"]), visible_controls(browser)
        assert_sound(browser, url)
    run.stop()


def test_the_report_is_drawn_without_a_server(box):
    config = small_job(box.shared_dataset("small"), cache={"policy": "degree", "ratio": 0.3})
    box.run(config)[0].ok()
    html = box.path("out.html")
    box.sluice("report", config["output"], "--html", "--out", html).ok()
    with Browser(box) as browser:
        browser.open(f"file://{html}")
        browser.until("document.querySelector('#state')?.textContent === 'done'", "state")
        browser.until("document.querySelectorAll('#plot-score .path').length === 2", "accuracy")
        assert browser.value("document.querySelectorAll('#epochs tbody tr').length") == 3
        assert browser.value("document.querySelectorAll('#pipe .worker').length") >= 2
        assert browser.text("#tiles div:nth-child(4) dd").endswith("%"), "a test accuracy"
        assert browser.text("#steer") == "" and browser.text("#pick") == ""
        assert browser.value("document.querySelector('#types-card').hidden")
        assert browser.problems() == [], browser.problems()
        assert browser.requests() == [f"file://{html}"], browser.requests()
        assert_fits(browser)
        assert browser.text("body > .words") == "", "the words alone are for who has no scripts"
        said = box.sluice("report", config["output"], "--all").ok().out
        assert browser.text("#words-card summary") == "In words"
        assert browser.value("document.querySelector('#words-card pre').textContent") == said
        screenshot(box, browser, "page-report", whole=True)
        browser.size(390, 844)
        browser.until("document.querySelector('#pipe svg').clientWidth < 390", "narrow pipeline")
        assert_fits(browser)


def test_types_are_drawn_where_they_are_opened(box):
    config = typed_job(box, epochs=1, cache={"policy": "degree", "ratio": 0.5})
    report = box.run(config)[1]
    held = report["cache"]["held"]
    html = box.path("out.html")
    box.sluice("report", config["output"], "--html", "--out", html).ok()
    with Browser(box) as browser:
        browser.open(f"file://{html}")
        browser.until("document.querySelector('#state')?.textContent === 'done'", "state")
        card, rows = "document.querySelector('#types-card')", "'#types tbody tr'"
        assert browser.value(f"{card}.hidden === false && {card}.open === false")
        assert browser.value(f"document.querySelectorAll({rows}).length") == 0
        browser.value(f"{card}.open = true")
        lines = 3 + 6 + len(held)
        browser.until(f"document.querySelectorAll({rows}).length === {lines}", "types, relations")
        drawn = browser.value(f"[...document.querySelectorAll({rows})].map((e) => e.innerText)")
        holder, of, n, _ = drawn[9].split("\t")
        assert [holder, of, int(n)] == [held[0][key] for key in ("worker", "type", "rows")], drawn
        assert drawn[1].split("\t")[0] == "author" and drawn[1].split("\t")[2:] == [
            "0 %", "0 B", "0 B"], drawn
        edges = [r["sampled_edges"] for r in report["relations"]]
        name, _, share = drawn[3].split("\t")
        assert name == "author -writes-> paper", drawn
        assert abs(float(share[:-2]) - 100 * edges[0] / sum(edges)) < 1, (share, edges)
        assert browser.problems() == [], browser.problems()


def test_the_report_is_read_without_scripts(box):
    config = small_job(box.shared_dataset("small"))
    report = box.run(config)[1]
    html = box.path("out.html")
    box.sluice("report", config["output"], "--html", "--out", html).ok()
    for dark in (False, True):
        with Browser(box, dark=dark) as browser:
            browser.call("Emulation.setScriptExecutionDisabled", value=True)
            browser.open(f"file://{html}")
            words = browser.text(".words")
            assert words.startswith(report["job"]) and report["params_sha256"] in words, words
            shown = browser.value(
                "[...document.body.children].filter((e) => e.getClientRects().length)"
                ".map((e) => e.className)"
            )
            assert shown == ["words"], shown
            assert_fits(browser)
            assert browser.requests() == [f"file://{html}"], browser.requests()
            screenshot(box, browser, f"page-words-{'dark' if dark else 'light'}", whole=True)
            browser.size(390, 844)
            assert_fits(browser)


def test_what_only_a_report_knows_is_shown(box):
    """Warnings, what holds the caches, the best possible hit rate, who helped with an epoch."""
    epochs = epochs_of([2, 1], [0.5, 0.25], [1, 1])
    for e in epochs:
        e["cache"]["optimal_hit_rate"] = 0.75
        e.update(switching={"batches": 4}, bytes={"blocks": 9 << 20})
    devices = [{"index": 0, "kind": "cpu", "name": "cpu 0", "cores": [0, 1, 2, 5],
                "memory": 1 << 40, "workers": ["sampler 0", "trainer <1>"],
                "roles": ["sampler", "standby"]}]
    cache = {"policy": "degree", "trainers": [{"worker": "trainer <1>", "bytes": 3 << 20}]}
    with Browser(box) as browser:
        browser.open(drawn(box, "known", epochs, devices=devices, cache=cache, num_params=4908,
                           warnings=["a & b", "<b>c</b>"], message="no <5> at " * 40))
        browser.until("document.querySelectorAll('#epochs tbody tr').length === 2", "epochs")
        for place, shown in (
            ("#warnings", "a & b\n<b>c</b>"),
            ("#facts", "4,908 parameters"),
            ("#phase", "no <5>"),
            ("#devices h3", "cores 0-2,5, 1 TiB"),
            ("#devices tr:nth-child(2)", "trainer <1>standby, cache 3 MiB"),
            ("#plot-hit .legend", "75.0 % optimal"),
            ("#pipe", "1 MiB a batch"),
            ("#epochs thead", "batchesby standby"),
            ("#epochs tbody tr", "94"),
        ):
            assert shown in browser.text(place), (place, browser.text(place))
        assert_fits(browser)
        assert browser.problems() == [], browser.problems()


def drawn(box, name, epochs, events=(), **report):
    """The page of a job that is over and had these epochs: where it lies."""
    about = {
        "schema": "sluice.describe/1",
        "job": name,
        "state": "done",
        "config": {"epochs": len(epochs), "model": {"kind": "gcn"}, "cache": {"policy": "degree"}},
        "epochs": epochs,
        "events": list(events),
        "report": {"status": "done", "wall_seconds": 120, **report},
    }
    page, html = box.path("real.html"), box.path("drawn.html")
    if not os.path.exists(page):
        config = small_job(box.shared_dataset("small"), epochs=1)
        box.run(config)[0].ok()
        box.sluice("report", config["output"], "--html", "--out", page).ok()
    with open(page) as file:
        text = file.read()
    begin, end = re.search(r'id="sluice-data">(.*?)</script>', text, re.S).span(1)
    data = json.dumps(about).replace("<", "\\u003c")
    with open(html, "w") as file:
        file.write(text[:begin] + data + text[end:])
    return f"file://{html}"


def epochs_of(loss, accuracy, seconds):
    return [
        {"epoch": i, "loss": a, "val": {"accuracy": b, "loss": a}, "train_accuracy": b,
         "seconds": c, "evaluate_seconds": c, "samplers": 1, "trainers": 2, "batches": 9,
         "switches": 0, "queue": {"depth_mean": a, "depth_max": a},
         "cache": {"ranked": True, "hit_rate": b}, "stages": {"train": {"seconds": c}},
         "worker_seconds": {"samplers": c, "trainers": 2 * c if c is not None else None}}
        for i, (a, b, c) in enumerate(zip(loss, accuracy, seconds))
    ]


RISE = [0.1 + 0.84 * (1 - 0.9**i) / (1 - 0.9**39) for i in range(40)]
CURVES = {
    "rising": epochs_of([3 - 3 * a for a in RISE], RISE, [1.5] * 40),
    "one": epochs_of([0.7], [0.1], [3]),
    "equal": epochs_of([2] * 5, [0.5] * 5, [1] * 5),
    "zero": epochs_of([0] * 3, [0] * 3, [0] * 3),
    "null": epochs_of([None] * 4, [None] * 4, [None] * 4),
    "holes": epochs_of([None, 1, None, 2], [0.1, None, None, 0.9], [1, None, 1, 1]),
    "negative": epochs_of([-3, -1, -7], [-0.5, -0.2, -0.1], [1, 2, 3]),
    "huge": epochs_of([1e20, 3, 1e308], [0.1, 0.2, 0.3], [1e9, 5, 1]),
    "tiny": epochs_of([1e-12, 3e-12, 5e-324], [1e-9, 2e-9, 3e-9], [1e-9, 2e-9, 3e-9]),
    "near": epochs_of([1e16, 1e16 + 2], [0.5, 0.50000001], [1, 1.0000001]),
    "none": [],
    "tested": [dict(e, test={"accuracy": 0.25}) for e in epochs_of([2, 1], [0.5, 0.6], [1, 1])],
}


def test_curves_are_drawn_whatever_the_values(box):
    """A scale without a second tick once made every point of a curve that rose from 0.1 a NaN."""
    with Browser(box) as browser:
        for name, epochs in CURVES.items():
            browser.open(drawn(box, name, epochs))
            browser.until(f"document.querySelector('#name')?.textContent === '{name}'", "its name")
            bad = browser.value("[...document.querySelectorAll('svg *')].filter((e) =>"
                                " [...e.attributes].some((a) => /NaN|Infinity|undefined/"
                                ".test(a.value))).map((e) => e.outerHTML.slice(0, 120))")
            assert not bad, f"{name}: {bad}"
            assert browser.problems() == [], f"{name}: {browser.problems()}"
            heads = browser.value("[...document.querySelectorAll('#epochs th')]"
                                  ".map((e) => e.textContent)")
            assert ("test" in heads) == (name == "tested"), f"{name}: {heads}"
            known = sum(e["val"]["accuracy"] is not None for e in epochs)
            dots = browser.value("document.querySelectorAll('#plot-score .s2 .dot').length")
            assert dots == known, f"{name}: {dots} points of {known}"
            curves = browser.value("document.querySelectorAll('#plot-score .path').length")
            assert not known or curves == (3 if name == "tested" else 2), f"{name}: {curves}"
            labels = browser.value(
                "['score', 'loss', 'seconds'].map((p) => [...document.querySelectorAll("
                "`#plot-${p} .tick[text-anchor=end]`)].slice(0, -1).map((t) => t.textContent))")
            for of in labels if known else ():
                assert len(of) >= 2 and len(set(of)) == len(of), f"{name}: values are {of}"
            if name == "rising":
                at = browser.value("[...document.querySelectorAll('#plot-score .tick')]"
                                   ".filter((t) => t.getAttribute('text-anchor') === 'middle')"
                                   ".map((t) => Number(t.textContent))")
                assert len(at) >= 3 and at[0] == 1 and at[-1] == 40, at
                assert labels[0] == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"], labels
                ends = browser.value("[...document.querySelectorAll('#plot-score .s2 .dot')]"
                                     ".map((d) => Number(d.getAttribute('cy')))")
                assert ends == sorted(ends, reverse=True) and ends[0] - ends[-1] > 100, ends


def a_job_is_shown_by_what_it_was_judged_by(box, browser):
    """A regression is judged by its loss, which is best where it is least."""
    epochs = epochs_of([3, 2, 1], [None] * 3, [1, 1, 1])
    for epoch, value in zip(epochs, (0.5, 0.25, 0.75)):
        epoch["val"] = {"loss": value, "mae": 1 - value, "r2": value}
    best = {"name": "loss", "value": 0.25, "epoch": 1}
    browser.open(drawn(box, "regression", epochs, best_metric=best))
    browser.until("document.querySelectorAll('#epochs tbody tr').length === 3", "epochs")
    label = browser.text("#tiles div:nth-child(3) dt")
    assert label == "Best validation loss", label
    shown = browser.text("#tiles div:nth-child(3) dd")
    assert shown == "0.2500", shown
    rows = "[...document.querySelectorAll('#epochs tbody tr')].map((e) => e.className)"
    assert browser.value(rows) == ["", "best", ""], browser.value(rows)
    assert browser.problems() == [], browser.problems()


TRAINERS = "trainers: forward and backward took 97 % of the time; samplers waited for memory 95 %"


def stages(**seconds):
    return {name: {"seconds": s, "count": 9, "p50": s / 9, "p99": s / 3}
            for name, s in seconds.items()}


def shares_are_parts_of_a_whole(box, browser):
    """Of the time of all samplers, and of all trainers; a sum above 100 % is brought down."""
    epochs = epochs_of([2, 1], [0.5, 0.6], [10, 10])
    for e in epochs:
        e.update(samplers=2, trainers=1, stages=stages(sample=3, backpressure=20, train=9, wait=4),
                 worker_seconds={"samplers": 20, "trainers": 10})
    browser.open(drawn(box, "shares", epochs))
    browser.until("document.querySelectorAll('#plot-trains .path').length === 2", "curves")
    assert_whole(browser)
    told = browser.value("document.querySelector('#plot-draws .legend').textContent")
    assert "13.0 %" in told and "87.0 %" in told, told
    tops = browser.value("[...document.querySelectorAll('#plot-draws .path')].map((p) =>"
                         " Number(p.getAttribute('d').split(/[ L]/)[1]))")
    assert tops[1] < tops[0] and abs(tops[1] - 8) < 0.5, f"not one on the other: {tops}"


def a_series_looks_the_same_in_every_plot(box, browser):
    epochs = epochs_of([2, 1], [0.5, 0.6], [10, 10])
    for e in epochs:
        e.update(stages=stages(sample=1, backpressure=1, train=2, wait=3))
    browser.open(drawn(box, "styles", epochs))
    browser.until("document.querySelectorAll('#plot-trains .path').length === 2", "curves")
    found = styles_of_series(browser)
    names = [one.split("|")[0] for one in found]
    assert names.count("training") == 4 and names.count("validation") == 2, names
    assert len(set(found)) == len(set(names)), sorted(set(found))
    for one in found:
        _, legend, dashes, _ = one.split("|")
        assert (legend == "solid") == (dashes == "none"), one


def only_what_holds_a_job_up_has_a_colour(box, browser):
    colours = ("['#neck', '#pipe-card'].map((e) =>"
               " getComputedStyle(document.querySelector(e)).backgroundColor)")
    stopped = [{"time": 1, "seconds": 1, "kind": "end", "ok": False, "text": "stopped: 1 of 9"}]
    sampler = [{"index": 0, "kind": "cpu", "cores": [0], "workers": ["sampler 0"],
                "roles": ["sampler"]}]
    for words, calm in (
        (TRAINERS, True),
        ("samplers: trainers waited 62 % of the time, samplers drew 99 % of the time", False),
        ("updates: trainers waited 48 % of the time for one another's gradients", False),
    ):
        epochs = [dict(e, bottleneck=words) for e in epochs_of([1], [0.5], [1])]
        browser.open(drawn(box, "limits", epochs, stopped, devices=sampler))
        browser.until("document.querySelector('#neck-text').textContent.length > 20", "limit")
        neck, card = browser.value(colours)
        assert (neck == card) == calm, (words, neck, card)
        assert ("as it should be" in browser.text("#neck-text")) == calm
        assert browser.value("document.querySelectorAll('#events .bad').length") == 0
    # A sampler before a full queue is marked where memory is what is short, and nowhere else.
    marks = browser.value(
        "['trainers', 'memory'].map((limit) => { const r = [...pipe.refs.values()][0];"
        " drawWorker(r, {...r.worker, state: 'blocked'}, limit);"
        " return [r.g.classList.contains('blocked'), r.state.textContent]; })")
    assert marks == [[False, "queue is full"], [True, "queue is full"]], marks


def nothing_is_empty_and_nothing_is_cut_unsaid(box, browser):
    epochs = [dict(e, bottleneck=TRAINERS, cache={"ranked": False, "hit_rate": 0},
                   queue={"depth_mean": 400, "depth_max": 500})
              for e in epochs_of([1] * 40, [0.5] * 40, [1] * 40)]
    for e in epochs:
        e["stages"] = stages(sample=1, train=2, wait=30)
    devices = [{"index": i, "kind": "cpu", "cores": [i], "workers": [f"trainer {i}"],
                "roles": ["trainer"]} for i in range(80)]
    events = [{"time": i, "seconds": i, "kind": "scale", "text": f"change {i} " * 20}
              for i in range(230)]
    browser.open(drawn(box, "cut", epochs, events, devices=devices))
    browser.until("document.querySelectorAll('#epochs tbody tr').length === 40", "epochs")
    for width in (1280, 390):
        browser.size(width, 844)
        browser.until(f"document.querySelector('#pipe svg').clientWidth < {width}", "pipeline")
        assert browser.text("#hit-card") == "", "no cache, no plot of it"
        assert "nothing yet" not in browser.value("document.body.innerText")
        assert browser.value("document.querySelectorAll('#devices .meter').length") == 0
        assert "20 of them listed below alone" in browser.text("#pipe")
        squares = browser.value("document.querySelectorAll('#pipe .batch').length")
        assert squares and f"+{400 - squares}" in browser.text("#pipe"), squares
        torn = browser.value("[...document.querySelectorAll('#stages .torn')].map((e) =>"
                             " e.parentElement.firstChild.textContent)")
        assert torn == ["wait: batch"] and "torn" in browser.text("#stages .key"), torn
        assert "and 30 older" in browser.text("#events")
        for host, rows in (("epochs", "tbody tr"), ("events", "li")):
            browser.until(f"/ of \\d+ fit/.test(document.querySelector('#{host}-note')"
                          ".textContent)", "how many rows are hidden")
            rims = browser.value(
                f"(() => {{ const h = document.querySelector('#{host}'); h.scrollTop = 0;"
                " const end = h.getBoundingClientRect().top + h.clientHeight;"
                f" return [...h.querySelectorAll('{rows}')].map((r) => Math.abs("
                "r.getBoundingClientRect().bottom - end)); })()")
            assert min(rims) < 1.6, f"{host} at {width}: a row is cut: {min(rims)}"
        assert_fits(browser)
    assert browser.problems() == [], browser.problems()


def many_switches_leave_the_time_axis_readable(box, browser):
    events = [{"time": 1e9, "seconds": 0, "kind": "start", "text": "start", "samplers": 1,
               "trainers": 3}]
    events += [{"time": 1e9 + i, "seconds": i, "kind": "switch", "text": f"switch {i}"}
               for i in range(1, 2000)]
    events += [{"time": 1e9 + 1000 + i, "seconds": 1000 + i / 9, "kind": "checkpoint",
                "text": f"checkpoint {i}"} for i in range(7)]
    browser.open(drawn(box, "switches", CURVES["rising"], events))
    browser.until("document.querySelectorAll('#timeline .event-mark').length === 2", "2 marks")
    ticks = browser.value("[...document.querySelectorAll('#timeline .switch')].map((t) =>"
                          " [t.getBoundingClientRect().x, t.getBoundingClientRect().width])")
    assert 50 < len(ticks) < 320, len(ticks)
    places = [x for x, _ in ticks]
    assert min(b - a for a, b in zip(places, places[1:])) >= 3.9, "ticks lie on one another"
    assert browser.text("#timeline .many") == "7", "marks at one place are counted"
    times = browser.value("[...document.querySelectorAll('#timeline .tick')].filter((t) =>"
                          " /^\\d+:\\d\\d/.test(t.textContent)).length")
    assert times >= 3, times
    assert browser.text("#events").count("switch") == 0, "the list is buried under switches"
    assert browser.problems() == [], browser.problems()


def test_what_is_drawn_of_a_job_that_is_over(box):
    looks = (
        a_job_is_shown_by_what_it_was_judged_by,
        shares_are_parts_of_a_whole,
        a_series_looks_the_same_in_every_plot,
        only_what_holds_a_job_up_has_a_colour,
        many_switches_leave_the_time_axis_readable,
        nothing_is_empty_and_nothing_is_cut_unsaid,  # and leaves the window narrow
    )
    with Browser(box) as browser:
        for look in looks:
            look(box, browser)


def test_a_daemon_s_jobs_are_listed_and_its_end_is_seen(box):
    daemon = Daemon(box, "--http", "0")
    url = daemon.listed()[0]["page"]
    with Browser(box) as browser:
        browser.open(url)
        browser.until("/No job yet/.test(document.body.innerText)", "invitation")
        for name in ("first", "second"):
            devices = [{"kind": "cpu", "cores": "0"}] * 2
            config = slow_job(box, name=name, devices=devices, output=f"runs/{name}",
                              **{"allocation.trainers": 1})
            daemon.do("submit", box.job(config, f"{name}.json"), "--detach").ok()
        browser.until("document.querySelector('#pick').options.length === 2", "two jobs")
        browser.until("document.querySelector('#name').textContent === 'first'", "running job")
        browser.until("document.querySelectorAll('#pipe .worker').length >= 2", "its workers")
        listed = browser.text("#pick")
        assert "first" in listed and "second" in listed and "queued" in listed, listed
        browser.value("(() => { const p = document.querySelector('#pick'); p.selectedIndex = 1;"
                      " p.dispatchEvent(new Event('change')); })()")
        browser.until("document.querySelector('#name').textContent === 'second'", "other job")
        browser.until("/in the queue/.test(document.querySelector('#phase').textContent)", "reason")
        daemon.do("stop", "first").ok()
        browser.until("document.querySelector('#state').textContent === 'running'", "its turn")
        screenshot(box, browser, "page-daemon")
        assert_sound(browser, url)
        daemon.kill()
        browser.until("/connection lost/.test(document.querySelector('#link').textContent)", "loss")
        daemon = Daemon(box, "--http", re.search(r":(\d+)", url).group(1))
        browser.until("document.querySelector('#link').textContent === 'live'", "way back")
        browser.until("document.querySelector('#state').textContent === 'interrupted'", "state")
    daemon.stop().ok()
