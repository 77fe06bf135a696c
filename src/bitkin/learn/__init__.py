"""Learn classes that form a tree: taxonomies, hashed features of (vector, class) pairs, errors that
know the tree.
"""
