"""A home's server as a service of its user: started at login, and again when it ends badly.

One description (`Service`), written as a systemd user unit or as a launchd agent. A file that does not carry our mark
is somebody's own: it is neither replaced nor removed. That the system's manager cannot be reached, as in a container,
is said and undoes nothing: the file is right, and the command that is left to do is in the answer.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from hashlib import sha256

from interlock.app import server_lock
from interlock.app.home import Home
from interlock.errors import Conflict, InvalidRequest, StorageError
from interlock.integrations.entries import own_command
from interlock.lazy_dataclass import dataclass
from interlock.storage import files

MARK = "Written by `interlock service install`; `interlock service remove` removes it."
LOG_FILE = "service.log"
"""What the server says under launchd, in the home; systemd keeps it in the journal."""
MANAGER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Service:
    """What is to run, whoever starts it: `name` is its own among the user's services, `path` the search path for
    agent programs."""

    name: str
    command: tuple[str, ...]
    path: str
    home: str


@dataclass(frozen=True, slots=True)
class ServiceState:
    """How it stands. `done` is what was done to the file; `problem` what the system's manager said against it, with
    `command`, which is left to do then; `url` is the address of the home's server, if one runs."""

    file: str
    installed: bool
    active: bool
    done: str
    problem: str
    command: str
    url: str | None


def install(home: Home, port: int | None = None) -> ServiceState:
    """Have this home served from now on. Repeated it changes nothing, or only what differs.

    Raises:
        Forbidden: this process belongs to a run.
        Conflict: the file is somebody else's, or another `interlock up` serves the home.
        InvalidRequest: a path of this user cannot be written into such a file.
        StorageError: the file system refuses.
    """
    home.need_here("service")
    home.need_person("install a service")
    service, file = _described(home, port), _file(home)
    text = _launchd_agent(service) if _on_macos() else _systemd_unit(service)
    before = _own_text(file)
    if server_lock.find(home.path) is not None and not _active(home):
        raise Conflict(f"{home.path} is served by a process that no service started: `interlock down` ends it.")
    if before != text:
        try:
            os.makedirs(home.path, mode=0o700, exist_ok=True)  # It starts there.
            os.makedirs(os.path.dirname(file), exist_ok=True)
            files.replace(file, text.encode())
        except OSError as error:
            raise StorageError(f"{file} cannot be written: {error}.", path=file) from error
    commands = [*(_stopping(home, file) if before not in (None, text) and _on_macos() else []), *_starting(home, file)]
    return _state(home, "unchanged" if before == text else "written", *_carried_out(commands))


def remove(home: Home) -> ServiceState:
    """Stop the service and remove its file. Raises as `install`."""
    home.need_here("service")
    home.need_person("remove a service")
    file = _file(home)
    if _own_text(file) is None:
        return _state(home, "not installed")
    problem, command = _carried_out(_stopping(home, file))
    try:
        os.unlink(file)
    except OSError as error:
        raise StorageError(f"{file} cannot be removed: {error}.", path=file) from error
    if not _on_macos():
        _carried_out([["systemctl", "--user", "daemon-reload"]])
    return _state(home, "removed", problem, command)


def status(home: Home) -> ServiceState:
    """How the service stands. Raises Conflict where its file is somebody else's."""
    home.need_here("service")
    return _state(home, "")


def _state(home: Home, done: str, problem: str = "", command: str = "") -> ServiceState:
    file, server = _file(home), server_lock.find(home.path)
    installed = _own_text(file) is not None
    active = installed and _active(home)
    return ServiceState(file, installed, active, done, problem, command, None if server is None else server.url)


def _described(home: Home, port: int | None) -> Service:
    program, *words = own_command()
    where = ["--home", home.path, "up", *(["--port", str(port)] if port is not None else [])]
    command = (shutil.which(program) or program, *words, *where)
    path = os.environ.get("PATH") or os.defpath
    if any(not character.isprintable() for word in (*command, path) for character in word):
        raise InvalidRequest("A path with control characters cannot be written into a service.", field="home")
    return Service(_name(home), command, path, home.path)


def _systemd_unit(service: Service) -> str:
    command = " ".join(_quoted(word).replace("$", "$$") for word in service.command)
    return f"""# {MARK}
[Unit]
Description={_escaped(f"Interlock for {service.home}")}
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
ExecStart={command}
Environment={_quoted(f"PATH={service.path}")}
WorkingDirectory={_escaped(service.home)}
Restart=on-failure
RestartSec=5
KillMode=mixed

[Install]
WantedBy=default.target
"""


def _launchd_agent(service: Service) -> str:
    log = os.path.join(service.home, LOG_FILE)
    found = plistlib.dumps({
        "Label": service.name,
        "ProgramArguments": list(service.command),
        "EnvironmentVariables": {"PATH": service.path},
        "WorkingDirectory": service.home,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "Umask": 0o077,
    })  # fmt: skip
    return found.decode().replace("<plist", f"<!-- {MARK} -->\n<plist", 1)


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """A word as systemd reads it: with C's escapes, and `%` doubled."""
    return '"' + _escaped(word.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _on_macos() -> bool:
    return sys.platform == "darwin"


def _name(home: Home) -> str:
    usual = home.path == os.path.realpath(os.path.expanduser("~/.interlock"))
    return "interlock" if usual else f"interlock-{sha256(os.fsencode(home.path)).hexdigest()[:8]}"


def _file(home: Home) -> str:
    """Where the system's manager of this user's services looks for it."""
    if _on_macos():
        return os.path.expanduser(f"~/Library/LaunchAgents/{_name(home)}.plist")
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(settings, "systemd", "user", f"{_name(home)}.service")


def _own_text(file: str) -> str | None:
    """What the file holds, None where there is none. Raises Conflict where it is not ours."""
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            text = opened.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error}.", path=file) from error
    if MARK not in text:
        raise Conflict(f"{file} was not written by Interlock and stays as it is. Rename it first.", path=file)
    return text


def _starting(home: Home, file: str) -> list[list[str]]:
    if _on_macos():
        return [["launchctl", "bootstrap", f"gui/{os.getuid()}", file]]
    unit = os.path.basename(file)
    return [
        ["systemctl", "--user", *words] for words in (["daemon-reload"], ["enable", unit], ["restart", unit])
    ]  # fmt: skip


def _stopping(home: Home, file: str) -> list[list[str]]:
    if _on_macos():
        return [["launchctl", "bootout", f"gui/{os.getuid()}/{_name(home)}"]]
    return [["systemctl", "--user", "disable", "--now", os.path.basename(file)]]


def _active(home: Home) -> bool:
    """Whether the system's manager says that it runs."""
    if _on_macos():
        return _ran(["launchctl", "print", f"gui/{os.getuid()}/{_name(home)}"])[0]
    return _ran(["systemctl", "--user", "is-active", "--quiet", f"{_name(home)}.service"])[0]


def _carried_out(commands: list[list[str]]) -> tuple[str, str]:
    """Carry them out; what was said against the first that failed, and those that are left to do."""
    for place, command in enumerate(commands):
        well, said = _ran(command)
        if not well:
            return said, " && ".join(" ".join(one) for one in commands[place:])
    return "", ""


def _ran(command: list[str]) -> tuple[bool, str]:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MANAGER_SECONDS, check=False
        )
    except FileNotFoundError:
        return False, f"{command[0]} is not there"
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return done.returncode == 0, (done.stderr.strip() or done.stdout.strip()).split("\n")[0]
