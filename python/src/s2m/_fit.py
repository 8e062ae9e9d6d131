"""Classifiers for a generator of one's own: what `s2m fit` and `s2m calibrate` do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from s2m._model import Model, PathLike
from s2m._program import run


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Options as they are typed: `rounds=4` is `--rounds 4`, `True` is the option alone, a list repeats it."""
    typed: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            typed.append(flag)
        elif isinstance(value, (list, tuple)):
            for one in value:
                typed += [flag, str(one)]
        else:
            typed += [flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return typed


def fit(
    *,
    data: PathLike,
    out: PathLike,
    generator: PathLike | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    quiet: bool = False,
    **options: Any,
) -> Model:
    """Fits classifiers to a generator and labels, writes a bundle, and opens it.

    `generator` is an ONNX file, as :func:`s2m.export` writes it; `data` a folder with one folder of images per label, or
    images with a `metadata.csv` that has the columns `file_name` and `label`. Other options are those of the program:
    `s2m fit --no-joint --rounds 4` is `fit(..., no_joint=True, rounds=4)`. Training needs libtorch 2.11: that of the
    installed package `torch` of that version, or the folder named by `libtorch`.

    >>> import os, tempfile, torch
    >>> folder = tempfile.mkdtemp()
    >>> for label in "AB":  # images that are known to have a label; yours are a folder of files
    ...     out = Model("mnist-even").sample(label, n=40).save(f"{folder}/{label}")
    ...     os.makedirs(f"{folder}/data", exist_ok=True)
    ...     os.rename(out / "images", f"{folder}/data/{label}")
    >>> generator = torch.nn.Sequential(torch.nn.Linear(8, 784), torch.nn.Tanh(), torch.nn.Unflatten(1, (1, 28, 28)))
    >>> from s2m import export
    >>> g = export(generator, torch.randn(2, 8), out=folder + "/g.onnx")
    >>> fit(generator=g, data=folder + "/data", out=folder + "/own.s2m", items=500, epochs=1, no_joint=True, real="frozen", quiet=True)
    <Model 'own': labels A, B; items 28x28x1>
    """
    arguments = ["fit", "--data", os.fspath(data), "--out", os.fspath(out), "--device", device]
    run([*arguments, *_flags({"generator": generator, **options})], quiet=quiet)
    return Model(out, device=device)


def calibrate(
    model: Model | PathLike, *, data: PathLike, out: PathLike | None = None, quiet: bool = False, **options: Any
) -> Model:
    """Calibrates a bundle from held-out items with one label each, in place unless `out` is given.

    Other options are those of the program: `calibrate(..., purity=0.95)` is `s2m calibrate --purity 0.95`.
    """
    path = model.path if isinstance(model, Model) else os.fspath(model)
    arguments = ["calibrate", path, "--data", os.fspath(data)]
    run([*arguments, *_flags({"out": out, **options})], quiet=quiet)
    return Model(out if out is not None else path)
