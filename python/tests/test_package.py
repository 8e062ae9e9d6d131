"""The package as a whole: examples in its docstrings, stated types, the program, Hugging Face, evaluation."""

import doctest
import importlib
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import s2m

PACKAGE = Path(s2m.__file__).parent


@pytest.mark.parametrize("module", ["s2m", "s2m._model", "s2m._evaluate", "s2m._fit", "s2m._torch", "s2m.ray"])
def test_examples_in_docstrings_run(module):
    for needed in {"s2m._torch": ["torch", "onnx"], "s2m._fit": ["torch"], "s2m.ray": ["ray"]}.get(module, []):
        pytest.importorskip(needed)
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0 and found.failed == 0


def test_types_are_stated():
    pytest.importorskip("mypy")
    assert (PACKAGE / "py.typed").is_file()
    settings = Path(__file__).parents[1] / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(settings), "-p", "s2m"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert ran.returncode == 0, ran.stdout


def test_settings_are_checked_by_types(tmp_path):
    """A misspelt name or a value of another type is found before anything runs."""
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import s2m\n"
        "model = s2m.Model('mnist-even')\n"
        "model.sample('A', 1, purity=0.9, sampler='mh')\n"
        "model.sample('A', 1, purty=0.9)\n"
        "model.sample('A', 1, sampler='gibbs')\n"
        "model.classes(steps=3)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", str(wrong)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    found = [line.split(":")[1] for line in ran.stdout.splitlines() if ": error:" in line]
    assert found == ["4", "5", "6"], ran.stdout


def test_importing_the_package_imports_nothing_large():
    code = "import sys, s2m; print([name for name in ('torch', 'ray', 'onnxruntime', 'tqdm') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


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


def script(folder, text):
    """A program in the place of `s2m`."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_program_that_says_much_on_both_sides_is_read_to_its_end(tmp_path, monkeypatch):
    from s2m._program import run

    monkeypatch.setenv("S2M_PROGRAM", str(script(tmp_path, "yes out | head -c 1000000; yes said | head -c 1000000 >&2")))
    assert len(run(["eval"], quiet=True)) == 1_000_000


def test_words_of_an_error_are_in_the_exception_and_nowhere_else(tmp_path, monkeypatch, capsys):
    from s2m._program import run

    said = "echo going on >&2; echo 'error: no such thing' >&2; echo 'hint: try another' >&2; exit 2"
    monkeypatch.setenv("S2M_PROGRAM", str(script(tmp_path, said)))
    with pytest.raises(s2m.Error) as caught:
        run(["fit"], quiet=False)
    assert str(caught.value) == "no such thing\nhint: try another"
    assert capsys.readouterr().err == "going on\n"


def test_whatever_stops_the_package_stops_what_the_program_has_started(tmp_path, monkeypatch):
    from s2m._program import run

    monkeypatch.setenv("S2M_PROGRAM", str(script(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; echo begun >&2; wait")))

    class Enough(BaseException):
        pass

    class Full:
        def write(self, text):
            raise Enough

    monkeypatch.setattr(sys, "stderr", Full())
    with pytest.raises(Enough):
        run(["fit"], quiet=False)
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < until, "it still runs"
        time.sleep(0.05)
