"""Pairs of image patches to be matched: a patch and its turned, blurred, noisy, re-lit copy, or
another patch's. From two photographs that ship with scikit-learn.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

Patches = npt.NDArray[np.float32]

SIDE = 64
TURNED, BLURRED, LIT, NOISY = "turned and shifted", "blurred", "lit", "noisy"
CHANGES = (TURNED, BLURRED, LIT, NOISY)
_MARGIN = 16  # around a patch, so that it can be turned
_LEAST_CONTRAST = 12.0  # of 255: the sky has nothing to match
_CELLS, _ORIENTATIONS, _CLIPPED = 4, 8, 0.2  # of SIFT


class PatchPairs(NamedTuple):
    """Patches, what they are compared with, and whether the two show the same."""

    first: Patches
    second: Patches
    same: npt.NDArray[np.bool_]


@cache
def photographs() -> tuple[Patches, ...]:
    """Return the two photographs in shades of grey."""
    from sklearn.datasets import load_sample_images

    return tuple(
        image.astype(np.float32) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
        for image in load_sample_images().images
    )


def draw_pairs(n: int, seed: int, changes: tuple[str, ...] = CHANGES) -> PatchPairs:
    """Draw n pairs that match and n that do not; copies have some of all `CHANGES`."""
    rng = np.random.default_rng(seed)
    crops = [_draw_crop(rng) for _ in range(n)]
    first = np.stack([_middle(crop) for crop in crops])
    copies = np.stack([_distort(crop, rng, changes) for crop in crops])
    others = np.roll(copies, 1 + rng.integers(n - 1), axis=0)
    same = np.repeat([True, False], n)
    return PatchPairs(np.concatenate([first, first]), np.concatenate([copies, others]), same)


def describe_by_gradients(patches: Patches) -> Patches:
    """Return SIFT-like descriptors (n, 128): orientations of gradients in 4 × 4 cells, weighted by
    their size, at length 1, clipped at 0.2, at length 1 again.
    """
    n, side = len(patches), patches.shape[1]
    smooth = ndimage.gaussian_filter(patches, (0, 1, 1))
    down, right = np.gradient(smooth, axis=(1, 2))
    size = np.hypot(down, right)
    turn = (np.arctan2(down, right) / (2 * np.pi) % 1.0) * _ORIENTATIONS
    cell = np.arange(side) * _CELLS // side
    place = (cell[:, None] * _CELLS + cell[None, :]) * _ORIENTATIONS
    length = _CELLS * _CELLS * _ORIENTATIONS
    offset = np.arange(n)[:, None, None] * length + place
    lower = np.floor(turn).astype(np.int64)
    found = np.zeros(n * length)
    # a gradient between two orientations counts for both, by how near it is
    for step in (0, 1):
        weight = size * (1 - np.abs(turn - (lower + step)))
        bins = offset + (lower + step) % _ORIENTATIONS
        found += np.bincount(bins.ravel(), weight.ravel(), minlength=n * length)
    vectors = found.reshape(n, length)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    vectors = np.minimum(vectors, _CLIPPED)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors.astype(np.float32)


def _draw_crop(rng: np.random.Generator) -> Patches:
    size = SIDE + 2 * _MARGIN
    while True:
        image = photographs()[rng.integers(2)]
        top, left = (rng.integers(0, extent - size) for extent in image.shape)
        crop: Patches = image[top : top + size, left : left + size]
        if _middle(crop).std() > _LEAST_CONTRAST:
            return crop


def _middle(crop: Patches) -> Patches:
    middle: Patches = crop[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]
    return middle


def _distort(crop: Patches, rng: np.random.Generator, changes: tuple[str, ...]) -> Patches:
    # all numbers are drawn in any case, so that pairs differ in their changes alone
    angle, shift, blur = rng.uniform(-12, 12), rng.uniform(-3, 3, 2), rng.uniform(0.3, 2.0)
    gamma, gain = rng.uniform(0.6, 1.6), rng.uniform(0.6, 1.2)
    slope = np.linspace(-1, 1, SIDE) * rng.uniform(-0.15, 0.15)  # a light from one side
    noise = rng.normal(0, 0.03, (SIDE, SIDE))
    if TURNED in changes:
        crop = ndimage.rotate(crop, angle, reshape=False, order=1, mode="nearest")
        crop = ndimage.shift(crop, shift, order=1, mode="nearest")
    if BLURRED in changes:
        crop = ndimage.gaussian_filter(crop, blur)
    patch = _middle(crop) / 255.0
    if LIT in changes:
        patch = np.clip(patch, 0, 1) ** gamma * gain + slope[None, :]
    if NOISY in changes:
        patch = patch + noise
    distorted: Patches = (255 * patch).astype(np.float32)
    return distorted
