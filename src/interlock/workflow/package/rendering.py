"""Skills whose sources their package renders before anybody follows them (6.12: `bmad-build`, `bmad-build-auto`).

The package's own renderer resolves configuration, customization and the paths of the other files into a snapshot below
`_bmad/render`, which the package keeps out of git, and prints the `workflow.md` to follow. It needs `uv`. Nothing of a
source that was not rendered ever reaches an agent.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from dataclasses import replace

from interlock.workflow.errors import WorkflowNotRendered
from interlock.workflow.package import files
from interlock.workflow.package.files import Files
from interlock.workflow.package.next_steps import SNAPSHOT
from interlock.workflow.package.packages import Package
from interlock.workflow.package.workflow import ENTRY, RENDERER, Workflow

SECONDS = 120
PRINTED = re.compile(r"^read and follow (.+)$", re.MULTILINE)
PLACEHOLDER = re.compile(rf"\{{\{{(?:config)?\.[\w.-]+\}}\}}|\{{workflow\.[\w.-]+\}}|{SNAPSHOT.pattern}")
PASSED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE")
PASSED_PREFIXES = ("UV_", "XDG_")


def tool() -> str | None:
    """Where `uv` is: on the path, or beside the Python that runs us."""
    return shutil.which("uv") or shutil.which("uv", path=os.path.dirname(sys.executable))


def require(workflow: Workflow) -> None:
    """Refuse a workflow that could not be rendered here, before anything is begun.

    Raises:
        WorkflowNotRendered: there is no `uv`.
    """
    if workflow.renders and tool() is None:
        raise WorkflowNotRendered(
            f"{workflow.skill.invocation} is rendered by its package with `uv`, which is not installed here. Install "
            "it (https://docs.astral.sh/uv/, or `pip install uv`), then start again.",
            skill=workflow.skill.invocation,
            missing="uv",
        )


def rendered(package: Package, workflow: Workflow) -> Workflow:
    """The workflow as an agent is to follow it: itself, or with the texts that the package's renderer has made. Steps
    and their order stay those of the sources.

    Raises:
        WorkflowNotRendered: there is no `uv`, the renderer failed, or a placeholder is left.
    """
    require(workflow)
    if not workflow.renders:
        return workflow
    folder = posixpath.dirname(workflow.skill.path)
    made = _render(package, workflow, folder)
    texts = Files(made)

    def read(name: str) -> files.FileSettings:
        found = texts.settings(name)
        left = PLACEHOLDER.search(found.body)
        if left is not None or not found.body.strip():
            why = f"still holds {left[0]}" if left else "is empty or cannot be read"
            raise _refused(workflow, f"{os.path.join(made, name)} {why}.")
        return found

    def place(path: str) -> str:
        return os.path.relpath(os.path.join(made, posixpath.relpath(path, folder)), package.root).replace(os.sep, "/")

    steps = []
    for one in workflow.steps:
        found = read(posixpath.relpath(one.path, folder))
        steps.append(replace(one, text=found.body, line=one.line, rendered=place(one.path)))
    return replace(workflow, text=read(ENTRY).body, steps=tuple(steps))


def _render(package: Package, workflow: Workflow, folder: str) -> str:
    """Run the renderer; the directory of what it made, absolute."""
    root = os.path.realpath(package.root)
    script, skill = os.path.join(root, RENDERER), os.path.join(root, folder)
    command = [str(tool()), "run", "--no-cache", script, "--project-root", root, "--skill", skill]
    passed = {name: value for name, value in os.environ.items() if name in PASSED or name.startswith(PASSED_PREFIXES)}
    try:
        ran = subprocess.run(
            command, cwd=root, env=passed, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refused(workflow, f"its renderer could not be run: {error}") from error
    said = ran.stdout.decode("utf-8", "replace")
    printed = PRINTED.search(said)
    if ran.returncode != 0 or printed is None:
        words = " ".join((said.strip() or ran.stderr.decode("utf-8", "replace").strip())[-1000:].split())
        raise _refused(workflow, f"its renderer ended with {ran.returncode}: {words or 'it printed nothing'}")
    made = os.path.dirname(os.path.realpath(printed[1].strip()))
    if os.path.commonpath((made, root)) != root:
        raise _refused(workflow, f"its renderer wrote outside of the project: {made}")
    return made


def _refused(workflow: Workflow, why: str) -> WorkflowNotRendered:
    return WorkflowNotRendered(
        f"{workflow.skill.invocation} could not be rendered: {why}", skill=workflow.skill.invocation
    )
