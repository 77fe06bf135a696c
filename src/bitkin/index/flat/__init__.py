"""The index that looks at all codes."""
