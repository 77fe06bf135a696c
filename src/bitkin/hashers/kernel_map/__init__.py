"""Kernel values against anchors, as features."""

from bitkin.hashers.kernel_map.kernel_map import KernelMap

__all__ = ["KernelMap"]
