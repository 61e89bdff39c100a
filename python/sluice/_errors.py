"""Errors: what the library says, in the words of the command line, as Python exceptions."""

from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """Anything that sluice refuses or that failed. `code` is the library's number (below 0, `enum
    sluice_result` of include/sluice.h), or 0 where the package itself refuses."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self):  # errors travel between processes, whatever else does not
        return type(self), (str(self), self.code)


class UsageError(Error, ValueError):
    """An argument, the job or the data set is not what it should be; nothing has started. Where the
    command line ends with exit status 2."""


class JobError(Error, RuntimeError):
    """The job is over: it failed, was stopped, its broker is gone, or its data set was changed."""


class LoaderTimeoutError(Error, TimeoutError):
    """Nothing came within the bound."""


class OutOfMemoryError(Error, MemoryError):
    """The machine has no memory left, or all of the arena is held by the caller."""


# By the names of `enum sluice_result`.
CLASSES: Dict[str, Type[Error]] = {
    "EINVAL": UsageError,
    "EFORMAT": UsageError,
    "ENOENT": UsageError,
    "EACCESS": UsageError,
    "EEXIST": UsageError,
    "ERANGE": UsageError,
    "EUNSUPPORTED": UsageError,
    "ENOMEM": OutOfMemoryError,
    "ETIMEDOUT": LoaderTimeoutError,
    "EABORTED": JobError,
    "EFAILED": JobError,
    "ECHANGED": JobError,
}
