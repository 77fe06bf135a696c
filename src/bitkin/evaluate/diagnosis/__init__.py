"""`diagnose`: what vectors look like to a hasher."""
