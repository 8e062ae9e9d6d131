"""What do workers of a Ray cluster gain? One bank by 1, 2 and 4 workers of one thread each, against the program with as many
threads, turn by turn.

    python ray_workers.py [PROPOSALS]

Needs the wheel of `make python` and Ray. Starting the cluster and its workers' networks counts for Ray from the first range on.
"""

import logging
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import ray
import s2m
import s2m.ray

MODEL, PART, ROUNDS = "mnist-even", 1 << 14, 3


def main() -> None:
    proposals = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 19
    print(f"s2m {s2m.__version__}, Ray {ray.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, {proposals:,} proposals of {MODEL}")
    ray.init(num_cpus=4, log_to_driver=False, logging_level=logging.ERROR)
    seconds: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            for threads in (1, 2):
                start = time.perf_counter()
                s2m.Model(MODEL, threads=threads).mine(proposals, out=f"{folder}/alone-{threads}", part=PART)
                seconds.setdefault(f"one process, {threads} threads", []).append(time.perf_counter() - start)
            for workers in (1, 2, 4):
                start = time.perf_counter()
                s2m.ray.mine(MODEL, proposals, out=f"{folder}/ray-{workers}", part=PART, workers=workers)
                seconds.setdefault(f"Ray, {workers} workers", []).append(time.perf_counter() - start)
            banks = [sorted(Path(folder).glob(f"{name}/part-*")) for name in ("alone-1", "ray-4")]
            assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*banks, strict=True)), "the same bytes"
    for name, times in seconds.items():
        print(f"{name:24} {proposals / statistics.median(times):10,.0f} proposals a second ({min(times):.1f} to {max(times):.1f} s)")


main()
