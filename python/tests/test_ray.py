"""A real local Ray cluster: the bytes of one machine, whatever happens to workers and disks on the way."""

import os
import subprocess
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


def test_a_worker_that_is_killed_is_replaced(cluster, tmp_path, whole):
    killed = []

    def kill():
        killed.extend(workers()[:1])
        os.kill(killed[0], 9)

    thread = later(tmp_path / "bank.pieces", 4, kill)
    bank = mine(tmp_path / "bank")
    thread.join()
    assert len(killed) == 1
    assert files(bank.path) == files(whole.path)


def test_a_worker_that_comes_later_takes_part(cluster, tmp_path, whole):
    """The cluster has no room for a third one at first."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        mined = pool.submit(mine, tmp_path / "bank", workers=3)
        until = time.monotonic() + 60
        while not (tmp_path / "bank.pieces").exists() and time.monotonic() < until:
            time.sleep(0.02)
        cluster.add_node(num_cpus=1, object_store_memory=10**8)
        bank = mined.result(timeout=100)
    assert files(bank.path) == files(whole.path)


def test_workers_without_room_are_not_waited_for(cluster, tmp_path, whole):
    assert files(mine(tmp_path / "bank", workers=5).path) == files(whole.path)


def test_a_full_disk_is_said_and_the_rest_is_done_later(cluster, tmp_path, whole):
    disk = tmp_path / "disk"
    disk.mkdir()
    small = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True)
    if small.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
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
