"""Mining on many machines, with Ray.

Proposals are numbered, and number `k` of a seed is the same item on every machine. So a bank is cut into ranges; each is
mined by one task into a folder of its own on storage that all machines share, and the pieces are joined: byte for byte the
bank of one machine. A task that dies is done again, and what its range had already on disk is kept.

    import ray, s2m.ray
    ray.init()
    bank = s2m.ray.mine("mnist-even", 10_000_000, out="/shared/bank", workers=8)
    draw = s2m.ray.sample("mnist-even", "A - B", 1000, out="/shared/bank", workers=8)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from s2m import _s2m
from s2m._model import Bank, Draw, Model, PathLike, join

try:
    import ray
except ImportError:
    raise ImportError("Ray is not installed\nhint: pip install 's2m[ray]'") from None

#: Tries of a range before its error is raised.
TRIES = 4
#: A query that the bank cannot answer has it grow by this factor.
GROWTH = 2


class _Scorer:
    """Holds the networks on one worker."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def ready(self) -> bool:
        return True

    def mine(self, first: int, end: int, out: str, seed: int, part: int) -> str:
        os.makedirs(os.path.dirname(out), exist_ok=True)
        self._model.mine_range(first, end, out=out, seed=seed, part=part)
        return out


def _ranges(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    for first in range(start, end, size):
        yield first, min(first + size, end)


def mine(
    model: Model | PathLike,
    n: int,
    *,
    out: PathLike,
    workers: int | None = None,
    seed: int = 0,
    part: int = _s2m.PART,
    parts_per_task: int = 1,
    threads: int = 1,
    gpus: float = 0,
    keep_pieces: bool = False,
) -> Bank:
    """Scores `n` proposals on the workers of a Ray cluster and joins them to one bank in `out`.

    `out` lies on storage that every machine reaches under the same path; pieces lie in `out.pieces` beside it until they
    are joined, and a call that was stopped goes on from them. `workers` actors with `threads` cores and `gpus` each take
    ranges of `parts_per_task` parts; where left out there are as many as the cluster has cores. A worker that dies is
    replaced and its range done again. A bank that is there already and holds fewer proposals is extended.
    """
    model = model if isinstance(model, Model) else Model(model)
    out = Path(os.path.abspath(out))
    pieces = out.with_name(out.name + ".pieces")
    if out.exists():
        bank = Bank(out, model)
        if len(bank) >= n:
            return bank
    if not ray.is_initialized():
        ray.init()
    if workers is None:
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        workers = max(1, int(resources.get("CPU", 1) // threads))
    # The part that a bank ends in is mined again, whole.
    start = len(Bank(out, model)) // part * part if out.exists() else 0
    tasks = list(_ranges(start, n, part * parts_per_task))
    _scored(_on_workers(model, threads), tasks, pieces, (workers, gpus, threads), (seed, part))
    folders: list[PathLike] = [_piece(pieces, first, end) for first, end in tasks]
    if out.exists():
        _s2m.extend_bank(out, folders)
    else:
        join(folders, model, out=out)
    if not keep_pieces:
        shutil.rmtree(pieces)
    return Bank(out, model)


def _on_workers(model: Model, threads: int) -> Model:
    """The same model with the cores of one worker."""
    return Model(model.path, **{**model._options, "threads": threads})


def _piece(pieces: Path, first: int, end: int) -> Path:
    return pieces / f"{first:015d}-{end:015d}"


def _scored(
    model: Model,
    tasks: list[tuple[int, int]],
    pieces: Path,
    cluster: tuple[int, float, int],
    what: tuple[int, int],
) -> None:
    """Gives ranges to workers as they become free; ranges of workers that died go to others."""
    workers, gpus, threads = cluster
    seed, part = what
    scorer = ray.remote(num_cpus=threads, num_gpus=gpus)(_Scorer)
    waiting = [(task, 0) for task in reversed(tasks)]
    running: dict[Any, tuple[Any, tuple[int, int], int]] = {}
    free: list[Any] = []
    # A worker that the cluster has no room for yet gets nothing to do before it is there.
    starting: dict[Any, Any] = {}

    def start() -> None:
        actor: Any = scorer.remote(model)
        starting[actor.ready.remote()] = actor

    for _ in range(min(workers, len(tasks))):
        start()
    while waiting or running:
        while waiting and free:
            actor, ((first, end), tries) = free.pop(), waiting.pop()
            call = actor.mine.remote(first, end, str(_piece(pieces, first, end)), seed, part)
            running[call] = (actor, (first, end), tries)
        (call,), _ = ray.wait([*running, *starting], num_returns=1)
        if call in starting:
            ray.get(call)
            free.append(starting.pop(call))
            continue
        actor, task, tries = running.pop(call)
        try:
            ray.get(call)
            free.append(actor)
        except ray.exceptions.RayActorError:
            # The worker is gone: another one begins, and goes on with what the range has on disk.
            if tries + 1 >= TRIES:
                raise
            start()
            waiting.append((task, tries + 1))
        except ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, _s2m.Error) else error) from None


def sample(
    model: Model | PathLike,
    query: str,
    n: int,
    *,
    out: PathLike,
    start: int | None = None,
    most: int | None = None,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    **cluster: Any,
) -> Draw:
    """Draws from the bank in `out`, and mines on with the cluster until the request is met.

    `start` proposals are mined first where there is no bank, one part where left out; `most` is where it gives up, and
    then the refusal is raised. Settings of the draw go into `settings`, options of :func:`mine` stand beside them.
    """
    model = model if isinstance(model, Model) else Model(model)
    part = int(cluster.get("part", _s2m.PART))
    wanted = part if start is None else start
    if Path(out).exists():
        wanted = max(wanted, len(Bank(out, model)))
    while True:
        bank = mine(model, wanted, out=out, seed=seed, **cluster)
        try:
            # Beyond the bank nothing is scored here: the cluster does that.
            return bank.sample(query, n, max_calls=len(bank), **(settings or {}))
        except _s2m.Refused:
            if most is not None and wanted >= most:
                raise
            if most is None and wanted >= 2000 * n + part:
                # As many calls as a draw on one machine is allowed.
                raise
        wanted = wanted * GROWTH if most is None else min(wanted * GROWTH, most)
