"""Which mounted file systems note in a folder when an entry of it comes or goes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NOTING: Final = frozenset({"ext3", "ext4", "tmpfs", "xfs"})
# A network or FUSE file system may give a folder any time. Devices of btrfs are not those in the list of mounts, and
# layers below an overlay may be replaced.


def noting_devices(mounts: Path = _MOUNTS) -> frozenset[int]:
    """Return the devices on which a folder has a new time of change whenever an entry was added, removed or renamed.

    There, a folder with the same inode and times has the same entries. Those not known to be like this are left out;
    so are all on systems other than Linux.
    """
    if not sys.platform.startswith("linux"):
        return frozenset()
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    found: set[int] = set()
    for line in lines:
        mount, _, system = line.partition(" - ")
        if system.partition(" ")[0] in _NOTING:
            major, _, minor = mount.split(" ")[2].partition(":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)
