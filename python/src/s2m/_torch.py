"""To and from PyTorch, which is imported only where it is used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from s2m._s2m import Error

#: Largest difference between the module and the file, of numbers of about 1.
TOLERANCE = 1e-3


def export(
    generator: Any, z: Any, c: Any = None, *, out: str | os.PathLike[str] = "generator.onnx", opset: int = 17
) -> Path:
    """Writes a PyTorch generator as an ONNX file that `s2m.fit` takes, and checks it against the module.

    `z` is a batch of latents, `[n, ...]` with n of at least 2, and `c` a batch of class indices for a conditional
    generator. What cannot be exported, depends on the batch, or gives other numbers as a file is refused, with what to
    change; `out` is written only once all is well.

    >>> import tempfile, torch
    >>> generator = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh())
    >>> export(generator, torch.randn(3, 8), out=tempfile.mkdtemp() + "/g.onnx").name
    'g.onnx'
    """
    try:
        import torch
    except ImportError:
        raise Error("PyTorch is not installed\nhint: pip install torch onnx") from None
    if not isinstance(generator, torch.nn.Module):
        raise Error(f"the generator is a `{type(generator).__name__}`, not a `torch.nn.Module`")
    inputs = [z] if c is None else [z, c]
    for name, value in zip(("z", "c"), inputs, strict=False):
        if not isinstance(value, torch.Tensor) or value.ndim == 0 or len(value) < 2:
            raise Error(f"`{name}` must be a tensor that holds a batch of at least 2")
    path = Path(out)
    partial = path.with_name(path.name + ".partial")
    # Parts of a generator may be in `eval` mode while others train.
    modes = [(module, module.training) for module in generator.modules()]
    generator.eval()
    try:
        with torch.no_grad():
            wanted = _called(generator, inputs)
            again = _called(generator, inputs)
            if not torch.equal(wanted, again):
                raise Error(
                    "the generator gives other items for the same latents: it has noise of its own\n"
                    "hint: make the noise an input, or fix it in `eval` mode"
                )
            _check_batch(generator, inputs, wanted)
        _write(generator, inputs, partial, opset)
        _compare(partial, inputs, wanted)
        os.replace(partial, path)
    finally:
        for module, mode in modes:
            module.training = mode
        partial.unlink(missing_ok=True)
    return path


def _called(generator: Any, inputs: Sequence[Any]) -> Any:
    import torch

    made = generator(*inputs)
    if not isinstance(made, torch.Tensor):
        raise Error(
            f"the generator gives a `{type(made).__name__}`, not one tensor\n"
            "hint: wrap it in a module whose `forward` returns the items alone"
        )
    if len(made) != len(inputs[0]):
        raise Error(f"{len(inputs[0])} latents make {len(made)} items\nhint: an item per latent is expected")
    if not torch.isfinite(made).all():
        raise Error("the generator gives numbers that are not finite")
    return made


def _check_batch(generator: Any, inputs: Sequence[Any], wanted: Any) -> None:
    """An item must not depend on the others of its batch."""
    import torch

    alone = _called(generator, [value[1:] for value in inputs])
    if not torch.allclose(alone, wanted[1:], atol=TOLERANCE, rtol=TOLERANCE):
        raise Error(
            "an item depends on the others of its batch\n"
            "hint: batch norm must use its running statistics in `eval` mode; check `track_running_stats`"
        )


def _write(generator: Any, inputs: Sequence[Any], path: Path, opset: int) -> None:
    import torch

    names = ["z", "c"][: len(inputs)]
    axes = {name: {0: "n"} for name in [*names, "x"]}
    try:
        torch.onnx.export(
            generator,
            tuple(inputs),
            str(path),
            input_names=names,
            output_names=["x"],
            dynamic_axes=axes,
            opset_version=opset,
            dynamo=False,
        )
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Error(
            f"the generator cannot be exported: {first}\n"
            "hint: replace the operator by ones that ONNX has (for StyleGAN2 its reference `upfirdn2d` and `bias_act`), "
            "or try another `opset`"
        ) from error


def _compare(path: Path, inputs: Sequence[Any], wanted: Any) -> None:
    """Runs the file on the batch and on a part of it."""
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for first in (0, 1):
        feed = dict(zip(["z", "c"], (value[first:].detach().cpu().numpy() for value in inputs), strict=False))
        try:
            (found,) = session.run(["x"], feed)
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise Error(
                f"the file does not run on a batch of {len(inputs[0]) - first}: {reason}\n"
                "hint: shapes must come from the input (`x.shape[0]`), not from constants"
            ) from error
        expected = wanted[first:].cpu().numpy()
        if found.shape != expected.shape or not np.allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE):
            off = "other shapes" if found.shape != expected.shape else f"numbers up to {np.abs(found - expected).max():.2g} away"
            raise Error(
                f"the file gives {off} on a batch of {len(expected)}\n"
                "hint: tracing keeps branches and numbers of the first call; avoid Python values that depend on the input"
            )
