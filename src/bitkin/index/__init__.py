"""Search over codes: what an index returns, and the exact scan."""
