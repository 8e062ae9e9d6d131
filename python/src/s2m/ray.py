"""Mining on many machines, with Ray.

Proposals are numbered, and number `k` of a seed is the same item on every machine. So a bank is cut into ranges; each is
mined by one task into a folder of its own on storage that all machines share, and the pieces are joined: byte for byte the
bank of one machine. A task that dies is done again, and what its range had already on disk is kept.

>>> import logging, tempfile, ray, s2m.ray
>>> context = ray.init(num_cpus=2, log_to_driver=False, logging_level=logging.ERROR)  # or address="auto" on a cluster
>>> shared = tempfile.mkdtemp()  # a folder that all machines reach
>>> bank = s2m.ray.mine("gaussians-exact", 20_000, out=shared + "/bank", workers=2, part=4096)
>>> len(bank)
20000
>>> draw = s2m.ray.sample("gaussians-exact", "A - B", 1000, out=shared + "/bank", workers=2)
>>> len(draw)
1000
>>> ray.shutdown()

Which range was done where, and which one again, is told to the logger `s2m.ray`.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from s2m import _s2m
from s2m._model import Bank, Draw, Model, PathLike, join
from s2m._progress import bars
from s2m._settings import Settings

try:
    import ray
except ImportError:
    raise ImportError("Ray is not installed\nhint: pip install 's2m[ray]'") from None

#: Tries of a range, and of a worker that does not start, before its error is raised.
TRIES = 4
#: A query that the bank cannot answer has it grow by this factor.
GROWTH = 2

_log = logging.getLogger("s2m.ray")

Range = tuple[int, int]


class _Scorer:
    """Holds the networks on one worker."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def ready(self) -> bool:
        return True

    def mine(self, first: int, end: int, out: str, seed: int, part: int) -> str:
        """Scores a range; the machine that it was done on."""
        os.makedirs(os.path.dirname(out), exist_ok=True)
        self._model.mine_range(first, end, out=out, seed=seed, part=part)
        node: str = ray.get_runtime_context().get_node_id()
        return node


def _ranges(start: int, end: int, size: int) -> Iterator[Range]:
    for first in range(start, end, size):
        yield first, min(first + size, end)


def _opened(model: Model | PathLike, gpus: float) -> Model:
    """A model for workers that have so many GPUs."""
    if not isinstance(model, Model):
        return Model(model, device="cuda" if gpus > 0 else "cpu")
    if gpus > 0 and model._options["device"] != "cuda":
        raise _s2m.Error(
            f"the model runs on the CPU, and its workers would hold {gpus} GPUs each for nothing\n"
            'hint: open it with device="cuda", or give its path'
        )
    return model


def mine(
    model: Model | PathLike,
    n: int,
    *,
    out: PathLike,
    workers: int | None = None,
    seed: int | None = None,
    part: int = _s2m.PART,
    parts_per_task: int = 1,
    threads: int = 1,
    gpus: float = 0,
    keep_pieces: bool = False,
    progress: bool | None = None,
) -> Bank:
    """Scores `n` proposals on the workers of a Ray cluster and joins them to one bank in `out`.

    `out` lies on storage that every machine reaches under the same path; pieces lie in `out.pieces` beside it until they
    are joined, and a call that was stopped goes on from them. `workers` actors with `threads` cores and `gpus` each take
    ranges of `parts_per_task` parts; where left out there are as many as the cluster has cores. With `gpus` a model that is
    given by its path runs on them. A worker that dies, at work or while it starts, is replaced and its range done again. A
    bank that is there already and holds fewer proposals is extended; one of another model or seed is refused. The seed is
    that bank's, or 0, where left out.
    """
    model = _opened(model, gpus)
    for name, value in (("workers", workers), ("threads", threads), ("parts_per_task", parts_per_task), ("n", n)):
        if value is not None and value < 1:
            raise _s2m.Error(f"`{name}` is {value}; it must be at least 1")
    out = Path(os.path.abspath(out))
    pieces = out.with_name(out.name + ".pieces")
    start = 0
    if out.exists():
        bank = Bank(out, model)
        model._inner.check_bank(out, seed)
        seed = bank.seed
        if len(bank) >= n:
            return bank
        part = int(bank._info["part"])
        # The part that a bank ends in is mined again, whole.
        start = len(bank) // part * part
    seed = seed or 0
    if not ray.is_initialized():
        ray.init()
    if workers is None:
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        workers = max(1, int(resources.get("CPU", 1) // threads))
    tasks = list(_ranges(start, n, part * parts_per_task))
    _Cluster(_on_workers(model, threads), pieces, (seed, part), (threads, gpus)).score(tasks, workers, progress)
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


@dataclass
class _Cluster:
    """Gives ranges to workers as they become free; ranges of workers that died go to others."""

    model: Model
    pieces: Path
    what: tuple[int, int]
    each: tuple[int, float]
    free: list[Any] = field(default_factory=list)
    #: What runs: the worker, its range, and how often that was tried before.
    running: dict[Any, tuple[Any, Range, int]] = field(default_factory=dict)
    #: A worker that the cluster has no room for yet gets nothing to do before it is there.
    starting: dict[Any, Any] = field(default_factory=dict)
    #: Workers in a row that died before they were ready.
    stillborn: int = 0

    def score(self, tasks: list[Range], workers: int, progress: bool | None) -> None:
        tell = bars(progress)
        if tell:
            tell("begin", "scoring on the cluster", sum(end - first for first, end in tasks))
        waiting, done = [(task, 0) for task in reversed(tasks)], 0
        for _ in range(min(workers, len(tasks))):
            self._start()
        while waiting or self.running:
            while waiting and self.free:
                self._give(*waiting.pop())
            (call,), _ = ray.wait([*self.running, *self.starting], num_returns=1)
            if call in self.starting:
                self._started(call)
                continue
            first, end = self.running[call][1]
            again = self._ended(call)
            if again is None:
                done += end - first
            else:
                waiting.append(again)
            if tell:
                tell("at", None, done)
        if tell:
            tell("end", None, None)

    def _start(self) -> None:
        threads, gpus = self.each
        actor: Any = ray.remote(num_cpus=threads, num_gpus=gpus)(_Scorer).remote(self.model)
        self.starting[actor.ready.remote()] = actor

    def _started(self, call: Any) -> None:
        actor = self.starting.pop(call)
        try:
            ray.get(call)
        except ray.exceptions.RayActorError as error:
            self.stillborn += 1
            _log.warning("a worker died while it started: %s", str(error).splitlines()[0])
            if self.stillborn < TRIES:
                self._start()
            elif not (self.running or self.free or self.starting):
                raise
            return
        self.stillborn = 0
        self.free.append(actor)

    def _give(self, task: Range, tries: int) -> None:
        actor, (first, end), (seed, part) = self.free.pop(), task, self.what
        call = actor.mine.remote(first, end, str(_piece(self.pieces, first, end)), seed, part)
        self.running[call] = (actor, task, tries)

    def _ended(self, call: Any) -> tuple[Range, int] | None:
        """What is to be done again, if anything is."""
        actor, task, tries = self.running.pop(call)
        try:
            node = ray.get(call)
        except ray.exceptions.RayActorError:
            # The worker is gone: another one begins, and goes on with what the range has on disk.
            _log.warning("proposals %d to %d are done again: their worker died", task[0], task[1] - 1)
            if tries + 1 >= TRIES:
                raise
            self._start()
            return task, tries + 1
        except ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, _s2m.Error) else error) from None
        _log.info("proposals %d to %d are done, on node %s", task[0], task[1] - 1, node)
        self.free.append(actor)
        return None


def sample(
    model: Model | PathLike,
    query: str,
    n: int,
    *,
    out: PathLike,
    start: int | None = None,
    most: int | None = None,
    seed: int | None = None,
    settings: Settings | None = None,
    **cluster: Any,
) -> Draw:
    """Draws from the bank in `out`, and mines on with the cluster until the request is met.

    `start` proposals are mined first where there is no bank, one part where left out; `most` is where it gives up, and
    then the refusal is raised. Settings of the draw go into `settings`, options of :func:`mine` stand beside them. A bank of
    another seed than one that is given is refused. Items are made here, on the CPU for a model that is given by its path.
    """
    settings = {} if settings is None else settings
    for name, instead in (("max_calls", "most"), ("seed", "seed")):
        if name in settings:
            raise TypeError(f"ray.sample() takes {instead!r} beside 'settings', not {name!r} inside them")
    drawer = model if isinstance(model, Model) else Model(model)
    part = int(cluster.get("part", _s2m.PART))
    wanted = part if start is None else start
    if Path(out).exists():
        wanted = max(wanted, len(Bank(out, drawer)))
    while True:
        mined = mine(model, wanted, out=out, seed=seed, **cluster)
        bank = Bank(mined.path, drawer)
        # Beyond the bank nothing is scored here: the cluster does that.
        given: Settings = {**settings, "max_calls": len(bank)}
        try:
            return bank.sample(query, n, **given)
        except _s2m.Refused:
            if most is not None and wanted >= most:
                raise
            if most is None and wanted >= _s2m.CALLS_PER_SAMPLE * n + part:
                # As many calls as a draw on one machine is allowed.
                raise
        wanted = wanted * GROWTH if most is None else min(wanted * GROWTH, most)
