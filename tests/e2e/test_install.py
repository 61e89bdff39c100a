"""make install, make uninstall, make deb: what they put where, and that it works from there.

They run on a build folder that holds copies of the programs, which make is told are up to date: it
links nothing and writes nothing beside other tests.
"""

import os
import re
import shutil
import subprocess

from harness import BIN, ROOT, SAN, Skip, read_json, small_job, whole
from nodes import runs_over_nodes
from test_man import pages

PREFIX = "/opt/sluice"
PROGRAMS = ["sluice", "sluice-broker", "sluice-sampler", "sluice-trainer", "sluice-link"]
PLUGIN = os.path.join(os.path.dirname(BIN), "lib", "libsluice_cuda.so")
LIBSLUICE = os.path.join(os.path.dirname(BIN), "lib", "libsluice.so.0")


def do(box, *command, **more):
    env = {k: v for k, v in box.environment(more).items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def make(box, *arguments):
    out = box.path("build")
    if not os.path.exists(out):
        os.makedirs(os.path.join(out, "bin"))
        os.makedirs(os.path.join(out, "lib"))
        for name in PROGRAMS:
            shutil.copy(os.path.join(BIN, name), os.path.join(out, "bin"))
        shutil.copy(LIBSLUICE, os.path.join(out, "lib"))
        if os.path.exists(PLUGIN):
            shutil.copy(PLUGIN, os.path.join(out, "lib"))
        os.makedirs(os.path.join(out, "man"))
        for page in pages(box).values():  # newer than the programs
            shutil.copy(page, os.path.join(out, "man"))
    there = [f"--old-file={out}/bin/{name}" for name in PROGRAMS]
    there.append(f"--old-file={out}/lib/libsluice.so.0")
    return do(box, "make", "--no-print-directory", *there, f"O={out}", "CUDA=0", *arguments)


def installed(box):
    """The folder that PREFIX is."""
    make(box, "install", f"DESTDIR={box.path('root')}", f"PREFIX={PREFIX}")
    return box.path("root") + PREFIX


def files_in(folder):
    return {
        os.path.relpath(os.path.join(at, name), folder)
        for at, _, names in os.walk(folder)
        for name in names
    }


def runs_a_job(box, folder):
    """The program of this folder makes a graph and trains on it."""
    program = os.path.join(folder, "bin", "sluice")
    graph, report = box.path("graph"), box.path("report.json")
    box.start("generate", "planted", "--nodes", "1000", "--out", graph, program=program).wait().ok()
    job = box.job(small_job(graph, epochs=2))
    box.start("run", job, "--report", report, program=program).wait().ok()
    found = read_json(report)
    assert found["status"] == "done" and len(found["epochs"]) == 2, found


def man(box, page):
    if not shutil.which("man"):
        raise Skip("man is not installed")
    text = do(box, "man", "-l", page, MANWIDTH="100", MANPAGER="cat")
    if "has been minimized" in text:
        raise Skip("man is a stand-in that says how to get it")
    assert "sluice-run - " in text and "--dry-run" in text, text


def completes(box, folder):
    """The completion that is installed does, in bash; zsh gets the same as from the command."""
    line = (
        'source "$0"; PATH=$1:$PATH; COMP_WORDS=(sluice docto); COMP_CWORD=1; '
        "COMP_LINE='sluice docto'; COMP_POINT=12; _sluice; complete -p sluice; echo $COMPREPLY"
    )
    script = os.path.join(folder, "share/bash-completion/completions/sluice")
    said = do(box, "bash", "--norc", "-c", line, script, os.path.join(folder, "bin"))
    assert said.splitlines() == ["complete -F _sluice sluice", "doctor"], said
    with open(os.path.join(folder, "share/zsh/site-functions/_sluice"), encoding="utf-8") as file:
        assert file.read() == box.sluice("completion", "zsh").ok().out


def test_installed_programs_work_and_go_away(box):
    folder = installed(box)
    files = files_in(folder)
    assert {f"bin/{name}" for name in PROGRAMS} <= files, files
    assert {"include/sluice.h", "lib/libsluice.so", "lib/pkgconfig/sluice.pc"} <= files, files
    assert ("lib/libsluice_cuda.so" in files) == os.path.exists(PLUGIN)
    with open(os.path.join(folder, "share/sluice/files"), encoding="utf-8") as file:
        assert set(file.read().splitlines()) == files - {"share/sluice/files"}
    with open(os.path.join(folder, "lib/systemd/system/sluice.service"), encoding="utf-8") as file:
        assert f'ExecStart={PREFIX}/bin/sluice-broker ' in file.read()
    assert os.access(os.path.join(folder, "share/sluice/mps"), os.X_OK)
    schema = os.path.join(folder, "share/sluice/job.schema.json")
    assert read_json(schema) == box.sluice("schema").ok().json()
    runs_a_job(box, folder)
    completes(box, folder)

    mine = os.path.join(folder, "share", "mine")
    with open(mine, "w", encoding="utf-8"):
        pass
    # A file of an older version, which the newer one has no more.
    with open(os.path.join(folder, "bin", "sluice-older"), "w", encoding="utf-8"):
        pass
    with open(os.path.join(folder, "share/sluice/files"), "a", encoding="utf-8") as file:
        file.write("bin/sluice-older\n")
    assert files_in(installed(box)) == files | {"share/mine"}
    make(box, "uninstall", f"DESTDIR={box.path('root')}", f"PREFIX={PREFIX}")
    assert files_in(folder) == {"share/mine"}
    assert not os.path.exists(os.path.join(folder, "share", "sluice"))


def test_what_is_installed_runs_over_nodes(box):
    folder = installed(box)
    runs_over_nodes(box, folder)
    make(box, "uninstall", f"DESTDIR={box.path('root')}", f"PREFIX={PREFIX}")
    assert not files_in(folder), files_in(folder)  # the plug-in has gone, too


def test_a_program_is_built_with_what_is_installed(box):
    """By pkg-config, and finds the programs beside the library."""
    for tool in ("cc", "pkg-config"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")
    if SAN:
        raise Skip("it would have to be built with the sanitizer, too")
    folder, program = installed(box), box.path("lease")
    there = {
        "PKG_CONFIG_PATH": os.path.join(folder, "lib/pkgconfig"),
        "PKG_CONFIG_SYSROOT_DIR": box.path("root"),
    }
    flags = do(box, "pkg-config", "--cflags", "--libs", "sluice", **there).split()
    source = os.path.join(folder, "share/doc/sluice/examples/lease.c")
    do(box, "cc", source, *flags, "-lm", "-o", program)
    env = {"LD_LIBRARY_PATH": os.path.join(folder, "lib")}
    graph = box.shared_dataset("small")
    said = box.start(graph, 1, program=program, env=env).wait().ok().out
    assert re.match(r"epoch 1: \d+ vertices, loss ", said), said


def test_man_shows_an_installed_page(box):
    man(box, os.path.join(installed(box), "share/man/man1/sluice-run.1"))


def test_programs_name_no_library_that_they_do_not_use(box):
    if SAN:
        raise Skip("a sanitizer brings libraries of its own")
    for path in [*[os.path.join(BIN, name) for name in PROGRAMS], LIBSLUICE]:
        assert do(box, "ldd", "-u", path) == ""


def package(box):
    """The Debian package, made once for all tests."""
    for tool in ("dpkg-deb", "dpkg-shlibdeps"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")
    if SAN:
        raise Skip("there is no package of a build with a sanitizer")

    def pack():
        make(box, "deb")
        (name,) = [name for name in os.listdir(box.path("build")) if name.endswith(".deb")]
        return shutil.move(box.path("build", name), box.suite)

    return box.shared_value("package", pack)


@whole
def test_the_package_has_everything_and_runs(box):
    deb = package(box)
    entries = [line.split(None, 5) for line in do(box, "dpkg-deb", "-c", deb).splitlines()]
    assert {entry[1] for entry in entries} == {"root/root"}, entries
    assert {entry[3] for entry in entries} == {"1980-01-01"}, entries
    modes = {entry[5].removeprefix("./"): entry[0] for entry in entries}
    assert all(modes[f"usr/bin/{name}"] == "-rwxr-xr-x" for name in PROGRAMS), modes
    for path in (
        "bash-completion/completions/sluice",
        "doc/sluice/copyright",
        "man/man1/sluice-run.1.gz",
        "sluice/job.schema.json",
        "zsh/vendor-completions/_sluice",
    ):
        assert f"usr/share/{path}" in modes, (path, sorted(modes))
    assert "usr/lib/systemd/system/sluice.service" in modes
    assert ("usr/lib/libsluice_cuda.so" in modes) == os.path.exists(PLUGIN)

    root = box.path("unpacked")
    do(box, "dpkg-deb", "-R", deb, root)
    do(box, "sh", "-c", 'cd "$0" && md5sum --quiet -c DEBIAN/md5sums', root)
    runs_a_job(box, os.path.join(root, "usr"))
    runs_over_nodes(box, os.path.join(root, "usr"))
    with open(os.path.join(root, "usr/lib/systemd/system/sluice.service"), encoding="utf-8") as f:
        unit = f.read()
    assert '\nExecStart=/usr/bin/sluice-broker ' in unit and "\nUser=sluice\n" in unit, unit
    if shutil.which("systemd-sysusers"):
        os.makedirs(os.path.join(root, "etc"))
        do(box, "systemd-sysusers", f"--root={root}", "sluice.conf")
        with open(os.path.join(root, "etc", "passwd"), encoding="utf-8") as file:
            assert re.search("^sluice:.*:/var/lib/sluice:", file.read(), re.M)


@whole
def test_the_package_says_what_it_needs(box):
    deb = package(box)
    depends = do(box, "dpkg-deb", "-f", deb, "Depends")
    for library in ("libc6", "libncursesw6", "libuv1", "libzmq5"):
        assert re.search(rf"(^|, ){library} \(>= ", depends), depends
    for library in ("libmicrohttpd12", "libzip4"):  # opened at their first use
        assert re.search(rf", {library}(,|$)", depends), depends
    control = box.path("control")
    do(box, "dpkg-deb", "-e", deb, control)
    # No conffiles: nothing is in /etc.
    scripts = ["postinst", "prerm", "postrm"]
    assert set(os.listdir(control)) == {"control", "md5sums", "triggers", *scripts}
    for script in scripts:
        do(box, "sh", "-n", os.path.join(control, script))
