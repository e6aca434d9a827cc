"""What is trained: a network for the handwritten digits that ship with scikit-learn (8 x 8 pixels, 1,797 of them)."""

from __future__ import annotations

import hashlib

import torch
from sklearn.datasets import load_digits
from torch import nn

__all__ = ["Batches", "digest", "make_model"]

_PIXELS, _CLASSES = 64, 10


def make_model(seed: int, width: int) -> nn.Module:
    """Return the same network for the same seed: two hidden layers of `width` units."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(_PIXELS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, _CLASSES)
    )


class Batches:
    """The batches of one rank: every step all ranks together take the next `ranks * size` images of a shuffle."""

    def __init__(self, rank: int, ranks: int, size: int, seed: int) -> None:
        """Load the images; the order depends on the seed alone."""
        found = load_digits()
        self._images = torch.tensor(found.data, dtype=torch.float32) / 16.0
        self._labels = torch.tensor(found.target, dtype=torch.int64)
        self._rank, self._ranks, self._size = rank, ranks, size
        self._order = torch.Generator().manual_seed(seed)
        self._left = torch.empty(0, dtype=torch.int64)

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return images (size, 64) and labels (size)."""
        need = self._ranks * self._size
        while len(self._left) < need:
            self._left = torch.cat([self._left, torch.randperm(len(self._labels), generator=self._order)])
        taken, self._left = self._left[:need], self._left[need:]
        mine = taken[self._rank :: self._ranks]
        return self._images[mine], self._labels[mine]


def digest(model: nn.Module) -> str:
    """Return a hash of every bit of the parameters."""
    told = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        told.update(name.encode())
        told.update(value.detach().contiguous().numpy().tobytes())
    return told.hexdigest()
