"""The parts of `bitkin stream`: vectors in, codes out, what is saved between runs, and what is said
meanwhile.
"""
