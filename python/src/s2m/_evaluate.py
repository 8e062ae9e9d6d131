"""Samples against real items: what `s2m eval` does, on arrays."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from s2m._fit import _flags
from s2m._model import Draw, PathLike, Samples
from s2m._program import run


def evaluate(
    *,
    real: PathLike | NDArray[Any],
    generated: PathLike | NDArray[Any] | Samples,
    referee: PathLike | None = None,
    features: PathLike | None = None,
    labels: Mapping[str, Sequence[int]] | None = None,
    metrics: Sequence[str] | None = None,
    quiet: bool = True,
    **options: Any,
) -> dict[str, Any]:
    """Accuracy, FID, KID, precision, recall, density, coverage and more, with intervals.

    Items are arrays, draws, or whatever `s2m eval` reads: folders of images, `.npy`, `.npz` and idx files. `labels` says
    which classes of the referee carry a label. Other options are those of the program: `html="report.html"`.

    >>> import numpy as np
    >>> points = np.random.default_rng(0).normal(size=(500, 2))
    >>> scores = evaluate(real=points, generated=points + 0.01, metrics=["fid"])
    >>> round(scores["fid"]["value"], 4)
    0.0002
    """
    with tempfile.TemporaryDirectory(prefix="s2m-") as folder:
        arguments = ["eval", "--json"]
        arguments += ["--real", _given(real, Path(folder, "real.npy"))]
        arguments += ["--generated", _given(generated, Path(folder, "generated.npy"))]
        for label, classes in (labels or {}).items():
            arguments += ["--label", f"{label}={','.join(map(str, classes))}"]
        if metrics is not None:
            arguments += ["--metrics", ",".join(metrics)]
        if isinstance(generated, Draw) and "query" not in options:
            options["query"] = generated.report["query"] if referee is not None else None
        arguments += _flags({"referee": referee, "features": features, **options})
        scores: dict[str, Any] = json.loads(run(arguments, quiet=quiet))
        return scores


def _given(items: PathLike | NDArray[Any] | Samples, file: Path) -> str:
    """A path as it is; arrays in a file."""
    if isinstance(items, Samples):
        items = items.items
    if isinstance(items, np.ndarray):
        np.save(file, items)
        return str(file)
    return os.fspath(items)
