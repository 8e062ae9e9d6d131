"""The compiled part; :mod:`s2m` is what to import."""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str
PART: int
CALLS_PER_SAMPLE: int
SETTINGS: list[str]

class Error(Exception): ...
class Refused(Error): ...

Path = str | PathLike[str]
Callback = Callable[[str, str | None, int | None], object]

class Draw:
    items: NDArray[Any]
    posteriors: NDArray[np.float64]
    log_weights: NDArray[np.float64]
    proposals: NDArray[np.uint64]
    stages: NDArray[np.uint16]
    classes: NDArray[np.uint32]
    held: list[bool | None]
    report: str | None
    def __len__(self) -> int: ...
    def save(self, out: Path, replace: bool, progress: Callback | None) -> None: ...

class Stream:
    def next(self) -> Draw | None: ...
    def report(self) -> str | None: ...

class Model:
    name: str
    labels: list[str]
    describe: dict[str, str]
    shape: list[int]
    is_image: bool
    is_conditional: bool
    hash: str
    def __init__(
        self, path: Path, device: str, threads: int | None, batch: int | None, fast: bool, onnxruntime: Path | None
    ) -> None: ...
    def check(self, query: str) -> None: ...
    def check_bank(self, folder: Path, seed: int | None) -> None: ...
    def sample(
        self, query: str, samples: int, settings: str, bank: Path | None, proposal: Path | None, progress: Callback | None
    ) -> Draw: ...
    def stream(self, query: str, batch: int, settings: str, bank: Path | None, proposal: Path | None) -> Stream: ...
    def mine(
        self, first: int, end: int, part: int, out: Path, seed: int, progress: Callback | None
    ) -> str: ...
    def classes(
        self, bank: Path | None, proposals: int | None, top: int | None, settings: str, progress: Callback | None
    ) -> str: ...
    def explain(self, query: str, proposal: int, settings: str) -> str: ...

def models() -> list[str]: ...
def bank_info(folder: Path) -> str: ...
def join_banks(pieces: list[Path], out: Path, replace: bool) -> str: ...
def extend_bank(bank: Path, pieces: list[Path]) -> str: ...
