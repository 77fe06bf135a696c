from __future__ import annotations

from tests.cli.conftest import Run


def test_the_command_warms_what_it_is_asked_for(run: Run) -> None:
    done = run("warmup", "search", "--bits", 64, "--json")
    assert done.code == 0
    assert [line["task"] for line in done.objects] == ["search"]
    assert run("warmup", "serch").code == 2
