"""libsluice: a training loop of one's own, on the library's calls (libsluice.py has them)."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading

import libsluice as s
import numpy as np
from harness import (
    BIN,
    ROOT,
    Skip,
    cases,
    cpu_devices,
    gone,
    planted,
    read_json,
    small_job,
    whole,
    write_dataset,
)
from test_cuda import CPU, PLUGIN, gpu

# A process whose library was built with a sanitizer has to be one, too.
NOT_UNDER = dict.fromkeys(
    ("address", "undefined", "thread"), "the interpreter is built without the sanitizer"
)
LIBRARY = os.path.join(os.path.dirname(BIN), "lib", "libsluice.so.0")
HEADER = os.path.join(ROOT, "include", "sluice.h")
os.environ["LIBSLUICE"] = s.LIBRARY = LIBRARY


def job(box, output="runs/loader", /, **changes):
    config = small_job(box.shared_dataset("small"), output, name=box.unique("loader"), **changes)
    for key in ("model", "optimizer", "updates", "evaluate", "epochs"):
        del config[key]
    config["devices"] = cpu_devices(config["allocation"]["samplers"] + 1)
    return {**config, **{k: v for k, v in changes.items() if k in ("epochs", "input")}}


def opened(box, config=None, env=None, **options):
    """A loader in this process, which is the test's own."""
    os.environ.update(box.environment(env))
    os.chdir(box.folder)
    if "attach" not in options:
        config = config or job(box)
    return s.Loader(config, s.load(LIBRARY), **options)


def refused(words, call, *arguments, code=None):
    """The call fails, says that (one of several), and returns that code."""
    words = (words,) if isinstance(words, str) else words
    try:
        call(*arguments)
    except s.Failed as error:
        said = any(word in str(error) for word in words)
        assert said and code in (None, error.code), (error.code, str(error))
        return
    raise AssertionError(f"accepted, wanted: {words}")


def emulated_gpu():
    """The environment of a loader with GPU 0."""
    if not os.path.exists(PLUGIN):
        raise Skip(f"{PLUGIN} is not there: make tests builds it")
    os.environ.update({"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0"})
    return dict(os.environ)


def arrays():
    return planted()


def edge_set(data):
    dst = np.repeat(np.arange(len(data["indptr"]) - 1), np.diff(data["indptr"]))
    return set(zip(data["indices"].tolist(), dst.tolist()))


def check_batch(data, known, batch, rows):
    assert np.array_equal(rows, data["node_feat"][s.nodes(batch)]), batch.number
    assert np.array_equal(s.labels(batch), data["node_label"][s.seeds(batch)])
    after = s.array(batch.n_nodes_after, batch.n_hops + 1)
    assert after[0] == batch.n_seeds and after[-1] == batch.n_nodes, after
    assert len(set(s.nodes(batch).tolist())) == batch.n_nodes
    n = 0
    for src, dst in s.edges(batch):
        assert known.issuperset(zip(src.tolist(), dst.tolist())), batch.number
        n += len(src)
    assert n == batch.n_edges


# ---- what it delivers ---------------------------------------------------------------------------


@cases((1, 0), (2, 0), (1, 1))
def test_an_epoch_is_the_training_set_in_the_jobs_order(box, samplers, prefetch):
    """Each vertex once; features, labels and edges are the data set's; the order is the same for
    any number of samplers, and another one in each epoch."""
    data, orders = arrays(), []
    known = edge_set(data)
    config = job(box, **{"allocation.samplers": samplers})
    with opened(box, config, prefetch=prefetch) as loader:
        info = loader.info
        assert (info.n_items, info.batch_size) == (len(data["train_idx"]), 64)
        for epoch in range(2):
            order = []
            for batch in loader.epoch():
                assert (batch.epoch, batch.number, batch.first_item) == (
                    epoch, len(order), 64 * len(order),
                )  # fmt: skip
                check_batch(data, known, batch, loader.features(batch))
                view = loader.features_view(batch)
                assert (view is not None) == bool(prefetch)
                if prefetch:
                    assert np.array_equal(view, loader.features(batch))
                order.append(s.seeds(batch).copy())
            assert len(order) == info.n_batches == info.n_own_batches
            orders.append(np.concatenate(order))
            assert np.array_equal(np.sort(orders[-1]), data["train_idx"])
        assert not np.array_equal(*orders)
        assert loader.stats.batches == 2 * info.n_batches and loader.stats.held == 0
    told = box.shared_value("orders-of-loaders", lambda: [o.tolist() for o in orders])
    assert told == [o.tolist() for o in orders]


@cases("all", "new")
def test_edges_have_their_numbers(box, expand):
    """At that place of the data set's list of neighbours stands the edge's source. Where a vertex
    is expanded once, the last hop has all edges, each once, and those of the others first."""
    data = arrays()
    config = job(box, **{"sampler.edge_ids": True, "sampler.expand": expand})
    with opened(box, config) as loader:
        assert loader.info.has_edge_ids
        for batch in loader.epoch():
            numbers = [s.array(h.edge_ids, h.n_edges, "<u8") for h in batch.hop[: batch.n_hops]]
            for at, (source, destination) in zip(numbers, s.edges(batch)):
                assert np.array_equal(data["indices"][at], source)
                assert (data["indptr"][destination] <= at).all()
                assert (at < data["indptr"][destination + 1]).all()
            if expand == "new":
                assert len(np.unique(numbers[-1])) == len(numbers[-1])
                for at in numbers:
                    assert np.array_equal(at, numbers[-1][: len(at)])


def test_batches_are_those_of_a_job_that_trains(box):
    """Of the same seed: a model of sluice's own sees the same ones."""
    trained = box.run(small_job(box.shared_dataset("small"), epochs=1))
    trained[0].ok()
    config = job(box, epochs=1)
    with opened(box, config) as loader:
        for _ in loader.epoch():
            pass
        refused("done", loader.next, code=s.EABORTED)  # there was one epoch
    report = read_json(box.path(config["output"], "report.json"))
    assert report["status"] == "done"
    assert report["samples_digest"] == trained[1]["samples_digest"]


@cases("fixed", "dynamic")
def test_ranks_divide_an_epoch(box, balance):
    """Each has its share, or what it comes to first; together they have all."""
    config = job(box, **{"allocation.trainers": 2, "allocation.balance": balance})
    config["devices"] = cpu_devices(3)
    with opened(box, config, rank=0) as first:
        with opened(box, attach=config["name"], rank=1) as second:
            loaders, order, numbers = [first, second], [], {first: [], second: []}
            assert [x.info.rank for x in loaders] == [0, 1]
            while loaders:
                loader = loaders.pop(0)
                batch = loader.next(100)
                if batch == s.END:
                    continue
                loaders.append(loader)
                if batch != s.TIMEOUT:
                    order.append(s.seeds(batch).copy())
                    numbers[loader].append(batch.number)
                    loader.done(batch)
            assert np.array_equal(np.sort(np.concatenate(order)), arrays()["train_idx"])
            if balance == "fixed":
                assert [n % 2 for x in (first, second) for n in numbers[x]] == [0] * 6 + [1] * 6
                assert [x.info.n_own_batches for x in (first, second)] == [6, 6]


@cases(0, 1)
def test_features_that_are_read_from_the_drive(box, prefetch):
    data = arrays()
    config = job(box, store={"features": "storage", "cache": "64KiB"})
    with opened(box, config, prefetch=prefetch) as loader:
        for batch in loader.epoch():
            assert np.array_equal(loader.features(batch), data["node_feat"][s.nodes(batch)])


@cases("none", "degree")
def test_features_in_a_gpus_memory(box, policy):
    """Where the loader's seat is on one (emulated): gathered there ahead, from a cache too."""
    data, env = arrays(), emulated_gpu()
    config = job(box, cache={"policy": policy, "ratio": 0.5} if policy != "none" else {})
    config["devices"], config["sampler"]["expand"] = [CPU, gpu()], "new"
    with opened(box, config, prefetch=1, arrays=1, env=env) as loader:
        assert loader.info.feat_device == 0
        for _ in range(2):
            for batch in loader.epoch():
                taken = loader.take(batch)  # the rows stay where they are
                assert taken.features is None
                assert np.array_equal(s.array(taken.nodes, batch.n_nodes, "<i8"), s.nodes(batch))
                loader.lib.sluice_free(taken.memory)
                assert np.array_equal(loader.features(batch), data["node_feat"][s.nodes(batch)])
    with opened(box, {**config, "output": "runs/again"}, env=env) as loader:
        assert loader.info.feat_device == -1
        batch = loader.next()
        assert np.array_equal(loader.features(batch), data["node_feat"][s.nodes(batch)])


@cases("sampler.subgraph=induced", "sampler.disjoint=true")
def test_samplers_on_a_gpu_make_what_only_cores_can(box, asked):
    """The batches of a job without GPUs, with ranks for the trainer's cache."""
    data, env, found = arrays(), emulated_gpu(), []
    key, value = asked.split("=")
    cache = {"policy": "degree", "ratio": 0.5}
    config = job(box, cache=cache, **{key: True if value == "true" else value})
    config["sampler"]["expand"] = "new"
    for devices in [gpu(), gpu()], [CPU, CPU]:
        config["devices"], config["output"] = devices, f"runs/{len(found)}"
        with opened(box, config, prefetch=1, env=env) as loader:
            assert (loader.info.feat_device == 0) == (devices[0] != CPU)
            batches = []
            for batch in loader.epoch():
                nodes, last = s.nodes(batch), batch.hop[batch.n_hops - 1]
                assert np.array_equal(loader.features(batch), data["node_feat"][nodes])
                batches.append([nodes.tolist(), s.array(last.indices, last.n_edges).tolist()])
            found.append(batches)
    assert found[0] == found[1] and len(found[0]) == 12


def test_views_stay_as_they_are_until_done(box):
    with opened(box) as loader:
        held = [(b, s.everything(b)) for b in (loader.next() for _ in range(4))]
        for batch, before in held:
            for a, b in zip(before, s.everything(batch)):
                assert np.array_equal(a, b)
            loader.done(batch)
        assert loader.stats.held == 0 and loader.stats.batches == 4


@cases((0, 0), (1, 0), (1, 1))
def test_arrays_are_the_callers(box, prefetch, made):
    """More of them than there are buffers, also once the loader is closed."""
    data, taken = arrays(), []
    config = job(box, **{"sampler.edge_ids": True, "sampler.expand": "new"})
    loader = opened(box, config, prefetch=prefetch, arrays=made)
    dim = loader.info.feat_dim
    for _ in range(5):
        batch = loader.next()
        last = batch.hop[batch.n_hops - 1]
        rows = np.repeat(np.arange(last.n_dst), np.diff(s.array(last.indptr, last.n_dst + 1)))
        edges = [s.array(last.indices, last.n_edges).copy(), rows]
        ids = s.array(last.edge_ids, last.n_edges, "<u8").copy()
        seen = (s.nodes(batch).copy(), np.array(edges), ids, s.labels(batch).copy())
        taken.append((loader.take(batch), seen, batch.n_nodes, batch.n_seeds))
        for call in loader.take, loader.features:  # its arrays are somebody else's
            refused("", call, batch, code=s.EINVAL)
        loader.done(batch)
    lib = loader.lib
    loader.close()
    for a, (nodes, edges, ids, labels), n_nodes, n_seeds in taken:
        assert np.array_equal(s.array(a.nodes, n_nodes, "<i8"), nodes)
        assert np.array_equal(s.array(a.edges, (2, a.n_edges), "<i8"), edges)
        assert np.array_equal(s.array(a.edge_ids, a.n_edges, "<i8"), ids)
        assert np.array_equal(s.array(a.labels, n_seeds, "<i8"), labels)
        x = s.array(a.features, (n_nodes, dim), "<f4")
        assert np.array_equal(x, data["node_feat"][nodes])
        lib.sluice_free(a.memory)


def parts(batch, arrays):
    """All that a batch has, as lists."""
    numbers = [s.array(getattr(arrays, a), n, "<i8").tolist() for a, n in (
        ("nodes", batch.n_nodes), ("edges", 2 * arrays.n_edges), ("edge_ids", arrays.n_edges),
        ("labels", batch.n_seeds))]  # fmt: skip
    after = s.array(batch.n_nodes_after, batch.n_hops + 1).tolist()
    return [*numbers, after, [h.n_edges for h in batch.hop[: batch.n_hops]]]


@cases({}, {"kind": "labor"}, {"kind": "weighted", "replace": True}, {"fanout": [-1, 400]})
def test_given_seeds_have_the_batch_that_a_job_gives_them(box, more):
    """Number by number, also where the memory of the first draw is too small for the next one, and
    in a process that was forked. Views are of the last draw; arrays stay."""
    data = arrays()
    config = job(box)
    config["sampler"].update({"expand": "new", "edge_ids": True, **more})
    if more.get("kind") == "weighted":
        weight = np.random.default_rng(3).random(len(data["indices"]), np.float32)
        config["dataset"] = write_dataset(box.path("data"), {**data, "edge_weight": weight})
    kept = []
    with opened(box, config) as loader:
        with s.Sampler(config, loader.lib, features=1) as sampler:
            for batch in loader.epoch():
                key = batch.epoch, batch.number, s.seeds(batch).copy()
                wanted = parts(batch, taken := loader.take(batch))
                loader.lib.sluice_free(taken.memory)
                drawn, own = sampler.draw(*key)
                assert parts(drawn, own) == wanted, batch.number
                assert (drawn.epoch, drawn.number) == key[:2]
                kept.append((drawn, own, wanted, s.nodes(drawn).copy()))
            told, same = sampler.info, loader.info
            for name in "n_nodes n_edges seed batch_size n_hops feat_dim feat_type".split():
                assert getattr(told, name) == getattr(same, name), name
            assert told.fanout[:] == same.fanout[:] and told.n_items == told.broker == 0
            child = os.fork()
            if child == 0:
                drawn, own = sampler.draw(*key)
                os._exit(0 if parts(drawn, own) == wanted else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert parts(*sampler.draw(*key))[0] == wanted[0]
            other = sampler.draw(key[0], key[1] + 1, key[2], arrays=False)[0]
            nodes = s.nodes(other).tolist()
            assert nodes != wanted[0] or more.get("fanout") == [-1, 400]
        lib = loader.lib
    for drawn, own, wanted, nodes in kept:
        assert s.array(own.nodes, drawn.n_nodes, "<i8").tolist() == wanted[0] == nodes.tolist()
        x = s.array(own.features, (drawn.n_nodes, data["node_feat"].shape[1]), "<f4")
        assert np.array_equal(x, data["node_feat"][nodes])
        lib.sluice_free(own.memory)


def test_given_seeds_that_cannot_be(box):
    """Each is refused, and the sampler goes on."""
    lib, config = s.load(LIBRARY), job(box)
    for changes, words in (
        ({"dataset": "nowhere"}, "nowhere: no such directory"),
        ({"sampler": {"fanout": [0]}}, "sampler.fanout"),
        ({"model": {"kind": "sage"}}, 'model.kind: found "sage", wanted "external"'),
        ({"sampler": {"kind": "weighted"}}, "edge_weight.npy"),
        ({}, "options.features: found another number, wanted 0 or 1"),
    ):
        refused(words, s.Sampler, {**config, **changes}, lib, 0 if changes else 2)
    with s.Sampler(config, lib) as sampler:
        for seeds, words in (
            ([], "found no seeds"), ([3, 5, 3], "3 seeds, only 2 of them different"),
            ([1500], "seed 1500 is no vertex of a graph with 1500"),
            ([4], 'sampler.expand: found "all"'),
        ):  # fmt: skip
            refused(words, sampler.draw, 0, 0, seeds, seeds == [4])
        batch, _ = sampler.draw(0, 0, [4, 2], arrays=False)
        assert s.seeds(batch).tolist() == [4, 2] and batch.n_hops == 2
    lib.sluice_sampler_close(None)


def test_arrays_are_of_one_hop_that_has_all_edges(box):
    with opened(box, job(box, **{"sampler.expand": "all"})) as loader:
        refused("sampler.expand", loader.take, loader.next())  # each hop has edges of its own


def test_a_batch_that_is_given_back_comes_again(box):
    with opened(box) as loader:
        first, second = loader.next(), loader.next()
        seeds = s.seeds(first).copy()
        loader.give_back(first)
        again = loader.next()
        assert again.number == 0 and np.array_equal(s.seeds(again), seeds)
        loader.done(second)
        loader.done(again)
        refused("is not held", loader.done, second, code=s.ESTALE)
        refused("is not held", loader.give_back, first, code=s.ESTALE)


def test_an_epoch_is_left_in_the_middle(box):
    with opened(box) as loader:
        for _ in range(3):
            loader.done(loader.next())
        loader.start_epoch(3)
        order = [s.seeds(b).copy() for b in loader.epoch()]
        assert np.array_equal(np.sort(np.concatenate(order)), arrays()["train_idx"])
        assert loader.stats.epoch == 3 and loader.stats.batches == 3 + loader.info.n_batches
        refused("before 0 of epoch 4 have been", loader.start_epoch, 3, code=s.EINVAL)


def test_a_loader_outlives_the_thread_that_opened_it(box):
    """And is used by another one, meanwhile."""
    made = []
    opener = threading.Thread(target=lambda: made.append(opened(box)))
    opener.start()
    opener.join()
    (loader,) = made
    with loader:
        for _ in range(2):
            assert sum(b.n_seeds for b in loader.epoch()) == len(arrays()["train_idx"])


def test_a_job_without_an_output_leaves_nothing(box):
    """And looks for no place to leave it."""
    with open(box.path("runs"), "w"):
        pass
    before = sorted(os.listdir(box.folder))
    config = job(box)
    del config["output"], config["name"]
    with opened(box, config) as loader:
        assert loader.info.output == b"" and str(os.getpid()) in loader.info.job_name.decode()
        loader.done(loader.next())
        assert loader.info.job_name.decode() in box.sluice("ps").ok().out
    assert sorted(os.listdir(box.folder)) == before


def test_two_loaders_in_one_process(box):
    with opened(box, job(box, "runs/a")) as a, opened(box, job(box, "runs/b", seed=8)) as b:
        for x, y in zip(a.epoch(), b.epoch()):
            assert not np.array_equal(s.seeds(x), s.seeds(y))
            assert len(a.features(x)) == x.n_nodes and len(b.features(y)) == y.n_nodes


def test_a_running_job_is_attached_to(box):
    """By its name and by its directory; by one at a time, who is followed by another. What the
    first has not done the second gets."""
    config = job(box, model={"kind": "external"})
    config["model"] = {"kind": "external"}
    running = box.start("run", box.job(config))
    name = config["name"]

    def attach(word):
        return opened(box, attach=word)

    def try_it():
        try:
            return attach(name)
        except s.Failed as error:
            assert error.code in (s.ENOENT, s.EBUSY, s.ETIMEDOUT), error
            return None

    loader = running.until(try_it, "a seat")
    with loader:
        seen = [s.seeds(loader.next()).copy()]
        batch = loader.next()
        done = [s.seeds(batch).copy()]
        loader.done(batch)
        refused(str(os.getpid()), attach, name, code=s.EBUSY)  # there is one seat
    with attach(box.path(config["output"])) as second:
        rest = [s.seeds(b).copy() for b in second.epoch()]
        assert np.array_equal(rest[0], seen[0])
    assert np.array_equal(np.sort(np.concatenate(done + rest)), arrays()["train_idx"])
    running.interrupt()
    done = running.wait()
    assert done.rc == 0, done


def test_a_batch_is_held_when_its_job_is_stopped(box):
    """The job takes it back: its loader hears why, whatever it calls next."""
    config = job(box)
    with opened(box, config) as loader:
        loader.done(loader.next())
        held = loader.next()
        (broker,) = box.processes("broker")
        box.sluice("stop", config["name"]).ok()
        gone(broker)
        refused("stopped", loader.done, held, code=s.EABORTED)
        refused("stopped", loader.next, code=s.EABORTED)


def test_the_example_learns(box):
    program = os.path.join(BIN, "examples", "lease")
    graph = box.shared_dataset("easy", noise=1.0)
    done = box.start(graph, 6, program=program).wait().ok()
    accuracy = [float(x) for x in re.findall(r"accuracy ([\d.]+)", done.out)]
    assert len(accuracy) == 6 and accuracy[-1] > accuracy[0] and accuracy[-1] > 0.8, done


# ---- who dies -----------------------------------------------------------------------------------


def client(box, action, config=None):
    path = box.job(config or job(box))
    env = {"LIBSLUICE": LIBRARY}
    running = box.start(s.__file__, path, action, program=sys.executable, env=env)
    running.until(lambda: running.output()[0].endswith("\n"), "its line")
    return running, json.loads(running.output()[0])


@cases("open", "hold", "waits")
def test_a_killed_loop_leaves_nothing(box, action):
    running, _ = client(box, action)
    running.kill()
    running.wait()
    box.until_gone()


def test_a_loop_that_exits_at_once_leaves_nothing(box):
    running, _ = client(box, "exits")
    assert running.wait().rc == 0
    box.until_gone()


@cases("broker", "sampler")
def test_who_is_killed_under_a_loader(box, role):
    """The broker: an error within a moment. A sampler: nothing is lost."""
    with opened(box) as loader:
        first = loader.next()
        (victim,) = box.processes(role)
        os.kill(victim, signal.SIGKILL)
        if role == "sampler":
            rest = [s.seeds(b).copy() for b in loader.epoch()]
            n = sum(map(len, rest)) + first.n_seeds
            assert n == len(arrays()["train_idx"]), n
            return
        gone(victim)
        loader.done(first)  # what is lent may be given back

        def to_the_end():
            # What was drawn may still be lent, and no epoch begins.
            while isinstance(batch := loader.next(), s.Batch) or batch == s.END:
                if batch != s.END:
                    loader.done(batch)

        refused("broker", to_the_end, code=s.EFAILED)
    box.until_gone()


# ---- what is refused ----------------------------------------------------------------------------

WRONG = {
    "no JSON": ("{", "job:"),
    "a key": ({"sampler": {"fanuot": [5]}}, "did you mean"),
    "a model": ({"model": {"kind": "gcn"}}, 'found "gcn", wanted "external"'),
    "nodes": ({"nodes": 2}, 'nodes: found 2, wanted 1 or "auto"'),
    "a data set": ({"dataset": "nowhere"}, "nowhere"),
    "a fanout": ({"sampler": {"fanout": []}}, "sampler.fanout"),
}


@cases(*WRONG)
def test_a_wrong_job_is_refused(box, what):
    changes, words = WRONG[what]
    text = changes if isinstance(changes, str) else json.dumps({**job(box), **changes})
    refused(words, opened, box, text)
    box.until_gone()


def test_wrong_arguments_are_refused(box):
    lib = s.load(LIBRARY)
    os.environ.update(box.environment())
    at = ctypes.c_void_p()
    wrong = [
        (None, "no options"),
        (s.Options(), "neither"),
        (s.Options(job=b"{}", attach=b"x"), "both"),
        (s.Options(job=b"{}", rank=-2), "options.rank"),
        (s.Options(job=b"{}", prefetch=2), "options.prefetch"),
        (s.Options(job=b"{}", arrays=3), "options.arrays"),
        (s.Options(job=b"{}", programs=b"/nowhere"), "sluice-broker"),
        (s.Options(attach=b"no-such-job"), "no running job"),
    ]
    short = s.Options(job=b"{}")
    short.size = 8
    for options, words in [*wrong, (short, "options.size")]:
        rc = lib.sluice_open(ctypes.byref(options) if options else None, ctypes.byref(at))
        assert rc < 0 and words in lib.sluice_error().decode(), lib.sluice_error()
        assert not at.value
    lib.sluice_close(None)
    with opened(box, job(box, **{"sampler.expand": "new"})) as loader:
        for call in (loader.lib.sluice_next, loader.lib.sluice_get_info, loader.lib.sluice_stats):
            arguments = [1] if call is loader.lib.sluice_next else []
            assert call(None, *arguments, None) == s.EINVAL
            assert call(loader.at, *arguments, None) == s.EINVAL
            info = s.Info()
            info.size = 8
            assert call(loader.at, *arguments, ctypes.byref(info)) == s.EINVAL
            assert "size" in lib.sluice_error().decode()
        batch = loader.next()
        rows = np.empty(3, np.float32)
        rc = lib.sluice_features(loader.at, ctypes.byref(batch), rows.ctypes.data, rows.nbytes)
        assert rc == s.ERANGE and "room for 12 bytes" in lib.sluice_error().decode()
        # A caller of before the structure had its last field gets the others.
        arrays = s.Arrays()
        arrays.size = s.Arrays.places.offset
        rc = lib.sluice_take(loader.at, ctypes.byref(batch), ctypes.byref(arrays))
        assert rc == s.OK and arrays.nodes and not arrays.places
        lib.sluice_free(arrays.memory)


def test_a_fork_and_a_second_thread_are_told_off(box):
    with opened(box) as loader:
        batch = loader.next()
        read, write = os.pipe()
        if (pid := os.fork()) == 0:
            try:
                loader.done(batch)
            except s.Failed as error:
                os.write(write, str(error).encode())
            loader.close()  # the parent's
            os._exit(0)
        os.waitpid(pid, 0)
        assert b"was forked" in os.read(read, 1000)
        loader_broker = loader.info.broker
        # Which the next epoch waits for, and so does the thread, until there is no broker.
        while loader.next() != s.END:
            pass
        inside = threading.Thread(target=wait, args=(loader,))
        inside.start()
        refused = None
        while inside.is_alive() and not refused:
            try:
                loader.stats  # noqa: B018
            except s.Failed as error:
                refused = error
        assert refused and refused.code == s.EBUSY and "another thread" in str(refused)
        os.kill(loader_broker, signal.SIGKILL)
        inside.join()


def wait(loader):
    code = s.EBUSY
    while code == s.EBUSY:  # the other thread was in it first
        try:
            loader.next(3600000)
        except s.Failed as error:
            code = error.code
    assert code in (s.EFAILED, s.ENOMEM), code


@whole
def test_who_keeps_every_batch_is_told(box):
    config = job(box, **{"arena.memory": "2MiB", "sampler.batch_size": 8})
    with opened(box, config) as loader:
        held = []

        def keep_all():
            while not isinstance(batch := loader.next(), int):
                held.append(batch)

        refused(" batches are held", keep_all, code=s.ENOMEM)
        for batch in held:
            loader.done(batch)
        n = len(held) + sum(1 for _ in loader.epoch())
        assert n == loader.info.n_batches


# ---- the library itself -------------------------------------------------------------------------


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_library_has_the_headers_functions_and_no_others(box):
    with open(HEADER) as file:
        promised = set(re.findall(r"^SLUICE_API .*?(sluice_\w+)\(", file.read(), re.M))
    names = re.findall(r" T (\S+)", output_of("nm", "-D", "--defined-only", LIBRARY))
    versions = dict(name.split("@@SLUICE_") for name in names)
    later = {n: "1" for n in promised if n.startswith("sluice_sampler_")}
    later.update({"sluice_wait": "2", "sluice_get_run": "3"})
    assert versions == {name: later.get(name, "0") for name in promised}
    dynamic = output_of("objdump", "-p", LIBRARY)
    needed = set(re.findall(r"NEEDED\s+(\S+?)\.so", dynamic))
    assert needed <= {
        "libc", "libm", "ld-linux-x86-64", "liburing", "libzmq", "libprotobuf-c", "libcjson",
        "libhwloc", "libxxhash",
    }, needed  # fmt: skip
    assert "libsluice.so.0" in re.search(r"SONAME\s+(\S+)", dynamic)[1]


def open_files():
    """{descriptor: what it is}, without the one of looking."""
    with os.scandir("/proc/self/fd") as entries:
        found = {e.name: os.readlink(e.path) for e in entries}
    return {name: what for name, what in found.items() if not what.endswith("/fd")}


def signals(which):
    with open("/proc/self/status") as file:
        return re.search(rf"^{which}:\s*(\w+)", file.read(), re.M)[1]


def test_the_process_stays_as_it_was(box):
    """No signal is caught, ignored or blocked; nothing is written; no descriptor, no process is
    left."""
    kinds = ("SigCgt", "SigIgn", "SigBlk")
    os.environ.update(box.environment())
    os.chdir(box.folder)
    s.load(LIBRARY)
    first = threading.Thread()  # with which glibc catches a signal of its own
    first.start()
    first.join()
    before, fds = [signals(k) for k in kinds], open_files()
    out = [os.dup(n) for n in (1, 2)]
    with open(box.path("written"), "w+") as written:
        for n in (1, 2):
            os.dup2(written.fileno(), n)
        try:
            cached = job(box, cache={"policy": "degree", "ratio": 0.5})
            with opened(box, cached, prefetch=1) as loader:
                for batch in loader.epoch():
                    loader.features(batch)
                now = [signals(k) for k in kinds]
                assert now == before, (before, now)
                (victim,) = box.processes("sampler")
                os.kill(victim, signal.SIGKILL)
                loader.done(loader.next())
        finally:
            for n, fd in zip((1, 2), out):
                os.dup2(fd, n)
                os.close(fd)
        written.seek(0)
        text = written.read()
        assert text == "", text
    now = [signals(k) for k in kinds]
    assert now == before, (before, now)
    assert open_files() == fds
    box.nothing_runs()
