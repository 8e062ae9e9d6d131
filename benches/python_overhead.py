"""Does Python cost anything? 100,000 samples drawn and saved by the package, against the program, turn by turn.

    python python_overhead.py

Needs the wheel of `make python`. Both draw the same samples of the same seeds and write the same folder; the program's time
includes its start, the package's does not include Python's.
"""

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import s2m
from s2m._program import environment, program

ROUNDS, SAMPLES, MODEL, QUERY = 7, 100_000, "gaussians-exact", "A + B"


def by_program(out: Path, seed: int) -> None:
    command = [str(program()), "sample", MODEL, QUERY, "-n", str(SAMPLES), "--seed", str(seed), "--out", str(out), "--quiet"]
    subprocess.run(command, env=environment(), check=True, stdout=subprocess.DEVNULL)


def by_package(model: s2m.Model, out: Path, seed: int) -> None:
    model.sample(QUERY, n=SAMPLES, seed=seed).save(out)


def main() -> None:
    model = s2m.Model(MODEL)
    model.sample(QUERY, n=1000)
    seconds: dict[str, list[float]] = {"program": [], "package": []}
    for seed in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            for name, draw in (("program", by_program), ("package", lambda out, seed: by_package(model, out, seed))):
                start = time.perf_counter()
                draw(Path(folder, name), seed)
                seconds[name].append(time.perf_counter() - start)
            same = [Path(folder, name, "samples.npy").read_bytes() for name in seconds]
            assert same[0] == same[1], "both draw the same"
    ratios = [ours / theirs for ours, theirs in zip(seconds["package"], seconds["program"], strict=True)]
    for name, times in seconds.items():
        print(f"{name:8} {statistics.median(times):6.3f} s for {SAMPLES:,} samples ({min(times):.3f} to {max(times):.3f})")
    print(f"package over program {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


main()
