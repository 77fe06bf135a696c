"""Commands about the machine: what it has, and kernels compiled for it."""
