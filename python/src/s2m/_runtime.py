"""Where the library of ONNX Runtime lies."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path


def _version(path: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", path.name)]


def onnxruntime(explicit: str | os.PathLike[str] | None = None) -> Path | None:
    """The library that was named, by argument, `S2M_ONNXRUNTIME` or `ORT_DYLIB_PATH`, or that of the installed package.

    The packages `onnxruntime` and `onnxruntime-gpu` put it in the same place. None leaves the search to the library.
    """
    for named in (explicit, os.environ.get("S2M_ONNXRUNTIME"), os.environ.get("ORT_DYLIB_PATH")):
        if named:
            return Path(named)
    spec = importlib.util.find_spec("onnxruntime")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found = [*Path(folder, "capi").glob("libonnxruntime.so*"), *Path(folder, "capi").glob("libonnxruntime*.dylib")]
        if found:
            return max(found, key=_version)
    return None
