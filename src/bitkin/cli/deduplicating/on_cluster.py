"""`bitkin dedup --dask`: texts compared on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bitkin.cli.clusters import open_cluster
from bitkin.cli.output import progress_bar

if TYPE_CHECKING:
    from bitkin.dedup.documents.opening import DocumentSource
    from bitkin.dedup.duplicates import Duplicates
    from bitkin.dedup.files import DocumentPlaces
    from bitkin.dedup.hashing import TextHashing


def find_on_cluster(
    address: str,
    source: DocumentSource,
    options: tuple[str | None, str | None, str],
    hashing: dict[str, Any],
    *,
    every_pair: bool,
) -> tuple[TextHashing, Duplicates, DocumentPlaces]:
    """Return what the workers found, by what, and where the documents stand; `options` are the
    field of the text, that of ids, and the format.
    """
    from bitkin.dedup.hashing import TextHashing

    settings = TextHashing(**hashing)
    with open_cluster(address) as client:
        from bitkin.distributed.deduplicating.driver import find_in_files
        from bitkin.distributed.deduplicating.partitions import FileOptions

        with progress_bar("on the cluster", 100, "%") as report:
            found, places = find_in_files(
                client,
                source,
                FileOptions(*options),
                settings,
                every_pair=every_pair,
                progress=lambda done, total: report(100 * done // total),
            )
    return settings, found, places
