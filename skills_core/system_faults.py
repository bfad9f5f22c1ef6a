"""What an error of the system says about a file: that it is not there, is refused, may not be read, or cannot be now.

Only an absence means that something is gone. A process that has used up its descriptors, a disk that fails or a server
of files that restarts says nothing about what exists, and such a fault passes.
"""

from __future__ import annotations

import errno
from enum import StrEnum

__all__ = ["Fault", "fault_of", "is_absence", "words_of"]

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK})
# The last two: a link stands where none is followed.

_REFUSED = frozenset({errno.EINVAL, errno.ENAMETOOLONG, errno.ENXIO, errno.EISDIR, errno.EILSEQ, errno.EOPNOTSUPP})
# No later attempt can succeed: the name is none, or what it names is no regular file.

_DENIED = frozenset({errno.EACCES, errno.EPERM})

_SHARING = frozenset({32, 33})
# Windows: another program has the file, or a part of it, for itself; Python makes EACCES of that.


class Fault(StrEnum):
    """What kind of failure an attempt to read met."""

    ABSENT = "absent"
    REFUSED = "refused"
    DENIED = "denied"
    PASSING = "passing"


def fault_of(error: OSError) -> Fault:
    """Return what kind of failure an error is; whatever is not known to last counts as passing."""
    if error.errno in _ABSENT:
        return Fault.ABSENT
    if error.errno in _REFUSED:
        return Fault.REFUSED
    if error.errno in _DENIED and getattr(error, "winerror", None) not in _SHARING:
        return Fault.DENIED
    return Fault.PASSING


def is_absence(error: OSError) -> bool:
    """Tell whether an error says that there is no such file or folder; a link in its place is none."""
    return fault_of(error) is Fault.ABSENT


def words_of(error: OSError) -> str:
    """Return the system's own words for an error, as messages have them."""
    return (error.strerror or "cannot be read").lower()
