"""Uninstalling: what Interlock keeps on this machine is told, and removed; what is not its own stays, and so does work.

A home may be shared with another program (`INTERLOCK_HOME=~/.openclaw`), so only known names are removed from it.
"""

from __future__ import annotations

import glob
import os
import shutil
from contextlib import suppress

from interlock.app import server_lock, service
from interlock.app.agents import CHECKED
from interlock.app.home import SETTINGS_FILE, Home
from interlock.app.joining import joined_directories, leave
from interlock.app.projects import PROJECTS
from interlock.app.stopping import running_members
from interlock.errors import Conflict, InterlockError, StorageError
from interlock.gitwork.git import Git
from interlock.lazy_dataclass import dataclass
from interlock.model.names import ACP_REGISTRY_FILE, JOINED, LOGIN_FILE, RECEIPT_KEY_FILE, WORK
from interlock.runner import notifications, telemetry, web_push

OURS = (
    "token", "tokens.json", LOGIN_FILE, RECEIPT_KEY_FILE, SETTINGS_FILE, "agents.toml", CHECKED, ACP_REGISTRY_FILE,
    JOINED, "memory", "stories", "imports", notifications.FILE, web_push.FILE, telemetry.FILE, server_lock.OPENER,
    ".*.lock", service.LOG_FILE,
)  # fmt: skip
"""What Interlock makes in a home beside `teams`."""
WORKPLACES = (PROJECTS, WORK)
"""What Interlock makes there for the work of others: projects without a directory of their own, clones of a worker."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is there to be removed, and what will stay.

    Attributes:
        paths: files and directories of the home; `teams` are in them.
        joined: directories whose agent programs have our hooks.
        branches: of each repository, the branches with the work of its teams; they stay.
        workplaces: directories of the home in which work may be that is nowhere else; they stay.
        others: what in the home is not ours; it stays.
    """

    home: str
    teams: tuple[str, ...]
    paths: tuple[str, ...]
    joined: tuple[str, ...]
    branches: dict[str, list[str]]
    workplaces: tuple[str, ...]
    others: tuple[str, ...]


def leftovers(home: Home) -> Leftovers:
    """Look what there is. Raises Forbidden in a run, Conflict where something of it is at work, LocalOnly for a home
    elsewhere."""
    home.need_here("uninstall")
    home.need_person("uninstall Interlock")
    teams = home.teams()
    branches: dict[str, list[str]] = {}
    for name in teams:
        with suppress(InterlockError):  # One that cannot be opened has nothing that runs.
            if home.driven(name) or running_members(home.workspace(name)):
                raise Conflict(f"{name} is at work. `interlock down` ends everything that runs; then uninstall.")
            workdir = home.glance(name).workdir
            if workdir is not None and os.path.isdir(workdir):
                git = Git(workdir, timeout=30.0)
                found = git("for-each-ref", "--format=%(refname:short)", "refs/heads/interlock",
                            "refs/heads/interlock-work", ok=(0, 128)).text.split()  # fmt: skip
                branches |= {git("rev-parse", "--show-toplevel").text: found} if found else {}
    ours = {path for name in OURS for path in glob.glob(os.path.join(glob.escape(home.path), name))}
    places = [os.path.join(home.path, "teams")]
    ours |= {path for path in places if os.path.isdir(path)}
    with suppress(Conflict):  # A service of that name that is somebody else's stays.
        ours |= {found.file for found in [service.status(home)] if found.installed}
    with suppress(OSError):
        there = sorted(os.path.join(home.path, name) for name in os.listdir(home.path))
        stays = tuple(path for path in there if path not in ours)
        work = tuple(path for path in stays if os.path.basename(path) in WORKPLACES)
        return Leftovers(
            home.path, tuple(teams), tuple(sorted(ours)), tuple(joined_directories(home)), branches, work,
            tuple(path for path in stays if path not in work),
        )  # fmt: skip
    return Leftovers(home.path, (), (), (), {}, (), ())


def remove_everything(home: Home, found: Leftovers) -> None:
    """Remove it. What a task has not committed goes to its branch first; branches with work of their own stay.

    Raises:
        StorageError: something could not be removed; the rest is as it was.
    """
    leave(home, None)
    with suppress(Conflict):
        service.remove(home)
    for name in found.teams:
        with suppress(InterlockError):  # One that cannot be opened goes with the files below.
            home.delete_team(name)
    home.close()
    for path in found.paths:
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                # In `teams` another program may keep its own.
                for name in found.teams if os.path.basename(path) == "teams" else os.listdir(path):
                    _remove(os.path.join(path, name))
                with suppress(OSError):
                    os.rmdir(path)
            else:
                _remove(path)
        except OSError as error:
            raise StorageError(f"{error.filename or path} cannot be removed: {error.strerror}.", path=path) from error
    with suppress(OSError):
        os.rmdir(found.home)  # Only where nothing else is in it.


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
