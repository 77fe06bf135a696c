"""The version, in the one place the build reads it."""

__version__ = "0.1.0.dev0"
