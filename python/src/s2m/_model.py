"""Models, draws, streams and banks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from s2m import _s2m
from s2m._progress import bars
from s2m._runtime import onnxruntime
from s2m._settings import Adapting, Explaining, Settings, typed

if TYPE_CHECKING:
    from s2m._dataset import Dataset

PathLike = str | os.PathLike[str]


def models() -> list[str]:
    """Names of the models inside the package.

    >>> "mnist-even" in models()
    True
    """
    return _s2m.models()


class Samples:
    """Items and what is known about each, in the order in which they were accepted.

    All arrays lie where they were drawn and cannot be written; `numpy.array` copies one.
    """

    def __init__(self, inner: _s2m.Draw, labels: Sequence[str], is_image: bool) -> None:
        self._inner = inner
        self._names = tuple(labels)
        self._is_image = is_image

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def items(self) -> NDArray[Any]:
        """`[n, height, width, channels]` levels of images (`uint8`, or `uint16`), or `[n, ...]` points (`float32`)."""
        return self._inner.items

    @property
    def labels(self) -> dict[str, bool | None]:
        """What the query says about each label: it holds, it does not, or it is left open."""
        return dict(zip(self._names, self._inner.held, strict=True))

    @property
    def posteriors(self) -> NDArray[np.float64]:
        """Posterior of every label given the query: a row per sample, a column per label of the model."""
        return self._inner.posteriors

    @property
    def log_weights(self) -> NDArray[np.float64]:
        """Log of each importance weight, up to a constant."""
        return self._inner.log_weights

    @property
    def proposals(self) -> NDArray[np.uint64]:
        """Number of each proposal: with the seed it says which item it is."""
        return self._inner.proposals

    @property
    def stages(self) -> NDArray[np.uint16] | None:
        """Stage of an adaptation that each proposal was drawn in; none without adaptation."""
        stages = self._inner.stages
        return stages if len(stages) else None

    @property
    def classes(self) -> NDArray[np.uint32] | None:
        """Class that a conditional generator was given for each; none for another generator."""
        classes = self._inner.classes
        return classes if len(classes) else None

    def dataset(self) -> Dataset:
        """A `torch.utils.data.Dataset` of pairs: an item, and the posterior of every label.

        Images are `[channels, height, width]` floats from 0 to 1.
        """
        try:
            from s2m._dataset import Dataset
        except ImportError:
            raise _s2m.Error("PyTorch is not installed\nhint: pip install torch") from None
        return Dataset(self.items, self.posteriors, self._is_image)


class Draw(Samples):
    """Samples with a report."""

    @property
    def report(self) -> dict[str, Any]:
        """Everything that is said about the draw: cost, error bound, predicted purity, settings, warnings."""
        report = self._inner.report
        assert report is not None
        found: dict[str, Any] = json.loads(report)
        return found

    def save(self, out: PathLike, *, force: bool = False, progress: bool | None = None) -> Path:
        """Writes the folder that `s2m sample` writes: images or points, `metadata.csv`, `grid.png`, `report.json`.

        It appears whole or not at all. `force` replaces a folder that was written before.
        Hugging Face reads images with `load_dataset("imagefolder", data_dir=out)`.

        >>> import tempfile
        >>> out = Model("gaussians-exact").sample("A", n=3).save(tempfile.mkdtemp() + "/out")
        >>> sorted(path.name for path in out.iterdir())
        ['grid.png', 'metadata.csv', 'report.json', 'samples.npy']
        """
        self._inner.save(out, force, bars(progress))
        return Path(out)

    def __repr__(self) -> str:
        report = self.report
        bound = report["tv_bound"]
        said = "no TV bound" if bound is None else f"TV at most {bound:.4f}"
        purity = report["predicted_purity"]
        return f"<Draw: {len(self)} samples of {report['query']!r}, {said}, predicted purity {purity:.3f}>"


class Stream(Iterator[Samples]):
    """Batches of samples as they are accepted, without end; memory does not grow."""

    def __init__(self, inner: _s2m.Stream, labels: Sequence[str], is_image: bool) -> None:
        self._inner = inner
        self._names = tuple(labels)
        self._is_image = is_image

    def __next__(self) -> Samples:
        batch = self._inner.next()
        if batch is None:
            raise StopIteration
        return Samples(batch, self._names, self._is_image)

    @property
    def report(self) -> dict[str, Any]:
        """What the short draw at the beginning says; its error is that of every sample."""
        found: dict[str, Any] = json.loads(self._inner.report() or "{}")
        return found


class Model:
    """A generator with its classifiers.

    `model` is the folder of a bundle (its ending `.s2m` may be left out) or the name of a model inside the package.
    Nothing runs before something is drawn. `onnxruntime` names the library of ONNX Runtime; where left out it is
    `S2M_ONNXRUNTIME`, `ORT_DYLIB_PATH`, or that of the installed package `onnxruntime` or `onnxruntime-gpu`.

    >>> model = Model("gaussians-exact")
    >>> model.labels, model.shape
    (['A', 'B'], [2])
    """

    def __init__(
        self,
        model: PathLike,
        *,
        device: Literal["cpu", "cuda"] = "cpu",
        threads: int | None = None,
        batch: int | None = None,
        fast: bool = False,
        onnxruntime: PathLike | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            "device": device,
            "threads": threads,
            "batch": batch,
            "fast": fast,
            "onnxruntime": onnxruntime,
        }
        path = os.fspath(model)
        # Other processes may have another working directory; names of models inside the package stay as they are.
        is_folder = os.path.isdir(path) or os.path.isdir(path + ".s2m")
        self.path = os.path.abspath(path) if is_folder else path
        self._inner = _s2m.Model(self.path, device, threads, batch, fast, _library(onnxruntime))

    def __reduce__(self) -> tuple[Any, ...]:
        """Models are pickled by what they were opened with, so that other processes open them again."""
        return _reopen, (self.path, self._options)

    def __repr__(self) -> str:
        return f"<Model {self.name!r}: labels {', '.join(self.labels)}; items {'x'.join(map(str, self.shape))}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def labels(self) -> list[str]:
        """Its labels, in the order of all lists of labels."""
        return self._inner.labels

    @property
    def describe(self) -> dict[str, str]:
        """What labels mean, as far as the bundle says."""
        return self._inner.describe

    @property
    def shape(self) -> list[int]:
        """Sides of an item: height, width and channels of an image, or the shape of a point."""
        return self._inner.shape

    @property
    def hash(self) -> str:
        """SHA-256 of the bundle."""
        return self._inner.hash

    def check(self, query: str) -> None:
        """Raises :class:`s2m.Error` where a query cannot be asked.

        >>> Model("mnist-even").check("A - C")
        Traceback (most recent call last):
            ...
        s2m.Error: unknown label `C`
        hint: the labels are A, B
        """
        self._inner.check(query)

    def sample(
        self,
        query: str,
        n: int,
        *,
        bank: PathLike | Bank | None = None,
        proposal: PathLike | None = None,
        progress: bool | None = None,
        **settings: Unpack[Settings],
    ) -> Draw:
        """Draws `n` items that satisfy a boolean combination of labels.

        `query` combines labels with `+` (and), `-` (and not), `|` (or), `!` and brackets. Settings are those of the
        program: `seed`, `sampler` (`"reject"`, `"mh"`, `"resample"`, `"smc"`), `tv`, `steps`, `unique`, `moves`,
        `floor`, `purity`, `posterior`, `calibration`, `density`, `margin`, `odds_cap`, `class_temperature`, `real_temperature`,
        `classes`, `max_calls`, `adapt` with `prior_share`, `gain`, `pilots`, `pilot_steps`, `components` and `order`.
        What does not go together is refused as the program does. A query without samples raises :class:`s2m.Refused`.

        >>> draw = Model("gaussians-exact").sample("A + B", n=100, seed=1)
        >>> draw.items.shape, draw.labels
        ((100, 2), {'A': True, 'B': True})
        """
        inner = self._inner.sample(
            query, n, typed("Model.sample", settings, Settings), _folder(bank), proposal, bars(progress)
        )
        return Draw(inner, self.labels, self._inner.is_image)

    def stream(
        self,
        query: str,
        *,
        batch: int = 64,
        bank: PathLike | Bank | None = None,
        proposal: PathLike | None = None,
        **settings: Unpack[Settings],
    ) -> Stream:
        """Batches of samples as they are accepted, as many as are taken out; settings as in :meth:`sample`.

        >>> for batch in Model("gaussians-exact").stream("A - B", batch=16):
        ...     print(batch.items.shape)
        ...     break
        (16, 2)
        """
        inner = self._inner.stream(
            query, batch, typed("Model.stream", settings, Settings), _folder(bank), proposal
        )
        return Stream(inner, self.labels, self._inner.is_image)

    def mine(
        self, n: int, *, out: PathLike, seed: int = 0, part: int = _s2m.PART, progress: bool | None = None
    ) -> Bank:
        """Scores `n` proposals once, for every query to come, and keeps them in the folder `out`.

        A run that was stopped goes on where it was; a larger `n` extends the bank.

        >>> import tempfile
        >>> bank = Model("gaussians-exact").mine(10_000, out=tempfile.mkdtemp() + "/bank")
        >>> len(bank), len(bank.sample("A | B", n=500))
        (10000, 500)
        """
        self._inner.mine(0, n, part, out, seed, bars(progress))
        return Bank(out, self)

    def mine_range(self, first: int, end: int, *, out: PathLike, seed: int = 0, part: int = _s2m.PART) -> Path:
        """Scores the proposals from `first` to `end - 1`: a piece of a bank, for :func:`s2m.join`.

        `first` is a multiple of `part`, the number of proposals in each file.
        """
        self._inner.mine(first, end, part, out, seed, None)
        return Path(out)

    def classes(
        self,
        *,
        bank: PathLike | Bank | None = None,
        n: int | None = None,
        top: int | None = None,
        progress: bool | None = None,
        **settings: Unpack[Adapting],
    ) -> dict[str, Any]:
        """What the generator reaches, joint class by joint class: share, calls per sample, predicted purity.

        >>> [c["query"] for c in Model("gaussians-exact").classes(n=2000)["classes"]]
        ['A - B', 'B - A', 'A + B']
        """
        found = self._inner.classes(
            _folder(bank), n, top, typed("Model.classes", settings, Adapting), bars(progress)
        )
        answer: dict[str, Any] = json.loads(found)
        return answer

    def explain(self, query: str, proposal: int, **settings: Unpack[Explaining]) -> dict[str, Any]:
        """Why one proposal is kept or not: logits, levels, posterior, odds, weight, and the verdict in words.

        >>> Model("gaussians-exact").explain("A - B", 3)["accepted"]
        True
        """
        explained = self._inner.explain(query, proposal, typed("Model.explain", settings, Explaining))
        answer: dict[str, Any] = json.loads(explained)
        return answer


class Bank:
    """Scored proposals on disk, for many queries.

    `len(bank)` is the number of proposals. Queries that need more have more scored, which the bank does not keep. A bank of
    another model is refused.
    """

    def __init__(self, folder: PathLike, model: Model | PathLike) -> None:
        self.path = Path(folder)
        self.model = model if isinstance(model, Model) else Model(model)
        self._info: dict[str, Any] = json.loads(_s2m.bank_info(self.path))
        self.model._inner.check_bank(self.path, None)

    def __len__(self) -> int:
        return int(self._info["proposals"])

    def __repr__(self) -> str:
        return f"<Bank {str(self.path)!r}: {len(self)} proposals of {self._info['model']!r}, seed {self.seed}>"

    @property
    def seed(self) -> int:
        """Seed of its proposals."""
        return int(self._info["seed"])

    def sample(self, query: str, n: int, *, progress: bool | None = None, **settings: Unpack[Settings]) -> Draw:
        """Draws from the bank; see :meth:`Model.sample`."""
        return self.model.sample(query, n, bank=self, progress=progress, **settings)

    def stream(self, query: str, *, batch: int = 64, **settings: Unpack[Settings]) -> Stream:
        """Batches from the bank, and then from new proposals; see :meth:`Model.stream`."""
        return self.model.stream(query, batch=batch, bank=self, **settings)

    def classes(self, *, top: int | None = None, **settings: Unpack[Adapting]) -> dict[str, Any]:
        """What the bank holds, joint class by joint class; see :meth:`Model.classes`."""
        return self.model.classes(bank=self, top=top, **settings)


def join(pieces: Sequence[PathLike], model: Model | PathLike, *, out: PathLike, force: bool = False) -> Bank:
    """One bank of pieces that were mined apart; checked for gaps, overlaps and other models.

    A folder that holds pieces stands for all of them.

    >>> import tempfile
    >>> folder, model = tempfile.mkdtemp(), Model("gaussians-exact")
    >>> pieces = [model.mine_range(at, at + 1024, out=f"{folder}/pieces/{at}", part=1024) for at in (0, 1024)]
    >>> len(join(pieces, model, out=folder + "/bank")), len(join([folder + "/pieces"], model, out=folder + "/same"))
    (2048, 2048)
    """
    _s2m.join_banks(list(pieces), out, force)
    return Bank(out, model)


def _folder(bank: PathLike | Bank | None) -> PathLike | None:
    return bank.path if isinstance(bank, Bank) else bank


def _library(explicit: PathLike | None) -> Path | None:
    return onnxruntime(explicit)


def _reopen(path: str, options: dict[str, Any]) -> Model:
    return Model(path, **options)
