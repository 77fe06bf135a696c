"""How a run that continues finds out what it is fed: the rest of the stream, all of it again, or
the last input again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bitkin.arguments import ArgumentSpelling
from bitkin.errors import InvalidInputError
from bitkin.stream_files.opening import StreamPlaces
from bitkin.stream_files.outputs import StreamWriter
from bitkin.stream_files.taken import Repetition, TakenVectors
from bitkin.stream_files.vectors_in import StreamBlock


class Resuming:
    """Passes over vectors that were taken before, where an input begins again.

    What a run is fed counts as one input, in however many calls. Vectors that begin as the stream
    did, or as the last input, are compared with it to its end; where they differ on the way, the
    input is refused. All other vectors continue the stream, but for those of a file that was read
    before and does not begin as it did. Few vectors, or many of the same, may well come again as
    new ones: unless they are of the very file that was read, the caller must say which they are.

    Parameters
    ----------
    writer : StreamWriter
        It knows what was taken.
    places : StreamPlaces
    spelling : ArgumentSpelling
        How messages name arguments.
    """

    def __init__(
        self, writer: StreamWriter, places: StreamPlaces, spelling: ArgumentSpelling
    ) -> None:
        self._position = writer.position
        self._taken = writer.taken
        self._places = places
        self._spelling = spelling
        self._repetition: Repetition | None = self._new_repetition()
        self._source: str | None = None  # that the input began with; None before it has begun
        self.n_repeated = 0
        self.is_guess = False
        """Whether only the vectors told that they were taken before."""

    @property
    def n_awaited(self) -> int:
        """Vectors that must still come again before any is new; 0 where nothing is repeated."""
        repetition = self._repetition
        if repetition is None or not repetition.n_seen:
            return 0
        return repetition.n_expected - repetition.n_seen

    def new_blocks(
        self,
        blocks: Iterator[StreamBlock],
        name: str,
        from_start: bool | None,
        source: str | None,
    ) -> Iterator[StreamBlock]:
        """Yield what is new of an input that messages call `name`.

        `from_start` says whether it is the stream from its start; None where its vectors are to
        tell. `source` is the file that it is, if it is one from its start.
        """
        seen_source = source or ""
        if Path(seen_source).is_absolute():
            seen_source = self._places.seen_from_state(Path(seen_source))
        if from_start:
            self._source = seen_source
            yield from self._after_start(blocks, name)
            return
        for block in blocks:
            if self._source is None:
                self._source = seen_source
            if from_start is False:
                self._continue_stream()
            if self._repetition is None:
                yield block
                continue
            new = list(self._repetition.look_at(block))
            if self._repetition.is_decided:
                self._settle(self._repetition, block.form, name)
            yield from new

    def describe_awaited(self, name: str) -> str:
        """Say that an input ended before anything new came."""
        n_seen = 0 if self._repetition is None else self._repetition.n_seen
        return (
            f"{name} has {n_seen:,} vectors, the first of those that the state has taken already, "
            f"and ends {self.n_awaited:,} before the first new one: nothing was coded. Feed all of "
            "it, or what comes after them; if these vectors are new although they are the same, "
            f"say so with {self._spelling.given('from_start', False)}."
        )

    def _new_repetition(self) -> Repetition:
        taken = (self._taken.last, self._taken.stream)
        return Repetition([each for each in taken if each is not None])

    def _after_start(self, blocks: Iterator[StreamBlock], name: str) -> Iterator[StreamBlock]:
        """Yield what comes after the vectors that were taken, in an input that must begin with
        them.
        """
        n_taken = self._position.n_vectors
        stream = self._taken.stream or TakenVectors.unknown(n_taken)
        repetition: Repetition | None = Repetition([stream])
        for block in blocks:
            if repetition is None:
                yield block
                continue
            new = list(repetition.look_at(block))
            if repetition.is_decided:
                if n_taken and repetition.repeated is None:
                    raise self._changed_error(f"{name} is not the stream from its start")
                self._settle(repetition, block.form, name, is_told=True)
                repetition = None
            yield from new
        if repetition is not None and n_taken:
            raise InvalidInputError(
                f"{name} has {repetition.n_seen:,} vectors, and the state has taken {n_taken:,} "
                f"already. Feed the whole stream with {self._spelling.given('from_start')}, or "
                f"only what comes after them with {self._spelling.given('from_start', False)}."
            )

    def describe_guess(self, name: str) -> str:
        """Say that vectors were passed over, as they seemed to be those that were taken."""
        return (
            f"{name} began again: its first {self.n_repeated:,} vectors were coded before, and "
            "skipped. If they are new although they are the same, say so with "
            f"{self._spelling.given('from_start', False)}."
        )

    def _settle(
        self, repetition: Repetition, form: str, name: str, *, is_told: bool = False
    ) -> None:
        """Note what the input turned out to be, or refuse it."""
        self._repetition = self._new_repetition()  # of the next input, where this one is refused
        source, self._source = self._source or "", None
        if repetition.is_changed:
            raise self._changed_error(f"{name} begins as before, and then differs")
        if repetition.repeated is not None:
            is_guess = not is_told and not (source and source == self._taken.source)
            if is_guess and not repetition.repeated.is_telling:
                raise self._ambiguous_error(name, repetition.repeated.n_vectors)
            self.is_guess = is_guess
            if repetition.repeated is not self._taken.last:
                self._position.input_bytes = repetition.n_bytes
                self._position.form = form
            self.n_repeated = repetition.repeated.n_vectors
            self._taken.begin_again(repetition.repeated, source)
        elif self._position.n_vectors and source and source == self._taken.source:
            raise self._changed_error(f"{name} is the file that was read before, and differs now")
        elif source and self._taken.stream is None:
            raise self._unknown_error(name)
        else:
            self._taken.begin_last(source)
        self._repetition, self._source = None, source

    def _continue_stream(self) -> None:
        """Note that the input continues the stream, as its caller says."""
        if self._repetition is not None:
            self._taken.begin_last(self._source or "")
            self._repetition = None

    def _changed_error(self, what: str) -> InvalidInputError:
        return InvalidInputError(
            f"{what}: the state has taken {self._position.n_vectors:,} other vectors. If it "
            f"continues after them, say so with {self._spelling.given('from_start', False)}; if it "
            f"was changed, begin again with {self._spelling.given('fresh')}."
        )

    def _ambiguous_error(self, name: str, n_vectors: int) -> InvalidInputError:
        few = "1 vector" if n_vectors == 1 else f"{n_vectors:,} vectors"
        return InvalidInputError(
            f"{name} begins with {few} that the state has taken already, too few or too much alike "
            "to tell whether they come again or are new: nothing was coded. If they continue the "
            f"stream, say so with {self._spelling.given('from_start', False)}; if this is the "
            f"whole stream again, with {self._spelling.given('from_start')}."
        )

    def _unknown_error(self, name: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self._places.state} does not say what an earlier bitkin has read. Say whether "
            f"{name} is the whole stream, {self._spelling.given('from_start')}, or continues after "
            f"{self._position.n_vectors:,} vectors, {self._spelling.given('from_start', False)}."
        )
