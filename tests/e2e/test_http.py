"""/metrics, /api and the event stream of a real job: what they say, and what they put up with."""

import http.client
import json
import os
import re
import socket
import threading

from harness import SLOW, Daemon, Skip, cpu_devices, read_json, small_job

TOKEN = "open-sesame"


def page_of(running):
    """The address that it prints; group 1: the port."""
    address = re.compile(r"http://127\.0\.0\.1:(\d+)/")
    return running.until(lambda: address.search("".join(running.output())), "page's address")


def slow_job(box, **changes):
    return small_job(
        box.shared_dataset("small"),
        **{
            "throttle": {"sample": 0.02, "train": 0.04},
            "devices": cpu_devices(4),
            "allocation": {"samplers": 1, "trainers": 2},
            "sampler.batch_size": 32,
            "cache": {"policy": "degree", "ratio": 0.3},
            "epochs": 500,
            "digest": False,
            **changes,
        },
    )


def start_shown(box, *arguments, **changes):
    """A slow job that is shown: (its command, its page's address as page_of() has it)."""
    report, job = box.path("report.json"), box.job(slow_job(box, **changes))
    run = box.start("run", job, "--report", report, "--http", "0", *arguments)
    return run, page_of(run)


def start(box, *arguments, **changes):
    """A slow job that is shown: (its command, port)."""
    run, page = start_shown(box, *arguments, **changes)
    return run, int(page.group(1))


def write_token(box):
    path = box.path("token")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(TOKEN + "\n")
    return path


def ask(port, path, method="GET", body=None, token=None, headers=None):
    """(status, headers, text)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40 * SLOW)
    headers = dict(headers or {})
    if token:
        headers["Authorization"] = f"Bearer {token}"
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), text


def ask_as(user, port, path, token=None):
    """What another user of this machine hears: the socket is theirs."""
    os.seteuid(user)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40 * SLOW)
        connection.connect()
    finally:
        os.seteuid(0)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", path, None, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def get_json(port, path):
    status, headers, text = ask(port, path)
    assert status == 200 and headers["Content-Type"] == "application/json", (status, text)
    return json.loads(text)


# ---- Prometheus text ----------------------------------------------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = rf'({NAME})="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"^({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (\S+)$")
NUMBER = re.compile(r"^(NaN|[+-]Inf|[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?)$")
ENDINGS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def parse_prometheus(text):
    """Families {name: (type, {(sample, labels): value})}; an AssertionError for what breaks a rule
    of the text format 0.0.4 or of Prometheus' naming."""
    assert text.endswith("\n"), "the last line has no end"
    families, name, told = {}, None, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in families, f"{name} is introduced twice"
            assert len(line.split(" ", 3)[3]) > 5, line
            families[name] = (None, {})
            continue
        if line.startswith("# TYPE "):
            _, _, of, kind = line.split(" ")
            assert of == name and families[name] == (None, {}), f"TYPE is not behind HELP: {line}"
            assert kind in ENDINGS, line
            assert kind != "counter" or name.endswith("_total"), f"counter {name}"
            assert kind == "counter" or not name.endswith("_total"), f"{kind} {name}"
            families[name] = (kind, {})
            continue
        match = SAMPLE.match(line)
        assert match, f"no sample: {line!r}"
        sample, labels, value = match.group(1), match.group(2) or "", match.groups()[-1]
        kind, samples = families[name]
        assert sample in [name + e for e in ENDINGS[kind]], f"{sample} stands under {name}"
        assert NUMBER.match(value), line
        keys = [m[0] for m in re.findall(LABEL, labels)]
        assert len(keys) == len(set(keys)), f"a label twice: {line}"
        assert (sample, labels) not in told, f"a sample twice: {line}"
        told.add((sample, labels))
        samples[sample, labels] = float(value.replace("Inf", "inf"))
    for of, (kind, samples) in families.items():
        assert kind, f"{of} has no TYPE"
        if kind == "histogram":
            check_histogram(of, samples)
    return families


def check_histogram(name, samples):
    series = {}
    for (sample, labels), value in samples.items():
        if sample == name + "_bucket":
            rest = re.sub(r',le="[^"]*"', "", labels)
            series.setdefault(rest, []).append((re.search(r'le="([^"]*)"', labels)[1], value))
    for labels, buckets in series.items():
        bounds = [float(b.replace("Inf", "inf")) for b, _ in buckets]
        assert bounds == sorted(bounds) and bounds[-1] == float("inf"), (name, labels, bounds)
        counts = [c for _, c in buckets]
        assert counts == sorted(counts), f"{name}{{{labels}}} is not cumulative: {counts}"
        assert counts[-1] == samples[name + "_count", labels], (name, labels)
        assert (name + "_sum", labels) in samples, (name, labels)


STATES = ("queued starting running paused finishing done failed stopped interrupted").split()


def states_of(port):
    """{job: state} of sluice_job_state, of which each job has one line that is 1."""
    samples = parse_prometheus(ask(port, "/metrics")[2])["sluice_job_state"][1]
    found, told = {}, {}
    for (_, labels), value in samples.items():
        job, _, state = (m[1] for m in re.findall(LABEL, labels))
        told.setdefault(job, []).append(state)
        assert value in (0, 1), labels
        if value:
            assert job not in found, f"{job} is {found[job]} and {state}"
            found[job] = state
    for job, states in told.items():
        assert states == STATES, (job, states)
    return found


SAMPLED = """sluice_build_info sluice_job_state sluice_loss sluice_queue_batches sluice_queue_bytes
sluice_cache_hit_ratio sluice_feature_bytes_total sluice_stage_duration_seconds sluice_worker_up
sluice_worker_busy_ratio sluice_device_memory_bytes sluice_restarts_total sluice_updates_total
sluice_edges_total""".split()


def test_metrics_keep_the_rules_and_move(box):
    run, port = start(box, name='odd "name" \\ of a job')

    def sampled():
        """All of them at once; some are of the last second, in which there may be no batch."""
        status, headers, text = ask(port, "/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
        found = parse_prometheus(text)
        return found if all(name in found and found[name][1] for name in SAMPLED) else None

    first = run.until(sampled, "samples of all metrics")
    label = 'job="odd \\"name\\" \\\\ of a job",id="0"'
    assert first["sluice_trainers"][1]["sluice_trainers", label] == 2

    def more():
        now = parse_prometheus(ask(port, "/metrics")[2])
        for name, (kind, samples) in now.items():
            for key, value in samples.items() if kind == "counter" else ():
                before = first[name][1].get(key, 0)
                assert value >= before, f"{key} went from {before} to {value}"
        key = ("sluice_batches_total", label)
        return now["sluice_batches_total"][1][key] > first["sluice_batches_total"][1].get(key, 0)

    run.until(more, "batch more")
    run.stop()


# ---- JSON ---------------------------------------------------------------------------------------


def test_the_api_says_what_the_job_does(box):
    run, port = start(box)
    stats = run.until(lambda: ask(port, "/api/jobs/0/stats")[0] == 200, "statistics")
    jobs = get_json(port, "/api/jobs")
    assert jobs["schema"] == "sluice.jobs/1" and jobs["daemon"] is None
    assert [(j["id"], j["name"]) for j in jobs["jobs"]] == [(None, "test")]
    assert jobs["jobs"][0]["state"] in ("starting", "running")
    for name in ("0", "test"):
        about = get_json(port, f"/api/jobs/{name}")
        assert about["schema"] == "sluice.describe/1" and about["config"]["epochs"] == 500
        stats = get_json(port, f"/api/jobs/{name}/stats")
        assert stats["schema"] == "sluice.stats/1" and stats["trainers"] == 2
        history = get_json(port, f"/api/jobs/{name}/history")
        assert len(history["seconds"]) == len(history["batches"]) >= 1
    for path in ("/api/jobs/nobody", "/api/jobs/1", "/api/jobs/nobody/stats"):
        status, _, text = ask(port, path)
        assert status == 404 and "error" in json.loads(text), (path, status, text)
    run.stop()


def test_another_user_sees_nothing_unless_let_in(box):
    """The refusal's two ways in, followed."""
    if os.geteuid() != 0:
        raise Skip("only root can have another user's socket")
    stranger, path = 65534, "/api/jobs/0"
    run, port = start(box)
    status, text = ask_as(stranger, port, path)
    assert status == 403 and "--http-token FILE" in text and "--http-open" in text, text
    assert ask(port, path)[0] == 200
    run.stop()
    run, port = start(box, "--http-token", write_token(box), output="runs/token")
    assert ask_as(stranger, port, path)[0] == 401
    assert ask_as(stranger, port, path, TOKEN)[0] == 200
    run.stop()
    run, port = start(box, "--http-open", output="runs/open")
    assert ask_as(stranger, port, path)[0] == 200
    run.stop()


def test_a_program_can_steer_with_the_token(box):
    run, port = start(box, "--http-token", write_token(box))
    run.until(lambda: '"state":"running"' in ask(port, "/api/jobs/0/stats")[2], "running job")
    path = "/api/jobs/0/scale"
    for token, wanted in ((None, 401), ("wrong-token", 401)):
        assert ask(port, path, "POST", {"samplers": 2}, token)[0] == wanted
    status, _, text = ask(port, path, "POST", {"trainers": 3, "dry_run": True}, TOKEN)
    answer = json.loads(text)
    assert status == 200 and answer["ok"] and answer["dry_run"] and answer["steps"], text
    assert get_json(port, "/api/jobs/0/stats")["trainers"] == 2
    status, _, text = ask(port, path, "POST", {"trainers": 3}, TOKEN)
    assert status == 200 and json.loads(text)["to"] == {"samplers": 1, "trainers": 3}, text
    run.until(lambda: get_json(port, "/api/jobs/0/stats")["trainers"] == 3, "three trainers")
    status, _, text = ask(port, path, "POST", {"trainers": 99}, TOKEN)
    assert status == 409 and "99" in json.loads(text)["message"], text
    assert ask(port, "/api/jobs/0/pause", "POST", None, TOKEN)[0] == 200
    run.until(lambda: get_json(port, "/api/jobs/0/stats")["state"] == "paused", "pause")
    assert ask(port, "/api/jobs/0/resume", "POST", None, TOKEN)[0] == 200
    run.until(lambda: get_json(port, "/api/jobs/0/stats")["state"] == "running", "going on")
    status, _, text = ask(port, "/api/jobs/0/stop", "POST", None, TOKEN)
    assert status == 200 and json.loads(text)["ok"], text
    assert run.wait().rc == 130
    assert read_json(box.path("report.json"))["status"] == "stopped"


def test_a_daemon_s_jobs_can_be_steered_too(box):
    daemon = Daemon(box, "--http", "0", "--http-token", write_token(box))
    seen = page_of(daemon.running)
    port = int(seen.group(1))
    jobs = get_json(port, "/api/jobs")
    assert jobs["jobs"] == [] and jobs["daemon"]["page"] == seen.group(), jobs
    for name in ("first", "second"):
        more = {"devices": cpu_devices(3), "allocation": {"samplers": 1, "trainers": 1}}
        config = slow_job(box, name=name, output=f"runs/{name}", **more)
        daemon.do("submit", box.job(config, f"{name}.json"), "--detach").ok()
    daemon.until(lambda: '"state":"running"' in ask(port, "/api/jobs/1/stats")[2], "running job")
    states = {j["name"]: j["state"] for j in get_json(port, "/api/jobs")["jobs"]}
    assert states == {"first": "running", "second": "queued"}, states
    assert states_of(port) == states
    status, _, text = ask(port, "/api/jobs/first/scale", "POST", {"trainers": 2}, TOKEN)
    assert status == 200 and json.loads(text)["ok"], text
    daemon.until(lambda: get_json(port, "/api/jobs/1/stats")["trainers"] == 2, "two trainers")
    status, _, text = ask(port, "/api/jobs/second/scale", "POST", {"trainers": 2}, TOKEN)
    assert status in (404, 409) and "second" in text, (status, text)
    status, _, text = ask(port, "/api/jobs/firts/pause", "POST", None, TOKEN)
    assert status == 404 and "first" in text, (status, text)
    assert get_json(port, "/api/jobs/second")["state"] == "queued"
    history = get_json(port, "/api/jobs/2/history")  # it has none, but it is a job
    assert history["job"] == "second" and history["seconds"] == [], history
    assert ask(port, "/api/jobs/2/stats")[0] == 404
    assert ask(port, "/api/jobs/nobody/history")[0] == 404
    assert ask(port, "/api/jobs/1/stop", "POST", None, TOKEN)[0] == 200
    daemon.until(lambda: '"state":"running"' in ask(port, "/api/jobs/2/stats")[2], "second job")
    first = get_json(port, "/api/jobs/1")
    assert first["state"] == "stopped" and first["report"]["status"] == "stopped", first.keys()
    assert states_of(port)["first"] == "stopped" and states_of(port)["second"] == "running"
    labels = parse_prometheus(ask(port, "/metrics")[2])["sluice_trainers"][1]
    assert ("sluice_trainers", 'job="second",id="2"') in labels, labels
    daemon.stop().ok()


# ---- the event stream ---------------------------------------------------------------------------


def events(port, n, query=""):
    """The first n events of a new stream: [(kind, data)]."""
    found = []
    with socket.create_connection(("127.0.0.1", port), timeout=20 * SLOW) as s:
        s.sendall(f"GET /api/stream{query} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n".encode())
        file = s.makefile(encoding="utf-8")
        kind = None
        for line in file:
            if line.startswith("event: "):
                kind = line[7:].strip()
            elif line.startswith("data: "):
                found.append((kind, json.loads(line[6:])))
            if len(found) == n:
                break
    return found


def test_the_end_is_the_last_event(box):
    run, port = start(box)
    found = []
    thread = threading.Thread(target=lambda: found.extend(events(port, 10000)))
    thread.start()
    run.until(lambda: "\nsluice_http_streams 1\n" in ask(port, "/metrics")[2], "stream")
    run.stop()
    thread.join(60 * SLOW)
    ends = [data for kind, data in found if kind == "finished"]
    assert len(ends) == 1 and ends[0]["finished"]["exit_status"] == 130, found[-3:]


# ---- what it puts up with -----------------------------------------------------------------------


def test_a_taken_port_and_a_bad_address_are_told(box):
    config = small_job(box.shared_dataset("small"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for listen, words in ((str(port), "taken"), ("0.0.0.0:0", "ssh -L"), ("eighty", "port")):
            result = box.sluice("run", box.job(config), "--http", listen)
            assert result.rc in (1, 2) and words in result.err, result
            box.assert_no_run(config)
    result = box.sluice("run", box.job(config), "--http", "0", "--http-token", "nowhere/token")
    assert result.rc in (1, 2) and "token" in result.err, result
    for words in ["--http-token", "f"], ["--http-open"]:
        box.sluice("run", box.job(config), *words).error(2, f"{words[0]} without --http")
    box.assert_no_run(config)
