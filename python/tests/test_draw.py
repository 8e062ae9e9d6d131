"""Draws: the same samples as the program, arrays that are not copied, errors in the program's words, Ctrl-C."""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import s2m
from files import files
from s2m._program import environment, program

CASES = [
    ("mnist-even", "A - B", {}),
    ("mnist-even", "A + B", {"sampler": "mh", "steps": 20}),
    ("mnist-even-conditional", "A - B", {"floor": 0.5}),
    ("gaussians-exact", "A | B", {"sampler": "resample"}),
    ("gaussians-exact", "A - B", {"sampler": "smc", "moves": 3}),
    ("gaussians-exact", "A + B", {"adapt": "adaptive"}),
    ("gaussians-exact", "A - B", {"tv": 0.05, "purity": 0.9}),
    ("gaussians-exact", "A + B", {"adapt": "repeat", "pilots": 400, "pilot_steps": 5, "components": 3, "order": "B, A"}),
    ("mnist-even", "A + B", {"sampler": "resample", "unique": True, "density": "paper", "calibration": "paper"}),
]


def typed(settings):
    """Settings as options of the program."""
    return [
        word
        for name, value in settings.items()
        for word in ("--" + name.replace("_", "-"), *([] if value is True else [str(value)]))
    ]


def run(*arguments, **options):
    command = [str(program()), *map(str, arguments)]
    return subprocess.run(command, env=environment(), check=True, capture_output=True, text=True, **options)


@pytest.mark.parametrize(("name", "query", "settings"), CASES)
def test_a_draw_is_that_of_the_program_byte_for_byte(tmp_path, name, query, settings):
    run("sample", name, query, "-n", 150, "--seed", 7, "--out", tmp_path / "program", *typed(settings))
    draw = s2m.Model(name).sample(query, n=150, seed=7, **settings)
    draw.save(tmp_path / "python")
    theirs = {name: data for name, data in files(tmp_path / "program").items() if not name.startswith("proposal")}
    assert files(tmp_path / "python") == theirs
    report = json.loads((tmp_path / "program" / "report.json").read_text())
    assert {**report, "seconds": 0} == {**draw.report, "seconds": 0}


def test_arrays_are_the_library_s_own_memory(tmp_path):
    draw = s2m.Model("mnist-even").sample("A - B", n=50, seed=1)
    items = draw.items
    assert items.shape == (50, 28, 28, 1) and items.dtype == np.uint8
    assert items.__array_interface__["data"] == draw.items.__array_interface__["data"]
    with pytest.raises(ValueError):
        items[0] = 0
    # The array outlives the draw.
    kept = items.copy()
    del draw
    assert np.array_equal(items, kept)
    points = s2m.Model("gaussians-exact").sample("A", n=9)
    assert points.items.dtype == np.float32 and points.posteriors.shape == (9, 2)
    assert points.labels == {"A": True, "B": None}
    assert points.stages is None and points.classes is None
    points.save(tmp_path / "points")
    assert np.array_equal(np.load(tmp_path / "points" / "samples.npy"), points.items)


def test_a_stream_begins_like_a_draw_and_does_not_end():
    model = s2m.Model("mnist-even")
    stream = model.stream("A - B", batch=32, seed=3)
    batches = [next(stream).items for _ in range(4)]
    assert np.array_equal(np.concatenate(batches), np.concatenate([next(b).items for b in [model.stream("A - B", batch=128, seed=3)]]))
    assert 0 < stream.report["acceptance"] < 1


def test_a_bank_is_that_of_the_program_and_answers_many_queries(tmp_path):
    model = s2m.Model("gaussians-exact")
    bank = model.mine(20_000, out=tmp_path / "bank", seed=4)
    run("mine", "gaussians-exact", "-n", 20_000, "--seed", 4, "--out", tmp_path / "program")
    assert files(bank.path) == files(tmp_path / "program")
    assert (len(bank), bank.seed) == (20_000, 4)
    for query in ("A | B", "A - B"):
        draw = bank.sample(query, n=500)
        assert np.array_equal(draw.items, model.sample(query, n=500, seed=4).items)
        assert draw.report["from_bank"] > 0
    assert {c["query"] for c in bank.classes()["classes"]} == {"A + B", "A - B", "B - A"}
    assert s2m.Bank(bank.path, model.path).sample("A", n=5).items.shape == (5, 2)


def test_pieces_make_the_same_bank(tmp_path):
    model = s2m.Model("gaussians-exact")
    model.mine(3000, out=tmp_path / "whole", part=1024)
    pieces = [
        model.mine_range(2048, 3000, out=tmp_path / "b", part=1024),
        model.mine_range(0, 2048, out=tmp_path / "a", part=1024),
    ]
    assert files(s2m.join(pieces, model, out=tmp_path / "joined").path) == files(tmp_path / "whole")
    with pytest.raises(s2m.Error, match="are in no piece"):
        s2m.join(pieces[:1], model, out=tmp_path / "gap")


def test_errors_have_the_words_of_the_program(tmp_path):
    model = s2m.Model("mnist-even")
    for make, words in [
        (lambda: s2m.Model("nowhere"), "no model `nowhere`"),
        (lambda: model.sample("A - C", n=1), "unknown label `C`\nhint: the labels are A, B"),
        (lambda: model.sample("A", n=0), "no samples were asked for"),
        (lambda: model.sample("A", n=1, tv=2.0), "it must lie strictly between 0 and 1"),
        (lambda: model.sample("A", n=1, sampler="gibbs"), '`sampler` is "gibbs"; it must be `reject`, `mh`, `resample` or `smc`'),
        (lambda: model.sample("A", n=1, adapt="twice"), '`adapt` is "twice"; it must be `none`, `once`, `repeat` or'),
        (lambda: model.sample("A", n=1, seed=-1), "`seed` is -1; it must be a whole number, at least 0"),
        (lambda: model.sample("A", n=1, margin=float("nan")), "a setting is not a finite number"),
        (lambda: model.sample("A", n=1, margin=object()), "it must be a number or a text"),
        (lambda: model.explain("A", 1, tv=3), "it must lie strictly between 0 and 1"),
        (lambda: s2m.Model("mnist-even", device="tpu"), "there is no device `tpu`"),
        (lambda: s2m.Model("mnist-even", threads=0), "`threads` is 0"),
        (lambda: s2m.Bank(tmp_path / "none", model), "there is no bank"),
        (lambda: model.stream("A", sampler="resample"), "a stream has no end"),
        (lambda: model.stream("A", sampler="smc"), "a stream has no end"),
    ]:
        with pytest.raises(s2m.Error) as caught:
            make()
        assert words in str(caught.value)
    for call, name, words in [
        (lambda: model.sample("A", n=1, temperature=2), "Model.sample", "'temperature'. Did you mean 'real_temperature'?"),
        (lambda: model.stream("A", odd_cap=2), "Model.stream", "'odd_cap'. Did you mean 'odds_cap'?"),
        (lambda: model.classes(sampler="mh"), "Model.classes", "'sampler'"),
        (lambda: model.explain("A", 1, adapt="once"), "Model.explain", "'adapt'"),
    ]:
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == f"{name}() got an unexpected keyword argument {words}"
    with pytest.raises(s2m.Refused, match="hint:"):
        model.sample("A - B", n=1000, max_calls=600)
    draw = model.sample("A", n=2)
    draw.save(tmp_path / "out")
    with pytest.raises(s2m.Error, match="out"):
        draw.save(tmp_path / "out")
    draw.save(tmp_path / "out", force=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 5},
        {"unique": True},
        {"sampler": "resample", "tv": 0.1},
        {"sampler": "smc", "tv": 0.1},
        {"sampler": "smc", "adapt": "once"},
        {"sampler": "mh", "steps": 5, "tv": 0.1},
        {"floor": 0.5, "purity": 0.9},
        {"gain": 0.2},
        {"adapt": "adaptive", "pilots": 10},
        {"adapt": "adaptive", "prior_share": 2},
    ],
)
def test_what_the_program_refuses_is_refused_in_its_words(tmp_path, settings):
    refused = subprocess.run(
        [str(program()), "sample", "gaussians-exact", "A", "--out", str(tmp_path / "out"), *typed(settings)],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2
    with pytest.raises(s2m.Error) as caught:
        s2m.Model("gaussians-exact").sample("A", n=16, **settings)
    assert by_name(refused.stderr.strip()) == f"error: {caught.value}"


def by_name(text):
    """What the program says, with settings by name and not by flag."""
    values = "reject|mh|resample|smc|none|once|repeat|adaptive"
    text = re.sub(f"--(sampler|adapt) ({values})", r"`\1 = \2`", text)
    return re.sub("--([a-z-]+)", lambda flag: f"`{flag[1].replace('-', '_')}`", text)


def test_every_setting_of_the_program_is_one_of_the_package():
    """But for `latents`, which go to files and are in no array."""
    from s2m import _s2m
    from s2m._settings import Settings

    assert set(Settings.__annotations__) == set(_s2m.SETTINGS) - {"latents"}
    said = run("sample", "--help").stdout
    for name in _s2m.SETTINGS:
        assert "--" + name.replace("_", "-") in said


def test_settings_may_be_numbers_of_numpy():
    model = s2m.Model("gaussians-exact")
    draw = model.sample("A", n=5, seed=np.int64(3), floor=np.float32(0.25), margin=None)
    assert np.array_equal(draw.items, model.sample("A", n=5, seed=3, floor=0.25).items)


def test_a_bank_of_another_model_is_refused(tmp_path):
    s2m.Model("gaussians-exact").mine(1000, out=tmp_path / "bank")
    with pytest.raises(s2m.Error, match="belongs to another model"):
        s2m.Bank(tmp_path / "bank", "mnist-even")


def test_models_say_what_they_are_and_can_be_sent_to_other_processes():
    model = s2m.Model("mnist-even", threads=1)
    assert model.labels == ["A", "B"] and model.shape == [28, 28, 1] and model.describe["B"] == "odd digit"
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.sample("A", n=3).items, model.sample("A", n=3).items)
    assert "mnist-even" in s2m.models()
    assert model.explain("A - B", 3)["proposal"] == 3


def test_a_folder_is_found_from_anywhere(tmp_path, monkeypatch):
    """A model that was opened by a relative path and is opened again elsewhere, as on workers of a cluster."""
    bundle = next(Path(__file__).parents[2].glob("crates/s2m/models/gaussians-exact.s2m"))
    shutil.copytree(bundle, tmp_path / "own.s2m")
    monkeypatch.chdir(tmp_path)
    model = s2m.Model("own")
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.sample("A", n=3).items, s2m.Model("gaussians-exact").sample("A", n=3).items)


def test_other_threads_run_while_samples_are_drawn():
    model, turns, stop = s2m.Model("mnist-even", threads=1), [0], threading.Event()

    def turn():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0.001)

    other = threading.Thread(target=turn)
    other.start()
    began = turns[0]
    model.sample("A - B", n=3000)
    ran = turns[0] - began
    stop.set()
    other.join()
    assert ran > 10


def interrupted(code, wait):
    """What Python says that runs these lines and gets Ctrl-C so long after it has printed `ready`."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background has Ctrl-C ignored, and children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(wait)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
        return out, said, time.monotonic() - began
    finally:
        process.kill()


def test_ctrl_c_stops_a_draw():
    code = "import s2m; m = s2m.Model('mnist-even', threads=1); print('ready', flush=True); m.sample('A - B', n=10_000_000)"
    _, said, _ = interrupted(code, 1.0)
    assert "KeyboardInterrupt" in said, said


def test_ctrl_c_stops_saving_and_leaves_nothing(tmp_path):
    code = f"""
import s2m
draw = s2m.Model('mnist-even').sample('A', n=60_000)
print('ready', flush=True)
draw.save({str(tmp_path / "out")!r})
"""
    _, said, took = interrupted(code, 0.3)
    assert "KeyboardInterrupt" in said and took < 5, (took, said)
    assert not (tmp_path / "out").exists()


def test_ctrl_c_stops_joining(tmp_path):
    """Thousands of pieces that are one and the same, which only the last look would refuse."""
    s2m.Model("gaussians-exact").mine_range(0, 64, out=tmp_path / "piece", part=64)
    code = f"""
import s2m
print('ready', flush=True)
s2m.join([{str(tmp_path / "piece")!r}] * 2_000_000, 'gaussians-exact', out={str(tmp_path / "out")!r})
"""
    _, said, took = interrupted(code, 1.0)
    assert "KeyboardInterrupt" in said and took < 5, (took, said)
    assert not (tmp_path / "out").exists()


def test_progress_goes_through_tqdm(capsys):
    pytest.importorskip("tqdm")
    s2m.Model("mnist-even").sample("A - B", n=2000, progress=True)
    assert "scoring" in capsys.readouterr().err


def test_progress_is_shown_in_notebooks(monkeypatch):
    """Their standard error is no terminal."""
    import types

    from s2m import _progress

    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    shell = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert _progress.bars(None) is None
    shell.kernel = object()
    assert _progress.bars(None) is not None
    assert _progress.bars(False) is None


def test_what_progress_raises_stops_the_work(monkeypatch):
    import s2m._model as module

    def bars(_):
        def called(event, what, number):
            raise RuntimeError("enough")

        return called

    monkeypatch.setattr(module, "bars", bars)
    with pytest.raises(RuntimeError, match="enough"):
        s2m.Model("mnist-even").sample("A - B", n=2000)


def test_the_library_of_onnx_runtime_can_be_named(tmp_path, monkeypatch):
    from s2m._runtime import onnxruntime

    monkeypatch.delenv("ORT_DYLIB_PATH", raising=False)
    found = onnxruntime()
    assert found is not None and found.is_file() and "onnxruntime" in str(found)
    monkeypatch.setenv("ORT_DYLIB_PATH", "/a")
    assert str(onnxruntime()) == "/a"
    monkeypatch.setenv("S2M_ONNXRUNTIME", "/b")
    assert str(onnxruntime()) == "/b"
    assert str(onnxruntime("/c")) == "/c"
    code = "import s2m; s2m.Model('mnist-even', onnxruntime='/nowhere.so').sample('A', n=1)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert "no ONNX Runtime library at `/nowhere.so`" in ran.stderr
