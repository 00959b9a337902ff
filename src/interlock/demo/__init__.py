"""What `interlock demo` works on: a small real project, a plan for its release, and two little agent programs.

`materialise` puts them into an empty directory:

    plan.yaml        ten tasks that depend on each other, with this machine's Python filled in
    agents/          ben.py and cleo.py; ada is a shell member and needs no program
    project/         `tally`, a Python package without dependencies; one of its unit tests fails

Two things go wrong on purpose. ben, the first time, stops in the middle of his edit and goes on slowly: whoever drives
the demo kills his process group once he has printed `HALFWAY`. cleo, the first time, says she is done when she is
not: the plan's `verify` finds out, and she does it properly once the findings stand in her prompt.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress

from interlock.errors import InvalidRequest, StorageError

HALFWAY = "[ben] halfway"
"""The line of ben's output after which he is to be killed, once."""

_SOURCE = os.path.dirname(os.path.abspath(__file__))
GIT_SECONDS = 30.0


def materialise(directory: str) -> str:
    """Put the demo into `directory`, which is made if need be; answer the path of its plan.

    The project becomes a git repository with one commit where git is at hand; nothing else depends on that.

    Raises:
        InvalidRequest: there is something in `directory` already; nothing was written.
        StorageError: the file system refused.
    """
    directory = os.path.abspath(directory)
    try:
        os.makedirs(directory, exist_ok=True)
        if os.listdir(directory):
            raise InvalidRequest(f"{directory} is not empty. Name a new directory for the demo.", path=directory)
        for part in ("agents", "project"):
            # Contents only: an installed package may be read-only, what people try out must not be.
            source, target = os.path.join(_SOURCE, part), os.path.join(directory, part)
            for folder, folders, files in os.walk(source):
                folders[:] = [name for name in folders if name != "__pycache__"]
                inside = os.path.join(target, os.path.relpath(folder, source))
                os.makedirs(inside, exist_ok=True)
                for name in files:
                    shutil.copyfile(os.path.join(folder, name), os.path.join(inside, name))
        plan = os.path.join(directory, "plan.yaml")
        with open(plan, "x", encoding="utf-8") as file:
            file.write(plan_text(sys.executable or shutil.which("python3") or "python3"))
    except OSError as error:
        message = f"The demo cannot be written to {directory}: {error.strerror or error}. Name another directory."
        raise StorageError(message, path=directory) from error
    # By settings of its own: no hooks, signatures or templates of the user's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    settings = ["-c", "user.name=tally", "-c", "user.email=tally@example.invalid", "-c", "init.defaultBranch=main"]
    with suppress(OSError, subprocess.SubprocessError):
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "tally, as we found it"]):
            subprocess.run(
                ["git", *settings, *arguments], cwd=os.path.join(directory, "project"), env=environment,
                stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_SECONDS, check=True,
            )  # fmt: skip
    return plan


def plan_text(python: str) -> str:
    """The demo's plan with `python`, the path of an interpreter, in the place of its placeholders.

    `{python}` stands in commands that a shell reads, `{program}` where a program is named as it is. Both stand inside
    double quotes in the file, where YAML reads the escapes of JSON.
    """
    with open(os.path.join(_SOURCE, "plan.yaml"), encoding="utf-8") as file:
        text = file.read()
    for placeholder, value in (("{python}", shlex.quote(python)), ("{program}", python)):
        text = text.replace(placeholder, json.dumps(value, ensure_ascii=False)[1:-1])
    return text
