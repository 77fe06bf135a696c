"""DWTA: winner-take-all codes of sparse vectors, with empty windows filled."""
