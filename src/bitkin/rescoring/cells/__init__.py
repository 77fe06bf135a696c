"""Estimates of rows in cells."""
