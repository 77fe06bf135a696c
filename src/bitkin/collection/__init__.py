"""Collections: vectors in, neighbours out. A hasher, an index, the vectors and all that a better
answer needs.
"""
