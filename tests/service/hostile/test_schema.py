"""What `/openapi.json` says is what the service does: schemathesis finds no fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitkin.service import running
from tests.service.hostile.documented import Documented
from tests.service.hostile.kinds import KINDS, new_app


@pytest.mark.filterwarnings("ignore:n_bits=.* is more than the:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_service_does_what_its_description_says(tmp_path: Path, kind: str) -> None:
    with running(new_app(kind, tmp_path)) as url:
        documented = Documented(url, kind)
        documented.attack(n_examples=4)
    assert documented.n_requests > 150
    assert 200 in documented.statuses
    assert 422 in documented.statuses


def test_a_service_that_only_reads_does_what_its_description_says(tmp_path: Path) -> None:
    with running(new_app("int", tmp_path, read_only=True)) as url:
        documented = Documented(url, "int")
        documented.attack(n_examples=2)
    assert documented.statuses[403] > documented.statuses[201] == 0
