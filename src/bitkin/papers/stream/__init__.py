"""STREAM: binary sketches of a stream by subspace tracking and diagonal uniformization."""
