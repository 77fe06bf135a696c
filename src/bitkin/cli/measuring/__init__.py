"""Commands that measure what codes find and lose."""
