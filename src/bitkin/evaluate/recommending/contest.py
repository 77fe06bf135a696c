"""The contest: few codes are measured in full, all others only as far as it takes to see that they
cannot win.

1. A method that fits quickly leads. Its shortest code that reaches the recall is found by halving
   the range of sizes: where a code fails, so do shorter ones, and what a longer one can gain is
   bounded.
2. Every other method is tried at the size that won, on few rows and queries (`screening.py`). Those
   that are behind by more than chance are dropped.
3. The rest is measured in full there, and at smaller sizes as far as those could win.

Of ways to search that reach the recall, the one of fewest bytes per vector wins; of those within
5 % of it the one that does the least work per query; of those within 10 % of that the one that
finds most. All of it goes by the queries that choose; those that check are not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bitkin import threads
from bitkin.evaluate.recommending.candidates import (
    CodeKey,
    key_of,
    leader_of,
    size_of_code,
    size_up_to,
)
from bitkin.evaluate.recommending.screening import SMALL_WORK, SURVIVORS, Screening
from bitkin.evaluate.recommending.watch import Watch
from bitkin.evaluate.recommending.ways import Family, TriedCode, Way
from bitkin.evaluate.trials.measurement import Measurement
from bitkin.evaluate.trials.measuring import FittedMethod, KeptKind, failed
from bitkin.evaluate.trials.methods import CodeMethod
from bitkin.evaluate.trials.trial import Trial

NEAR_TIE = 1.05  # of bytes per vector
_NEAR_TIE_IN_WORK = 1.10
_FIRST_BITS = 128
_GAIN = 0.75  # recall lost falls like bits to the power of −0.4 to −0.5; beyond this it never fell
_MOST_REMEMBERED = 1 << 28  # bytes of models
_OVERHEAD = 16.0  # bytes beside a code, until one was measured
_LEAST_OVERHEAD = 8.0  # row ids, which every code has beside it


class Contest:
    """Codes that compete on a trial.

    Parameters
    ----------
    trial : Trial
        With the queries that choose.
    codes : dict
        By method, the shortest first.
    kinds : dict of KeptKind
        How vectors may be kept.
    target : float
        Recall.
    max_bytes : float or None
        Per vector.
    watch : Watch
    """

    def __init__(
        self,
        trial: Trial,
        codes: Mapping[str, Sequence[CodeMethod]],
        kinds: Mapping[str, KeptKind],
        target: float,
        max_bytes: float | None,
        watch: Watch,
    ) -> None:
        self.trial = trial
        self.codes = codes
        self.kinds = kinds
        self.bar = target
        self.max_bytes = np.inf if max_bytes is None else max_bytes
        self.watch = watch
        self.tried: dict[CodeKey, TriedCode] = {}
        self.failures: dict[CodeKey, Measurement] = {}
        self.dropped: dict[str, str] = {}
        """Methods that were not measured in full, and why."""
        self.left_out: dict[str, str] = {}
        """Kinds that cannot keep all vectors, and why."""
        self._fitted: dict[CodeKey, FittedMethod] = {}
        self._refused: dict[Family, int] = {}
        """Oversamples that fresh queries found too small, by what they are of."""
        self.leader = leader_of(codes)
        self.survivors: list[str] = []

    def run(self) -> None:
        """Measure until no code could win that was not measured."""
        n_others = len(self.codes) - 1
        self.watch.expect(4 + SMALL_WORK * n_others + 2 * min(n_others, SURVIVORS) + 1)
        self._try([self._first_size(self.leader)])
        self._shorten(self.leader)
        self.extend()
        if n_others:
            self._let_others_in()
            self.extend()
        if self.choose() is None:
            self._lengthen()
        self.watch.expect(1)

    def _shorten(self, name: str) -> None:
        """Measure shorter codes of a method until one takes no more bytes than may be."""
        while self.tried and next(self.ways(), None) is None:
            shortest = min(code.n_bits for code in self.tried.values())
            shorter = [c for c in self._untried(name) if size_of_code(c, self.trial) < shortest]
            if not shorter:
                return
            self._try(shorter[-1:])

    def _lengthen(self) -> None:
        """Where nothing reaches the recall, measure the longest codes that may be of the method
        that finds most: whoever asked is told the best.
        """
        best = self.most()
        if best is None:
            return
        longest = {}
        for kept in (0.0, *(kind.bytes_per_vector for kind in self.kinds.values())):
            for code in self.codes[best.code.method.name]:
                bits = size_of_code(code, self.trial)
                if bytes_at(bits, best.code) + kept <= self.max_bytes:
                    longest[kept] = code
        self._try(list({self._key(code): code for code in longest.values()}.values()))

    def _let_others_in(self) -> None:
        """Measure at the winner's size the methods that may be better than the leader."""
        winner = self.choose() or self.most()
        if winner is None:  # the leader fails on these rows, or takes more bytes than may be
            self.survivors = [
                name
                for name in self.codes
                if name != self.leader and self._is_allowed(self._first_size(name))
            ]
            size = max(
                (size_of_code(self._first_size(name), self.trial) for name in self.survivors),
                default=_FIRST_BITS,
            )
        else:
            screening = Screening(self.trial, self.codes, self.kinds, self.watch, self.leader)
            self.survivors = screening.run(winner)
            self.dropped |= screening.dropped
            self.failures |= screening.failures
            size = winner.code.n_bits
        self.watch.expect(2 * len(self.survivors) + 1)
        self._try([size_up_to(self.codes[name], size, self.trial) for name in self.survivors])

    def extend(self) -> None:
        """Measure further sizes of the methods that are still in, as far as they could win."""
        self._narrow(self.leader)
        for name in self.survivors:
            self._narrow(name, downward=True)
        self._quicken()

    def ways(self) -> Iterator[Way]:
        """List the ways to search that take no more bytes than may be."""
        for code in list(self.tried.values()):
            for way in code.ways():
                if way.bytes_per_vector <= self.max_bytes and way.vectors not in self.left_out:
                    yield way

    def choose(self) -> Way | None:
        """Return the best way that reaches the recall; None where none does."""
        return best_of([way for way in self.ways() if self._reaches(way)])

    def refuse(self, way: Way) -> None:
        """Never choose a way again, nor the same with a smaller oversample: it finds less."""
        self._refused[way.family] = max(way.oversample, self._refused.get(way.family, 0))

    def leave_out(self, vectors: str, why: str) -> None:
        """Never choose a way again that keeps vectors so."""
        self.left_out[vectors] = why
        self.kinds = {name: kept for name, kept in self.kinds.items() if name != vectors}

    def _reaches(self, way: Way) -> bool:
        return way.sure >= self.bar and way.oversample > self._refused.get(way.family, 0)

    def runner_up(self, chosen: Way) -> Way | None:
        """Return the best way that reaches the recall by another method; where there is none, one
        with another last stage or other vectors.
        """
        others = [w for w in self.ways() if self._reaches(w) and w.family != chosen.family]
        by_method = [w for w in others if w.code.method.name != chosen.code.method.name]
        kept = [w for w in others if (w.stage, w.vectors) != (chosen.stage, chosen.vectors)]
        return best_of(by_method) or best_of(kept) or best_of(others)

    def most(self) -> Way | None:
        """Return the way that finds most, the smallest of those that find about as much."""
        ways = list(self.ways())
        if not ways:
            return None
        top = max(way.recall for way in ways)
        return best_of([way for way in ways if way.recall >= top - 1e-9])

    def measurements(self) -> list[Measurement]:
        """Return all that was measured in full, and what failed."""
        found = [
            code.measurement(stage, vectors)
            for code in self.tried.values()
            for stage, vectors in code.recalls
            if vectors not in self.left_out
        ]
        return found + list(self.failures.values())

    def _cheapest(self) -> float:
        reached = [way.bytes_per_vector for way in self.ways() if self._reaches(way)]
        return min(reached, default=np.inf)

    def _key(self, code: CodeMethod) -> CodeKey:
        return key_of(code, self.trial)

    def _untried(self, name: str) -> list[CodeMethod]:
        known = self.tried.keys() | self.failures.keys()
        return [code for code in self.codes[name] if self._key(code) not in known]

    def _first_size(self, name: str) -> CodeMethod:
        """Return the code that a method begins with: of 128 bits, or shorter to be allowed."""
        allowed = [code for code in self.codes[name] if self._is_allowed(code)]
        return min(
            allowed or self.codes[name][:1],
            key=lambda code: abs(size_of_code(code, self.trial) - _FIRST_BITS),
        )

    def _is_allowed(self, code: CodeMethod) -> bool:
        """Whether a code may take few enough bytes, as far as can be told before it is fitted."""
        return bool(size_of_code(code, self.trial) / 8 + _LEAST_OVERHEAD <= self.max_bytes)

    def _try(self, codes: Sequence[CodeMethod]) -> None:
        """Measure codes in full, those that were not yet, side by side."""
        known = self.tried.keys() | self.failures.keys()
        new = [code for code in codes if self._key(code) not in known]
        before = list(self.tried)
        try:
            threads.run(self._try_one, new)
        finally:
            # in the order asked for, whichever was measured first: of equals the first one wins
            order = [*before, *map(self._key, new)]
            self.tried = {key: self.tried[key] for key in order if key in self.tried}

    def _try_one(self, code: CodeMethod) -> None:
        if self.tried:  # one is always measured, however short the time
            self.watch.check()
        key = self._key(code)
        try:
            fitted = FittedMethod(self.trial, code)
            self.tried[key] = TriedCode.from_fitted(fitted, self.kinds)
            self._remember(key, fitted)
        except Exception as error:  # noqa: BLE001  # whatever it is, the other methods are measured
            self.failures[key] = failed(code.name, code.n_bits, "exact", error)
        self.watch.count(1.0, f"{code.name}, {key[1]} bits")

    def fitted(self, way: Way) -> FittedMethod:
        """Return the method of a way as it has learned."""
        known = self._fitted.get(self._key(way.code.method))
        # the same rows and seed give the same model
        return FittedMethod(self.trial, way.code.method) if known is None else known

    def _remember(self, key: CodeKey, fitted: FittedMethod) -> None:
        """Keep a fitted method, and as many of the others as fit beside it."""
        self._fitted[key] = fitted
        room = _MOST_REMEMBERED
        for known, other in reversed(list(self._fitted.items())):
            room -= 8 * self.trial.n_features * other.n_bits
            if room < 0 and known != key:
                self._fitted.pop(known, None)

    def _narrow(self, name: str, *, downward: bool = False) -> None:
        """Measure sizes of a method that could win, until none is left: `downward` one by one, as
        where a rival is to be beaten by a little, else in the middle.
        """
        while True:
            could = [code for code in self._untried(name) if self._could_win(code)]
            if not could:
                return
            # two at a time, whatever the number of threads: the answer does not depend on it
            places = {-1} if downward else {len(could) // 3, (2 * len(could)) // 3}
            self._try([could[place] for place in sorted(places)])

    def _could_win(self, code: CodeMethod) -> bool:
        """Whether a code could reach the recall with clearly fewer bytes than the best so far."""
        bits, best = size_of_code(code, self.trial), self._cheapest()
        own = [t for t in self.tried.values() if t.method.name == code.name]
        code_bytes = bytes_at(bits, own[0]) if own else bits / 8 + _OVERHEAD
        for vectors in (None, *self.kinds):
            kept = 0.0 if vectors is None else self.kinds[vectors].bytes_per_vector
            size = code_bytes + kept
            if size > self.max_bytes or size * NEAR_TIE >= best:
                continue
            if self._bound(own, bits, vectors) >= self.bar:
                return True
        return False

    def _bound(self, own: Sequence[TriedCode], bits: int, vectors: str | None) -> float:
        """Return a recall that a size of a method hardly exceeds, from other sizes of it."""
        bound = 1.0
        for code in own:
            mean, error = code.best_recall(vectors)
            high = min(1.0, mean + 2 * error)
            if code.n_bits >= bits:
                bound = min(bound, high)
            elif vectors is None:
                bound = min(bound, 1.0 - (1.0 - high) * (code.n_bits / bits) ** _GAIN)
        return bound

    def _quicken(self) -> None:
        """Measure longer codes of the winner's method, as far as they take hardly more bytes and
        save work: they let the exact stage measure fewer rows.
        """
        while (winner := self.choose()) is not None and winner.oversample > 1:
            longer = [
                code
                for code in self._untried(winner.code.method.name)
                if size_of_code(code, self.trial) > winner.code.n_bits
            ]
            if not longer:
                return
            longer_bytes = bytes_at(size_of_code(longer[0], self.trial), winner.code)
            more = longer_bytes - winner.code.code_bytes
            if winner.bytes_per_vector + more > NEAR_TIE * self._cheapest():
                return
            self._try(longer[:1])
            after = self.choose()
            if after is None or after.key == winner.key:
                return


def bytes_at(bits: int, known: TriedCode) -> float:
    """Return the bytes per vector of a code of another size, from one that was measured: each plane
    of symbols is whole words of 64, so that 32 bits take as many as 64.
    """
    spec = known.spec
    n_symbols = -(-bits // spec.bits_per_symbol)
    words = -(-n_symbols // 64) - spec.plane_words
    return known.code_bytes + 8.0 * spec.bits_per_symbol * words


def best_of(ways: Sequence[Way]) -> Way | None:
    """Return the way of fewest bytes; of near ties the one of least work; of near ties in that the
    one that finds most.
    """
    if not ways:
        return None
    smallest = min(way.bytes_per_vector for way in ways)
    near = [way for way in ways if way.bytes_per_vector <= NEAR_TIE * smallest]
    least = min(way.work for way in near)
    quick = [way for way in near if way.work <= _NEAR_TIE_IN_WORK * least]
    return max(quick, key=lambda way: (way.recall, -way.bytes_per_vector, way.key[0]))
