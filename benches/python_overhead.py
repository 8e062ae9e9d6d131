"""Does Python cost anything? 100,000 samples drawn and saved by the package, against the program, turn by turn.

    python python_overhead.py [SAMPLES]

Needs the wheel of `make python`. Both draw the same samples of the same seeds and write the same folder, points and images,
which is checked. Three sides: the program from its start to its end; the package inside a Python that runs already; and a
Python that starts, imports the package, draws, saves and ends. What the program itself says it took, from its first proposal
to its last file and without its start, stands beside them: the strictest measure, since the package opens the networks in
its time.
"""

import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import onnxruntime
import s2m
from s2m._program import environment, program

CASES = [("gaussians-exact", "A + B", 7), ("mnist-even", "A - B", 3)]


def by_program(model: str, query: str, samples: int, out: Path, seed: int) -> None:
    command = [str(program()), "sample", model, query, "-n", str(samples), "--seed", str(seed), "--out", str(out), "--quiet"]
    subprocess.run(command, env=environment(), check=True, stdout=subprocess.DEVNULL)


def by_process(model: str, query: str, samples: int, out: Path, seed: int) -> None:
    code = f"import s2m; s2m.Model({model!r}).sample({query!r}, n={samples}, seed={seed}).save({str(out)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


def same(one: Path, other: Path) -> bool:
    """All files but the report, which has the seconds."""
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file() and path.name != "report.json")
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def compare(model: str, query: str, rounds: int, samples: int) -> None:
    opened = s2m.Model(model)
    opened.sample(query, n=1000)

    def by_package(out: Path, seed: int) -> None:
        opened.sample(query, n=samples, seed=seed).save(out)

    sides = {
        "program": lambda out, seed: by_program(model, query, samples, out, seed),
        "package": by_package,
        "new Python": lambda out, seed: by_process(model, query, samples, out, seed),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ["without its start", *sides]}
    for seed in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            # Nobody is always first.
            names = list(sides)
            for name in names[seed % 3 :] + names[: seed % 3]:
                start = time.perf_counter()
                sides[name](Path(folder, name), seed)
                seconds[name].append(time.perf_counter() - start)
            report = json.loads(Path(folder, "program", "report.json").read_text())
            seconds["without its start"].append(report["seconds"])
            for name in sides:
                assert same(Path(folder, "program"), Path(folder, name)), "all draw the same"
    print(f"{model}, {query}, {samples:,} samples, {rounds} turns")
    for name, times in seconds.items():
        over = {
            base: statistics.median(ours / theirs for ours, theirs in zip(times, seconds[base], strict=True))
            for base in ("program", "without its start")
        }
        print(
            f"  {name:17} {statistics.median(times):7.3f} s ({min(times):.3f} to {max(times):.3f}),"
            f" over the program {over['program']:.3f}, without its start {over['without its start']:.3f}"
        )


def main() -> None:
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print(f"s2m {s2m.__version__}, Python {platform.python_version()}, NumPy {numpy.__version__}, ONNX Runtime {onnxruntime.__version__}")
    for model, query, rounds in CASES:
        compare(model, query, rounds, samples)


main()
