"""`bitkin demo`: 10,000 pictures of clothes, encoded and searched, in a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitkin.cli.arguments import Json, a_file
from bitkin.cli.output import print_json, print_table, progress_bar
from bitkin.cli.shared import is_quiet, require_new, say


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The picture to write.", callback=a_file)
    ] = Path("bitkin-demo.png"),
    serve: Annotated[
        bool, typer.Option("--serve", help="Open them in a page of a local service instead.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of --serve; 0 is any that is free.")
    ] = 8000,
    browser: Annotated[
        bool, typer.Option(help="Whether --serve opens the page in a browser.")
    ] = True,
    json: Json = False,
) -> None:
    """Encode and search 10,000 Fashion-MNIST images that ship with bitkin, and draw what is found.

    Example: bitkin demo --out neighbours.png

    Example: bitkin demo --serve --port 8000
    """
    if serve:
        from bitkin.cli.showing.served_demo import serve_images

        serve_images(port, open_browser=browser)
        return
    from bitkin.cli.showing import showcase

    require_new(out)
    lengths = (32, 64, 128, 256)
    results = []
    with progress_bar("encoding and searching", len(lengths), "code lengths") as done:
        data = showcase.load_images()
        for i, bits in enumerate(lengths):
            results.append(showcase.measure(data, bits))
            done(i + 1)
    if json:
        for result in results:
            print_json(**result.figures())
    elif not is_quiet():
        rows = [
            (
                f"{r.bits}",
                f"{r.code_bytes}",
                f"{r.vector_bytes / r.code_bytes:,.0f} ×",
                f"{r.recall:.3f}",
                f"{r.microseconds:,.0f}",
            )
            for r in results
        ]
        columns = (
            "bits",
            "bytes per code",
            "smaller than float32",
            "true 10 in best 100",
            "µs per query",
        )
        searched = f"{data.n_rows:,} images searched for {data.n_queries} others"
        title = f"{searched}, PCA and a random rotation"
        print_table(title, columns, rows)
    showcase.draw(data, results[-1], out)
    if json:
        return
    say(f"picture: {out}")
    say("look at them in a browser: bitkin demo --serve")
    say("what to try next, with vectors of your own:")
    say("  bitkin fit vectors.npy -o model.bitkin")
    say("  bitkin encode model.bitkin vectors.npy -o codes.bitkin")
    say("  bitkin index codes.bitkin -o index.bitkin")
    say("  bitkin search index.bitkin queries.npy --model model.bitkin")
