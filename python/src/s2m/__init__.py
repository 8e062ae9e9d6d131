"""Multi-label samples from a generator and single positive labels.

Open a model, ask for a combination of labels, draw:

>>> import s2m
>>> model = s2m.Model("mnist-even")  # a model inside the package, or the folder of a bundle
>>> draw = model.sample("A - B", n=8, seed=7)
>>> draw.items.shape
(8, 28, 28, 1)

`draw.items` is a NumPy array, `draw.report` says what the samples are worth, `draw.save("out")` writes the folder that
the program `s2m sample` writes. The same seed gives the same samples as the program.
"""

from s2m._evaluate import evaluate
from s2m._fit import calibrate, fit
from s2m._model import Bank, Draw, Model, Samples, Stream, join, models
from s2m._s2m import Error, Refused, __version__
from s2m._torch import export

__all__ = [
    "Bank",
    "Draw",
    "Error",
    "Model",
    "Refused",
    "Samples",
    "Stream",
    "__version__",
    "calibrate",
    "evaluate",
    "export",
    "fit",
    "join",
    "models",
]
