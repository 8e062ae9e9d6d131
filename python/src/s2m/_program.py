"""The program `s2m`, which comes with the package."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from s2m._runtime import onnxruntime
from s2m._s2m import Error, Refused


def program() -> Path:
    """The program's file: `S2M_PROGRAM`, or the one inside the package."""
    named = os.environ.get("S2M_PROGRAM")
    path = Path(named) if named else Path(__file__).parent / "bin" / "s2m"
    if not path.is_file():
        raise Error(f"there is no program `{path}`\nhint: install the package from a wheel, or name the program in S2M_PROGRAM")
    return path


def _libtorch() -> Path | None:
    spec = importlib.util.find_spec("torch")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if Path(folder, "lib", "libtorch_cpu.so").is_file():
            return Path(folder)
    return None


def environment() -> dict[str, str]:
    """What the program finds its libraries by."""
    variables = dict(os.environ)
    library = onnxruntime()
    if library is not None:
        variables["ORT_DYLIB_PATH"] = str(library)
    if "LIBTORCH" not in variables:
        torch = _libtorch()
        if torch is not None:
            variables["LIBTORCH"] = str(torch)
    return variables


def run(arguments: Sequence[str], *, quiet: bool) -> str:
    """Runs a command to its end and gives its standard output; what it says goes to standard error.

    Exit code 1 raises :class:`Refused`, 2 :class:`Error`, with the program's words.
    """
    command = [str(program()), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), encoding="utf-8"
    )
    assert process.stderr is not None and process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stderr:
            said.append(line)
            if not quiet and not line.startswith("error: "):
                print(line, end="", file=sys.stderr)
        out = process.stdout.read()
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if code == 0:
        return out
    text = "".join(said)
    start = text.rfind("error: ")
    words = (text[start + len("error: ") :] if start >= 0 else text).strip()
    raise (Refused if code == 1 else Error)(words or f"`s2m {arguments[0]}` ended with {code}")


def main() -> None:
    """Becomes the program."""
    path = program()
    os.execve(path, ["s2m", *sys.argv[1:]], environment())
