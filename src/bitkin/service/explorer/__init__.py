"""The explorer page: its files, and the two makers of data that only it asks for."""

from pathlib import Path

from bitkin.service.explorer.bits import describe_bits as describe_bits
from bitkin.service.explorer.map import map_rows as map_rows

STATIC = Path(__file__).parent / "static"
"""The folder of the page: `index.html` is served at `/`, every other file under `/static/`."""
