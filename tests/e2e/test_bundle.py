"""The archive of `make bundle`: packed, small, and running where there is nothing but glibc.

The programs in it were linked by `make tests`. They run in a root of their own (a mount and a
process namespace) that holds the C library, the unpacked archive, /proc, /sys and /dev, with an
empty environment.
"""

import json
import os
import re
import shutil
import subprocess
import tarfile

from harness import BIN, CORES, ROOT, SHARED_DATA, Skip, cases, not_under, whole
from nodes import runs_over_nodes

BUILD = os.path.dirname(BIN)
PROGRAMS = os.path.join(BUILD, "bundle", "programs")
LIBSLUICE = os.path.join(BUILD, "bundle", "lib", "libsluice.so.0")
PLUGIN = os.path.join(BUILD, "lib", "libsluice_cuda.so")
EMULATED = os.path.join(BUILD, "lib", "libsluice_cuda_simt.so")
LIMIT_BYTES = 60 << 20
SLUICE = [f"sluice{role}" for role in ("", "-broker", "-sampler", "-trainer", "-link")]
# What scripts/gpu_suite runs.
TESTS = ["kernels", "bench/kernels", "test_sampler_gpu", "test_trainer_cuda"]
TESTS = [f"tests/{name}" for name in TESTS]
# In the new root: nothing may be left of what was mounted when the command ends.
ENTER = """
mount -t proc proc "$1/proc" || exit 99
mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" || exit 99
root=$1 chroot=$2; shift 2
exec env -i "$chroot" "$root" "$@"
"""


def packed(box):
    """The archive, made once for all tests; what scripts/bundle said; is the plug-in in it.

    It is packed from a copy of the plug-in: a build beside the tests may finish one at any time.
    """
    if not os.path.exists(os.path.join(PROGRAMS, "tests", "kernels")):
        raise Skip("make tests links no programs for an archive in this build")

    def pack():
        out = os.path.join(box.suite, "bundle")
        os.makedirs(out, exist_ok=True)
        plugin = os.path.join(out, os.path.basename(PLUGIN))
        if os.path.exists(PLUGIN):
            shutil.copy(PLUGIN, plugin)
        done = subprocess.run(
            [os.path.join(ROOT, "scripts", "bundle"), PROGRAMS, LIBSLUICE, plugin, out],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        archives = [name for name in os.listdir(out) if name.endswith(".tar.gz")]
        assert len(archives) == 1, archives
        return os.path.join(out, archives[0]), done.stdout, os.path.exists(plugin)

    return box.shared_value("bundle", pack)


def bare_root(box):
    """A folder that is a system with nothing but the C library and the unpacked archive."""
    archive = packed(box)[0]
    root = box.path("root")
    for name in ("proc", "dev", "sys", "tmp"):
        os.makedirs(os.path.join(root, name))
    with tarfile.open(archive) as tar:
        tar.extractall(root)
    home = next(name for name in os.listdir(root) if name.startswith("sluice-"))
    os.rename(os.path.join(root, home), os.path.join(root, "any where"))
    for program in (*SLUICE, *TESTS):
        path = os.path.join(root, "any where", "bin", program)
        text = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        assert "not found" not in text, text
        for library in re.findall(r"(?:=> |^\s*)(/\S[^(]*?) \(0x", text, re.M):
            if os.path.realpath(library).startswith(os.path.realpath(root)):
                continue
            assert re.search(r"/(lib(c|m|mvec|dl|rt|pthread|resolv)|ld-linux.*)\.so", library), text
            os.makedirs(root + os.path.dirname(library), exist_ok=True)
            shutil.copy(os.path.realpath(library), root + library)
    return root


def inside(root, *command, seconds=60):
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        spaces.insert(1, "--map-root-user")
    chroot = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if not chroot or not shutil.which("unshare"):
        raise Skip("there is no unshare or no chroot")
    if subprocess.run([*spaces, "true"], capture_output=True).returncode != 0:
        raise Skip("a mount namespace is not allowed here")
    done = subprocess.run(
        [*spaces, "sh", "-c", ENTER, "sh", root, chroot, *command],
        capture_output=True,
        text=True,
        timeout=seconds,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == 99:
        raise Skip(f"nothing can be mounted here: {done.stderr.strip()}")
    return done


def test_the_archive_is_small_and_the_same_each_time(box):
    archive, said, plugin = packed(box)
    size = os.path.getsize(archive)
    print(said.strip())
    assert size < LIMIT_BYTES, size
    with tarfile.open(archive) as tar:
        entries = tar.getmembers()
    top = {entry.name.split("/")[0] for entry in entries}
    assert len(top) == 1, top
    assert all(entry.isfile() and entry.mtime == 0 and entry.uid == 0 for entry in entries)
    names = {entry.name.split("/", 1)[1] for entry in entries}
    assert {"README", "LICENSE", "bin/sluice", "scripts/gpu_suite"} <= names, names
    assert {f"bin/{name}" for name in (*SLUICE, *TESTS)} <= names, names
    assert {"scripts/suitelib.py", "scripts/mps"} <= names, names
    graph = os.path.isdir(os.path.join(SHARED_DATA, "cora"))
    assert ("data/cora/node_feat.npy" in names) == graph, names
    assert ("without the graph cora: " in said) != graph, said
    assert ("lib/libsluice_cuda.so" in names) == plugin
    libraries = {name for name in names if re.match(r"lib/(gcc/)?[^/]*\.so", name)}
    # Opened at their first use, and what they need.
    for late in ("libmicrohttpd", "libzip", "libcrypto"):
        assert any(late in name for name in libraries), libraries
    assert not any(re.search(r"/lib(c|m|pthread)\.so", name) for name in libraries), libraries


def test_it_runs_where_there_is_nothing(box):
    root = bare_root(box)
    home = "/any where"
    done = inside(root, f"{home}/bin/sluice", "doctor", "-o", "json")
    assert done.returncode in (0, 1), done
    json.loads(done.stdout)
    done = inside(
        root, f"{home}/bin/sluice", "generate", "planted", "--nodes", "1000", "--out", "/tmp/graph"
    )
    assert done.returncode == 0, done
    job = {
        "name": "bare",
        "dataset": "/tmp/graph",
        "model": {"kind": "graphsage", "layers": 2, "hidden": 16},
        "sampler": {"kind": "khop", "fanout": [5, 5], "batch_size": 100},
        "epochs": 2,
        "devices": [{"kind": "cpu", "cores": str(core)} for core in CORES],
    }
    with open(os.path.join(root, "tmp", "job.json"), "w", encoding="utf-8") as file:
        json.dump(job, file)
    done = inside(
        root, f"{home}/bin/sluice", "run", "/tmp/job.json", "--report", "/tmp/report.json"
    )
    assert done.returncode == 0, done
    with open(os.path.join(root, "tmp", "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    assert len(report["epochs"]) == 2, report


@whole
def test_it_runs_over_nodes_with_a_plugin_that_it_builds(box):
    with tarfile.open(packed(box)[0]) as tar:
        tar.extractall(box.path("any where"))
    (home,) = os.listdir(box.path("any where"))
    runs_over_nodes(box, box.path("any where", home))


def test_its_trainer_finds_the_plugin_beside_it(box):
    root = bare_root(box)
    done = inside(root, "/any where/bin/sluice-trainer", "--devices")
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    assert found["schema"] == "sluice.devices/1", found
    if packed(box)[2]:
        assert found["plugin"] == "/any where/lib/libsluice_cuda.so", found
        assert found["runtime_version"] >= 12000, found
    else:
        assert "no CUDA plug-in" in found["problem"], found
    assert found["devices"] or found["problem"], found


def readme(archive):
    with tarfile.open(archive) as tar:
        name = next(name for name in tar.getnames() if name.endswith("/README"))
        return tar.extractfile(name).read().decode()


def check_readme(text):
    built = re.search(r"built with CUDA (\d+)\.\d+ and needs driver (\d+) or newer", text)
    assert built and built[2] == {"12": "525", "13": "580"}[built[1]], text
    assert "the NVIDIA driver is too old: it supports CUDA" in text, text
    assert ("CUDA=1 NVCC=" in text) == (built[1] == "13"), text


def test_the_readme_names_the_driver(box):
    archive, _, plugin = packed(box)
    text = readme(archive)
    if plugin:
        check_readme(text)
        return
    assert "made without the CUDA plug-in" in text and "NVCC=" not in text, text
    if os.path.exists(EMULATED):  # which says that it was built with CUDA 13
        check_readme(readme(packed_with_the_emulation(box)))


def packed_with_the_emulation(box):
    """An archive whose plug-in is the emulated one, and which has no graph."""
    if not os.path.exists(EMULATED) or not os.path.exists(os.path.join(PROGRAMS, "tests/kernels")):
        raise Skip("there is no emulated plug-in, or there are no programs for an archive")

    def pack():
        out, none = os.path.join(box.suite, "emulated"), os.path.join(box.suite, "none")
        os.makedirs(out)
        done = subprocess.run(
            [os.path.join(ROOT, "scripts", "bundle"), PROGRAMS, LIBSLUICE, EMULATED, out],
            capture_output=True,
            text=True,
            env=dict(os.environ, SLUICE_TEST_DATA=none),
        )
        assert done.returncode == 0, done.stderr
        assert f"without the graph cora: {none}/cora is not there" in done.stdout, done
        return next(os.path.join(out, n) for n in os.listdir(out) if n.endswith(".tar.gz"))

    return box.shared_value("bundle-emulated", pack)


@not_under("address", "the emulation and the sanitizer both take over the stacks of threads")
def test_the_suite_runs_where_it_is_unpacked(box):
    """With all that its steps run, and a plug-in that nobody names."""
    with tarfile.open(packed_with_the_emulation(box)) as tar:
        tar.extractall(box.path("any where"))
    (home,) = os.listdir(box.path("any where"))
    home = box.path("any where", home)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "BIN"))}
    env["TMPDIR"] = box.temp
    suite = [os.path.join(home, "scripts", "gpu_suite"), "--rehearse", "--out", box.path("suite")]
    steps = ["machine", "figures", "peer"]
    done = subprocess.run([*suite, *steps], capture_output=True, text=True, env=env, cwd="/")
    assert "<== figures: passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    # What a rehearsal leaves to `make check`.
    env["SLUICE_CUDA_PLUGIN"] = os.path.join(home, "lib", "libsluice_cuda.so")
    for name, case in (("test_sampler_gpu", "gpu that maps files"), ("test_trainer_cuda", "cuda")):
        program = os.path.join(home, "bin", "tests", name)
        tried = dict(env, CK_RUN_CASE=case, CK_TIMEOUT_MULTIPLIER="4")
        done = subprocess.run([program], capture_output=True, text=True, env=tried, cwd="/")
        assert done.returncode == 0 and "100%: Checks: " in done.stdout, done
        assert "Checks: 0" not in done.stdout, done


# The folders of NVIDIA's libraries in packages of CUDA 12 and of CUDA 13, beside some that are not
# meant.
WHEELS = {
    "12": (["cublas/lib/libcublasLt.so.12", "nccl/lib/libnccl.so.2"], "cudnn/lib/libcudnn.so.9"),
    "13": (["cu13/lib/libcublasLt.so.13", "nccl/lib/libnccl.so.2"], "cusparselt/lib/libx.so.0"),
    "none": ([], "cudnn/lib/libcudnn.so.9"),
}


@cases("12", "13", "none")
def test_the_line_of_the_readme_finds_the_libraries(box, cuda):
    line = re.search(r"^  (export LD_LIBRARY_PATH=.*)$", readme(packed(box)[0]), re.M)[1]
    wanted, other = WHEELS[cuda]
    for name in (*wanted, other):
        os.makedirs(box.path("site", "nvidia", os.path.dirname(name)), exist_ok=True)
        open(box.path("site", "nvidia", name), "w").close()
    for before, after in (("", ""), ("/opt/x", ":/opt/x")):
        done = subprocess.run(
            ["sh", "-c", f'{line}; printf %s "$LD_LIBRARY_PATH"'],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": box.path("site"),
                "LD_LIBRARY_PATH": before,
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and not done.stderr, done
        assert done.stdout.endswith(after), done
        # This machine's python3 may have such packages too.
        found = {name for name in done.stdout.split(":") if name.startswith(box.path("site"))}
        folders = {os.path.dirname(box.path("site", "nvidia", name)) for name in wanted}
        assert found == folders, done


def test_the_image_has_the_libraries(box):
    """What scripts/Dockerfile installs to run has every library that the programs are linked to."""
    if not shutil.which("dpkg-query") or not shutil.which("readelf"):
        raise Skip("there is no dpkg-query or no readelf")
    with open(os.path.join(ROOT, "scripts", "Dockerfile"), encoding="utf-8") as file:
        installed = set(file.read().replace("\\", " ").split())
    libraries = set()
    for program in SLUICE:
        said = subprocess.run(
            ["readelf", "-d", os.path.join(BIN, program)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        libraries |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", said))
        with open(os.path.join(BIN, program), "rb") as file:  # opened at its first use
            late = re.findall(rb"lib(?:microhttpd|zip)\.so\.\d+", file.read())
        libraries |= {name.decode() for name in late}
    assert len(libraries) > 8, libraries
    # A library that no package has is not judged, nor a sanitizer's, which no image needs.
    owners = subprocess.run(
        ["dpkg-query", "--search", *(f"*/{library}" for library in libraries)],
        capture_output=True,
        text=True,
    ).stdout
    packages = {}
    for package, path in re.findall(r"^([^:, ]+)\S*: (.*)$", owners, re.M):
        packages.setdefault(os.path.basename(path), set()).add(package)
    missing = {
        f"{library} of {', '.join(sorted(names))}"
        for library, names in packages.items()
        if not names & (installed | {"libc6"}) and "san.so" not in library
    }
    assert not missing, missing
