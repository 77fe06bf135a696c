"""The exact index that looks at few codes."""
