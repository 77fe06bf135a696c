"""The page in a real browser: collections to show, and what it asked for and complained about."""

from __future__ import annotations

import importlib.resources
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import numpy as np
import pytest
from scipy.sparse import csr_array

from bitkin import Collection, MinHash, ProjectionHash
from bitkin.data.icd10cm import load_icd10cm
from bitkin.embedding import ATTRIBUTE, open_embedder
from bitkin.evaluate.reporting.pictures import data_uri, encode_png

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

DESK: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="there is no chromium: apt-get install --no-install-recommends chromium",
)
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
LABELS = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip
HTML = "<img src=x onerror=window.broken=1>"
WRECK = "window.broken=1"
ELSEWHERE = "http://elsewhere.invalid"
NEXT_FRAME = "() => new Promise(run => setTimeout(() => requestAnimationFrame(run), 20))"
TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", e => console.error("CSP: " + e.blockedURI));
"""
# controls that are seen and lower than a finger needs; those beside a row may be smaller
FIND_SMALL = """
() => [...document.querySelectorAll("button, a[href], select, input, textarea, summary, label")]
  .filter(e => e.checkVisibility() && !e.closest(".hidden, .skip"))
  .filter(e => !e.matches(".segments input, .option label:first-child, dialog label"))
  .map(e => [e, e.getBoundingClientRect().height])
  .filter(([e, h]) => h < (e.matches(".more, .link, input[type=checkbox], p a") ? 24 : 40))
  .map(([e, h]) => [e.outerHTML.slice(0, 120), h])
"""
ODD_IDS = [
    "a/b/../c", "?q=1&k=2#x%20y", "\"quoted\" 'single' `back`", HTML, "x" * 500, " spaces ", "\t",
    "שלום", "emoji \U0001f600", "0",
]  # fmt: skip
LARGE_ID = 2**62 + 1


def fashion(n: int = 1500) -> Collection:
    """Pictures as data URIs, with declared fields."""
    packed = importlib.resources.files("bitkin.data") / "fashion_mnist_10k.npz"
    with packed.open("rb") as file:
        data = np.load(file, allow_pickle=False)
        pictures, labels = data["images"][:n], data["labels"][:n]
    vectors = pictures.reshape(n, -1).astype(np.float32)
    collection = Collection.create(
        None, ProjectionHash(64).fit(vectors), fields={"label": str, "brightness": float}
    )
    collection.add(
        vectors,
        metadata=[
            {
                "label": LABELS[label],
                "brightness": round(float(picture.mean()), 1),
                "image": data_uri(encode_png(picture)),
            }
            for picture, label in zip(pictures, labels, strict=True)
        ],
    )
    return collection


def diagnoses(folder: Path, n: int = 900) -> Collection:
    """Texts that the collection knows how to embed, under ids that are strings."""
    about = load_icd10cm()
    texts, paths = about.texts[:: len(about.texts) // n][:n], about.paths[:: len(about.texts) // n]
    vectors = open_embedder("hash:64")(texts)
    hasher = ProjectionHash(64, projection="random", normalize=True).fit(vectors)
    collection = Collection.create(
        folder, hasher, metric="cosine", ids="str", fields={"chapter": str}
    )
    collection.add(
        vectors,
        ids=[f"{path[2]}-{i}" for i, path in enumerate(paths[:n])],
        metadata=[
            {"text": text, "chapter": path[0], "letters": len(text)}
            for text, path in zip(texts, paths, strict=False)
        ],
    )
    collection.set_attribute(ATTRIBUTE, "hash:64")
    return collection


def odd() -> Collection:
    """Ids and metadata that break pages which are not careful."""
    vectors = np.random.default_rng(0).standard_normal((len(ODD_IDS), 16)).astype(np.float32)
    metadata: list[dict[str, Any]] = [{} for _ in ODD_IDS]
    metadata[0] = {"title": HTML, "note": f"<script>{HTML}</script>"}
    metadata[1] = {"text": "y" * 300_000, "nested": {"a": [1, {"b": 2}]}, "image": "javascript:0"}
    metadata[2] = {"large": 2**62 + 3, "and": "a key that no filter takes", "k" * 200: True}
    collection = Collection.create(
        None, ProjectionHash(16, projection="random").fit(vectors), ids="str"
    )
    collection.add(vectors, ids=ODD_IDS, metadata=metadata)
    return collection


def hostile() -> Collection:
    """Metadata of people who mean harm, or do not care."""
    huge = np.zeros((3000, 5000), dtype=np.uint8)
    huge[::50, ::50] = 255
    drawn = (
        f"<svg xmlns='http://www.w3.org/2000/svg'><script>{WRECK}</script>"
        f"<image href='{ELSEWHERE}/b.png'/></svg>"
    )
    metadata: list[dict[str, Any]] = [
        {"title": "a script as a picture", "image": f"data:text/html,<script>{WRECK}</script>"},
        {"title": "a script in a drawing", "image": f"data:image/svg+xml,{quote(drawn)}"},
        {
            "title": "an address that runs",
            "url": f"javascript:{WRECK}",
            "image": f"JavaScript:{WRECK}",
        },
        {"title": "a huge picture", "image": data_uri(encode_png(huge))},
        {"title": "a broken picture", "image": "data:image/png;base64,AAAA"},
        {"title": "thousands of keys", **{f"key {i} {HTML}": i for i in range(4000)}},
        {"__proto__": "polluted", "constructor": "polluted", "toString": 1, "hasOwnProperty": 0},
        {
            "title": "\u202egnirts a esrever\u202c",
            "text": "مرحبا بالعالم، هذا نص طويل من اليمين إلى اليسار " * 20,
        },
        {"name": HTML, "text": f"</p></script>{HTML}&lt;b&gt; " + "w" * 20_000},
        {"list": list(range(5000)), "small": 1e-300, "large": 1.7e308, "none": None, "empty": ""},
        {"style": 'x"onmouseover="window.broken=1', "title": "\u0007 signs without shape"},
    ]
    vectors = np.random.default_rng(4).standard_normal((len(metadata), 16)).astype(np.float32)
    hasher = ProjectionHash(16, projection="random").fit(vectors)
    collection = Collection.create(None, hasher, fields={"constructor": str})
    for vector, one in zip(vectors, metadata, strict=True):
        collection.add(vector[None], metadata=[one])
    return collection


def bags() -> Collection:
    """Sparse rows."""
    rng = np.random.default_rng(5)
    rows = csr_array(rng.random((60, 40)) * (rng.random((60, 40)) < 0.2), dtype=np.float32)
    hasher = ProjectionHash(16, projection="random", normalize=True).fit(rows)
    collection = Collection.create(None, hasher, vectors="csr", metric="cosine")
    collection.add(rows, metadata=[{"words": int(n)} for n in np.diff(rows.indptr)])
    return collection


def large_ids() -> Collection:
    """Whole numbers beyond those that JavaScript's can hold, and no metadata."""
    vectors = np.random.default_rng(1).standard_normal((9, 16)).astype(np.float32)
    collection = Collection.create(None, ProjectionHash(16, projection="random").fit(vectors))
    collection.add(vectors, ids=[LARGE_ID + i for i in range(9)])
    return collection


def sets() -> Collection:
    """Codes alone."""
    collection = Collection.create(None, MinHash(16).fit(), vectors=None)
    collection.add([[f"word {j}" for j in range(i, i + 6)] for i in range(30)])
    return collection


def stream() -> Collection:
    """Rows of two epochs."""
    rng = np.random.default_rng(2)
    vectors = (rng.standard_normal((300, 20)) * np.linspace(3, 0.5, 20)).astype(np.float32)
    hasher = ProjectionHash(16, projection="opast", epochs="request").fit(vectors)
    collection = Collection.create(None, hasher)
    collection.add(vectors[:200])
    collection.learn(np.roll(vectors, 9, axis=1))
    collection.new_epoch()
    collection.add(vectors[200:])
    return collection


def empty() -> Collection:
    """No row at all."""
    return Collection.create(None, ProjectionHash(16, projection="random").fit(np.eye(16)))


class Explorer:
    """The page in a browser of its own, and what it asked for and complained about."""

    def __init__(
        self, browser: Browser, url: str, size: ViewportSize = DESK, theme: Any = "light"
    ) -> None:
        self.url = url
        self.context = browser.new_context(
            viewport=size, color_scheme=theme, has_touch=size == PHONE
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.add_init_script(TELL_VIOLATIONS)

    def open(self, **state: str) -> Page:
        """Show what an address says, and wait until it is there."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#{urlencode(state)}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until all that was asked for is there."""
        self.page.evaluate(NEXT_FRAME)
        self.page.locator("main[aria-busy=false]").wait_for()
        self.page.evaluate(NEXT_FRAME)  # plots are drawn once they have room

    def ids(self) -> list[str]:
        """Return the ids of the rows that are shown, in order."""
        shown: list[str] = self.page.eval_on_selector_all(
            ".results > [data-id]", "all => all.map(e => e.dataset.id)"
        )
        return shown

    def check_quiet(self, *, refused: int = 0) -> None:
        """Nothing went wrong, and nobody else was asked; `refused` requests may have been."""
        own = (self.url, "data:", "about:")
        elsewhere = [url for url in self.requests if not url.startswith(own)]
        assert elsewhere == [], elsewhere
        told = [one for one in self.complaints if "Failed to load resource" not in one]
        assert told == [], told
        assert len(self.complaints) <= refused, self.complaints

    def check_accessible(self, *, colors_alone: bool = False) -> None:
        """Axe finds nothing serious; in another theme colours alone are others."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        options = {"resultTypes": ["violations"]}
        if colors_alone:
            options["runOnly"] = ["color-contrast"]
        found = axe.run(self.page, options=options).response["violations"]
        bad = [
            (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert bad == [], bad

    def check_fits(self) -> None:
        """The page is no wider than the screen."""
        size = self.page.viewport_size
        assert size is not None
        assert self.page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]

    def check_touchable(self) -> None:
        """What is to be pressed is as large as a finger needs: rows and buttons more than links."""
        small = self.page.evaluate(FIND_SMALL)
        assert small == [], small

    def shoot(self, name: str, *, full: bool = False) -> None:
        """Keep what is seen, for people to look at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"explorer-{name}.png", full_page=full)

    def close(self) -> None:
        """Close the page."""
        self.context.close()


Opener = Callable[..., Explorer]


def state_of(page: Page) -> dict[str, str]:
    """Return what the address of a page says."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).fragment).items()}
