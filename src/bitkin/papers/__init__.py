"""The five papers reproduced: their experiments on data that can be had, and what became of every
claim.
"""
