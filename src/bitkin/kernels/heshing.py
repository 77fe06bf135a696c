"""Hierarchical feature hashing: scores of tree nodes from one table of weights per level, and
learning them.

A node u hashes feature j with MurmurHash3_x86_32 of the four bytes of j, seeded by u. The low 31
bits choose the bucket, by the high part of their product with the number of buckets, and the top
bit is the sign ξ. The rounds that see only the feature are done once per row; what is left for each
node is short and vectorized.

Nodes are numbered level after level, the children of one node in a row: those of node i are
`children[i + 1]` to `children[i + 2]`, those of the root `children[0]` to `children[1]`. All leaves
are on the last level.

Weights are `scale` · `weights`, so that shrinking all of them is one product. The average needs no
pass over the table either: the sum of the weights after every step is always `sums` + `carried` ·
`weights`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import inlined_kernel, kernel

MOST_BUCKETS = 2**31
"""The hash has 31 bits for the bucket and one for the sign."""

_INTERCEPT = np.uint64(2**32 - 1)  # the feature that stands for the constant; columns end before it
# of the softmax: what is smaller than this share of a row changes no float32 weight
_LEAST_GRADIENT = 1e-6
LEAST_SCALE = 0.01
"""Below it the scale goes into the weights."""

LEAST_DECAY = 1e-12
"""Below it the factor of the sums of an `OnlineTables` goes into them."""
MOST_PRECISION = 1e36
"""Precisions grow no further: float32 ends a little above."""
_NEWTON_SHARE = 0.5  # of a Newton step: a diagonal curvature knows nothing of related features
_LEAST_SHARE = 1e-3  # of a node off the true path: what is smaller is not worth its update
_LEAST_CURVATURE = 0.02  # of the true path: sure rows count as knowledge too, if little
_AVERAGE_GROWTH = 5.0  # the average is one over about the last fifth of the rows,
_LONGEST_AVERAGE = 2000.0  # and over no more than so many
_FARTHEST_SQUARED = (
    100.0  # a row learned online counts for at most 10 times the length usual so far
)
ROUNDING = 1e-6
"""Of numbers in float32: what is left of a row less a mean, below this share of the mean, is 0."""

_C1, _C2 = np.uint64(0xCC9E2D51), np.uint64(0x1B873593)
_ADD, _F1, _F2 = np.uint64(0xE6546B64), np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_LOW_32, _LOW_31 = np.uint64(2**32 - 1), np.uint64(2**31 - 1)
_U4, _U5, _U13, _U15, _U16 = np.uint64(4), np.uint64(5), np.uint64(13), np.uint64(15), np.uint64(16)
_U17, _U19, _U31 = np.uint64(17), np.uint64(19), np.uint64(31)


class HeshingRows(NamedTuple):
    """Rows of features, as in a CSR matrix."""

    indptr: npt.NDArray[np.int64]
    features: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]


class Tree(NamedTuple):
    """The nodes below the root that lead to a class."""

    seeds: npt.NDArray[np.uint32]
    """[N]: one per node."""
    levels: npt.NDArray[np.int32]
    """[N]: from 0, the row of the table."""
    parents: npt.NDArray[np.int32]
    """[N]: −1 below the root."""
    children: npt.NDArray[np.int64]
    """[N + 2]"""
    leaf_classes: npt.NDArray[np.int32]
    """[N]: the class of a leaf; −1 elsewhere."""
    class_leaves: npt.NDArray[np.int32]
    """[K]: the leaf of a class."""


class HeshingTables(NamedTuple):
    """All that learning changes."""

    weights: npt.NDArray[np.float32]
    """[L, m]: to be multiplied by the scale."""
    sums: npt.NDArray[np.float32]
    """[L, m], or [1, 1] where no average is kept."""
    numbers: npt.NDArray[np.float64]
    """[5]: scale, carried, steps averaged, steps taken, sum of the losses met."""


class OnlineTables(NamedTuple):
    """All that learning in one pass changes: the weights that predict are `weights` + `numbers[0]`
    · `sums`.
    """

    weights: npt.NDArray[np.float32]
    """[L, m]: the last ones."""
    precisions: npt.NDArray[np.float32]
    """[L, m]: how much is known of each weight, Σ curvature · x², less what all start with."""
    sums: npt.NDArray[np.float32]
    """[L, m], or [1, 1] where no average is kept: from the last weights to their average."""
    numbers: npt.NDArray[np.float64]
    """[6]: factor of the sums, rows met, sum of the losses, Σ ‖x‖² and number of the rows learned
    that have a feature, number of rows in `feature_sums`.
    """
    feature_sums: npt.NDArray[np.float64]
    """[d]: sums of the rows met, of which their running mean is made; [0] where rows are not
    centred.
    """


class HeshingWork(NamedTuple):
    """Room for one row at a time, for one thread."""

    keys: npt.NDArray[np.uint32]
    """[M + 1]: what the hash makes of a feature before it meets a node."""
    values: npt.NDArray[np.float32]
    """[M + 1]"""
    buckets: npt.NDArray[np.uint32]
    """[M + 1]: of one node."""
    signed: npt.NDArray[np.float32]
    """[M + 1]: values times signs of one node."""
    scores: npt.NDArray[np.float64]
    """[N]: sums from the root down."""
    shares: npt.NDArray[np.float64]
    """[N]: of the softmax, sums from the leaves up."""
    frontier: npt.NDArray[np.int32]
    """[N]: nodes that the search has scored on a level."""
    kept: npt.NDArray[np.int32]
    """[N + 1]: those of them it continues with, in order."""
    visited: npt.NDArray[np.int32]
    """[N]: all nodes scored, parents before children."""
    sums: npt.NDArray[np.float32]
    """[4, N]: of every node, where they are all scored at once."""


def work_for(n_nodes: int, longest_row: int) -> HeshingWork:
    """Return room for rows of up to `longest_row` features in a tree of `n_nodes` nodes."""
    return HeshingWork(
        keys=np.empty(longest_row + 1, dtype=np.uint32),
        values=np.empty(longest_row + 1, dtype=np.float32),
        buckets=np.empty(longest_row + 1, dtype=np.uint32),
        signed=np.empty(longest_row + 1, dtype=np.float32),
        scores=np.zeros(n_nodes, dtype=np.float64),
        shares=np.zeros(n_nodes, dtype=np.float64),
        frontier=np.empty(n_nodes, dtype=np.int32),
        kept=np.empty(n_nodes + 1, dtype=np.int32),
        visited=np.empty(n_nodes, dtype=np.int32),
        sums=np.empty((4, n_nodes), dtype=np.float32),
    )


@inlined_kernel
def _key(feature):
    """The rounds of the hash before the seed: uint64 below 2**32 -> the same."""
    key = (feature * _C1) & _LOW_32
    key = ((key << _U15) | (key >> _U17)) & _LOW_32
    return (key * _C2) & _LOW_32


@inlined_kernel
def _hash(key, seed):
    """The rounds from the seed on: two uint64 below 2**32 -> one."""
    # one round of the body (the key has four bytes), then the finalizer
    h = key ^ seed
    h = ((h << _U13) | (h >> _U19)) & _LOW_32
    h = (h * _U5 + _ADD) & _LOW_32
    h = h ^ _U4  # the length of the key in bytes
    h = ((h ^ (h >> _U16)) * _F1) & _LOW_32
    h = ((h ^ (h >> _U13)) * _F2) & _LOW_32
    return h ^ (h >> _U16)


@kernel
def hash_pairs_into(features, seeds, hashes):
    """uint32[n], uint32[n] -> MurmurHash3_x86_32 of each feature under each seed, uint32[n]."""
    for i in range(features.size):
        hashes[i] = _hash(_key(np.uint64(features[i])), np.uint64(seeds[i]))


@kernel
def place_features_into(features, seed, n_buckets, buckets, signs):
    """Where a node of this seed puts features (uint32[n]), and with which sign -> int64[n],
    int8[n].
    """
    m = np.uint64(n_buckets)
    for i in range(features.size):
        h = _hash(_key(np.uint64(features[i])), np.uint64(seed))
        # h_u(j): the 31 bits as a fraction of 2³¹, times m;
        # ξ_u(j) is the top bit, which h never sees
        buckets[i] = ((h & _LOW_31) * m) >> _U31
        signs[i] = 1 - 2 * np.int64(h >> _U31)


@kernel
def _take_row(rows, row, intercept, work):
    """Bring a row into `work`, with the constant behind it unless that is 0; return its number of
    features.
    """
    start = rows.indptr[row]
    n = rows.indptr[row + 1] - start
    for i in range(n):
        work.keys[i] = _key(np.uint64(rows.features[start + i]))
        work.values[i] = rows.values[start + i]
    if intercept != 0.0:
        # the constant is hashed like a feature, with a bucket and a sign of its own in every node
        work.keys[n] = _key(_INTERCEPT)
        work.values[n] = intercept
        n += 1
    return n


@inlined_kernel
def _place_row(n, seed, n_buckets, keys, values, buckets, signed):
    """Write buckets and signed values of the row's `n` features for the node of this seed."""
    m, s = np.uint64(n_buckets), np.uint64(seed)
    for i in range(n):
        h = _hash(np.uint64(keys[i]), s)
        buckets[i] = ((h & _LOW_31) * m) >> _U31
        signed[i] = -values[i] if h > _LOW_31 else values[i]


@inlined_kernel
def _node_score(n, seed, level, weights, keys, values, buckets, signed):
    """⟨w, Φ(x, u)⟩ of the row at hand and the node of this seed, before scaling."""
    _place_row(n, seed, weights.shape[1], keys, values, buckets, signed)
    a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    whole = n - n % 4
    for i in range(0, whole, 4):  # four sums: one alone would wait for every addition
        a += signed[i] * weights[level, buckets[i]]
        b += signed[i + 1] * weights[level, buckets[i + 1]]
        c += signed[i + 2] * weights[level, buckets[i + 2]]
        d += signed[i + 3] * weights[level, buckets[i + 3]]
    for i in range(whole, n):
        a += signed[i] * weights[level, buckets[i]]
    return np.float64((a + b) + (c + d))


@kernel
def spread_weights_into(tree, weights, node_weights):
    """The weight of every feature in every node, with its sign -> float32[d + 1, N]; the constant's
    come last.
    """
    m = np.uint64(weights.shape[1])
    last = node_weights.shape[0] - 1
    for feature in range(last + 1):
        key = _key(_INTERCEPT if feature == last else np.uint64(feature))
        for node in range(tree.seeds.size):
            h = _hash(key, np.uint64(tree.seeds[node]))
            weight = weights[tree.levels[node], ((h & _LOW_31) * m) >> _U31]
            node_weights[feature, node] = -weight if h > _LOW_31 else weight


@kernel
def _score_nodes(rows, row, intercept, node_weights, work):
    """⟨w, Φ(x, u)⟩ of a row and every node, from the weights of its features in the nodes, into the
    first row of `work.sums`: the same products in the same order as `_node_score`, so the same sums
    to the last bit.
    """
    sums = work.sums
    sums[:, :] = np.float32(0)
    start = rows.indptr[row]
    n = rows.indptr[row + 1] - start
    n_terms = n + 1 if intercept != 0.0 else n
    whole = n_terms - n_terms % 4
    for i in range(n_terms):
        feature = np.int64(rows.features[start + i]) if i < n else node_weights.shape[0] - 1
        value = rows.values[start + i] if i < n else np.float32(intercept)
        lane = i % 4 if i < whole else 0
        # views, so that the loop over nodes is vectorized
        total, of_feature = sums[lane], node_weights[feature]
        for node in range(total.size):
            total[node] += value * of_feature[node]
    for node in range(sums.shape[1]):
        sums[0, node] = (sums[0, node] + sums[1, node]) + (sums[2, node] + sums[3, node])


@kernel
def _prepare_row(rows, row, intercept, node_weights, work):
    """Bring a row into `work`, its nodes scored already where `node_weights` are there; return its
    number of features, −1 for scored.
    """
    if node_weights.size > 0:
        _score_nodes(rows, row, intercept, node_weights, work)
        return -1
    return _take_row(rows, row, intercept, work)


@inlined_kernel
def _is_worse(a, b, scores):
    """Whether node `a` comes after node `b`: a lower score, or the same and a later place."""
    return scores[a] < scores[b] or (scores[a] == scores[b] and a > b)


@kernel
def _sift_down(heap, n, scores):
    """Bring the first of `n` nodes to its place in a heap with the worst node on top."""
    node, place = heap[0], 0
    while 2 * place + 1 < n:
        below = 2 * place + 1
        if below + 1 < n and _is_worse(heap[below + 1], heap[below], scores):
            below += 1
        if not _is_worse(heap[below], node, scores):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = node


@kernel
def _keep_best(frontier, scores, beam, kept):
    """Write the `beam` best of `frontier` to `kept`, the best first and equal ones by number;
    return how many.
    """
    n = 0
    # A heap of `beam` nodes with the worst on top: O(N log beam), and a node that is no better
    # than the worst costs one comparison.
    for node in frontier:
        if n < beam:
            place = n
            while place > 0 and _is_worse(node, kept[(place - 1) // 2], scores):
                kept[place] = kept[(place - 1) // 2]
                place = (place - 1) // 2
            kept[place] = node
            n += 1
        elif _is_worse(kept[0], node, scores):
            kept[0] = node
            _sift_down(kept, n, scores)
    # heapsort: the worst goes to the end, so the best comes first
    for last in range(n - 1, 0, -1):
        kept[0], kept[last] = kept[last], kept[0]
        _sift_down(kept, last, scores)
    return n


@kernel
def _search(n, tree, weights, factor, beam, true_leaf, work):
    """Score nodes level by level, below the `beam` best of each level and always down to
    `true_leaf` (−1: none).

    Returns how many nodes of the last level were scored, which are then in `work.frontier`, and of
    all levels, in `work.visited`. With as many nodes as a level has, nothing is left out. Where `n`
    is −1, what every node adds is in `work.sums` already.
    """
    scores, frontier, kept, visited = work.scores, work.frontier, work.kept, work.visited
    keys, values, buckets, signed = work.keys, work.values, work.buckets, work.signed
    seeds, children = tree.seeds, tree.children
    n_visited = 0
    n_kept = 1
    # the root, whose own part of the score is the same for all classes and is left out
    kept[0] = -1
    last = tree.levels[tree.levels.size - 1]
    for level in range(last + 1):
        n_frontier = 0
        for k in range(n_kept):
            node = kept[k]
            above = scores[node] if node >= 0 else 0.0
            for child in range(children[node + 1], children[node + 2]):
                if n < 0:
                    score = np.float64(work.sums[0, child])
                else:
                    score = _node_score(
                        n, seeds[child], level, weights, keys, values, buckets, signed
                    )
                # 1/√T · Σ ⟨w, Φ(x, u)⟩ down to here: a node is
                # scored once for all classes below it
                scores[child] = above + factor * score
                frontier[n_frontier] = child
                visited[n_visited] = child
                n_frontier += 1
                n_visited += 1
        if level == last:
            return n_frontier, n_visited
        if n_frontier <= beam:
            for f in range(n_frontier):  # a slice would allocate
                kept[f] = frontier[f]
            n_kept = n_frontier
        else:
            n_kept = _keep_best(frontier[:n_frontier], scores, beam, kept)
            if true_leaf >= 0:
                # Learning needs the score of the true class, whatever the beam thinks of it.
                n_kept = _keep_ancestor(true_leaf, level, tree, kept, n_kept)
    return 0, 0


@kernel
def _keep_ancestor(leaf, level, tree, kept, n_kept):
    """Add the ancestor of `leaf` on `level` to `kept` unless it is there; return how many there are
    now.
    """
    node = leaf
    while tree.levels[node] > level:
        node = tree.parents[node]
    for k in range(n_kept):
        if kept[k] == node:
            return n_kept
    kept[n_kept] = node
    return n_kept + 1


@kernel
def score_classes_into(rows, first, tree, weights, node_weights, factor, intercept, work, scores):
    """Rows from `first` on -> scores of all classes, float32[n, K]; `factor` is 1/√T."""
    for r in range(scores.shape[0]):
        n = _prepare_row(rows, first + r, intercept, node_weights, work)
        _search(n, tree, weights, factor, tree.seeds.size, -1, work)
        for c in range(scores.shape[1]):
            scores[r, c] = work.scores[tree.class_leaves[c]]


@kernel
def _take_best(n_leaves, tree, first, work, classes, scores):
    """Fill the places of a row from `first` on with the best leaves of the frontier; return the
    first place left.
    """
    n = _keep_best(work.frontier[:n_leaves], work.scores, classes.size - first, work.kept)
    for k in range(n):
        classes[first + k] = tree.leaf_classes[work.kept[k]]
        scores[first + k] = work.scores[work.kept[k]]
    return first + n


@kernel
def best_classes_into(
    rows, first, tree, weights, node_weights, factor, intercept, beam, work, classes, scores
):
    """Rows from `first` on -> the best classes, best first and ties by node, int32[n, k], and
    float32[n, k] scores.

    Where the beam reaches fewer than k classes, those it reaches come first, and after them the
    best of all others.
    """
    for r in range(classes.shape[0]):
        n = _prepare_row(rows, first + r, intercept, node_weights, work)
        n_leaves, _ = _search(n, tree, weights, factor, beam, -1, work)
        done = _take_best(n_leaves, tree, 0, work, classes[r], scores[r])
        if done < classes.shape[1]:
            n_leaves, _ = _search(n, tree, weights, factor, tree.seeds.size, -1, work)
            for k in range(done):
                # those that the beam has found have their places already
                work.scores[tree.class_leaves[classes[r, k]]] = -np.inf
            _take_best(n_leaves, tree, done, work, classes[r], scores[r])


@kernel
def sure_depths_into(
    rows, first, tree, weights, node_weights, factor, intercept, beam, margin, work, classes, depths
):
    """Rows from `first` on -> the best class by the beam, int32[n], and how many nodes of its path
    are sure, int64[n].

    A node is sure when the best class leads every class outside the node by `margin`, whether the
    beam reaches them or not.
    """
    leaf_level = tree.levels[tree.levels.size - 1]
    for r in range(classes.size):
        n = _prepare_row(rows, first + r, intercept, node_weights, work)
        n_leaves, n_visited = _search(n, tree, weights, factor, beam, -1, work)
        _keep_best(work.frontier[:n_leaves], work.scores, 1, work.kept)
        leaf = work.kept[0]
        classes[r] = tree.leaf_classes[leaf]
        # the beam chose the class, but its lead is over all classes: score what the beam left out
        if n_visited < tree.seeds.size:
            _search(n, tree, weights, factor, tree.seeds.size, -1, work)
        depths[r] = _sure_depth(leaf, leaf_level, margin, tree, work)


@kernel
def _sure_depth(leaf, leaf_level, margin, tree, work):
    """How many nodes of the path to `leaf` lead all that is outside them; every node's score is in
    `work.scores`.
    """
    scores, best = work.scores, work.shares  # best: of the leaves below a node
    for node in range(scores.size - 1, -1, -1):
        if tree.levels[node] == leaf_level:
            best[node] = scores[node]
        else:
            # backwards, children come before their parents: the
            # best leaf below each node in one pass
            best[node] = -np.inf
            for child in range(tree.children[node + 1], tree.children[node + 2]):
                best[node] = max(best[node], best[child])
    for level in range(leaf_level, -1, -1):  # the path from the root down, into `kept`
        work.kept[level] = leaf
        leaf = tree.parents[leaf]
    # lead = s(best) − the best score outside the node so far; it only shrinks on the way down, so
    # the first node below the margin ends the sure part of the path.
    lead = np.inf
    score = scores[work.kept[leaf_level]]
    for level in range(leaf_level + 1):
        node = work.kept[level]
        parent = tree.parents[node]
        for child in range(tree.children[parent + 1], tree.children[parent + 2]):
            if child != node:
                lead = min(lead, score - best[child])
        if lead < margin:
            return level
    return leaf_level + 1


@kernel
def _add_row(n, node, amount, tree, tables, averaging, work):
    """Add `amount` · Φ(x, u) to the weights, and keep the sums what they are."""
    weights, sums = tables.weights, tables.sums
    level, buckets, signed = tree.levels[node], work.buckets, work.signed
    _place_row(n, tree.seeds[node], weights.shape[1], work.keys, work.values, buckets, signed)
    change = np.float32(amount)
    for i in range(n):
        weights[level, buckets[i]] += change * signed[i]
    if averaging:
        # The sum of all weights so far is sums + carried · weights. Weights change by δ from now
        # on, so sums −= carried · δ leaves that sum as it was.
        change = np.float32(-amount * tables.numbers[1])
        for i in range(n):
            sums[level, buckets[i]] += change * signed[i]


@kernel
def _hinge_step(n, true_leaf, n_leaves, step, factor, square, tree, tables, averaging, work):
    """Crammer–Singer: push the true class and the best other class apart where they differ; return
    the loss.
    """
    scores = work.scores
    rival = -1
    for node in work.frontier[:n_leaves]:
        if node != true_leaf and (rival < 0 or scores[node] > scores[rival]):
            rival = node
    if rival < 0:
        return 0.0
    loss = 1.0 - scores[true_leaf] + scores[rival]
    if not loss > 0.0:
        return 0.0
    good, bad, apart = true_leaf, rival, 0
    # Below the lowest common ancestor the two paths have `apart` nodes each; above it the gradient
    # of the good path cancels that of the bad one, so those nodes stay.
    while good != bad:
        good, bad, apart = tree.parents[good], tree.parents[bad], apart + 1
    # About as far as to a loss of 0 and no farther: the step of the proximal method, safe whatever
    # the scale of the rows. The length is that of the hashed features on average over hashes;
    # collisions within one row change it.
    length = 2.0 * apart * square * factor * factor
    amount = step if step * length <= loss else loss / length
    # Ψ has the factor 1/√T, and the table holds weights / scale
    amount *= factor / tables.numbers[0]
    good, bad = true_leaf, rival
    while good != bad:
        _add_row(n, good, amount, tree, tables, averaging, work)
        _add_row(n, bad, -amount, tree, tables, averaging, work)
        good, bad = tree.parents[good], tree.parents[bad]
    return loss


@kernel
def _softmax_shares(true_leaf, n_leaves, n_visited, tree, work):
    """Write the gradient of the softmax loss by node to `work.shares`; return the loss."""
    scores, shares = work.scores, work.shares
    # the largest score is subtracted, so that no exponential overflows
    top = scores[true_leaf]
    for node in work.frontier[:n_leaves]:
        top = max(top, scores[node])
    for node in work.visited[:n_visited]:
        shares[node] = 0.0
    total = 0.0
    for node in work.frontier[:n_leaves]:
        shares[node] = np.exp(scores[node] - top)
        total += shares[node]
    # −log softmax(true) = log Σ exp(s) − s(true)
    loss = np.log(total) + top - scores[true_leaf]
    for node in work.frontier[:n_leaves]:
        shares[node] /= total
    # The gradient at a node is the sum over the leaves below it: p(u) = Σ p(leaf), less 1 on the
    # true path. Children come after their parents in `visited`, so backwards they are complete.
    for k in range(n_visited - 1, -1, -1):
        node = work.visited[k]
        if tree.parents[node] >= 0:
            shares[tree.parents[node]] += shares[node]
    node = true_leaf
    while node >= 0:
        shares[node] -= 1.0
        node = tree.parents[node]
    return loss


@kernel
def _softmax_step(
    n, true_leaf, n_leaves, n_visited, step, factor, square, tree, tables, averaging, work
):
    """Move every node that was scored by how far its share is from the truth; return the loss."""
    loss = _softmax_shares(true_leaf, n_leaves, n_visited, tree, work)
    shares = work.shares
    steepness = 0.0
    for node in work.visited[:n_visited]:
        # ‖gradient‖² is about Σ share² · ‖x‖² / T: parts of
        # different nodes are hashed independently
        steepness += shares[node] * shares[node]
    # The loss falls by at least as much as a line cut off at 0 would: beyond that point lies only
    # overshooting.
    length = steepness * square * factor * factor
    # both are 0 where no other class has a share
    amount = step if step * length <= loss else loss / length
    amount *= factor / tables.numbers[0]
    for node in work.visited[:n_visited]:
        if abs(shares[node]) > _LEAST_GRADIENT:
            _add_row(n, node, -amount * shares[node], tree, tables, averaging, work)
    return loss


@kernel
def _settle(tables, averaging):
    """Bring the scale back to 1 and what is carried to 0: float32 would lose the average in large
    numbers.
    """
    scale, carried = tables.numbers[0], tables.numbers[1]
    for level in range(tables.weights.shape[0]):
        for bucket in range(tables.weights.shape[1]):
            weight = tables.weights[level, bucket]
            if averaging:
                # sums + carried · weights stays what it is, with carried = 0 from here on
                tables.sums[level, bucket] += np.float32(carried) * weight
            tables.weights[level, bucket] = np.float32(scale) * weight
    tables.numbers[0], tables.numbers[1] = 1.0, 0.0


@kernel
def learn_rows_into(
    rows,
    classes,
    tree,
    tables,
    softmax,
    alpha,
    first_step,
    averaging,
    factor,
    intercept,
    beam,
    work,
):
    """Learn rows, of classes int32[n], one after another. A step is `first_step` / √(1 + alpha ·
    first_step · t).
    """
    numbers = tables.numbers
    for row in range(classes.size):
        true_leaf = tree.class_leaves[classes[row]]
        n = _take_row(rows, row, intercept, work)
        square = 0.0
        for i in range(n):
            square += np.float64(work.values[i]) * np.float64(work.values[i])
        # η_t = η₀ / √(1 + α·η₀·t)
        step = first_step / np.sqrt(1.0 + alpha * first_step * numbers[3])
        if square > 0.0:
            n_leaves, n_visited = _search(
                n, tree, tables.weights, factor * numbers[0], beam, true_leaf, work
            )
            if softmax:
                loss = _softmax_step(
                    n,
                    true_leaf,
                    n_leaves,
                    n_visited,
                    step,
                    factor,
                    square,
                    tree,
                    tables,
                    averaging,
                    work,
                )
            else:
                loss = _hinge_step(
                    n, true_leaf, n_leaves, step, factor, square, tree, tables, averaging, work
                )
            numbers[4] += loss
        # The L2 penalty as an implicit step, w / (1 + η·α),
        # for all weights at once through the scale.
        numbers[0] /= 1.0 + step * alpha
        if numbers[0] < LEAST_SCALE:
            _settle(tables, averaging)
        # sums + carried · weights grows by scale · weights, the weights after this step
        numbers[1] += numbers[0]
        numbers[2] += 1.0
        numbers[3] += 1.0


@inlined_kernel
def _hashed_variance(n, level, start, precisions, buckets, signed):
    """Σ x² / precision of a row as it is placed in `buckets`."""
    variance = 0.0
    for i in range(n):
        x = np.float64(signed[i])
        variance += x * x / (start + np.float64(precisions[level, buckets[i]]))
    return variance


@kernel
def _add_online(n, node, gradient, curvature, start, tree, tables, averaging, work):
    """Move the weights of a node by `gradient` · Φ(x, u) / precision, and add the row's curvature
    to the precisions.
    """
    weights, precisions, sums = tables.weights, tables.precisions, tables.sums
    level, buckets, signed = tree.levels[node], work.buckets, work.signed
    _place_row(n, tree.seeds[node], weights.shape[1], work.keys, work.values, buckets, signed)
    # The average is weights + decay · sums. Weights change by δ from now on, the average does not
    # yet, so sums −= δ / decay.
    undecayed = 1.0 / tables.numbers[0]
    for i in range(n):
        bucket, x = buckets[i], np.float64(signed[i])
        precision = np.float64(precisions[level, bucket])
        change = gradient * x / (start + precision)
        weights[level, bucket] += np.float32(change)
        if averaging:
            sums[level, bucket] -= np.float32(change * undecayed)
        precisions[level, bucket] = np.float32(min(precision + curvature * x * x, MOST_PRECISION))


@kernel
def _online_step(n, true_leaf, n_leaves, n_visited, start, factor, tree, tables, averaging, work):
    """Take half a Newton step on the softmax loss, with a curvature for each weight by itself;
    return the loss.
    """
    loss = _softmax_shares(true_leaf, n_leaves, n_visited, tree, work)
    shares, buckets, signed = work.shares, work.buckets, work.signed
    # How far the loss falls to first order per unit of step: Σ (∂loss/∂w)² / precision.
    fall = 0.0
    for node in work.visited[:n_visited]:
        share = shares[node]
        if share < 0.0 or share > _LEAST_SHARE:
            _place_row(
                n,
                tree.seeds[node],
                tables.weights.shape[1],
                work.keys,
                work.values,
                buckets,
                signed,
            )
            fall += (
                share
                * share
                * _hashed_variance(n, tree.levels[node], start, tables.precisions, buckets, signed)
            )
    fall *= factor * factor
    loss = max(loss, 0.0)  # rounding may leave it a little below
    # No farther than to where a line would reach a loss of 0, as in `_softmax_step`.
    amount = _NEWTON_SHARE if _NEWTON_SHARE * fall <= loss else loss / fall
    for node in work.visited[:n_visited]:
        share = shares[node]
        if share < 0.0 or share > _LEAST_SHARE:
            # p·(1 − p), where |share| is p off the true path and 1 − p on it
            curvature = abs(share) * (1.0 - abs(share))
            if share < 0.0:
                curvature = max(curvature, _LEAST_CURVATURE)
            _add_online(
                n,
                node,
                -amount * share * factor,
                curvature * factor * factor,
                start,
                tree,
                tables,
                averaging,
                work,
            )
    return loss


@inlined_kernel
def _pulled_back(square, usual):
    """The factor that brings a row of this squared length to at most 10 times the usual one."""
    farthest = _FARTHEST_SQUARED * usual
    return np.sqrt(farthest / square) if square > farthest else 1.0


@kernel
def _take_centered(rows, row, tables, work):
    """Bring a row into `work` less the mean of all rows so far, itself counted; return its number
    of features. The sums move on.

    A row far from the mean is pulled towards it before it counts, so one wild row cannot carry the
    mean away. The first row is compared with the second.
    """
    sums, numbers, values = tables.feature_sums, tables.numbers, work.values
    if rows.indptr[row] == rows.indptr[row + 1]:
        return 0
    d = sums.size
    values[:d] = np.float32(0)
    length = 0.0
    for i in range(rows.indptr[row], rows.indptr[row + 1]):
        values[rows.features[i]] = rows.values[i]
        length += np.float64(rows.values[i]) * np.float64(rows.values[i])
    n_before = numbers[5]
    scale = 1.0
    if n_before > 0.0:
        of_mean = 0.0
        for j in range(d):
            of_mean += (sums[j] / n_before) * (sums[j] / n_before)
        if n_before == 1.0 and of_mean > 0.0:
            back = _pulled_back(of_mean, length)
            of_mean *= back * back
            for j in range(d):
                sums[j] *= back
        apart = 0.0
        for j in range(d):
            one = np.float64(values[j]) - sums[j] / n_before
            apart += one * one
        usual = numbers[3] / numbers[4] if numbers[4] > 0.0 else of_mean
        scale = _pulled_back(apart, usual)
    numbers[5] = n_before + 1.0
    n = 0
    for j in range(d):
        value = np.float64(values[j])
        if scale < 1.0:
            mean = sums[j] / n_before
            value = mean + scale * (value - mean)
        sums[j] += value
        mean = sums[j] / numbers[5]
        if abs(value - mean) > ROUNDING * abs(mean):
            # n ≤ j: no value is overwritten before it is read
            work.keys[n] = _key(np.uint64(j))
            values[n] = np.float32(value - mean)
            n += 1
    return n


@kernel
def _measure_online(n, tables, work):
    """Count the row in the usual squared length, after pulling it back where it is far longer;
    return its squared length.
    """
    numbers, values = tables.numbers, work.values
    square = 0.0
    for i in range(n):
        square += np.float64(values[i]) * np.float64(values[i])
    if square == 0.0:
        return 0.0
    if numbers[4] == 1.0 and numbers[3] > _FARTHEST_SQUARED * square:
        # the first row had none to be compared with: it counts as if it had been pulled back
        back = np.float32(_FARTHEST_SQUARED * square / numbers[3])
        for level in range(tables.precisions.shape[0]):
            for bucket in range(tables.precisions.shape[1]):
                tables.precisions[level, bucket] *= back
        numbers[3] = _FARTHEST_SQUARED * square
    if numbers[4] > 0.0:
        scale = _pulled_back(square, numbers[3] / numbers[4])
        if scale < 1.0:
            for i in range(n):
                values[i] = np.float32(scale * np.float64(values[i]))
            square *= scale * scale
    numbers[3] += square
    numbers[4] += 1.0
    return square


@kernel
def learn_online_into(
    rows,
    classes,
    tree,
    tables,
    margin,
    start,
    relative,
    averaging,
    factor,
    has_constant,
    beam,
    work,
):
    """Learn rows, of classes int32[n], one after another, by steps that shrink for each weight with
    what is known of it.

    Weights start with the precision `start`, where `relative` is true times the mean squared length
    of the rows so far; the constant, where there is one, is the root of that. The true class has to
    lead by `margin` more than the softmax asks for. Rows are centred where the tables have sums of
    features.
    """
    numbers = tables.numbers
    for row in range(classes.size):
        numbers[1] += 1.0
        true_leaf = tree.class_leaves[classes[row]]
        if tables.feature_sums.size > 0:
            n = _take_centered(rows, row, tables, work)
        else:
            n = _take_row(rows, row, 0.0, work)
        square = _measure_online(n, tables, work)
        if numbers[4] == 0.0 or (square == 0.0 and not has_constant):
            continue
        usual = numbers[3] / numbers[4]
        if has_constant:
            work.keys[n] = _key(_INTERCEPT)
            work.values[n] = np.float32(np.sqrt(usual))
            n += 1
        prior = start * usual if relative else start
        n_leaves, n_visited = _search(n, tree, tables.weights, factor, beam, true_leaf, work)
        work.scores[true_leaf] -= margin
        numbers[2] += _online_step(
            n, true_leaf, n_leaves, n_visited, prior, factor, tree, tables, averaging, work
        )
        if averaging:
            # average += β · (weights − average), and the average is weights + decay · sums
            newest = max(_AVERAGE_GROWTH / (numbers[4] + _AVERAGE_GROWTH), 1.0 / _LONGEST_AVERAGE)
            numbers[0] *= 1.0 - newest
            if numbers[0] < LEAST_DECAY:
                decay = np.float32(numbers[0])
                for level in range(tables.sums.shape[0]):
                    for bucket in range(tables.sums.shape[1]):
                        tables.sums[level, bucket] *= decay
                numbers[0] = 1.0
