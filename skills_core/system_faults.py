"""Classify errors of the operating system: a file is absent, refused, denied, or cannot be read now.

Only absence means that a file is gone. When a process has no descriptors left, a disk fails or a file server restarts,
the error is transient and says nothing about the file.
"""

from __future__ import annotations

import errno
from enum import StrEnum

__all__ = ["Fault", "fault_of", "is_absence", "system_message"]

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK})
# The last two: a link where links are not followed.

_REFUSED = frozenset({errno.EINVAL, errno.ENAMETOOLONG, errno.ENXIO, errno.EISDIR, errno.EILSEQ, errno.EOPNOTSUPP})
# No later attempt can succeed: the name is invalid, or names something other than a regular file.

_DENIED = frozenset({errno.EACCES, errno.EPERM})

_SHARING = frozenset({32, 33})
# Windows: another program has locked the file or a part of it; Python reports EACCES.


class Fault(StrEnum):
    """Why an attempt to read failed."""

    ABSENT = "absent"
    REFUSED = "refused"
    DENIED = "denied"
    TRANSIENT = "transient"


def fault_of(error: OSError) -> Fault:
    """Classify an error; unknown errors count as transient."""
    if error.errno in _ABSENT:
        return Fault.ABSENT
    if error.errno in _REFUSED:
        return Fault.REFUSED
    if error.errno in _DENIED and getattr(error, "winerror", None) not in _SHARING:
        return Fault.DENIED
    return Fault.TRANSIENT


def is_absence(error: OSError) -> bool:
    """Tell whether an error means that there is no such file or folder; a link in its place does not count as one."""
    return fault_of(error) is Fault.ABSENT


def system_message(error: OSError) -> str:
    """Return the system's message for an error, in lower case."""
    return (error.strerror or "cannot be read").lower()
