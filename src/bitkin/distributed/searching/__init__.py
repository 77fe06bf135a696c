"""Codes and collections that the workers of a cluster hold, searched as if they were one."""
