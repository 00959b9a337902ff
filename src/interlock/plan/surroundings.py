"""Whether a command that is given in a worktree looks at what lies there, or at the user's own checkout.

A worktree holds what is committed, and what `setup` and `copy` put there. A path into the user's checkout, or a Python
environment that has the project installed from there, passes or fails with the user's files, whatever was worked on.
What a command's programs start themselves is not seen.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator

_OPERATOR = re.compile(r"[();<>|&]+")
_SHELL_WORDS = frozenset("! { if then else elif do while until time exec env command".split())
_INSTALLED = ("*.pth", "*.egg-link", "__editable__*.py", "*.dist-info/direct_url.json")
"""Files of an environment that name the place which a project is imported or was installed from."""
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_TESTING = ("dev", "test", "tests", "testing")
"""What projects call the extras and groups that their tests need."""
_LARGEST = 1_000_000
_BEFORE, _AFTER = r"(?<![\w./~-])", r"(?![\w.-])"


def programs(command: str) -> list[str]:
    """The words of `command` that name programs, as far as that can be told without a shell."""
    words = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    found, first = [], True
    try:
        for word in words:
            if _OPERATOR.fullmatch(word):
                first = not word.startswith((">", "<"))
            elif first and not _assigns(word) and word not in _SHELL_WORDS:
                found.append(word)
                first = False
    except ValueError:
        return []
    return found


def _assigns(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier()


def elsewhere(command: str, directory: str, *, top: str, search: str | None = None) -> str | None:
    """Why `command`, given in `directory`, would look at the checkout at `top`, in a sentence; null where nothing says
    so. `search` is its PATH."""
    here = _root(directory)
    for where in dict.fromkeys((top, os.path.realpath(top))):
        for named in re.finditer(_BEFORE + re.escape(where) + _AFTER + r"[^\s'\"`;|&<>()]*", command):
            if here == top or not _below(named[0], here):
                return f"{named[0]} lies in your checkout."
    for word in programs(command):
        if here == top and "/" in word and not os.path.isabs(word):
            continue  # There is no worktree yet, and that is where this will be looked for.
        found = os.path.join(directory, word) if "/" in word else shutil.which(word, path=search)
        if found is None:
            continue
        for environment in _environments(os.path.abspath(found)):
            said = _installed_from(environment, top, here)
            if said is not None:
                return f"{word} runs in {environment}, which has this project installed from your checkout ({said})."
        own = os.path.realpath(os.path.dirname(os.path.abspath(found)))
        in_environment = os.path.exists(os.path.join(os.path.dirname(own), "pyvenv.cfg"))
        if _below(own, os.path.realpath(top)) and not _below(own, here) and not in_environment:
            return f"{word} is {found}, which lies in your checkout."
    return None


def remedy(program: str, directory: str) -> str:
    """What gives each worktree its own `program`, by what the project in `directory` uses."""
    name = os.path.basename(program)
    if "node_modules" in program.split("/"):
        return f"Give each worktree its own: `setup: {javascript_setup(directory)}`"
    if "vendor" in program.split("/") and _has(directory, "composer.json"):
        return "Give each worktree its own: `setup: composer install`"
    tool, setup = python_setup(directory)
    if tool == "uv":
        return f"Write `uv run {name}`, which makes an environment in each worktree"
    if tool == "poetry" or _has(directory, *_PROJECT, "requirements.txt"):
        return f"Give each worktree its own: `setup: {setup}`, and write `.venv/bin/{name}`"
    return "Write a path relative to `workdir`, and make in `setup` what git ignores"


def python_setup(directory: str, *tools: str) -> tuple[str, str]:
    """What manages the environment of the Python project in `directory` (uv, poetry or pip), and the command that makes
    one in a worktree, with what its tests need; with pip, these tools are added."""
    extras, more = _for_tests(directory)
    if _has(directory, "uv.lock"):
        return "uv", " ".join(["uv sync", *(f"--extra {name}" for name in extras)])
    if _has(directory, "poetry.lock"):
        # It would install into an environment that happens to be active.
        install = "env -u VIRTUAL_ENV POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install"
        return "poetry", " ".join([install, *(f"--extras {name}" for name in extras)])
    listed = [name for name in ("requirements.txt", "requirements-dev.txt", "dev-requirements.txt")
              if _has(directory, name)]  # fmt: skip
    itself = ["-e", f".[{','.join(extras)}]" if extras else "."] if _has(directory, *_PROJECT) else []
    wanted = [*(word for name in listed for word in ("-r", name)), *itself, *more, *tools]
    return "pip", "python3 -m venv .venv" + (f" && .venv/bin/pip install {shlex.join(wanted)}" if wanted else "")


def _for_tests(directory: str) -> tuple[list[str], list[str]]:
    """The extras of a Python project that its tests need, and the requirements of its groups for them."""
    try:
        with open(os.path.join(directory, "pyproject.toml"), "rb") as file:
            project = tomllib.load(file)
    except (OSError, ValueError, RecursionError):
        return [], []
    about, groups = project.get("project"), project.get("dependency-groups")
    extras = about.get("optional-dependencies") if isinstance(about, dict) else None
    named = [groups.get(name) for name in _TESTING] if isinstance(groups, dict) else []
    wanted = [one for group in named if isinstance(group, list) for one in group if isinstance(one, str)]
    return [name for name in _TESTING if isinstance(extras, dict) and name in extras], list(dict.fromkeys(wanted))


def javascript_setup(directory: str) -> str:
    """The command that installs in a worktree what the JavaScript project in `directory` needs, and changes no file
    that git tracks."""
    locks = {
        "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
        "yarn.lock": "yarn install --frozen-lockfile",
        "package-lock.json": "npm ci",
    }
    return next((line for lock, line in locks.items() if _has(directory, lock)), "npm install --no-package-lock")


def _has(directory: str, *names: str) -> bool:
    return any(os.path.exists(os.path.join(directory, name)) for name in names)


def checkout_of(directory: str) -> str | None:
    """The top of the checkout that `directory` lies in, without asking git; null outside any."""
    where = os.path.realpath(directory)
    while not os.path.lexists(os.path.join(where, ".git")):
        above = os.path.dirname(where)
        if above == where:
            return None
        where = above
    return where


def _root(directory: str) -> str:
    return checkout_of(directory) or os.path.realpath(directory)


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _environments(program: str) -> Iterator[str]:
    """The Python environments that a program belongs to: by its place, and by the interpreter of its first line."""
    places = [os.path.dirname(program), os.path.dirname(os.path.realpath(program))]
    try:
        with open(program, "rb") as file:
            first = file.readline(4096)
    except OSError:
        first = b""
    if first.startswith(b"#!"):
        words = os.fsdecode(first[2:]).split()
        places += [os.path.dirname(words[0])] if words else []
    for place in dict.fromkeys(places):
        above = os.path.dirname(os.path.realpath(place))
        if glob.glob(os.path.join(glob.escape(above), "lib", "python3*")):
            yield above


def _installed_from(environment: str, top: str, here: str) -> str | None:
    """The file by which `environment` has something installed from the checkout at `top`, and not from `here`."""
    names = [re.escape(where) for where in dict.fromkeys((top, os.path.realpath(top)))]
    inside = re.compile(_BEFORE.replace("/", "") + f"({'|'.join(names)})" + _AFTER + r"[^\s'\"]*")
    lib = os.path.join(glob.escape(environment), "lib", "python3*", "*-packages")
    for pattern in _INSTALLED:
        for file in sorted(glob.glob(os.path.join(lib, pattern))):
            try:
                with open(file, encoding="utf-8", errors="replace") as opened:
                    text = opened.read(_LARGEST)
            except OSError:
                continue
            if any(here == top or not _below(found[0], here) for found in inside.finditer(text)):
                return os.path.basename(file) if "dist-info" not in file else os.path.basename(os.path.dirname(file))
    return None
