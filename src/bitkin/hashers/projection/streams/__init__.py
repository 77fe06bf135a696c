"""Streams: codes that leave at once, a model that goes on learning, and epochs that keep codes
comparable.
"""
