"""Near-duplicate texts on a cluster: partitions are hashed, shuffled by band, and compared."""
