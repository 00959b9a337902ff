"""A plan file, read. Every fault is found in one go and carries its line; a plan comes back whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from interlock.errors import PlanError
from interlock.plan.document import Limits, Plan, PlanMember, PlanTask
from interlock.plan.fields import NAME, NAME_RULE, PLAN
from interlock.plan.nodes import Faults, Node, compose
from interlock.plan.rules import check
from interlock.plan.values import Entry, Reader, fits

#: The largest plan file, in bytes.
LARGEST = 1_048_576


def load(path: str) -> Plan:
    """The plan in the file at `path`.

    Raises:
        PlanError: the file cannot be read, is larger than 1 MiB, or is no sound plan. `details["errors"]` lists every
            fault as `{path, line, message}`; `line` counts from 1 and is null where the file itself is at fault.
    """
    faults = Faults(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        faults.add(None, "there is no such file. `interlock init` writes a plan to begin with")
        raise faults.error() from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        faults.add(None, f"the file cannot be read: {reason}. Check the path and its permissions")
        raise faults.error() from error
    if len(content) > LARGEST:
        faults.add(None, f"the file is larger than {LARGEST:,} bytes; divide the work into several plans")
        raise faults.error()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        faults.add(line, "the file is not UTF-8; save it as UTF-8")
        raise faults.error() from None
    plan = parse(text, path)
    if not os.path.isdir(plan.workdir):
        faults.add(None, f"workdir: there is no directory {plan.workdir}. Create it or name another")
        raise faults.error()
    return plan


def parse(text: str, path: str) -> Plan:
    """The plan in `text`. `path` is where it stands or would stand: `workdir` and a team without a name go by it.

    Nothing is read from the disk.

    Raises:
        PlanError: as for `load`.
    """
    faults = Faults(path)
    if len(text) > LARGEST:
        faults.add(None, f"the plan is larger than {LARGEST:,} bytes; divide the work into several plans")
        raise faults.error()
    root = compose(text, faults)
    if root is None:
        if not faults:
            faults.add(1, "the file is empty; a plan has members and tasks. `interlock init` writes one to begin with")
        raise faults.error()
    plan = _plan(root, path, faults)
    if plan is None or faults:
        raise faults.error()
    return plan


def faults_of(text: str, path: str) -> list[dict[str, Any]]:
    """Every fault of the plan in `text` as `{path, line, message}`; empty when it is sound."""
    try:
        parse(text, path)
    except PlanError as error:
        return list(error.details["errors"])
    return []


def _plan(root: Node, path: str, faults: Faults) -> Plan | None:
    if root.kind != "mapping":
        faults.add(root.line, f"a plan is a mapping of team, members, tasks and more; this is {root.described}")
        return None
    top = Reader(faults).entry(root, PLAN, "the plan")
    members: dict[str, Entry] = top.get("members", {})
    tasks: dict[str, Entry] = top.get("tasks", {})
    check(members, tasks, faults)
    team = _team(top, path, faults)
    _check_isolation(top, faults)
    _check_limits(top, members, tasks, faults)
    if faults:
        return None
    return Plan(
        team=team,
        workdir=_workdir(top, path),
        path=os.path.abspath(path),
        members={name: _member(name, entry) for name, entry in members.items()},
        tasks={key: _task(key, entry, top) for key, entry in tasks.items()},
        parallel=top.get("parallel"),
        isolation=top.get("isolation"),
        setup=top.get("setup"),
        copy=top.get("copy", ()),
        limits=_limits(top),
        retries=top.get("retries"),
        verify=top.get("verify"),
        check_before=top.get("check_before", True),
        env=top.get("env", ()),
        lines=top.lines,
    )


def _team(top: Entry, path: str, faults: Faults) -> str:
    if "team" in top.lines:
        return str(top.get("team", ""))
    stem = os.path.splitext(os.path.basename(path))[0]
    if not fits(NAME, stem):
        faults.add(1, f'the plan has no team, and "{stem}" cannot be its name. Add `team: NAME`: {NAME_RULE}')
    return stem


def _workdir(top: Entry, path: str) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.normpath(os.path.join(folder, os.path.expanduser(top.get("workdir", "."))))


def _check_isolation(top: Entry, faults: Faults) -> None:
    if top.get("isolation") != "none":
        for path in top.get("copy", ()):
            parts = path.replace("\\", "/").split("/")
            if os.path.isabs(path) or ".." in parts or ".git" in parts or "\n" in path:
                message = f'copy names files below workdir, and "{path}" leads elsewhere. Write its path from there'
                faults.add(top.line_of("copy"), message)
    for name in ("setup", "copy"):
        if name in top.lines and top.get("isolation") == "none":
            message = f"{name} prepares worktrees, and there are none. Add `isolation: worktree`, or remove it"
            faults.add(top.line_of(name), message)


def _check_limits(top: Entry, members: Mapping[str, Entry], tasks: Mapping[str, Entry], faults: Faults) -> None:
    """Nobody can tell what a program uses that is only run: a limit of tokens would hold it to nothing."""
    silent = [name for name, member in members.items() if isinstance(member.get("agent"), tuple)]
    silent = [name for name in silent if members[name].get("agent")[0] == "command"]
    owners = {key: task.get("assignee") for key, task in tasks.items() if not task.get("run")}
    held = [(members[name], name) for name in silent]
    held += [(tasks[key], owner or silent[0]) for key, owner in owners.items() if silent and owner in (None, *silent)]
    held += [(top, name) for name in silent[:1]]
    for entry, name in held:
        if _limits(entry).tokens is not None:
            message = (
                f"the tokens of {name} cannot be measured, since its agent is a command. Limit its `turns` or `time`"
            )
            faults.add(entry.line_of("limits"), message)


def _member(name: str, entry: Entry) -> PlanMember:
    agent = entry.get("agent")
    form, command = agent if isinstance(agent, tuple) else (agent, None)
    return PlanMember(
        name=name,
        agent=form,
        command=command,
        model=entry.get("model"),
        permissions=entry.get("permissions"),
        type=entry.get("type"),
        env=entry.get("env", ()),
        limits=_limits(entry),
        line=entry.line,
    )


def _task(key: str, entry: Entry, top: Entry) -> PlanTask:
    run = entry.get("run")
    subject = entry.get("subject") or _first_line(run or key)
    inherited: Mapping[str, Any] = {name: top.get(name) for name in ("verify", "retries", "env")}
    own = {**inherited, **entry.values}
    return PlanTask(
        key=key,
        subject=subject,
        body=own.get("body", ""),
        run=run,
        verify=own["verify"] or None,
        blocked_by=own.get("blocked_by", ()),
        assignee=own.get("assignee"),
        review=own.get("review", "none"),
        priority=own.get("priority", "normal"),
        type=own.get("type"),
        retries=own["retries"],
        env=own["env"] or (),
        timeout=own.get("timeout"),
        limits=_limits(entry),
        line=entry.line,
        lines=entry.lines,
    )


def _limits(entry: Entry) -> Limits:
    found: Entry | None = entry.get("limits")
    return Limits(**found.values) if found else Limits()


def _first_line(command: str) -> str:
    first = command.strip().splitlines()[0]
    return first if len(first) <= 200 else first[:199] + "…"
