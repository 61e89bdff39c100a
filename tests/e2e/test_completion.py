"""Completion in bash and zsh, which ask the program; and what the program answers."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

from harness import BIN, ROOT, SLOW, Skip, small_job

FOLDER = os.path.join(ROOT, "scripts", "completion")


def environment(box):
    return box.environment({"PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "dumb"})


def answers(box, *words):
    """The candidates of `sluice WORDS`, the last of them begun."""
    result = box.sluice("complete", "--", *words).ok()
    assert result.err == "", str(result)
    return [line.split("\t")[0] for line in result.out.splitlines()]


def test_every_command_is_offered_and_completes_its_options(box):
    """No table of its own: whatever --help lists is offered."""
    offered = answers(box, "")
    listed = re.findall(r"^  ([a-z-]+)  ", box.sluice("--help").ok().out, re.M)
    assert len(listed) >= 10 and set(listed) <= set(offered), set(listed) ^ set(offered)
    assert "complete" not in offered
    for command in listed:
        words = [command]
        kinds = [w for w in answers(box, command, "") if re.fullmatch("[a-z]+", w)]
        if command in ("generate", "import"):
            words.append(kinds[0])
        text = box.sluice(*words, "--help").ok().out
        wanted = set(re.findall(r"^  (?:-\w, |   ) ?--([a-z0-9-]+)", text, re.M))
        found = {w.removeprefix("--").removeprefix("no-") for w in answers(box, *words, "--")}
        assert {w.removeprefix("no-") for w in wanted} <= found, (command, wanted - found)


ANSWERS = {
    "st": {"stats", "stop", "stripe"},
    "run job.json -o ": {"text", "json"},
    "run job.json --output ": {"text", "json"},
    "run job.json --output=j": {"--output=json"},
    "stats -o ": {"text", "json", "csv"},
    "generate ": {"bipartite", "planted", "rmat", "citation", "typed", "--help"},
    "generate p": {"planted"},
    "run --set model.ki": {"model.kind="},
    "run --set model.kind=gc": {"model.kind=gcn"},
    "run --set=model.kind=gc": {"--set=model.kind=gcn"},
    "run --dry": {"--dry-run"},
    "run ": {":files *.json"},
    "run -- --": {":files *.json"},
    "run --report ": {":files"},
    "inspect ": {":directories"},
    "predict run --device ": {"auto", "cpu", "cuda"},
    "predict run --device=cu": {"--device=cuda"},
    "scale job ": {"samplers=", "trainers="},
    "scale job samplers=1 ": {"samplers=", "trainers="},
    "run job.json another ": set(),
    "run --no-such-option ": {":files *.json"},
    "nonsense ": set(),
    "help insp": {"inspect"},
    "schema throttle": {"throttle", "throttle.sample", "throttle.train", "throttle.standby"},
    "completion ": {"bash", "zsh"},
    "run --set epochs=5 --qui": {"--quiet"},
}


def test_answers(box):
    for line, wanted in ANSWERS.items():
        assert set(answers(box, *line.split(" "))) == wanted, line


def test_jobs_are_offered_by_name(box):
    changes = {"epochs": 500, "throttle": {"train": 0.01}, "name": "mine"}
    config = small_job(box.shared_dataset("small"), **changes)
    running = box.start("run", box.job(config))
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "the run")
    assert "mine" in answers(box, "stats", "m")
    assert "mine" in answers(box, "scale", "")
    assert "mine" not in answers(box, "stats", "x")
    running.interrupt()
    running.wait()


def test_nothing_is_done_while_completing(box):
    before = sorted(os.listdir(box.folder))
    for line in ("generate planted --out made ", "run job.json --report r.json ", "keygen "):
        answers(box, *line.split(" "))
    assert sorted(os.listdir(box.folder)) == before


def bash(box, line):
    """What bash makes of the line up to its end: the words that it would insert."""
    # As readline cuts it: at blanks, '=' and ':'.
    words = [w for w in re.split(r"([=:]+)|\s+", line) if w]
    if line[-1] in " ":
        words.append("")
    quoted = " ".join("'" + w + "'" for w in words)
    script = (
        f"source {FOLDER}/sluice.bash\n"
        f"COMP_LINE='{line}' COMP_POINT={len(line)}\n"
        f"COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}\n"
        "compopt() { :; }\n_sluice\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=box.folder,
        env=environment(box),
        capture_output=True,
        text=True,
        timeout=30 * SLOW,
    )
    assert done.returncode == 0 and done.stderr == "", done
    return {word for word in done.stdout.splitlines() if word}


def test_bash(box):
    box.write_json("job one.json", {})
    box.write_json("other.txt", {})
    os.makedirs(box.path("data"))
    assert bash(box, "sluice sta") == {"stats"}
    assert bash(box, "sluice run --dry") == {"--dry-run"}
    assert bash(box, "sluice run jo") == {"job one.json"}
    assert bash(box, "sluice run o") == set()  # not a .json
    assert bash(box, "sluice run --report o") == {"other.txt"}
    assert bash(box, "sluice run d") == {"data"}  # it may be in there
    assert bash(box, "sluice inspect d") == {"data"}
    assert bash(box, "sluice stats -o ") == {"text", "json", "csv"}
    # Only what stands behind the '='.
    assert bash(box, "sluice run --set model.kind=gc") == {"gcn"}
    assert "gcn" in bash(box, "sluice run --set model.kind=")
    assert bash(box, "sluice stats --output=j") == {"json"}
    assert bash(box, "sluice scale job sam") == {"samplers="}


def test_the_program_has_the_scripts_with_it(box):
    for shell, name in ("bash", "sluice.bash"), ("zsh", "_sluice"):
        with open(os.path.join(FOLDER, name)) as script:
            assert box.sluice("completion", shell).ok().out == script.read()
    refused = box.sluice("completion", "zhs")
    assert refused.rc == 2 and "did you mean 'zsh'" in refused.errors()[0], refused


def typed(box, command, setup, keys, wanted):
    """Types into an interactive shell until `wanted` shows on its line."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(box.folder)
        env = {**environment(box), "TERM": "xterm", "PS1": "ready> ", "PROMPT": "ready> "}
        os.execvpe(command[0], command, env)
    said = b""

    def read_until(text, seconds):
        nonlocal said
        end = time.monotonic() + seconds * SLOW
        while text.encode() not in said:
            left = end - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise AssertionError(f"no '{text}' on the screen: {said!r}")
            said += os.read(fd, 4096)

    try:
        read_until("ready> ", 60)
        os.write(fd, setup.encode() + b"; echo set''up\n")
        read_until("setup\r\n", 60)
        said = b""
        os.write(fd, keys.encode())
        read_until(wanted, 60)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(fd)


def test_bash_as_typed(box):
    keys, wanted = "sluice run --set model.hid\t8", "model.hidden=8"
    shell = ["bash", "--norc", "--noprofile", "-i"]
    typed(box, shell, f"source {FOLDER}/sluice.bash", keys, wanted)
    typed(box, shell, "source <(sluice completion bash)", keys, wanted)


# zsh writes only what is new.
def test_zsh_as_typed(box):
    keys, wanted = "sluice run --set model.hid\t8", "den=8"
    if not shutil.which("zsh"):
        raise Skip("zsh is not installed")
    setup = f"fpath=({FOLDER} $fpath); autoload -Uz compinit; compinit -u -D"
    typed(box, ["zsh", "-f", "-i"], setup, keys, wanted)
    setup = "autoload -Uz compinit; compinit -u -D; source <(sluice completion zsh)"
    typed(box, ["zsh", "-f", "-i"], setup, keys, wanted)
