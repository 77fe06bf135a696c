"""The command that shows what bitkin does, on data that ship with it."""
