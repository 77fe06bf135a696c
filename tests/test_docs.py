from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#]*)(#[^)]+)?\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path = page.parent / target if target else page
        assert path.exists(), target
        assert not heading or heading in anchors_of(path), (target, heading)


def anchors_of(page: Path) -> set[str]:
    """What leads to the headings of a page: their words, joined by dashes."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
