"""`compare`: every sensible method beside its rivals."""
