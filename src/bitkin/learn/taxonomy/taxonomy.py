"""A tree of classes, as flat arrays that kernels read and labels that people read; nothing in it
changes.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.learn.taxonomy import building
from bitkin.learn.taxonomy.growing import TreeParts, copies_below, extend, grow
from bitkin.learn.taxonomy.labels import Path, plain_label, plain_labels, plain_paths, some_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Integers = npt.NDArray[np.int64]
_Nodes = npt.NDArray[np.int32]


class Taxonomy:
    """Classes at the leaves of a tree, immutable; make one by a `from_…` constructor.

    Every constructor follows the same rules:

    - What all paths start with is the root. Where they start differently, a root named `root` is
      added.
    - A class is known by the last label of its path. Labels may be anything hashable; NumPy's
      become Python's. The same class at two places is an error; inner nodes of one name at two
      places are two nodes.
    - A class may also be an inner node, above other classes. It then gets a leaf of its own below
      that node, drawn as `(itself)`; its path stays as given.
    - Leaves at different depths are extended as the paper does (figure 2(c)): a copy of the leaf, a
      node in its own right, on every level down to the deepest.
    - Classes and nodes are numbered in order of appearance, and a node's parent before it.
    - Paths longer than 64 levels are for small trees: of many classes they are an error, since
      memory is for the paths of all classes, each extended to the longest.

    Attributes
    ----------
    n_levels : int
        The paper's T, the root's level included.
    n_classes, n_nodes : int
        Nodes are those below the root, copies included.
    classes : tuple
        Labels of the classes, by number.
    root_label : hashable
    node_labels : tuple
        Labels of the nodes, by number; a copy is called as its class.
    node_is_copy : bool (n_nodes,)
    node_parents : int32 (n_nodes,)
        −1 for the root.
    node_levels : int32 (n_nodes,)
        From 1, right below the root, to `n_levels` − 1.
    class_paths : int32 (n_classes, n_levels − 1)
        Node numbers from level 1 down to the class's leaf on the extended tree.
    class_depths : int32 (n_classes,)
        How many nodes of its path are no copies.
    child_offsets, child_nodes : int64 (n_nodes + 2,), int32 (n_nodes,)
        Children of node i are `child_nodes[child_offsets[i + 1]:child_offsets[i + 2]]`; those of
        the root come first.

    Notes
    -----
    Two taxonomies are equal where all labels and all numbers are: hashed weights belong to node
    numbers. `with_paths` adds classes and keeps every number.

    References
    ----------
    Zhao and Xing, Hierarchical feature hashing for fast dimensionality reduction, CVPR 2014.

    Examples
    --------
    >>> import bitkin
    >>> paths = [("plant", "flower", "lily"), ("plant", "flower", "rose"), ("plant", "moss")]
    >>> tree = bitkin.Taxonomy.from_paths(paths)
    >>> tree
    Taxonomy(3 classes, 3 levels, 5 nodes below 'plant')
    >>> print(tree)
    plant
    ├── flower
    │   ├── lily
    │   └── rose
    └── moss
    >>> tree.class_paths.tolist()  # moss has a copy on the last level
    [[0, 1], [0, 2], [3, 4]]
    >>> tree.path_of("lily")
    ('plant', 'flower', 'lily')
    """

    root_label: Hashable
    classes: tuple[Hashable, ...]
    node_labels: tuple[Hashable, ...]
    n_levels: int
    n_classes: int
    n_nodes: int
    node_parents: _Nodes
    node_levels: _Nodes
    node_is_copy: npt.NDArray[np.bool_]
    class_paths: _Nodes
    class_depths: _Nodes
    child_offsets: _Integers
    child_nodes: _Nodes
    _tree: TreeParts
    _class_numbers: dict[Hashable, int]

    def __init__(self, tree: TreeParts) -> None:
        if not isinstance(tree, TreeParts):
            raise InvalidInputError(
                f"Taxonomy must be made by from_paths or another from_… constructor, got {tree!r}."
            )
        parents = np.array(tree.node_parents, dtype=np.int32)
        # the last is the root's, so that −1 finds it
        levels = np.zeros(len(parents) + 1, dtype=np.int32)
        for node, parent in enumerate(tree.node_parents):
            levels[node] = levels[parent] + 1
        n_levels = int(levels.max()) + 1
        # Children of a node stand in a row, those of the root (−1) first, and offsets are running
        # sums of their counts.
        by_parent = np.argsort(parents, kind="stable").astype(np.int32)
        offsets = np.concatenate(
            [[0], np.cumsum(np.bincount(parents + 1, minlength=len(parents) + 1))]
        )
        arrays = {
            "node_parents": parents,
            "node_levels": levels[:-1],
            "node_is_copy": np.array(tree.node_is_copy, dtype=np.bool_),
            "class_paths": _class_paths(tree, levels, n_levels),
            "class_depths": levels[np.array(tree.class_ends, dtype=np.intp)],
            "child_offsets": offsets.astype(np.int64),
            "child_nodes": by_parent,
        }
        for array in arrays.values():
            array.flags.writeable = False
        self.__dict__.update(
            arrays,
            _tree=tree,
            _class_numbers={label: number for number, label in enumerate(tree.classes)},
            root_label=tree.root_label,
            classes=tree.classes,
            node_labels=tree.node_labels,
            n_levels=n_levels,
            n_classes=len(tree.classes),
            n_nodes=len(parents),
        )

    @classmethod
    def from_paths(cls, paths: Iterable[Any]) -> Taxonomy:
        """Make a taxonomy of the classes' paths, each a tuple of labels from the top to the class;
        repeats are fine.
        """
        return cls(grow(*building.split_root(plain_paths(paths))))

    @classmethod
    def from_classes(cls, classes: Iterable[Any]) -> Taxonomy:
        """Make a taxonomy without a hierarchy: two levels, a root and the classes."""
        labels = plain_labels(classes, "classes")
        if not labels:
            raise InvalidInputError("classes must hold at least one label, got none.")
        return cls(grow(building.name_root(labels), [(label,) for label in labels]))

    @classmethod
    def from_labels(cls, labels: Iterable[str], sep: str = ".") -> Taxonomy:
        """Make a taxonomy of classes whose names hold their paths, such as `comp.sys.mac`; whole
        names are the labels.

        Examples
        --------
        >>> import bitkin
        >>> print(bitkin.Taxonomy.from_labels(["rec.autos", "rec.sport.hockey", "sci.med"]))
        root
        ├── rec
        │   ├── rec.autos
        │   └── rec.sport
        │       └── rec.sport.hockey
        └── sci
            └── sci.med
        """
        return cls.from_paths(building.paths_from_labels(labels, sep))

    @classmethod
    def from_parents(
        cls, parents: Mapping[Any, Any], classes: Iterable[Any] | None = None
    ) -> Taxonomy:
        """Make a taxonomy of a map from label to the parent's label; tops have the parent None or
        are no keys.

        Classes are the leaves. Given `classes`, they are those, inner nodes among them if you like,
        and branches without any are left out. Several tops get a root above them; a cycle is an
        error that shows it.
        """
        return cls.from_paths(building.paths_from_parents(parents, classes))

    @classmethod
    def from_edges(cls, edges: Iterable[Any], classes: Iterable[Any] | None = None) -> Taxonomy:
        """Make a taxonomy of (parent, child) pairs, by the rules of `from_parents`; two parents are
        an error.
        """
        return cls.from_paths(building.paths_from_edges(edges, classes))

    @classmethod
    def from_nested(cls, tree: Mapping[Any, Any]) -> Taxonomy:
        """Make a taxonomy of dicts in dicts; a leaf is a key of nothing (None, an empty dict) or a
        member of a list.

        Examples
        --------
        >>> import bitkin
        >>> nested = {"plant": {"flower": ["lily", "rose"], "moss": None}}
        >>> bitkin.Taxonomy.from_nested(nested).classes
        ('lily', 'rose', 'moss')
        """
        return cls.from_paths(building.paths_from_nested(tree))

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        layout: str = "paths",
        header: bool = True,
        delimiter: str = ",",
    ) -> Taxonomy:
        """Make a taxonomy of a CSV file in UTF-8, whose cells become strings without blanks around
        them.

        `layout="paths"`: one line per class, one column per level, the last cells of short paths
        empty. `layout="parents"`: the first column is a node, the second its parent, empty for a
        top.
        `header`: the first line names the columns.
        """
        return cls.from_paths(building.paths_from_csv(path, layout, header, delimiter))

    def with_paths(self, paths: Iterable[Any]) -> Taxonomy:
        """Return a taxonomy with more classes, anywhere; nodes and classes of this one keep their
        numbers.

        A path may start at the root or right below it: a first label equal to `root_label` is the
        root. Where a new path is longer than all others, `n_levels` grows and every older class
        gets another copy.
        """
        # a path may or may not begin with the root
        below = [path[1:] if path[0] == self.root_label else path for path in plain_paths(paths)]
        return Taxonomy(extend(self._tree, below))

    def cut(self, n_levels: int) -> Taxonomy:
        """Return a taxonomy of the same classes with at most `n_levels` levels; the lowest inner
        nodes are left out.
        """
        from bitkin.learn.taxonomy.pruning import cut_paths

        inner = whole_number(n_levels, "n_levels", low=2) - 2
        return Taxonomy(grow(self.root_label, cut_paths(self, inner)))

    def condensed(self) -> Taxonomy:
        """Return a taxonomy of the same classes without inner nodes that have one child only: they
        tell none apart.

        The root moves down to the first node that has more.

        Examples
        --------
        >>> import bitkin
        >>> labels = ["thing.living.cat", "thing.living.dog", "thing.dead.matter.rock"]
        >>> tree = bitkin.Taxonomy.from_labels(labels)
        >>> [tree.condensed().path_of(label)[1:-1] for label in tree.classes]
        [('thing.living',), ('thing.living',), ()]
        """
        from bitkin.learn.taxonomy.pruning import condensed_paths

        return Taxonomy(grow(*condensed_paths(self)))

    def path_of(self, label: Hashable) -> Path:
        """Return the labels from the root to a class as they were given: its copies are left
        out.
        """
        number = self.class_number(label)
        nodes = self.class_paths[number, : self.class_depths[number]]
        return (self.root_label, *(self.node_labels[node] for node in nodes))

    def class_number(self, label: Hashable) -> int:
        """Return the number of a class."""
        return int(self.index_of([label])[0])

    def index_of(self, labels: Any) -> _Integers:
        """Return the numbers of classes, int64; labels that are none raise an error that lists
        them.
        """
        wanted = plain_labels(labels, "labels")
        numbers = self.class_numbers_of(wanted)
        if (numbers < 0).any():
            missing = dict.fromkeys(wanted[row] for row in np.flatnonzero(numbers < 0).tolist())
            raise InvalidInputError(
                f"labels must be classes of the taxonomy, got {some_labels(missing)}. Add classes "
                "by with_paths."
            )
        return numbers

    def class_numbers_of(self, labels: Sequence[Hashable]) -> _Integers:
        """Return the numbers of classes, int64; −1 for a label that is none."""
        numbers = self._class_numbers
        return np.array([numbers.get(label, -1) for label in labels], dtype=np.int64)

    def __contains__(self, label: object) -> bool:
        """Tell whether `label` is a class."""
        return plain_label(label, "label") in self._class_numbers

    def node_paths(self, labels: Any) -> _Nodes:
        """Return the node numbers from level 1 down of classes or inner nodes, int32 (n, n_levels −
        1), −1 below them.

        Each is given by its label or, as `predict_path` returns them, by the labels from the root
        to it; what is both a class and an inner node is the class. A label that several inner nodes
        have is an error: give their paths.
        """
        from bitkin.learn.taxonomy.lookup import node_paths

        return node_paths(self, labels)

    def lca_heights(self, y: Any, p: Any) -> _Integers:
        """Return for each pair of labels the height of their lowest common ancestor on the extended
        tree, int64.

        It is 0 for a class and itself, `n_levels` − 1 where only the root is common. An inner node,
        such as a prediction that stopped half way, counts from where it stopped; `node_paths` tells
        how to name one.
        """
        true, predicted = self.node_paths(y), self.node_paths(p)
        if len(true) != len(predicted):
            raise InvalidInputError(
                f"y and p must have one length, got {len(true)} and {len(predicted)} labels."
            )
        # Paths that part never meet again, so the levels on which they differ are the lowest ones,
        # and their number is the height. Below an inner node (−1) a prediction is wrong.
        heights: _Integers = ((true != predicted) | (predicted < 0)).sum(axis=1, dtype=np.int64)
        return heights

    def to_text(self, max_lines: int = 40, width: int = 100) -> str:
        """Draw the tree as text of at most `max_lines` lines, what is left out counted;
        `print(taxonomy)` does it.
        """
        from bitkin.learn.taxonomy.drawing import tree_text

        return tree_text(self, max_lines, width)

    def plot(self, ax: Axes | None = None, *, max_nodes: int = 60) -> Axes:
        """Draw the tree as a picture of at most `max_nodes` nodes, what is left out counted; needs
        the extra `plot`.
        """
        from bitkin.learn.taxonomy.drawing import tree_picture

        return tree_picture(self, ax, max_nodes)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold of this; labels must be strings, finite numbers, bools, None,
        or tuples of them.
        """
        from bitkin.learn.taxonomy.stored import taxonomy_to_dict

        return taxonomy_to_dict(self._tree)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Taxonomy:
        """Return the taxonomy `to_dict` was called on; anything else is a `CorruptFileError`."""
        from bitkin.learn.taxonomy.stored import tree_from_dict

        return cls(tree_from_dict(stored))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"Taxonomy does not change; {name} was not set. with_paths returns a new one."
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Taxonomy does not change; {name} was not deleted.")

    def __eq__(self, other: object) -> bool:
        return self._tree == other._tree if isinstance(other, Taxonomy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._tree)

    def __copy__(self) -> Taxonomy:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Taxonomy:
        return self  # nothing in it changes, and scikit-learn's clone makes many copies

    def __reduce__(self) -> tuple[type[Taxonomy], tuple[TreeParts]]:
        return Taxonomy, (self._tree,)

    def __len__(self) -> int:
        return self.n_classes

    def __repr__(self) -> str:
        size = f"{self.n_classes} classes, {self.n_levels} levels, {self.n_nodes} nodes"
        return f"Taxonomy({size} below {self.root_label!r})"

    def __str__(self) -> str:
        return self.to_text()


def _class_paths(tree: TreeParts, levels: _Nodes, n_levels: int) -> _Nodes:
    """Return the extended paths of all classes, filled from the leaves up."""
    copy_below = copies_below(tree)
    # A class's leaf is the last of the copies below the node where its path ends.
    leaves = []
    for end in tree.class_ends:
        node = end
        while node in copy_below:
            node = copy_below[node]
        leaves.append(node)
    paths = np.empty((len(leaves), n_levels - 1), dtype=np.int32)
    parents = np.array(tree.node_parents, dtype=np.int32)
    at = np.array(leaves, dtype=np.int32)
    for level in reversed(range(n_levels - 1)):
        paths[:, level] = at
        at = parents[at]
    return paths
