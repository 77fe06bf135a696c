"""Vectors to codes: the contract every hasher keeps, and its members."""
