"""A plan file, read. Every fault is found in one go and carries its line; a plan comes back whole or not at all."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import ValidationError

from interlock.errors import PlanError
from interlock.model.plan import Plan, PlanLimits, PlanMember, PlanTask
from interlock.plan.faults import Faults, Location, YamlDocument, described, meant, read_yaml, section_at, worded
from interlock.plan.rules import PlanRules
from interlock.plan.schema import NAME, NAME_RULE, LimitsSection, MemberSection, PlanFile, Section, TaskSection

S = TypeVar("S", bound=Section)

LARGEST = 1_048_576
"""The largest plan file, in bytes."""


def load(path: str) -> Plan:
    """Read the plan in the file at `path`.

    Raises:
        PlanError: the file cannot be read, is larger than 1 MiB, or has faults. `details["errors"]` lists every fault
            as `{path, line, message}`; `line` counts from 1 and is None where the file itself is at fault.
    """
    faults = Faults(path)
    plan = read(path, faults)
    if plan is None or faults:
        raise faults.error()
    return plan


def read(path: str, faults: Faults) -> Plan | None:
    """Read what can be known of the plan in the file at `path`, without the members, tasks and values that have faults;
    these are added to `faults`. None where nothing can be known."""
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        faults.add(None, "there is no such file. `interlock init` writes a plan to begin with")
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        faults.add(None, f"the file cannot be read: {reason}. Check the path and its permissions")
        return None
    if len(content) > LARGEST:
        faults.add(None, f"the file is larger than {LARGEST:,} bytes; divide the work into several plans")
        return None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        faults.add(line, "the file is not UTF-8; save it as UTF-8")
        return None
    plan = _parsed(text, path, faults)
    if plan is not None and not os.path.isdir(plan.workdir):
        message = f"workdir: there is no directory {plan.workdir}. Create it or name another"
        faults.add(plan.lines.get("workdir"), message)
    return plan


def parse(text: str, path: str) -> Plan:
    """Read the plan in `text`, without a look at the disk.

    Args:
        path: where the plan is or would be: `workdir`, and the name of a team without one, depend on it.

    Raises:
        PlanError: as for `load`.
    """
    faults = Faults(path)
    plan = _parsed(text, path, faults)
    if plan is None or faults:
        raise faults.error()
    return plan


def _parsed(text: str, path: str, faults: Faults) -> Plan | None:
    if len(text) > LARGEST:
        faults.add(None, f"the plan is larger than {LARGEST:,} bytes; divide the work into several plans")
        return None
    document = read_yaml(text, faults)
    if document is None:
        return None
    if document.data is None and not faults:
        faults.add(1, "the file is empty; a plan has members and tasks. `interlock init` writes one to begin with")
    elif not isinstance(document.data, dict):
        what = described(document.data, document.texts.get(()))
        faults.add(1, f"a plan is a mapping of team, members, tasks and more; this is {what}")
    if not isinstance(document.data, dict):
        return None
    file, refused = _validated(document, faults)
    PlanRules(document, refused, faults).check()
    stem = os.path.splitext(os.path.basename(path))[0]
    if ("team",) not in document.lines and not re.fullmatch(NAME, stem):
        faults.add(1, f'the plan has no team, and "{stem}" cannot be its name. Add `team: NAME`: {NAME_RULE}')
    return _plan(file, document, path, stem)


def faults_of(text: str, path: str) -> list[dict[str, Any]]:
    """Every fault of the plan in `text` as `{path, line, message}`; empty when there is none."""
    try:
        parse(text, path)
    except PlanError as error:
        return list(error.details["errors"])
    return []


def _validated(document: YamlDocument, faults: Faults) -> tuple[PlanFile, set[Location]]:
    """The file by its model, as far as it keeps to it, and what was refused, which is taken out of the document's
    data."""
    try:
        return _known(PlanFile.model_validate(document.data), document.empty), document.empty
    except ValidationError as error:
        found = list(worded(error, document.texts))
    for place, message, _ in found:
        if place not in document.empty:
            faults.add(document.line(place), message)
    refused, doubtful = set(document.empty), set(document.empty)
    # The last items first, so that the positions of the others stay.
    for place, _, unknown in reversed(found):
        if place[-1] == "[key]":
            continue
        refused.add(place[:-1] if unknown else place)
        name = meant(section_at(place[:-1]), str(place[-1])) if unknown else None
        doubtful.add((*place[:-1], name or "") if unknown else place)
        holder: Any = document.data
        for part in place[:-1]:
            holder = holder[part]
        if len(place) == 2 and place[0] in ("members", "tasks"):
            holder[place[1]] = {}
        elif isinstance(holder, list):
            holder.pop(int(place[-1]))
        else:
            holder.pop(place[-1], None)
    data = {**document.data, "members": {"ada": {"agent": "shell"}}, "tasks": {"one": {"run": "true"}}}
    file = PlanFile.model_validate(data).model_copy(update={
        "members": _sound(MemberSection, document.data.get("members")),
        "tasks": _sound(TaskSection, document.data.get("tasks")),
    })  # fmt: skip
    return _known(file, doubtful), refused


def _sound(model: type[S], sections: dict[str, Any] | None) -> dict[str, S]:
    """Those of the sections that can be read without what was refused in them."""
    found = {}
    for name, section in (sections or {}).items():
        with suppress(ValidationError):
            found[name] = model.model_validate(section)
    return found


def _known(file: PlanFile, doubtful: set[Location]) -> PlanFile:
    """The file without commands that are `doubtful`; where it is open what the others would find, as if a setup made
    it: an unknown key may be any."""
    for _, key, name in [place for place in doubtful if len(place) == 3 and place[2] in ("run", "verify")]:
        if key in file.tasks:
            left = {str(name): False if name == "verify" else None}
            file.tasks[str(key)] = file.tasks[str(key)].model_copy(update=left)
    decisive = {("workdir",), ("setup",), ("copy",), ("isolation",), ("",)} & doubtful
    return file.model_copy(update={"setup": file.setup or "true", "isolation": None}) if decisive else file


def _plan(file: PlanFile, document: YamlDocument, path: str, stem: str) -> Plan:
    folder = os.path.dirname(os.path.abspath(path))
    lines: dict[Location, dict[str, int]] = {}
    for place, line in document.lines.items():
        if place:
            lines.setdefault(place[:-1], {})[str(place[-1])] = line
    tasks = {}
    for key, task in file.tasks.items():
        place = ("tasks", key)
        verify = file.verify if task.verify is None else task.verify
        first = (task.run or key).strip().splitlines()[0]
        tasks[key] = PlanTask(
            key=key,
            subject=task.subject or (first if len(first) <= 200 else first[:199] + "…"),
            body=task.body or "",
            run=task.run,
            verify=verify or None,
            blocked_by=_once(task.blocked_by),
            assignee=task.assignee,
            review=task.review or "none",
            priority=task.priority or "normal",
            type=task.type,
            retries=file.retries if task.retries is None else task.retries,
            env=_once(file.env if task.env is None else task.env),
            timeout=task.timeout,
            labels=_once(task.labels),
            limits=_limits(task.limits),
            metadata=task.metadata or {},
            line=document.line(place),
            lines=lines.get(place, {}),
        )
    return Plan(
        team=file.team or stem,
        workdir=os.path.normpath(os.path.join(folder, os.path.expanduser(file.workdir or "."))),
        path=os.path.abspath(path),
        members=_members(file, document),
        tasks=tasks,
        parallel=file.parallel,
        isolation=file.isolation,
        setup=file.setup,
        copy=_once(file.copy_),
        limits=_limits(file.limits),
        retries=file.retries,
        verify=file.verify,
        check_before=file.check_before is not False,
        protect=_once(file.protect),
        strict=file.strict is True,
        env=_once(file.env),
        lines=lines[()],
    )


def _members(file: PlanFile, document: YamlDocument) -> dict[str, PlanMember]:
    members = {}
    for name, member in file.members.items():
        place, form, command = ("members", name), member.agent, None
        if isinstance(form, dict):
            [(form, words)] = form.items()
            texts = ((*place, "agent", form, index) for index in range(len(words)))
            command = tuple(document.texts.get(text, word) for text, word in zip(texts, words, strict=True))
        members[name] = PlanMember(
            name, form, command, member.model, member.permissions, member.type, _once(member.env),
            _limits(member.limits), document.line(place),
        )  # fmt: skip
    return members


def _once(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts or ()))


def _limits(section: LimitsSection | None) -> PlanLimits:
    return PlanLimits() if section is None else PlanLimits(**section.model_dump())
