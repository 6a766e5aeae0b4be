"""Files that the lab writes.

If one cannot be written, the message names it, what failed, and what there is of what it lacks. A
write that fails does not name its file by itself, as opening one does.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Errors of a disk, or of a user's part of one, that is full.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Around what writes a file: an error that names none names this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write(path: Path, text: str) -> None:
    """Writes a file."""
    with named(path):
        path.write_text(text, encoding="utf-8")


def unwritten(path: Path, error: OSError) -> str:
    """What failed when this file was written, and how much room there is."""
    said = f"{path}: {error.strerror or error}"
    if error.errno not in FULL:
        return said
    found = _room(path) if error.errno == errno.ENOSPC else _limit(error)
    return f"{said} ({found})" if found else said


def _room(path: Path) -> str:
    """What the disk of a path has, which may not be there yet. A device has none."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        return ""
    for place in (path, *path.absolute().parents):
        with suppress(OSError):
            disk = os.statvfs(place)
            if disk.f_files > 0 and disk.f_favail == 0:
                return "its disk has room for no further file"
            return f"{_size(disk.f_bavail * disk.f_frsize)} are free on its disk"
    return ""


def _limit(error: OSError) -> str:
    """What keeps a file small on a disk with room."""
    if error.errno == errno.EDQUOT:
        return "the user's part of its disk is used up"
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return "" if most == resource.RLIM_INFINITY else f"ulimit -f allows {_size(most)} a file"


def _size(count: int) -> str:
    """Bytes, in the unit that suits them."""
    for unit in ("bytes", "KB", "MB"):
        if count < 10 * 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GB"
