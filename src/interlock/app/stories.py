"""The stories of a project: listed with what has become of them, and handed to a team as a plan."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from interlock import app
from interlock.app.runs import RunVerbs
from interlock.clock import iso
from interlock.errors import InvalidRequest, WorkflowNotFound
from interlock.model.json import Json
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.storage import files
from interlock.storage.ledger import Rows

AT_ONCE = 4
"""Stories that are implemented at once unless somebody says otherwise."""
MEASURES = {"usd": "cost_usd", "turns": "turns", "tokens": "tokens"}
BUDGET = re.compile(r"(?:\$\s*)?(\d+(?:\.\d+)?)\s*(usd|turns|tokens)?", re.IGNORECASE)
NAMED = 5


class StoryVerbs(RunVerbs):
    """A story is `{key, epic, title, status, depends_on, task_id, inputs, waits_for, …}`; `inputs` counts what people
    answered for it, `waits_for` names the stories that hold it up now, `reasons` says why it depends on each."""

    def story_team(self, directory: str) -> str:
        """The name of the team that implements the stories of the project at or above `directory`."""
        return f"{app.planning.team_name(os.path.basename(self._package(directory).root))[:42]}-stories"

    def stories(self, directory: str, team: str | None = None, *, next: bool = False) -> Json:
        """The project's stories in dispatch order, with `epics` and the `faults` of their lists; changes nothing.

        Args:
            next: only those that could be started now.

        Raises:
            WorkflowNotFound: no workflow package is installed there.
        """
        package = self._package(directory)
        found = app.engine.stories.read(package)
        name = team or self.story_team(directory)
        shown: list[Json]
        if name in self.teams():
            with self.workspace(name).look() as rows:
                shown = _shown(found, rows, iso(self._clock.now()))
        else:
            shown = _shown(found, None, "")
        listed = [one for one in shown if not next or (one["status"] in _STARTABLE and not one["waits_for"])]
        epics = [
            {"epic": epic, "title": title, "done": all(one["status"] == "done" for one in shown if one["epic"] == epic)}
            for epic, title in found.epics.items()
        ]
        return {"team": name, "stories": listed, "epics": epics, "faults": list(found.faults)}

    def stage_stories(
        self,
        directory: str,
        keys: Sequence[str] = (),
        *,
        epic: str | None = None,
        parallel: int | None = None,
        agent: str | None = None,
        command: Sequence[str] = (),
        budget: str | None = None,
        team: str | None = None,
        dry_run: bool = False,
    ) -> app.planning.StagedPlan:
        """Make each of these stories, of that epic's, or all, a task of a team, after what it depends on.

        Args:
            keys: of stories; what they wait for is done as well.
            parallel: how many are implemented at once.
            agent: the agent of every member, with its `command` where that is `command` or `acp`.
            budget: what the run may use, such as `5` (US dollars), `200 turns` or `2h`, several with commas.

        Raises:
            InvalidRequest: the stories have faults, or an argument makes no sense.
            NotFound: there is no such story or epic.
            WorkflowNotFound: nothing that is installed can implement them.
            PlanError, AgentError, WorktreeRefused, GitFailed: as `stage`.
        """
        self.need_person("run stories")
        package = self._package(directory)
        inventory = app.engine.stories.sound(app.engine.stories.read(package))
        chosen = inventory.chosen(keys, epic)
        if not chosen:
            raise InvalidRequest("No story is left to implement here. `interlock story list` shows them.", field="keys")
        name = team or self.story_team(directory)
        if name in self.teams():
            self.settle_stories(name)
        plan = self._plan(inventory, chosen, package, name, (agent, tuple(command)), parallel, budget)
        path = os.path.join(self.path, "stories", f"{name}.yaml")
        for folder in (self.path, os.path.dirname(path)):  # Parents would get the usual mode.
            os.makedirs(folder, mode=0o700, exist_ok=True)
        files.replace(path, (json.dumps(plan, indent=2, ensure_ascii=False) + "\n").encode())
        return self.stage(path, dry_run=dry_run)

    def settle_stories(self, team: str) -> list[str]:
        """Write down what the team's stories have come to; the keys of `sprint-status.yaml` that changed."""
        with self.workspace(team).look() as rows:
            workdir = rows.team.get().workdir
            return app.engine.settling.write_statuses(rows, workdir) if workdir else []

    def _package(self, directory: str) -> app.engine.Package:
        package = app.engine.find_package(directory)
        if package is None:
            raise WorkflowNotFound(
                f"No workflow package is installed in {os.path.abspath(directory)} or above it (no `_bmad` directory), "
                "so there are no stories. Install one there, or name the project with --dir.",
                field="dir",
            )
        return package

    def _plan(
        self, inventory: app.engine.Backlog, chosen: Sequence[app.engine.PlannedStory], package: app.engine.Package,
        name: str, agent: tuple[str | None, tuple[str, ...]], parallel: int | None, budget: str | None,
    ) -> Json:  # fmt: skip
        """The plan, as its file has it."""
        found = app.planning.inspect(package.root)
        kind, command = agent
        if kind is None and not found.agents:
            raise InvalidRequest("No agent program was found here: name one with --agent.", field="agent")
        member = {
            "agent": {kind: list(command)} if kind is not None and command else kind or found.agents[0],
            "permissions": "workspace",
        }
        own = app.engine.overlay_of(package.files)
        at_once = parallel or min(AT_ONCE, len(chosen))
        plan: Json = {
            "team": name,
            "workdir": package.root,
            "parallel": at_once,
            "members": {f"dev-{number}": dict(member) for number in range(1, at_once + 1)},
            "tasks": _tasks(inventory, chosen, package),
        }
        if found.has_commits:
            plan["isolation"] = "worktree"
            copied = app.engine.lanes.copied(package.root)
            plan |= {"copy": copied} if copied else {}
            setup = own.get("setup", found.setup)
            plan |= {"setup": str(setup)} if setup else {}
        verify = own.get("verify", found.test_command)
        plan |= {"verify": str(verify)} if verify else {}
        plan |= {"limits": _limits(budget)} if budget else {}
        return plan


_STARTABLE = ("backlog", "ready-for-dev", "in-progress", "draft")


def _tasks(
    inventory: app.engine.Backlog, chosen: Sequence[app.engine.PlannedStory], package: app.engine.Package
) -> Json:
    lanes = app.engine.lanes
    keys = {one.key: lanes.task_key(one.key) for one in chosen}
    tasks: Json = {}
    for one in chosen:
        tasks[keys[one.key]] = {
            "subject": f"Story {one.key}: {one.title}"[:200],
            "body": lanes.of_story(package, one).body,
            "type": "WORKFLOW",
            "blocked_by": [keys[key] for key in one.depends_on if key in keys],
            **({"review": "human"} if one.pauses else {}),
        }
    for epic, title in inventory.epics.items():
        own = [one for one in inventory.stories if one.epic == epic]
        asked = epic in inventory.retrospectives or bool(own and own[0].folder)
        lane = lanes.of_retrospective(package, epic, own[0].folder if own else "") if asked else None
        # At an epic's end: everything of it that is not done is done in this run.
        if lane is not None and any(one.key in keys for one in own) and all(one.done or one.key in keys for one in own):
            tasks[lanes.task_key(lane.story)] = {
                "subject": f"Retrospective of epic {epic}: {title}"[:200], "body": lane.body, "type": "WORKFLOW",
                "blocked_by": [keys[one.key] for one in own if one.key in keys], "verify": False,
            }  # fmt: skip
    return tasks


def _limits(budget: str) -> Json:
    found: Json = {}
    for part in budget.split(","):
        text = part.strip().lower()
        amount = BUDGET.fullmatch(text)
        if amount is not None:
            name = MEASURES[amount[2] or "usd"]
            found[name] = float(amount[1]) if name == "cost_usd" else int(float(amount[1]))
        elif text[:1].isdigit() and text[-1] in "hms":  # The plan says what is wrong with it.
            found["time"] = text
        else:
            raise InvalidRequest(
                f"--budget takes US dollars (`5`), `200 turns`, `90000 tokens` or a time (`2h`), not {part.strip()!r}.",
                field="budget",
            )
    return found


def _shown(inventory: app.engine.Backlog, rows: Rows | None, now: str) -> list[Json]:
    key = app.engine.lanes.task_key
    tasks = {one.key: rows.tasks.by_plan_key(key(one.key)) for one in inventory.stories} if rows is not None else {}
    asked = {one: rows.questions.of_task(task.id) for one, task in tasks.items() if task} if rows is not None else {}
    waiting = {one: next((had.id for had in every if had.state == "open"), None) for one, every in asked.items()}
    status = {one.key: _status(one.status, tasks.get(one.key), waiting.get(one.key)) for one in inventory.stories}
    shown = []
    for one in inventory.stories:
        task = tasks.get(one.key)
        answers = [had for had in asked.get(one.key, ()) if had.state == "answered" and had.answered_by != SYSTEM]
        shown.append({
            "key": one.key, "epic": one.epic, "title": one.title, "status": status[one.key],
            "depends_on": list(one.depends_on), "task_id": task.id if task else None, "inputs": len(answers),
            "waits_for": [other for other in one.depends_on if status.get(other) != "done"],
            "reasons": dict(one.depends_on), "question": waiting.get(one.key),
            "usage": rows.runs.spent(now, task=task.id) if rows is not None and task is not None else None,
        })  # fmt: skip
    return shown


def _status(listed: str, task: Task | None, question: str | None) -> str:
    """What a story has come to: its task says it where there is one, its list otherwise."""
    if task is None or task.state in ("cancelled", "deleted"):
        return listed
    if question is not None:
        return "blocked"
    known = {"done": "done", "blocked": "blocked", "deadletter": "blocked", "review": "in-review"}
    if task.state in known:
        return known[task.state]
    return "in-progress" if task.under_way and listed != "done" else listed
