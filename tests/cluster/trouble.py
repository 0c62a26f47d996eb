"""The two kinds of trouble that the test cluster has: a machine that cannot run it, and all the rest."""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster, or a command to it, failed. The text is for a person."""


class CannotRunError(ClusterError):
    """This machine cannot run the cluster. The text is one line that names what is missing."""
