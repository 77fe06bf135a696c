"""HESHING: hashed features along a tree of classes."""
