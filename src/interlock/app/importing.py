"""Tasks of other programs, taken over as the plan of a team."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from interlock.app import engine, planning
from interlock.errors import AgentError, InvalidRequest, PlanError
from interlock.model.json import Json
from interlock.model.names import check_team_name
from interlock.model.plan import ImportedPlan, StagedPlan
from interlock.plan.faults import Faults
from interlock.plan.sources import READERS, SourceTask, TaskSource, first, lines_of_yaml, project_of, read
from interlock.storage import files

AT_ONCE = 2
"""Tasks that are done at once unless somebody says otherwise."""
BMAD = {
    name: f"_bmad-output/{name.replace('_', '-')}" for name in ("planning_artifacts", "implementation_artifacts")
} | {"output_folder": "_bmad-output"}
"""Where BMAD keeps its documents in a project whose configuration is not there."""


class Stage(Protocol):
    """As `Home.stage`."""

    def __call__(self, plan: str, *, dry_run: bool = False) -> StagedPlan: ...


Carried = Callable[[str], str | None]
"""The path of the plan that the team of a name carries out; None where there is no such team, or it has none."""


def import_tasks(
    stage: Stage, now: Carried, folder: str, kind: str, path: str, *, team: str | None, agent: str | None,
    command: Sequence[str], parallel: int | None, workdir: str | None, dry_run: bool,
) -> ImportedPlan:  # fmt: skip
    """See `Home.import_tasks`. Plans are kept in `folder`."""
    kinds = (*READERS, "bmad")
    if kind not in kinds:
        raise InvalidRequest(f"There is no import of {kind!r}, only of: {', '.join(kinds)}.", field="kind")
    source = _stories(os.path.abspath(os.path.expanduser(path))) if kind == "bmad" else read(kind, path)
    tasks, left_out = source.planned()
    place = os.path.abspath(workdir or source.workdir)
    if not os.path.isdir(place):
        raise InvalidRequest(f"There is no directory {place}: say with --workdir where to work.", field="workdir")
    name = check_team_name(team or f"{planning.team_name(source.name)[:38].rstrip('-_')}-{kind}")
    at_once = parallel or min(AT_ONCE, max(len(tasks), 1))
    agent = agent or ("claude" if source.members else None)
    plan = planning.draft(place, name, tasks, agent=agent, command=command, at_once=at_once)
    if source.members:
        [*_, member] = plan["members"].values()
        plan["members"] = {
            one: member | {key: value for key, value in said.items() if key == "type" or agent == "claude"}
            for one, said in source.members.items()
        }
    kept, carried = os.path.join(folder, f"{name}-{source.mark}.yaml"), now(name)
    if carried not in (None, kept):
        raise InvalidRequest(
            f"The team {name} carries out another plan, whose tasks this one would replace. Import into a team of its "
            "own with --team.",
            field="team",
        )
    if not tasks:
        return ImportedPlan(StagedPlan(name, None, None), kept, left_out)
    with planning.TemporaryDirectory() as scratch:
        draft = os.path.join(scratch, os.path.basename(kept))
        _write(draft, plan)
        try:
            staged = stage(draft, dry_run=True)
        except (AgentError, PlanError) as error:  # The lines would be those of a file that is gone.
            raise type(error)(error.details["errors"][0]["message"]) from None
    same = carried and not (staged.new or staged.updated or staged.removed_open)
    if not dry_run and not same:
        _write(kept, plan)
        staged = stage(kept)
    return ImportedPlan(staged, kept, left_out)


def _write(path: str, plan: Json) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    files.replace(path, (json.dumps(plan, indent=2, ensure_ascii=False) + "\n").encode())


def _stories(path: str) -> TaskSource:
    """The stories of a `sprint-status.yaml`, in the order and with the texts that the project gives them.

    Raises:
        PlanError: as `read`.
    """
    package = engine.find_package(path if os.path.isdir(path) else os.path.dirname(path))
    folders = [folder.rpartition("/")[2] for folder in BMAD.values()]
    config = dict(package.config("bmm")) if package is not None else BMAD
    root = package.root if package is not None else path if os.path.isdir(path) else project_of(path, *folders)
    name = engine.stories.SPRINT
    places = (name, *(f"{folder}/{name}" for folder in BMAD.values()))
    status = first(path, *places) or engine.stories.sprint_path(root, config)
    faults = Faults(path)
    if status is None:
        faults.add(None, f"there is no {name}: name it, or the project that it is of")
        raise faults.error()
    lines = lines_of_yaml(status)
    found = engine.stories.of_sprint(root, config, status)
    source = TaskSource("bmad", path, os.path.basename(root), root)
    for message in found.faults:
        faults.add(None, message, path=status)
    known = {one.key for one in found.stories}
    for one in found.stories:
        if one.status not in engine.stories.STATUSES:
            message = f"{one.key}: {one.status!r} is none of {', '.join(engine.stories.STATUSES)}"
            faults.add(lines.get(one.key), message, path=status)
        body = "\n\n".join(
            part for part in (one.text.strip()[:9000], f"Story file: {one.file}" if one.file else "") if part
        )
        waits = [key for key in one.depends_on if key in known]
        source.tasks.append(SourceTask(
            one.key, f"Story {one.id}: {one.title}"[:200], body, one.status, "over" if one.done else "open",
            (status, lines.get(one.key)), waits_for=waits, data={"epic": one.epic},
        ))  # fmt: skip
    if faults:
        raise faults.error()
    return source
