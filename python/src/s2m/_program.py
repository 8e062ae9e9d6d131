"""The program `s2m`, which comes with the package."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from s2m._runtime import onnxruntime
from s2m._s2m import Error, Refused

#: Seconds that a program gets to end by itself once it was told to.
PATIENCE = 5.0


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


class _Said:
    """What a program says on standard error: passed on but for its last words, which the exception has."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._is_error = False
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        self.lines.append(line)
        if line.startswith("error: "):
            self._is_error = True
        elif self._is_error and not line.startswith((" ", "hint:")):
            # Something else after an error and its hints.
            self._is_error = False
        if not self._quiet and not self._is_error:
            print(line, end="", file=sys.stderr)

    def words(self) -> str:
        text = "".join(self.lines)
        start = text.rfind("error: ")
        return (text[start + len("error: ") :] if start >= 0 else text).strip()


def run(arguments: Sequence[str], *, quiet: bool) -> str:
    """Runs a command to its end and gives its standard output; what it says goes to standard error.

    Exit code 1 raises :class:`Refused`, 2 :class:`Error`, with the program's words. An exception here, Ctrl-C above all,
    ends the program and all that it has started.
    """
    process = subprocess.Popen(
        [str(program()), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=environment(),
        # A group of its own, so that the trainer ends with the program that has started it.
        process_group=0,
    )
    assert process.stderr is not None and process.stdout is not None
    said, out = _Said(quiet=quiet), list[str]()
    # Both at once: a program waits where nobody empties a pipe.
    reader = threading.Thread(target=lambda stream: out.append(stream.read()), args=(process.stdout,), daemon=True)
    reader.start()
    try:
        for line in process.stderr:
            said.add(line)
        reader.join()
        code = process.wait()
    except BaseException:
        _end(process)
        raise
    if code == 0:
        return "".join(out)
    words = said.words() or f"`s2m {arguments[0]}` ended with {code}"
    raise (Refused if code == 1 else Error)(words)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a program and what it has started, by force where they do not end by themselves."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def main() -> None:
    """Becomes the program."""
    path = program()
    os.execve(path, ["s2m", *sys.argv[1:]], environment())
