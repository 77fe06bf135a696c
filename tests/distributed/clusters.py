"""Clusters on this machine."""

from __future__ import annotations

from distributed import LocalCluster

ANY_PORT = "127.0.0.1:0"
"""Where a cluster under test has its dashboard: two may run at a time."""


def without_workers() -> LocalCluster:
    """Return a cluster that workers of other processes may join."""
    return LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address=ANY_PORT)
