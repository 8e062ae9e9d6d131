"""Progress bars, where `tqdm` is there and somebody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Callback = Callable[[str, "str | None", "int | None"], object]


class _Bars:
    """One bar per piece of work."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def __call__(self, event: str, what: str | None, number: int | None) -> None:
        if event == "begin":
            self._close()
            self._bar = self._tqdm(total=number, desc=what, leave=False)
        elif event == "at" and self._bar is not None and number is not None:
            self._bar.update(number - self._bar.n)
        elif event == "end":
            self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _somebody_looks() -> bool:
    """At a terminal, or at a notebook, whose standard error is none."""
    if sys.stderr.isatty():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def bars(progress: bool | None) -> Callback | None:
    """A bar for `True`, none for `False`, and where left out one if a person looks and `tqdm` is installed."""
    if progress is False or (progress is None and not _somebody_looks()):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return _Bars(tqdm)
