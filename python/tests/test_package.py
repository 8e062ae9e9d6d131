"""The package as a whole: examples in its docstrings, stated types, the program, Hugging Face, evaluation."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import s2m

PACKAGE = Path(s2m.__file__).parent


@pytest.mark.parametrize("module", ["s2m", "s2m._model", "s2m._evaluate"])
def test_examples_in_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0 and found.failed == 0


def test_types_are_stated():
    pytest.importorskip("mypy")
    assert (PACKAGE / "py.typed").is_file()
    settings = Path(__file__).parents[1] / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(settings), "-p", "s2m"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert ran.returncode == 0, ran.stdout


def test_the_program_comes_along():
    beside = Path(sys.executable).parent / "s2m"
    ran = subprocess.run([str(beside), "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"s2m {s2m.__version__}"
    ran = subprocess.run([str(beside), "classes", "gaussians-exact", "-n", "2000"], capture_output=True, text=True)
    assert ran.returncode == 0 and "A + B" in ran.stdout


def test_hugging_face_reads_a_saved_draw_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    datasets = pytest.importorskip("datasets")
    draw = s2m.Model("mnist-even").sample("A - B", n=20, seed=7)
    out = draw.save(tmp_path / "out")
    loaded = datasets.load_dataset("imagefolder", data_dir=str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(loaded) == 20
    images = np.stack([np.asarray(row["image"]) for row in loaded])
    assert np.array_equal(images, draw.items[..., 0])
    assert [row["A"] for row in loaded] == [1] * 20 and [row["B"] for row in loaded] == [0] * 20


def test_draws_are_evaluated_against_arrays(tmp_path):
    model = s2m.Model("gaussians-exact")
    real, made = (model.sample("A + B", n=400, seed=seed) for seed in (1, 2))
    other = model.sample("A - B", n=400, seed=3)

    def fid(generated):
        return s2m.evaluate(real=real.items, generated=generated, metrics=["fid"])["fid"]["value"]

    assert fid(made) < 0.05 < fid(other)
    with pytest.raises(s2m.Error, match="no such metric|unknown metric|nosuch"):
        s2m.evaluate(real=real.items, generated=made, metrics=["nosuch"])


def test_fit_says_what_is_wrong(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(s2m.Error, match="could not read .*none.onnx"):
        s2m.fit(generator=tmp_path / "none.onnx", data=tmp_path / "data", out=tmp_path / "out.s2m", quiet=True)
    assert not (tmp_path / "out.s2m").exists()
