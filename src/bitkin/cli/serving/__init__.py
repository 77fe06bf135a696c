"""The command that puts collections behind HTTP."""
