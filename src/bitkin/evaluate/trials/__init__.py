"""Trials of codes on a sample: rows, held-out queries and their truth, and what a method makes of
them.
"""
