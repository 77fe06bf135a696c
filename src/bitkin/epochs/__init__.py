"""Codes of several models searched together."""
