"""A sample of rows in two dimensions: what is near in the collection is near on the map, as far as
two dimensions can show it.

Both ways are one computation on the inner products of rows. Of vectors, the products centred have
the principal components as eigenvectors. Of codes, symbols that differ are a squared distance (of
the rows that say with a 1 which value a symbol has), so that −½ of them, centred, are products too:
classical multidimensional scaling. Only products with some rows, the landmarks, are made; the other
rows are projected on the axes that those have (de Silva and Tenenbaum 2004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse

from bitkin.arrays import Floats
from bitkin.checks import one_of, shown, whole_number
from bitkin.codes import Codes, distances
from bitkin.errors import InvalidInputError
from bitkin.service.explorer.sample import sample_rows

if TYPE_CHECKING:
    from bitkin.collection.collection import Collection

MOST_POINTS = 5000
"""Of a map."""
MAP_WAYS = ("vectors", "codes")
"""What a map may go by."""
_LANDMARKS = 1000
_MOST_LETTERS = 120  # of a value that points are coloured by
_MOST_FIELDS = 50
_SAME_EVERYWHERE = 1e-12  # share of the sizes of rows below which differences are rounding


def map_rows(
    collection: Collection,
    n: int = 1000,
    field: str | None = None,
    by: str = "vectors",
    where: Any = None,
) -> dict[str, Any]:
    """Return a sample of rows laid out in two dimensions, as JSON holds it.

    Parameters
    ----------
    collection : Collection
        Any; without vectors it is laid out by its codes.
    n : int, default 1000
        Points at most, up to 5,000. It is the same rows whenever the collection is the same.
    field : str, optional
        A key of metadata whose value every point gets.
    by : {"vectors", "codes"}, default "vectors"
        What is laid out.
    where : dict, optional
        Only rows that match, as for `Collection.search`.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
    >>> items = bitkin.Collection.create(None, bitkin.ProjectionHash(n_bits=4).fit(X))
    >>> _ = items.add(X, metadata=[{"half": i // 50} for i in range(100)])
    >>> drawn = map_rows(items, n=10, field="half")
    >>> drawn["method"], len(drawn["points"]), drawn["fields"]
    ('PCA of vectors', 10, ['half'])
    >>> sorted(drawn["points"][0])
    ['id', 'value', 'x', 'y']
    """
    n = whole_number(n, "n", low=1, high=MOST_POINTS)
    by = one_of(by, "by", MAP_WAYS)
    if field is not None and not isinstance(field, str):
        raise InvalidInputError(f"field must be a key of metadata, got {shown(field)}.")
    rows = sample_rows(collection, n, where)
    if rows.vectors is None or by == "codes":
        products = _code_products(rows.codes)
        method = "multidimensional scaling of codes"
        if len(collection.epochs) > 1 and rows.vectors is None:
            method += " of several epochs, which do not compare"
    else:
        products = _vector_products(rows.vectors, normalize=collection.metric == "cosine")
        method = "PCA of vectors"
    places, kept = lay_out(products)
    metadata = rows.metadata or [{}] * len(rows.ids)
    values = [None if field is None else _shown_value(row.get(field)) for row in metadata]
    return {
        "method": method,
        "kept": kept,
        "points": [
            {"id": id, "x": x, "y": y, "value": value}
            for id, (x, y), value in zip(rows.ids.tolist(), places.tolist(), values, strict=True)
        ],
        "field": field,
        "fields": _fields_to_color_by(metadata, collection.fields),
    }


def lay_out(products: Floats) -> tuple[Floats, float | None]:
    """Return two coordinates per row, and the share of the variance that they keep, None where rows
    do not differ.

    `products` are inner products of all rows with the first of them, the landmarks, or −½ of their
    squared distances, which are the same once centred. Each axis points to where the landmark that
    is farthest out lies.

    Examples
    --------
    >>> places, kept = lay_out(np.outer([0.0, 3.0, 6.0], [0.0, 3.0, 6.0]))
    >>> abs(places[:, 0]).round(6).tolist(), round(kept, 6)
    ([3.0, 0.0, 3.0], 1.0)
    """
    n, m = products.shape
    places = np.zeros((n, 2))
    if n == 0:
        return places, None
    size = float(np.abs(products).max())
    own = products[:m].mean(axis=0)
    # rows and columns around the mean of the landmarks
    products = products - products.mean(axis=1, keepdims=True) - own + own.mean()
    total = float(np.trace(products[:m]))
    if total <= _SAME_EVERYWHERE * size * m:
        return places, None
    among = (products[:m] + products[:m].T) / 2  # rounding made the two halves differ
    sizes, axes = scipy.linalg.eigh(among, subset_by_index=[max(0, m - 2), m - 1])
    sizes, axes = np.maximum(sizes[::-1], 0.0), axes[:, ::-1]
    for axis in range(len(sizes)):
        if sizes[axis] <= _SAME_EVERYWHERE * total:
            continue
        along = axes[:, axis]
        sign = np.sign(along[np.abs(along).argmax()])
        places[:, axis] = products @ along * (sign / np.sqrt(sizes[axis]))
    return _round(places), min(1.0, float(sizes.sum() / total))


def _vector_products(vectors: Any, normalize: bool) -> Floats:
    """Return inner products of all vectors with the landmarks; CSR stays CSR."""
    if scipy.sparse.issparse(vectors):
        rows = vectors.astype(np.float64)
        if normalize:
            lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
            rows = scipy.sparse.diags(_inverse(lengths)) @ rows
        return np.asarray((rows @ rows[:_LANDMARKS].T).toarray())
    rows = np.asarray(vectors, dtype=np.float64)
    if normalize:
        rows = rows * _inverse(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[:, None]
    elif len(rows):
        rows = rows - rows.mean(axis=0)  # less is lost to rounding where the mean is large
    return np.asarray(rows @ rows[:_LANDMARKS].T)


def _code_products(codes: Codes) -> Floats:
    landmarks = codes[:_LANDMARKS]
    far = distances(codes, landmarks).astype(np.float64)
    np.fill_diagonal(far, 0.0)  # rows with nothing to hash are far from themselves, too
    return -far / 2


def _inverse(lengths: Floats) -> Floats:
    """Return 1 / length, and 0 for rows of zeros, which have no direction."""
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _round(places: Floats) -> Floats:
    """Return places to five digits of the largest, which is more than a screen shows."""
    size = float(np.abs(places).max(initial=0.0))
    if size == 0.0:
        return places
    decimals = 5 - int(np.floor(np.log10(size)))
    # adding 0 makes 0 of −0
    return np.round(places, decimals) + 0.0


def _shown_value(value: Any) -> Any:
    """Return a value that a point may be coloured by, None where it is a list or a dictionary."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_LETTERS else value[:_MOST_LETTERS] + "…"
    return value if isinstance(value, bool | int | float) else None


def _fields_to_color_by(metadata: list[dict[str, Any]], declared: dict[str, str]) -> list[str]:
    """Return keys that tell groups of rows apart, those declared first: numbers, bools, and texts
    of which several rows share one.
    """
    seen: dict[str, list[Any]] = {name: [] for name in declared}
    for row in metadata:
        for name, value in row.items():
            if isinstance(value, str | bool | int | float):
                seen.setdefault(name, []).append(value)
    found = [name for name, values in seen.items() if _tells_groups_apart(values)]
    return found[:_MOST_FIELDS]


def _tells_groups_apart(values: list[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    if not texts:
        return bool(values)
    if max(map(len, texts)) > _MOST_LETTERS:
        return False
    return len(set(texts)) <= max(2, len(texts) // 2)
