"""The stories of a project: listed with what has become of them, and handed to a team as a plan."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial

from interlock import app
from interlock.app.runs import RunVerbs
from interlock.clock import iso
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.errors import AgentError, InvalidRequest, NotFound, PlanError, StorageError, WorkflowNotFound
from interlock.model.json import Json
from interlock.model.names import SYSTEM, check_team_name
from interlock.model.program import program
from interlock.model.task import Task
from interlock.model.text import count, gist, named, span, spent
from interlock.storage import files
from interlock.storage.ledger import Rows

AT_ONCE = 4
"""Stories that are implemented at once unless somebody says otherwise."""
NAMED = 5
"""Stories that one sentence of a digest names."""
UNVERIFIED = (
    "no test command was found, so nothing that is run will say that a story works: name one as `stories: verify: …` "
    "in interlock.workflows.yaml"
)
MEASURES = {"usd": "cost_usd", "turns": "turns", "tokens": "tokens"}
BUDGET = re.compile(r"(?:\$\s*)?(\d+(?:\.\d+)?)\s*(usd|turns|tokens)?", re.IGNORECASE)


class StoryVerbs(RunVerbs):
    """Stories, what they wait for, and the plan that has a team implement them."""

    def story_team(self, directory: str) -> str:
        """The name of the team that implements the stories of the project at or above `directory`."""
        root = self._package(directory).root
        return self._own_name(f"{app.planning.team_name(os.path.basename(root))[:42]}-stories", root)

    def stories(
        self, directory: str, team: str | None = None, *, next: bool = False, epic: str | None = None
    ) -> app.engine.StoryList:
        """The project's stories in dispatch order, with their epics; changes nothing.

        Args:
            next: only those that could be started now.
            epic: only that one.

        Raises:
            NotFound: there is no such epic.
            WorkflowNotFound: no workflow package is installed there.
        """
        package = self._package(directory)
        name = team or self.story_team(directory)
        found, proposal = self._backlog(package, name)
        if name in self.teams():
            with self.workspace(name).look() as rows:
                shown, ends = _shown(found, rows, iso(self._clock.now()))
                deferred = [one.id for one in app.engine.sweep.waiting(rows.tasks.select())]
        else:
            (shown, ends), deferred = _shown(found, None, ""), []
        if epic is not None and epic not in found.epics:
            raise NotFound(f"There is no epic {epic} here.", epic=epic)
        shown = [one for one in shown if epic in (None, one.epic)]
        if next:
            ends = {epic: one for epic, one in ends.items() if _can_start(one)}
        listed = [one for one in shown if not next or _can_start(one)]
        epics = [
            _epic(one, title, [story for story in shown if story.epic == one], ends.get(one))
            for one, title in found.epics.items()
            if epic in (None, one)
        ]
        faults = [*found.faults, *found.left_out()]
        return app.engine.StoryList(name, listed, epics, faults, proposal, deferred)

    def story(self, directory: str, key: str, team: str | None = None) -> app.engine.StoryDetail:
        """One story with what its list says of it, and what has become of it; changes nothing.

        Args:
            key: its key, or what its list calls it, such as `1.2`.

        Raises:
            NotFound: there is none, or there are several.
            WorkflowNotFound: no workflow package is installed there.
        """
        package = self._package(directory)
        name = team or self.story_team(directory)
        found, _ = self._backlog(package, name)
        planned = found.find(key)
        shown = next(one for one in self.stories(directory, team).stories if one.key == planned.key)
        return app.engine.StoryDetail(
            name, shown, planned.text.strip(), planned.file or planned.source, found.impossible.get(planned.key)
        )

    def propose_dependencies(
        self, directory: str, *, agent: str, command: Sequence[str] = (), team: str | None = None,
        on_update: Callable[[app.running.Update], None] = lambda update: None,
    ) -> app.engine.StoryProposal:  # fmt: skip
        """Ask an agent what the stories wait for of which nobody says it. The proposal is kept, in place of an earlier
        one; it counts once it is accepted.

        Args:
            agent: as in a plan's member, and `command`.

        Raises:
            AgentError: the agent is unknown, not installed, or did not answer.
            InvalidRequest: the lists have faults, every story says what it waits for, or what the agent proposes cannot
                be used, also after it was told why.
            WorkflowNotFound: no workflow package is installed there.
        """
        self.need_person("ask for a proposal")
        package, planning, ask = self._package(directory), app.planning, app.engine.proposals
        name = team or self.story_team(directory)
        path = self._proposal_path(name)
        backlog = app.engine.stories.sound(app.engine.stories.read(package))
        if not ask.unsaid(backlog):
            raise InvalidRequest("Every story here says what it waits for, or is done.", field="dir")
        asked, terms = planning.asked_of(self._executor_for, self._settings, agent, tuple(command))
        wish = planning.AgentRequest(ask.request(backlog), partial(ask.judge, backlog), ask.correction, what="proposal")
        base = os.environ
        text, faults = planning.run_async(
            partial(planning.obtain, wish, asked, terms, directory=package.root, base=base, on_update=on_update)
        )
        if faults:
            said = "; ".join(str(one["message"]) for one in faults[:5])
            raise InvalidRequest(f"{agent} proposed nothing that can be used: {said}.", field="agent", faults=faults)
        return self._keep(path, app.engine.StoryProposal(agent, iso(self._clock.now()), False, json.loads(text)))

    def answer_proposal(self, directory: str, *, accept: bool, team: str | None = None) -> app.engine.StoryProposal:
        """Accept what an agent has proposed, or drop it. Raises NotFound: nothing is proposed."""
        self.need_person("accept a proposal")
        path = self._proposal_path(team or self.story_team(directory))
        if (found := self._proposal(path)) is None:
            raise NotFound("No dependencies are proposed here. `interlock story plan --agent A` asks an agent.")
        if accept:
            return self._keep(path, replace(found, accepted=True))
        os.unlink(path)
        return found

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
        redo: bool = False,
        reviewer: str | None = None,
        reviewer_model: str | None = None,
    ) -> app.planning.StagedPlan:
        """Make each of these stories, of that epic's, or all, a task of a team, after what it depends on.

        Args:
            keys: of stories; what they wait for is done as well.
            parallel: how many are implemented at once.
            agent: the agent of every member, with its `command` where that is `command` or `acp`.
            budget: what the run may use, such as `5` (US dollars), `200 turns` or `2h`, several with commas.
            redo: those of `keys` that are done are done once more.
            reviewer: the team's setting `workflow_reviewer` from now on; left as it is unless given, like the model.

        Raises:
            InvalidRequest: the lists have faults, one of `keys` is to be done once more and is not done, or cannot be
                done because of what it waits for, nothing is left, or an argument makes no sense.
            NotFound: there is no such story or epic.
            WorkflowNotFound: nothing that is installed can implement them.
            PlanError, AgentError, WorktreeRefused, GitFailed: as `stage`.
        """
        self.need_person("run stories")
        package = self._package(directory)
        name = team or self.story_team(directory)
        inventory = app.engine.stories.sound(self._backlog(package, name)[0])
        tasks = self._planned(name)
        before = self._kept(name, inventory, tasks, package)
        chosen, again = _chosen(inventory, tasks, keys, epic, redo=redo)
        begun = [
            key for key, one in before.items()
            if not _is_done(tasks[key]) and not keys and epic in (None, one.get("metadata", {}).get("epic"))
        ]  # fmt: skip
        settings = self._reviewing(reviewer, reviewer_model)
        left_out = [] if keys else inventory.left_out(epic)
        if not chosen and not begun:
            raise _nothing_left(left_out, all_done=_all_done(inventory, tasks, keys, epic))
        if tasks and not dry_run:
            self.settle_stories(name)
        plan = self._plan(
            inventory, chosen, before, package, name, (agent, tuple(command)), parallel=parallel, budget=budget
        )
        staged = self._staged(plan, dry_run=dry_run, redo=again)
        if settings and not dry_run:
            self.team(name).configure(settings)
        notes = [f"left out: {why}" for why in left_out]
        notes += [] if "verify" in plan else [UNVERIFIED]
        only = _only(plan["tasks"], chosen, begun, tasks) if keys or epic is not None else None
        return replace(staged, notes=(*staged.notes, *notes), only=only)

    def stage_sweep(
        self, directory: str, tasks: Sequence[str] = (), *, parallel: int | None = None, agent: str | None = None,
        command: Sequence[str] = (), budget: str | None = None, team: str | None = None, dry_run: bool = False,
    ) -> app.planning.StagedPlan:  # fmt: skip
        """Have what builds found and left to others done like stories, each by a build of its own.

        Args:
            tasks: ids of those that are taken up, by default all that nobody has.
            parallel, agent, command, budget: as in `stage_stories`.

        Raises:
            InvalidRequest: none waits, or one of `tasks` does not.
            WorkflowNotFound: nothing that is installed can do it.
            PlanError, AgentError, WorktreeRefused, GitFailed: as `stage`.
        """
        self.need_person("run stories")
        package, sweep = self._package(directory), app.engine.sweep
        name = team or self.story_team(directory)
        inventory = app.engine.stories.sound(self._backlog(package, name)[0])
        planned = self._planned(name)
        before = self._kept(name, inventory, planned, package)
        with self.workspace(name).look() if name in self.teams() else nullcontext() as rows:
            waiting = sweep.waiting(rows.tasks.select()) if rows is not None else []
        begun = [
            key for key in before if key in planned and sweep.is_finding(planned[key]) and not _is_done(planned[key])
        ]
        found = [] if begun and not tasks and not waiting else sweep.chosen(waiting, tasks)
        swept = {sweep.key_of(one): sweep.entry(package, one, planned) for one in found}
        plan = self._plan(
            inventory, (), {**before, **swept}, package, name, (agent, tuple(command)), parallel=parallel, budget=budget
        )
        if not dry_run:
            self._staged(plan, dry_run=True)  # What can be refused is refused before anything is taken up.
            with self.workspace(name).act(Principal(SYSTEM)) as act:
                sweep.take_up(act, [find(act.rows, one.id) for one in found])
        return replace(self._staged(plan, dry_run=dry_run), only=(*begun, *swept))

    def settle_stories(self, team: str) -> list[str]:
        """Write down what the team's stories have come to; the keys of `sprint-status.yaml` that changed."""
        return app.engine.settling.write_statuses(self.workspace(team))

    def _staged(self, plan: Json, *, dry_run: bool, redo: Collection[str] = ()) -> app.planning.StagedPlan:
        with app.planning.TemporaryDirectory() as scratch:  # To look at a plan changes nothing in the home.
            path = os.path.join(scratch if dry_run else self._story_folder, f"{plan['team']}.yaml")
            _write(path, plan)
            try:
                return self.stage(path, dry_run=dry_run, redo=redo)
            except (AgentError, PlanError) as error:
                if not (faults := error.details.get("errors")):
                    raise
                # Their lines are those of a file that nobody has written.
                raise type(error)("\n".join(str(one["message"]) for one in faults)) from None

    def _reviewing(self, reviewer: str | None, model: str | None) -> Json:
        """The settings that say who reviews, as far as they are given. Raises InvalidRequest, AgentError."""
        if reviewer:
            agent, command = program(reviewer, "--reviewer")
            if agent == "shell":
                raise InvalidRequest("A shell reviews nothing; name an agent with --reviewer.", field="reviewer")
            self._executor_for(app.planning.hired("reviewer", agent, command))
        given = {"workflow_reviewer": reviewer, "workflow_reviewer_model": model}
        return {name: value or None for name, value in given.items() if value is not None}

    def _planned(self, team: str) -> dict[str, Task]:
        """The team's planned tasks that were not called off, by key."""
        if team not in self.teams():
            return {}
        with self.workspace(team).look() as rows:
            return {str(one.plan_key): one for one in rows.tasks.planned() if one.state not in ("cancelled", "deleted")}

    def _kept(
        self, team: str, inventory: app.engine.Backlog, tasks: Mapping[str, Task], package: app.engine.Package
    ) -> Json:
        """What the plan before says of the team's tasks, which stay in the plan whatever is asked for now. Left out is
        what is not done of a story that its list calls done, or does not have any more."""
        planned: Json = {}
        path = os.path.join(self._story_folder, f"{team}.yaml")
        with suppress(FileNotFoundError, ValueError, KeyError), open(path, encoding="utf-8") as file:
            planned = json.load(file)["tasks"]
        findings = {key: task for key, task in tasks.items() if app.engine.sweep.is_finding(task)}
        # What was taken up stays, also where the plan was not written any more.
        planned |= {
            key: app.engine.sweep.entry(package, task, tasks) for key, task in findings.items() if key not in planned
        }
        lanes = app.engine.lanes
        wanted = {lanes.task_key(one.key) for one in inventory.stories if not one.done}
        wanted |= {lanes.task_key(lanes.plan_key(one.key)) for one in inventory.stories if not one.done}
        wanted |= {*findings, *(lanes.task_key(lanes.retrospective_key(epic)) for epic in inventory.epics)}
        return {
            key: one for key, one in planned.items() if key in tasks and (key in wanted or _is_done(tasks[key]))
        }  # fmt: skip

    @property
    def _story_folder(self) -> str:
        return os.path.join(self.path, "stories")

    def _backlog(
        self, package: app.engine.Package, team: str
    ) -> tuple[app.engine.Backlog, app.engine.StoryProposal | None]:
        """The stories with what was accepted of a proposal, and that. Raises TeamExists: the team works elsewhere."""
        if team in self.teams():
            self._refuse_elsewhere(team, package.root)
        proposal = self._proposal(self._proposal_path(team))
        accepted = proposal.dependencies if proposal is not None and proposal.accepted else None
        return app.engine.stories.read(package, accepted), proposal

    def _proposal_path(self, team: str) -> str:
        return os.path.join(self._story_folder, f"{check_team_name(team)}.dependencies.json")

    def _proposal(self, path: str) -> app.engine.StoryProposal | None:
        try:
            with open(path, encoding="utf-8") as file:
                return app.engine.StoryProposal(**json.load(file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise StorageError(f"{path} cannot be read: {error}. Remove it and ask again.") from error

    def _keep(self, path: str, proposal: app.engine.StoryProposal) -> app.engine.StoryProposal:
        _write(path, asdict(proposal))
        return proposal

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
        self, inventory: app.engine.Backlog, chosen: Sequence[app.engine.PlannedStory], before: Json,
        package: app.engine.Package, name: str, agent: tuple[str | None, tuple[str, ...]], *, parallel: int | None,
        budget: str | None,
    ) -> Json:  # fmt: skip
        """The plan, as its file has it."""
        own = app.engine.overlay_of(package.files)
        tasks = _tasks(inventory, chosen, before, package)
        plan = app.planning.draft(
            package.root,
            name,
            tasks,
            agent=agent[0],
            command=agent[1],
            at_once=parallel or min(AT_ONCE, max(1, len(chosen))),
        )
        if "isolation" not in plan:
            if (parallel or 1) > 1:
                raise InvalidRequest(
                    "Without a commit in git all stories are implemented in one directory, where they would overwrite "
                    "each other. Commit the project (`git init`, `git add`, `git commit`), or leave out --parallel.",
                    field="parallel",
                )
            plan |= {"parallel": 1, "members": dict([next(iter(plan["members"].items()))])}
        else:
            copied = app.engine.lanes.copied(package, chosen)
            plan |= {"copy": copied} if copied else {}
        for key in ("verify", *(("setup",) if "isolation" in plan else ())):
            said = own.get(key, plan.pop(key, None))
            plan |= {key: str(said)} if said else {}
        plan |= {"limits": _limits(budget)} if budget else {}
        return plan


_DIGESTED = {"done": "", "in-progress": "At work", "in-review": "In review", "blocked": "Blocked"}
_UNPLANNED = ("backlog", "draft")
_STARTABLE = ("backlog", "ready-for-dev", "in-progress", "draft", "optional")


def _tasks(
    inventory: app.engine.Backlog, chosen: Sequence[app.engine.PlannedStory], before: Json,
    package: app.engine.Package,
) -> Json:  # fmt: skip
    lanes = app.engine.lanes
    wanted = {one.key for one in chosen}
    keys = {one.key: lanes.task_key(one.key) for one in inventory.stories}
    keys = {story: key for story, key in keys.items() if key in before or story in wanted}
    tasks: Json = dict(before)
    for one in chosen:
        waits = [keys[key] for key in one.depends_on if key in keys]
        plan = lanes.of_plan(package, one) if one.plans_first else None
        key = lanes.task_key(lanes.plan_key(one.key))
        if plan is not None and one.status in _UNPLANNED:
            tasks[key] = {
                "subject": f"Plan of story {one.key}: {one.title}"[:200], "body": plan.body, "type": "WORKFLOW",
                "metadata": {"epic": one.epic}, "blocked_by": waits, "review": "human",
            }  # fmt: skip
        tasks[keys[one.key]] = {
            "subject": f"Story {one.key}: {one.title}"[:200],
            "body": lanes.of_story(package, one).body,
            "type": "WORKFLOW",
            "metadata": {"epic": one.epic},
            "blocked_by": [*waits, *([key] if key in tasks else [])],
            **({"review": "human"} if one.pauses else {}),
        }
    for epic, title in inventory.epics.items():
        own = [one for one in inventory.stories if one.epic == epic]
        asked = epic in inventory.retrospectives or bool(own and own[0].folder)
        lane = lanes.of_retrospective(package, epic, own[0].folder if own else "") if asked else None
        # At an epic's end: everything of it that is not done is done in this run.
        whole = all(one.done or one.key in keys for one in own)
        if lane is not None and whole and any(one.key in wanted for one in own):
            tasks[lanes.task_key(lane.story)] = {
                "subject": f"Retrospective of epic {epic}: {title}"[:200], "body": lane.body, "type": "WORKFLOW",
                "metadata": {"epic": epic},
                "blocked_by": [keys[one.key] for one in own if one.key in keys],
            }  # fmt: skip
    for key in before:  # What one of them waited for may have left the plan, without being done.
        tasks[key]["blocked_by"] = [one for one in tasks[key]["blocked_by"] if one in tasks]
    return tasks


def _only(
    planned: Json, chosen: Sequence[app.engine.PlannedStory], begun: Sequence[str], tasks: Mapping[str, Task]
) -> tuple[str, ...]:
    """The keys of the tasks that are begun where stories or an epic are named: theirs, with the ends of epics that they
    are the last of."""
    lanes = app.engine.lanes
    own = {*begun, *(lanes.task_key(key) for one in chosen for key in (one.key, lanes.plan_key(one.key)))}
    ends = {lanes.task_key(lanes.retrospective_key(one.epic)) for one in chosen} & planned.keys()
    own |= {key for key in ends if all(one in own or _is_done(tasks.get(one)) for one in planned[key]["blocked_by"])}
    return tuple(key for key in planned if key in own)


def _chosen(
    inventory: app.engine.Backlog, tasks: Mapping[str, Task], keys: Sequence[str], epic: str | None, *, redo: bool
) -> tuple[list[app.engine.PlannedStory], list[str]]:
    """The stories that are to be done, and the keys of the tasks among theirs that are done once more."""
    key_of = app.engine.lanes.task_key
    wanted = [(one, tasks.get(key_of(one.key))) for one in inventory.chosen(keys, epic)]
    again = [key_of(one.key) for one, task in wanted if task and app.engine.settling.is_reopened(task, one.status)]
    if redo:
        asked = [inventory.find(key) for key in keys]
        wanted += [(one, tasks.get(key_of(one.key))) for one in asked if one.done]
        again += [_done_once(one, tasks.get(key_of(one.key))) for one in asked]
    chosen = [one for one, task in wanted if not _is_done(task) or key_of(one.key) in again]
    return chosen, list(dict.fromkeys(again))


def _done_once(story: app.engine.PlannedStory, task: Task | None) -> str:
    """The key of the task of a story that is to be done once more. Raises InvalidRequest: it is not done."""
    if not _is_done(task):
        why = "it was not done by this team" if story.done else "it is not done"
        raise InvalidRequest(
            f"{story.key} cannot be done once more: {why}. `interlock story run {story.key}` does what is not done. "
            "Set its status back in its list where it was done elsewhere.",
            field="keys",
            story=story.key,
        )
    return app.engine.lanes.task_key(story.key)


def _is_done(task: Task | None) -> bool:
    return task is not None and task.state == "done"


def _all_done(inventory: app.engine.Backlog, tasks: Mapping[str, Task], keys: Sequence[str], epic: str | None) -> bool:
    named = {inventory.find(key).key for key in keys}
    asked = [one for one in inventory.stories if (one.key in named if keys else epic in (None, one.epic))]
    return bool(asked) and all(one.done or _is_done(tasks.get(app.engine.lanes.task_key(one.key))) for one in asked)


def _nothing_left(left_out: Sequence[str], *, all_done: bool) -> InvalidRequest:
    why = f"What is left cannot be run: {'; '.join(left_out)}" if left_out else "No story is left to implement here"
    said = f"{why}. `interlock story list` shows them."
    return InvalidRequest(said, field="keys", faults=left_out, all_done=all_done)


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


def _shown(
    inventory: app.engine.Backlog, rows: Rows | None, now: str
) -> tuple[list[app.engine.ListedStory], dict[str, app.engine.ListedStory]]:
    """The stories with what has become of them, and the retrospectives of their epics."""
    lanes = app.engine.lanes
    keys = [one.key for one in inventory.stories] + [lanes.retrospective_key(epic) for epic in inventory.epics]
    tasks = {one: rows.tasks.by_plan_key(lanes.task_key(one)) for one in keys} if rows is not None else {}
    asked = {one: rows.questions.of_task(task.id) for one, task in tasks.items() if task} if rows is not None else {}
    waiting = {one: next((had for had in every if had.state == "open"), None) for one, every in asked.items()}
    status = {one.key: _status(one.status, tasks.get(one.key), bool(waiting.get(one.key))) for one in inventory.stories}

    def shown(key: str, epic: str, title: str, its: str, depends: Mapping[str, str]) -> app.engine.ListedStory:
        task, question = tasks.get(key), waiting.get(key)
        answers = [had for had in asked.get(key, ()) if had.state == "answered" and had.answered_by != SYSTEM]
        return app.engine.ListedStory(
            key, epic, title, its, list(depends), task.id if task else None, len(answers),
            [other for other in depends if status.get(other) != "done"], dict(depends),
            question.id if question else None, gist(question.text) if question else None,
            rows.runs.spent(now, task=task.id) if rows is not None and task is not None else None,
        )  # fmt: skip

    stories = [shown(one.key, one.epic, one.title, status[one.key], one.depends_on) for one in inventory.stories]
    ends = {}
    for epic in inventory.epics:
        key = lanes.retrospective_key(epic)
        task = tasks.get(key)
        if epic in inventory.retrospectives or (task is not None and task.state not in ("cancelled", "deleted")):
            own = dict.fromkeys((one.key for one in inventory.stories if one.epic == epic), "it looks back at the epic")
            its = _status("optional", task, bool(waiting.get(key)))
            ends[epic] = shown(key, epic, f"Retrospective of epic {epic}", its, own)
    return stories, ends


def _can_start(one: app.engine.ListedStory) -> bool:
    return one.status in _STARTABLE and not one.waits_for


def _epic(
    epic: str, title: str, own: Sequence[app.engine.ListedStory], end: app.engine.ListedStory | None
) -> app.engine.ListedEpic:
    """An epic with its digest, for people who were away."""
    used = [one.usage for one in own if one.usage]
    names = ("turns", "input_tokens", "output_tokens", "cost_usd", "time")
    usage: Json = {name: sum(one[name] for one in used) for name in names}
    usage["unknown"] = sorted({who for one in used for who in one.get("unknown", ())})
    usage["cost_partial"] = any(one.get("cost_partial") for one in used)
    keys = {status: [one.key for one in own if one.status == status] for status in _DIGESTED}
    digest = [f"{len(keys['done'])} of {len(own)} done{_named(keys['done'])}."]
    digest += [
        f"{said}{_named(keys[status])}." for status, said in _DIGESTED.items() if status != "done" and keys[status]
    ]
    for one in own:
        if one.asks:
            digest.append(f"{one.key} waits for an answer: {one.asks}")
        elif one.waits_for:
            reasons: dict[str, list[str]] = {}
            for key in one.waits_for:
                reasons.setdefault(one.reasons[key], []).append(key)
            whys = "; ".join(f"{named(keys, NAMED)} ({why})" for why, keys in reasons.items())
            digest.append(f"{one.key} waits for {whys}.")
    if end is not None and end.asks:
        digest.append(f"{end.key} waits for an answer: {end.asks}")
    inputs, time = sum(one.inputs for one in own), usage["time"]
    costs = [
        spent(usage),
        f"{span(time)} of work" if time else "",
        count(inputs, "answer") + " by people" if used else "",
    ]
    digest += [f"{'; '.join(one for one in costs if one)}."] if any(costs) else []
    return app.engine.ListedEpic(epic, title, all(one.status == "done" for one in own), usage, digest, end)


def _write(path: str, document: Json) -> None:
    folder = os.path.dirname(path)
    for one in (os.path.dirname(folder), folder):  # Parents would get the usual mode.
        os.makedirs(one, mode=0o700, exist_ok=True)
    files.replace(path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())


def _named(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return f": {', '.join(keys[:NAMED])}{more}" if keys else ""


def _status(listed: str, task: Task | None, asked: bool) -> str:
    """What a story has come to: its task says it where there is one, its list otherwise."""
    if task is None or task.state in ("cancelled", "deleted") or app.engine.settling.is_reopened(task, listed):
        return listed
    if asked:
        return "blocked"
    known = {"done": "done", "blocked": "blocked", "deadletter": "blocked", "review": "in-review"}
    if task.state in known:
        return known[task.state]
    return "in-progress" if task.under_way and listed != "done" else listed
