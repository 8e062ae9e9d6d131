"""An empty environment: the wheel and what it depends on, nothing else, and the first lines that anybody types."""

import os
import shutil
import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest
import s2m

ROOT = Path(__file__).parents[2]
WHEELS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "wheels"

LINES = """
import s2m

model = s2m.Model("mnist-even")
draw = model.sample("A - B", n=1000, seed=7)
assert draw.items.shape == (1000, 28, 28, 1) and draw.posteriors.shape == (1000, 2)
draw.save("out")
for batch in model.stream("A + B", batch=64):
    assert len(batch) == 64
    break
bank = model.mine(1_000_000, out="bank")
assert len(bank.sample("A | B", n=500)) == 500
assert [c["query"] for c in bank.classes()["classes"]]
bundle = s2m.fit(generator="g.onnx", data="pets", out="pets.s2m", device="cpu", items=2000, epochs=1, no_joint=True, real="frozen")
assert bundle.labels == ["A", "B"]
import numpy as np

x = np.load("x.npy")
scores = s2m.evaluate(real=x, generated=draw, referee="referee.onnx", labels={"A": range(10), "B": [1, 3, 5, 7, 9]})
assert scores["accuracy"]["value"] > 0.9, scores
import sys

assert not [name for name in ("torch", "ray", "tqdm") if name in sys.modules]
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A Python with the wheel alone."""
    wheels = sorted(WHEELS.glob("s2m-*.whl"))
    if not wheels:
        pytest.skip("there is no wheel: `make python` builds it")
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheels[-1])]
    ran = subprocess.run(install, capture_output=True, text=True)
    if ran.returncode != 0 and "Could not fetch" in ran.stderr + ran.stdout:
        pytest.skip("packages cannot be fetched here")
    assert ran.returncode == 0, ran.stderr
    return python


def test_the_first_lines_run_in_an_empty_environment(fresh, tmp_path):
    listed = subprocess.run([str(fresh), "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert "onnxruntime" in listed and "torch" not in listed and "pytest" not in listed
    model = s2m.Model("mnist-even")
    for label in "AB":
        images = model.sample(label, n=200, seed=1).save(tmp_path / label)
        shutil.move(images / "images", tmp_path / "pets" / label)
    np.save(tmp_path / "x.npy", model.sample("A - B", n=500, seed=9).items)
    bundles = ROOT / "crates" / "s2m" / "models"
    shutil.copyfile(bundles / "mnist-even.s2m" / "generator.onnx", tmp_path / "g.onnx")
    shutil.copyfile(ROOT / "models" / "referees" / "mnist.onnx", tmp_path / "referee.onnx")
    # The trainer's library is that of the project: PyTorch's own package is larger than all else here.
    variables = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    variables |= {"PATH": f"{fresh.parent}:/usr/bin:/bin", "LIBTORCH": str(ROOT / ".runtime" / "libtorch" / "torch")}
    lines = LINES
    if not Path(variables["LIBTORCH"], "lib", "libtorch_cpu.so").is_file():
        lines = "\n".join(line for line in LINES.splitlines() if "fit(" not in line and "bundle" not in line)
        print("without `fit`: there is no libtorch, which `make train` fetches")
    ran = subprocess.run([str(fresh), "-c", lines], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    said = subprocess.run(["s2m", "--version"], env=variables, capture_output=True, text=True)
    assert said.stdout.strip() == f"s2m {s2m.__version__}", "the program comes along"
