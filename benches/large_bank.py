"""What does a bank of 10^8 proposals take, in seconds and in memory, to mine and to ask?

    python large_bank.py [PROPOSALS] [FOLDER]

Needs the wheel of `make python` and 1.2 GB of disk. Every line is one run of the program; memory is the most that it held at
any moment, as the system counts it.
"""

import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

import s2m
from s2m._program import environment, program

MODEL = "gaussians-exact"


def measured(*arguments: object) -> tuple[float, float]:
    """Seconds and megabytes of one run."""
    start = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    command = [str(program()), *map(str, arguments), "--quiet"]
    child = os.posix_spawn(program(), command, environment(), file_actions=quiet)
    _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return time.perf_counter() - start, used.ru_maxrss / 1000


def main() -> None:
    proposals = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8
    folder = Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None))
    bank, out = folder / "bank", folder / "out"
    print(f"s2m {s2m.__version__}, {platform.machine()}, {os.cpu_count()} cores, {proposals:,} proposals of {MODEL}")
    try:
        lines = [
            ("mining them", ("mine", MODEL, "-n", proposals, "--out", bank)),
            (f"{proposals // 100:,} samples of A - B", ("sample", MODEL, "A - B", "-n", proposals // 100, "--bank", bank, "--out", out)),
            (f"{proposals // 5:,} samples of it", ("sample", MODEL, "A - B", "-n", proposals // 5, "--bank", bank, "--out", out)),
            ("s2m classes --bank", ("classes", MODEL, "--bank", bank)),
        ]
        for name, arguments in lines:
            seconds, megabytes = measured(*arguments)
            print(f"{name:36} {seconds:8.1f} s {megabytes:8.0f} MB", flush=True)
            shutil.rmtree(out, ignore_errors=True)
        size = sum(path.stat().st_size for path in bank.iterdir())
        print(f"{'on disk':36} {size / 1e9:8.2f} GB, {size / proposals:.1f} bytes per proposal")
    finally:
        shutil.rmtree(folder)


main()
