"""`HeshingClassifier` on Dask: shards of rows that stay where they are, and tables that travel."""
