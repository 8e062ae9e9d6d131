"""Settings of a draw, by the names of the program's options; what they mean together is decided in the library."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from s2m._s2m import Error

Sampler = Literal["reject", "mh", "resample", "smc"]
Adapt = Literal["none", "once", "repeat", "adaptive"]


class Weighing(TypedDict, total=False):
    """How proposals are weighed."""

    seed: int | None
    density: Literal["corrected", "paper"]
    posterior: Literal["joint", "levels"] | None
    calibration: Literal["bundle", "paper", "none"]
    class_temperature: float | None
    real_temperature: float | None
    odds_cap: float | None
    margin: float | None
    floor: float | None
    purity: float | None


class Adapting(Weighing, total=False):
    """And how the latent distribution is adapted first."""

    adapt: Adapt
    prior_share: float | None
    gain: float | None
    pilots: int | None
    pilot_steps: int | None
    components: int | None
    order: str | None


class Settings(Adapting, total=False):
    """And how samples are drawn."""

    sampler: Sampler
    tv: float | None
    steps: int | None
    unique: bool
    moves: int | None
    classes: Literal["best", "first"]
    max_calls: int | None


class Explaining(Weighing, total=False):
    """How one proposal is weighed, and the distance for which a short draw chooses the cap."""

    tv: float | None


def typed(function: str, given: Mapping[str, object], allowed: type[Any]) -> str:
    """Settings as the library takes them; another name is the error that a function without it raises."""
    names = allowed.__annotations__
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f". Did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")
    try:
        return json.dumps({n: v for n, v in given.items() if v is not None}, default=_plain, allow_nan=False)
    except ValueError:
        raise Error("a setting is not a finite number") from None


def _plain(value: Any) -> object:
    """Numbers of NumPy and the like, as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise Error(f"a setting is {value!r}, of type `{type(value).__name__}`; it must be a number or a text")
