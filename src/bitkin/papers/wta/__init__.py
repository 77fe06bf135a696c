"""WTA: codes that say which of a few components is the largest."""
