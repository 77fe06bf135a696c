"""`bitkin dedup`: texts here or on a cluster, vectors, and the report of what was found."""
