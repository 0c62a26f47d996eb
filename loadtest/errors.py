"""The errors that end a command: one line, one hint, one exit code.

A failed request is never one of these: it is a value (`model.FailureKind`). Whatever is raised here is our own trouble or
the user's, and `cli.py` is the only place that turns it into words and an exit status.
"""

from __future__ import annotations


class LoadtestError(Exception):
    """Base of all errors that reach a person.

    Args:
        message: one line, without the word "error"; names the file, line and key where there is one.
        hint: one line that says what to do next, or an empty string.
    """

    exit_code = 4

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LoadtestError):
    """Bad flags or a bad scenario: nothing was touched, exit code 2."""

    exit_code = 2


class ClusterError(LoadtestError):
    """The cluster, the address or the rights are not as a run needs them: exit code 4."""


class ApiError(ClusterError):
    """The API server answered with a failure, or could not be reached.

    Args:
        status: the HTTP status, or 0 when no answer came.
        reason: Kubernetes' `Status.reason` (such as `NotFound` or `Forbidden`), or an empty string.
    """

    def __init__(self, message: str, hint: str = "", *, status: int = 0, reason: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.reason = reason


class WorkerError(LoadtestError):
    """The load process could not be started, or died: exit code 4."""


class StoreError(LoadtestError):
    """`run.db` cannot be read or written: exit code 4."""
