"""Streams: codes that leave at once, a model that continues to learn, and epochs that keep codes
comparable.
"""
