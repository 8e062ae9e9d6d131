"""A data set for PyTorch; the only module that imports it at once, and itself imported only where one is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset as _Base


class Dataset(_Base):  # type: ignore[misc]
    """Items and posteriors of labels, one pair per sample; made by :meth:`s2m.Samples.dataset`."""

    def __init__(self, items: NDArray[Any], posteriors: NDArray[np.float64], is_image: bool) -> None:
        self._items = items
        self._posteriors = posteriors
        self._is_image = is_image

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        item = self._items[index]
        if self._is_image:
            item = np.moveaxis(item, -1, 0).astype(np.float32) / np.iinfo(item.dtype).max
        return torch.from_numpy(np.array(item)), torch.from_numpy(self._posteriors[index].astype(np.float32))
