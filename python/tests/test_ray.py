"""A real local Ray cluster: the bytes of one machine, whatever happens to workers and disks on the way."""

import logging
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import s2m
from files import files

ray = pytest.importorskip("ray")

MODEL, N, PART = "mnist-even", 20_000, 1024


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bank of one machine."""
    out = tmp_path_factory.mktemp("whole") / "bank"
    return s2m.Model(MODEL).mine(N, out=out, seed=3, part=PART)


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 10**8})
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def mine(out, **options):
    import s2m.ray

    options = {"workers": 2, "seed": 3, "part": PART, **options}
    return s2m.ray.mine(MODEL, N, out=out, **options)


def told(caplog):
    """What the logger said: ranges that were done again, and on which node each range was done."""
    lines = [record.getMessage() for record in caplog.records if record.name == "s2m.ray"]
    again = [line for line in lines if "are done again" in line]
    done = [re.search(r"proposals (\d+) to .* on node (\w+)", line) for line in lines]
    return again, [(int(one[1]), one[2]) for one in done if one]


def workers():
    """Process numbers of scorers that are at work."""
    found = subprocess.run(["pgrep", "-f", "ray::_Scorer"], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def later(pieces: Path, some: int, act):
    """Does something once so many pieces have begun."""
    import threading

    def wait():
        until = time.monotonic() + 60
        while len(list(pieces.glob("*"))) < some:
            if time.monotonic() > until:
                return
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_workers_make_the_bank_of_one_machine(cluster, tmp_path, whole):
    bank = mine(tmp_path / "bank")
    assert files(bank.path) == files(whole.path)
    assert not (tmp_path / "bank.pieces").exists()
    # A longer one is mined on from where it ends.
    import s2m.ray

    s2m.ray.mine(MODEL, 5_000, out=tmp_path / "grown", workers=2, seed=3, part=PART)
    assert files(mine(tmp_path / "grown").path) == files(whole.path)


def test_a_worker_that_is_killed_is_replaced(cluster, tmp_path, whole, caplog):
    caplog.set_level(logging.INFO, logger="s2m.ray")
    killed = []

    def kill():
        killed.extend(workers()[:1])
        os.kill(killed[0], 9)

    thread = later(tmp_path / "bank.pieces", 4, kill)
    bank = mine(tmp_path / "bank")
    thread.join()
    assert len(killed) == 1
    again, done = told(caplog)
    assert len(again) == 1, "the range of the worker that was killed"
    assert sorted(first for first, _ in done) == list(range(0, N, PART)), "and every range once"
    assert files(bank.path) == files(whole.path)


def by_value(function):
    """Sent to workers as it is: they cannot import the tests."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[function.__module__])
    return function


class DiesFirst:
    """Dies while it starts, as long as there are lives in a folder."""

    def __init__(self, model):
        import s2m.ray

        for life in Path(os.environ["S2M_LIVES"]).glob("*"):
            try:
                life.unlink()
            except FileNotFoundError:
                continue
            os._exit(1)
        self._inner = s2m.ray._Scorer(model)

    def ready(self):
        return self._inner.ready()

    def mine(self, *arguments):
        return self._inner.mine(*arguments)


def test_a_worker_that_dies_while_it_starts_is_replaced(tmp_path, whole, monkeypatch, caplog):
    import s2m.ray

    lives = tmp_path / "lives"
    lives.mkdir()
    monkeypatch.setattr(s2m.ray, "_Scorer", by_value(DiesFirst))
    ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": {"S2M_LIVES": str(lives)}})
    try:
        for life in range(2):
            (lives / str(life)).touch()
        assert files(mine(tmp_path / "bank").path) == files(whole.path)
        assert sum("died while it started" in record.getMessage() for record in caplog.records) == 2
        for life in range(20):
            (lives / str(life)).touch()
        with pytest.raises(ray.exceptions.RayActorError):
            mine(tmp_path / "none")
    finally:
        ray.shutdown()


def test_a_worker_that_comes_later_takes_part(cluster, tmp_path, caplog):
    """The cluster has no room for a third one at first, and there is enough to do when it comes."""
    from concurrent.futures import ThreadPoolExecutor

    import s2m.ray

    caplog.set_level(logging.INFO, logger="s2m.ray")
    head = ray.get_runtime_context().get_node_id()
    many = 40 * N
    with ThreadPoolExecutor(1) as pool:
        mined = pool.submit(s2m.ray.mine, MODEL, many, out=tmp_path / "bank", workers=3, seed=3, part=PART)
        until = time.monotonic() + 60
        while not (tmp_path / "bank.pieces").exists() and time.monotonic() < until:
            time.sleep(0.02)
        cluster.add_node(num_cpus=1, object_store_memory=10**8)
        bank = mined.result(timeout=200)
    _, done = told(caplog)
    nodes = {node for _, node in done}
    assert len(nodes) == 2 and head in nodes, "ranges were done on the node that came later"
    assert sorted(first for first, _ in done) == list(range(0, many, PART))
    alone = s2m.Model(MODEL).mine(many, out=tmp_path / "alone", seed=3, part=PART)
    assert files(bank.path) == files(alone.path)


def test_workers_without_room_are_not_waited_for(cluster, tmp_path, whole):
    assert files(mine(tmp_path / "bank", workers=5).path) == files(whole.path)


class HasNoRoom:
    """Cannot write a file of more than a few bytes: a disk that is full, for whom no disk can be mounted."""

    def __init__(self, model):
        import s2m.ray

        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        self._inner = s2m.ray._Scorer(model)

    def ready(self):
        return self._inner.ready()

    def mine(self, *arguments):
        return self._inner.mine(*arguments)


def test_what_cannot_be_written_is_said_and_done_later(cluster, tmp_path, whole, monkeypatch):
    import s2m.ray

    with monkeypatch.context() as patched:
        patched.setattr(s2m.ray, "_Scorer", by_value(HasNoRoom))
        with pytest.raises(s2m.Error, match="could not write .*File too large"):
            mine(tmp_path / "bank", part=8192)
    assert not (tmp_path / "bank").exists()
    shutil.rmtree(tmp_path / "bank.pieces")
    assert files(mine(tmp_path / "bank").path) == files(whole.path)


def test_a_full_disk_is_said_and_the_rest_is_done_later(cluster, tmp_path, whole):
    disk = tmp_path / "disk"
    disk.mkdir()
    small = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True)
    if small.returncode != 0:
        pytest.skip("a small disk cannot be mounted here: only root can")
    try:
        with pytest.raises(s2m.Error, match="No space left"):
            mine(disk / "bank")
        assert not (disk / "bank").exists()
        subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        bank = mine(disk / "bank")
        assert files(bank.path) == files(whole.path)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_samples_are_drawn_and_the_cluster_mines_on(cluster, tmp_path, whole):
    import s2m.ray

    draw = s2m.ray.sample(
        MODEL, "A - B", 1000, out=tmp_path / "bank", start=2048, most=N, seed=3, workers=2, part=PART
    )
    assert len(draw) == 1000 and draw.report["generator_calls"] == draw.report["from_bank"]
    bank = s2m.Bank(tmp_path / "bank", MODEL)
    assert len(bank) > 2048
    alone = s2m.Model(MODEL).sample("A - B", 1000, seed=3)
    assert np.array_equal(draw.items, alone.items)
    with pytest.raises(s2m.Refused):
        s2m.ray.sample(MODEL, "A - B", 100_000, out=tmp_path / "bank", most=8192, seed=3, workers=2, part=PART)


def test_a_bank_that_is_there_must_be_the_one_that_is_asked_for(cluster, tmp_path):
    import s2m.ray

    out = tmp_path / "bank"
    s2m.ray.mine(MODEL, 2048, out=out, workers=1, seed=3, part=PART)
    for wrong in (
        lambda: s2m.ray.mine(MODEL, 1000, out=out, workers=1, seed=5),
        lambda: s2m.ray.mine(MODEL, 9000, out=out, workers=1, seed=5),
        lambda: s2m.ray.sample(MODEL, "A - B", 5, out=out, workers=1, seed=5),
    ):
        with pytest.raises(s2m.Error, match="seed 3"):
            wrong()
    with pytest.raises(s2m.Error, match="belongs to another model"):
        s2m.ray.mine("gaussians-exact", 1000, out=out, workers=1)
    # Without a seed, and with other parts, it is the bank's own.
    assert len(s2m.ray.mine(MODEL, 4096, out=out, workers=1)) == 4096
    assert s2m.ray.sample(MODEL, "A - B", 5, out=out, workers=1).report["seed"] == 3


def test_arguments_that_make_no_sense_are_refused(tmp_path):
    import s2m.ray

    for settings in ({"max_calls": 5}, {"seed": 4}):
        with pytest.raises(TypeError, match="beside 'settings'"):
            s2m.ray.sample(MODEL, "A - B", 5, out=tmp_path / "bank", settings=settings)
    for wrong in ({"workers": 0}, {"threads": 0}, {"parts_per_task": 0}):
        with pytest.raises(s2m.Error, match="must be at least 1"):
            s2m.ray.mine(MODEL, 1000, out=tmp_path / "bank", **wrong)


def test_workers_with_gpus_run_the_model_on_them():
    import s2m.ray

    assert s2m.ray._opened(MODEL, 1)._options["device"] == "cuda"
    assert s2m.ray._on_workers(s2m.ray._opened(MODEL, 1), 2)._options == {
        "device": "cuda",
        "threads": 2,
        "batch": None,
        "fast": False,
        "onnxruntime": None,
    }
    assert s2m.ray._opened(MODEL, 0)._options["device"] == "cpu"
    with pytest.raises(s2m.Error, match="runs on the CPU"):
        s2m.ray._opened(s2m.Model(MODEL), 0.5)
