"""Rows to classify and, where they are asked for, the paths of their classes: from texts, from
vectors and files of labels, or shipped.

Labels are text, whatever they were in the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import typer

from bitkin.cli.arguments import OPTIONS, one_of_choices, repeat_options
from bitkin.errors import CorruptFileError, InvalidInputError

if TYPE_CHECKING:
    from bitkin.input_files import VectorFileOptions

_TEXT_SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_TEXTS_AT_ONCE = 4096
_CHARACTERS_AT_ONCE = 1 << 21
_KB = 1000

Truths = list[tuple[str, ...]]
Progress = Callable[[int], None]


class RowOptions(NamedTuple):
    """Where rows have their texts and classes, and how to read files of vectors; None where it was
    not said.
    """

    vector_files: VectorFileOptions
    text: str | None = None
    label: str | None = None
    path: str | None = None
    labels: Path | None = None

    def repeat(self) -> str:
        """Write the options that the next command needs too."""
        named = {"text": self.text, "label": self.label, "path": self.path}
        given = [OPTIONS.given(name, value) for name, value in named.items() if value is not None]
        given += [] if self.labels is None else ["--labels LABELS"]
        return "".join(f" {option}" for option in given) + repeat_options(self.vector_files)

    def refuse(self, names: tuple[str, ...], where: str) -> None:
        """End with a usage error for options that mean nothing for this kind of input."""
        given = self.vector_files._asdict() | self._asdict()
        for name in names:
            if given[name] is not None:
                option = OPTIONS.name(name)
                raise typer.BadParameter(
                    f"{option} means nothing {where}.", param_hint=f"'{option}'"
                )


_ROW_OPTIONS = ("text", "label", "path", "labels")
_VECTOR_OPTIONS = ("column", "dataset", "n_features", "zero_based")


class RowInput(Protocol):
    """Rows in batches, and how many steps `batches` will report: kB or rows."""

    total: int
    unit: str
    by_path: bool
    """Whether classes are given by their paths, and not by their labels alone."""

    def batches(self, done: Progress) -> Iterator[tuple[Any, Truths]]:
        """Yield a CSR or dense batch and, where labels were asked for, as many paths from the top
        to the class.
        """


def open_input(
    files: list[Path], example: str | None, options: RowOptions, *, labelled: bool, held_out: bool
) -> TextRows | LabelledVectors | ExampleRows:
    """Return the input that the arguments describe; `held_out` chooses the part of an example."""
    if example is not None:
        one_of_choices(example, "--example", ["icd10"])
        options.refuse(_ROW_OPTIONS + _VECTOR_OPTIONS, "with --example")
        if files:
            raise typer.BadParameter("--example takes no files.", param_hint="'--example'")
        return ExampleRows(held_out=held_out)
    if not files:
        raise typer.BadParameter("give files, or --example icd10.", param_hint="'FILES...'")
    folder = next((file for file in files if os.path.isdir(file)), None)  # noqa: PTH112  # never raises
    if folder is not None:
        raise typer.BadParameter(
            f"{folder} is a directory. Give the files in it.", param_hint="'FILES...'"
        )
    of_texts = [str(file).lower().endswith(_TEXT_SUFFIXES) for file in files]
    if any(of_texts) and not all(of_texts):
        raise typer.BadParameter(
            "give either JSON lines or files of vectors.", param_hint="'FILES...'"
        )
    if all(of_texts):
        options.refuse(("labels", *_VECTOR_OPTIONS), "for JSON lines")
        if labelled and (options.label is None) == (options.path is None):
            raise typer.BadParameter(
                "say where classes are, by one of --label and --path.", param_hint="'--label'"
            )
        return TextRows(files, options)
    options.refuse(("text", "label", "path"), "for files of vectors")
    if labelled and options.labels is None:
        raise typer.BadParameter("say where the labels of vectors are.", param_hint="'--labels'")
    return LabelledVectors(files, options)


class TextRows:
    """Texts in JSON lines files."""

    unit = "kB"

    def __init__(self, files: list[Path], options: RowOptions) -> None:
        from bitkin.io.json_lines import JsonLines

        self._lines = JsonLines(files, options.text or "text")
        self.by_path = options.path is not None
        self._fields = (
            [options.label] if options.label else options.path.split("/") if options.path else []
        )
        self.total = self._lines.n_bytes // _KB

    def batches(self, done: Progress) -> Iterator[tuple[Any, Truths]]:
        """Yield texts as rows of hashed words and pairs of words."""
        from bitkin.learn.texts import text_features

        texts: list[str] = []
        truths: Truths = []
        held = 0
        for file, line, record in self._lines.records(lambda n_bytes: done(n_bytes // _KB)):
            try:
                texts.append(_read_text(record, self._lines.field))
                if self._fields:
                    truths.append(_read_class_path(record, self._fields))
            except InvalidInputError as flaw:
                raise self._lines.located(flaw, file, line) from None
            held += len(texts[-1])
            if len(texts) >= _TEXTS_AT_ONCE or held >= _CHARACTERS_AT_ONCE:
                yield text_features(texts), truths
                texts, truths, held = [], [], 0
        if texts:
            yield text_features(texts), truths


class LabelledVectors:
    """Vectors in files, and their labels in another."""

    unit = "rows"
    by_path = False

    def __init__(self, files: list[Path], options: RowOptions) -> None:
        self._source = options.vector_files.open(files)
        self.total = len(self._source)
        self.labels = [] if options.labels is None else read_labels(options.labels)
        if options.labels is not None and len(self.labels) != self.total:
            raise InvalidInputError(
                f"{options.labels} must hold a label for each of {self.total:,} vectors, got "
                f"{len(self.labels):,}."
            )

    def batches(self, done: Progress) -> Iterator[tuple[Any, Truths]]:
        """Yield vectors as they are."""
        for first, batch in self._source.batches():
            stop = first + batch.shape[0]
            yield batch, [(label,) for label in self.labels[first:stop]]
            done(stop)


class ExampleRows:
    """The descriptions that ship with the package: the part to learn, or the part held out."""

    unit = "rows"
    by_path = True

    def __init__(self, *, held_out: bool) -> None:
        from bitkin.data.icd10cm import load_icd10cm

        diagnoses = load_icd10cm()
        self._rows = [
            (text, path)
            for text, path, out in zip(*diagnoses, strict=True)
            if out == held_out
        ]  # fmt: skip
        self.total = len(self._rows)

    def batches(self, done: Progress) -> Iterator[tuple[Any, Truths]]:
        """Yield descriptions as rows of hashed words and pairs of words."""
        from bitkin.learn.texts import text_features

        for first in range(0, self.total, _TEXTS_AT_ONCE):
            part = self._rows[first : first + _TEXTS_AT_ONCE]
            yield text_features([text for text, _ in part]), [path for _, path in part]
            done(first + len(part))


def _read_text(record: dict[str, Any], field: str) -> str:
    from bitkin.io.json_lines import in_words, member

    text = member(record, field)
    if not isinstance(text, str):
        raise InvalidInputError(f"field {field!r} must be a string, got {in_words(text)}.")
    return text


def _read_class_path(record: dict[str, Any], fields: list[str]) -> tuple[str, ...]:
    """Return the labels in some fields, a list in a field counting as several."""
    from bitkin.io.json_lines import member

    path: list[str] = []
    for field in fields:
        value = member(record, field)
        path += [
            label_text(part, f"field {field!r}")
            for part in (value if isinstance(value, list) else [value])
        ]
    if not path:
        raise InvalidInputError(
            f"field {fields[0]!r} must hold a label or a list of them, got an empty list."
        )
    return tuple(path)


def label_text(value: Any, where: str) -> str:
    """Return a string, a number or a truth value of JSON as text."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, (bool, int, float)) and math.isfinite(value):
        return json.dumps(value)
    raise InvalidInputError(
        f"{where} must hold a label, text or a number, got {json.dumps(value)[:60]}."
    )


def read_labels(path: Path) -> list[str]:
    """Return the labels of a file: a line each, or a one-dimensional array in .npy."""
    return _labels_from_array(path) if path.suffix.lower() == ".npy" else _labels_from_lines(path)


def _labels_from_lines(path: Path) -> list[str]:
    from bitkin.io.stable import unreadable_is_access_error

    try:
        with unreadable_is_access_error(path):
            lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is not text in UTF-8: {error}.") from error
    labels = [line.strip() for line in lines]
    if "" in labels:
        raise InvalidInputError(
            f"{path}, line {labels.index('') + 1}: no label. Every line must hold one."
        )
    return labels


def _labels_from_array(path: Path) -> list[str]:
    from bitkin.input_files import map_npy

    array = map_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "biufU":
        raise InvalidInputError(
            f"{path} must hold a one-dimensional array of text or numbers, got {array.dtype} of "
            f"shape {array.shape}."
        )
    return [label_text(value, f"{path}[{row}]") for row, value in enumerate(array.tolist())]
