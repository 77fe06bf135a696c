"""The parts of `bitkin search`: what options mean together, queries, rows in files, and what is
said at the end.
"""
