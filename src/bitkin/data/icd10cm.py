"""ICD-10-CM: the texts of diagnoses, each under a chapter, a section and a category."""

from __future__ import annotations

import gzip
import importlib.resources
import json
import zlib
from typing import NamedTuple

_ONE_IN = 5  # parents whose codes are held out


class Diagnoses(NamedTuple):
    """Descriptions of codes and where they belong."""

    texts: list[str]
    paths: list[tuple[str, str, str]]
    """Chapter, section, category."""
    held_out: list[bool]
    """Whether the row is for testing."""


def load_icd10cm() -> Diagnoses:
    """Return all 46,881 descriptions, those of the 1,918 categories themselves included.

    About a fifth of the codes below a category is held out, by a hash of the code right above them:
    siblings are nearly the same sentence, and none of them is left to learn from. What a category
    itself is called is never held out.

    Examples
    --------
    >>> from bitkin.data.icd10cm import load_icd10cm
    >>> diagnoses = load_icd10cm()
    >>> diagnoses.texts[1], diagnoses.paths[1]
    ('Cholera due to Vibrio cholerae 01, biovar cholerae', ('1', 'A00-A09', 'A00'))
    """
    diagnoses = Diagnoses([], [], [])
    with (
        (importlib.resources.files("bitkin.data") / "icd10cm.jsonl.gz").open("rb") as packed,
        gzip.open(packed, "rt", encoding="utf-8") as lines,
    ):
        for line in lines:
            record = json.loads(line)
            above = record["path"]
            chapter, section, category = [*above, record["code"]][:3]
            diagnoses.texts.append(record["desc"])
            diagnoses.paths.append((chapter, section, category))
            diagnoses.held_out.append(
                len(above) > 2 and zlib.crc32(above[-1].encode()) % _ONE_IN == 0
            )
    return diagnoses
