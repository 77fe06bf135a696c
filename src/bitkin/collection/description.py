"""What a collection is, in words and numbers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from bitkin.choices import STAGES
from bitkin.collection.folder.store import FolderStore
from bitkin.collection.memory import MemoryStore
from bitkin.collection.searching.cells import describe_index


def describe_collection(store: MemoryStore | FolderStore) -> dict[str, Any]:
    """Return rows, codes, vectors, bytes and settings, as JSON holds them."""
    with store.reading() as now:
        vectors, epoch = now.kept.vectors, now.epoch
        settings = epoch.settings
        about: dict[str, Any] = {
            "rows": now.n_rows,
            "codes": str(now.coded.spec),
            "bytes_per_code": now.coded.spec.n_bytes,
            "vectors": settings.vectors,
            "n_features": None if vectors is None else vectors.n_features,
            "metric": settings.metric,
            "stage": epoch.last_stage,
            "stages": [stage for stage in STAGES if stage in epoch.stages],
            "oversample": settings.oversample,
            "ids": settings.ids,
            "fields": dict(settings.fields),
            "index": describe_index(now),
            "hasher": " ".join(repr(epoch.encoder.hasher).split()),
            "fingerprint": epoch.fingerprint,
            "learns": store.learner is not None,
            "epochs": [{"epoch": part.epoch.number, "rows": len(part.coded)} for part in now.parts],
            "bytes_in_memory": now.nbytes,
            "bytes_on_disk": None,
        }
    if isinstance(store, FolderStore):
        about["bytes_on_disk"] = bytes_in(store.folder)
    return about


def bytes_in(folder: Path) -> int:
    """Return the bytes of all files of a folder."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # one that was written aside, and moved
            total += path.stat().st_size
    return total
