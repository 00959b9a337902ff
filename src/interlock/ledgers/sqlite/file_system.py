"""What the file system below a ledger is, and what it has against a ledger."""

from __future__ import annotations

import os

from interlock.errors import LedgerUnusable

NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb smb3 smbfs afpfs afs 9p ceph glusterfs lustre fuse.sshfs fuse.s3fs fuse.glusterfs webdav".split()
)


def refuse_network_file_system(path: str) -> None:
    """SQLite's shared memory and locks do not work across machines.

    Raises:
        LedgerUnusable: `path` lies on a network file system.
    """
    kind = file_system_of(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise LedgerUnusable(
            f"{path} lies on a network file system ({kind}), where file locks cannot be trusted. "
            "Set INTERLOCK_HOME to a directory on a local disk.",
            path=path,
            file_system=kind,
        )


def file_system_of(path: str) -> str | None:
    """The type of the file system that holds `path`; null where the machine does not tell."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split(" ", 3)[1:3] for line in file]
    except OSError:
        return None
    real = os.path.realpath(path)
    best, kind = "", None
    for point, name in mounts:
        point = point.replace("\\040", " ")
        if len(point) >= len(best) and (real == point or real.startswith(point.rstrip("/") + "/")):
            best, kind = point, name
    return kind


def trouble(path: str) -> str | None:
    """What the file system has against writing the ledger at `path`; None where nothing shows.

    SQLite's own words do not tell a full disk from a read-only one or from a wrong mode.
    """
    directory = os.path.dirname(path)
    try:
        disk = os.statvfs(directory)
    except OSError as error:
        return f"{directory} cannot be looked at: {error.strerror}"
    if disk.f_flag & os.ST_RDONLY:
        return f"the file system of {directory} is read-only"
    for file in (directory, path, f"{path}-wal", f"{path}-shm"):
        if os.path.exists(file) and not os.access(file, os.R_OK | os.W_OK):
            return f"this user may not read and write {file} (mode {os.stat(file).st_mode & 0o7777:04o})"
    return "the disk is full" if disk.f_bavail == 0 else None
