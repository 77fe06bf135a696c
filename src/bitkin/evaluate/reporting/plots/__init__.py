"""Plots of a report as SVG, drawn without any other library."""
