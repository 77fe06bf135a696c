"""Methods on few rows and queries, the same for all: which may be better than the leading one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.evaluate.recommending.candidates import CodeKey, key_of, size_up_to
from bitkin.evaluate.recommending.watch import Watch
from bitkin.evaluate.recommending.ways import Way, mean_and_error
from bitkin.evaluate.trials.measurement import Measurement
from bitkin.evaluate.trials.measuring import FittedMethod, KeptKind, failed
from bitkin.evaluate.trials.methods import CodeMethod
from bitkin.evaluate.trials.ranks import recalls_of_ranks
from bitkin.evaluate.trials.trial import Trial

SMALL_WORK = 0.25  # of a code measured in full
SURVIVORS = 3
_ROWS, _QUERIES, _BITS = 4_000, 200, 256
_SLACK = 0.005  # of recall: methods learn from few rows here


class Screening:
    """Looks which methods may be ahead of the leader.

    Parameters
    ----------
    trial : Trial
        In full; few of its rows and queries are taken.
    codes, kinds, watch
        Of the contest.
    leader : str
        The method to beat.
    """

    def __init__(
        self,
        trial: Trial,
        codes: Mapping[str, Sequence[CodeMethod]],
        kinds: Mapping[str, KeptKind],
        watch: Watch,
        leader: str,
    ) -> None:
        self._trial = trial.with_sample(_ROWS).with_queries(slice(0, _QUERIES))
        self._codes = codes
        self._kinds = kinds
        self._watch = watch
        self._leader = leader
        self.dropped: dict[str, str] = {}
        """Methods that are behind, and by how much."""
        self.failures: dict[CodeKey, Measurement] = {}

    def run(self, winner: Way) -> list[str]:
        """Return the methods that may be ahead at the size of the best way so far, the most
        promising first.
        """
        names = [name for name in self._codes if name != self._leader]
        scores = threads.run(lambda name: self._score(name, winner), [self._leader, *names])
        return self._keep(names, scores[0], scores[1:])

    def _score(self, name: str, winner: Way) -> Floats | None:
        """Return the recall of every query where a search measures as many rows as the winner's;
        None where the method fails.
        """
        self._watch.check()
        code = size_up_to(self._codes[name], min(winner.code.n_bits, _BITS), self._trial)
        try:
            fitted = FittedMethod(self._trial, code)
            if winner.vectors is None:
                return fitted.recalls(fitted.best_stage)[:, 0]
            order = self._kinds[winner.vectors].order[:_QUERIES]
            rows = winner.code.rows_per_oversample * winner.oversample
            ranks = fitted.ranks(fitted.stage_before_exact)
            return recalls_of_ranks(ranks, order, rows, (1,))[:, 0]
        except Exception as error:  # noqa: BLE001  # whatever it is, the others are measured
            self.failures[key_of(code, self._trial)] = failed(name, code.n_bits, "exact", error)
            return None
        finally:
            self._watch.count(SMALL_WORK, f"{name} on few rows")

    def _keep(
        self, names: Sequence[str], leading: Floats | None, scores: Sequence[Floats | None]
    ) -> list[str]:
        """Return the few methods that may be ahead of the leader, the best first."""
        ahead: dict[str, float] = {}
        for name, own in zip(names, scores, strict=True):
            if own is None:
                continue
            mean, error = mean_and_error(own if leading is None else own - leading)
            if leading is None or mean + 2 * error + _SLACK > 0:
                ahead[name] = mean
            else:
                self.dropped[name] = f"behind {self._leader} by {-mean:.3f}"
        best = sorted(ahead, key=lambda name: -ahead[name])
        for name in best[SURVIVORS:]:
            self.dropped[name] = f"behind {best[0]}"
        return best[:SURVIVORS]
