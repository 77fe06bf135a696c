"""Streams of vectors to files of codes, durable and resumable: `StreamRun`, and where one is."""

from bitkin.stream_files.run import StreamRun
from bitkin.stream_files.state import StreamPosition

__all__ = ["StreamPosition", "StreamRun"]
