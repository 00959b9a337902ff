"""What must hold between the rows of a ledger, whichever verbs were run: counters, ranks, runs, questions, history.

Each fault that can be put right without guessing carries its repair; the others say which verb decides them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from interlock.core import questions
from interlock.core.tasks.transition import end_run, settle_queue
from interlock.core.unit_of_work import UnitOfWork
from interlock.lazy_dataclass import dataclass
from interlock.model.names import HUMAN
from interlock.model.run import Run
from interlock.model.task import FINAL, HELD, STATES, Task
from interlock.storage.ledger import Rows

AT_ONCE = 1000


@dataclass(slots=True)
class Inconsistency:
    """One thing that does not add up. `repair` puts it right inside a transaction; None: somebody has to decide."""

    what: str
    repair: Callable[[UnitOfWork], None] | None = None
    level: str = "error"


def faults(rows: Rows) -> list[Inconsistency]:
    """Everything that does not hold in this ledger."""
    return [
        *_counters(rows),
        *_dependencies(rows),
        *_runs(rows),
        *_people(rows),
        *_merges(rows),
        *_questions(rows),
        *_history(rows),
    ]


def every_task(rows: Rows) -> Iterator[Task]:
    """All tasks, deleted ones too, some at a time."""
    after = 0
    while True:
        some = rows.tasks.select(states=STATES, after=after, limit=AT_ONCE)
        yield from some
        if len(some) < AT_ONCE:
            return
        after = some[-1].n


def _counters(rows: Rows) -> Iterator[Inconsistency]:
    team = rows.team.get()
    open_tasks = sum(count for state, count in rows.tasks.counts().items() if state not in FINAL)
    if team.open_tasks != open_tasks:
        yield Inconsistency(
            f"The team counts {team.open_tasks} open tasks, there are {open_tasks}.",
            lambda act: act.rows.team.update(act.rows.team.get(), open_tasks=open_tasks),
        )
    numbers = (task.id for task in every_task(rows) if task.id.startswith(f"TASK-{team.day}-"))
    used = max((int(id.rpartition("-")[2]) for id in numbers), default=0) if team.day else 0
    if team.day_count < used:
        yield Inconsistency(
            f"The next task of {team.day} would get a number that is taken ({team.day_count + 1} of {used}).",
            lambda act: act.rows.team.update(act.rows.team.get(), day_count=used),
        )
    for member in rows.team.members():
        waiting = len(rows.messages.undelivered(member.name))
        if member.unread != waiting:
            yield Inconsistency(
                f"{member.name} counts {member.unread} unread messages, there are {waiting}.",
                lambda act, member=member, waiting=waiting: act.rows.team.update_member(member, unread=waiting),  # type: ignore[misc]
            )


def _dependencies(rows: Rows) -> Iterator[Inconsistency]:
    edges = rows.graph.edges()
    tasks = {task.id: (task.state, task.rank) for task in every_task(rows)}
    waiting: Counter[str] = Counter()
    disordered = False
    for blocker, blocked in edges:
        if blocker not in tasks or blocked not in tasks:
            gone = blocker if blocker not in tasks else blocked
            yield Inconsistency(
                f"{blocked} waits for {blocker}, but there is no {gone}.",
                lambda act, edge=(blocker, blocked): act.rows.graph.remove(*edge) and None,  # type: ignore[misc]
            )
            continue
        waiting[blocked] += tasks[blocker][0] != "done"
        disordered |= tasks[blocker][1] >= tasks[blocked][1]
    if disordered:
        yield _disorder(edges, {id: rank for id, (_, rank) in tasks.items()})
    for task in every_task(rows):
        count = waiting[task.id]
        if task.state in FINAL:
            continue
        if task.open_blockers != count:
            yield Inconsistency(
                f"{task.id} counts {task.open_blockers} open blockers, it has {count}.", _recount(task, count)
            )
        elif task.state in ("backlog", "ready") and (task.state == "backlog") != (count > 0):
            yield Inconsistency(f"{task.id} is {task.state} with {count} open blockers.", _recount(task, count))


def _recount(task: Task, count: int) -> Callable[[UnitOfWork], None]:
    def repair(act: UnitOfWork) -> None:
        act.rows.tasks.update(task, open_blockers=count, updated_at=act.at)
        settle_queue(act, task, "its blockers were counted again")

    return repair


def _disorder(edges: Iterable[tuple[str, str]], ranks: dict[str, int]) -> Inconsistency:
    """Blockers must rank below what they block; new ranks unless there is a cycle."""
    waits: Counter[str] = Counter(dict.fromkeys(ranks, 0))
    blocks: dict[str, list[str]] = {}
    for blocker, blocked in edges:
        if blocker in ranks and blocked in ranks:
            waits[blocked] += 1
            blocks.setdefault(blocker, []).append(blocked)
    ordered = sorted((id for id in ranks if not waits[id]), key=ranks.__getitem__)
    for here in ordered:
        for onward in blocks.get(here, ()):
            waits[onward] -= 1
            if not waits[onward]:
                ordered.append(onward)
    if len(ordered) < len(ranks):
        cycle = sorted(set(ranks) - set(ordered))
        return Inconsistency(
            f"{', '.join(cycle[:10])} form a dependency cycle: `interlock task depend ID --on ID --remove` removes "
            "an edge."
        )
    places = dict(zip(ordered, sorted(ranks.values()), strict=True))
    return Inconsistency(
        "A blocker ranks above what it blocks, so that cycles could go unnoticed.",
        lambda act: act.rows.graph.set_ranks(places),
    )


def _runs(rows: Rows) -> Iterator[Inconsistency]:
    opened: dict[str, list[Run]] = {}
    for run in rows.runs.open():
        opened.setdefault(run.task_id, []).append(run)
    for task_id, runs in opened.items():
        task = rows.tasks.get(task_id)
        for run in runs:
            if task is not None and task.state in ("ready", "backlog") and task.reserved == run.member:
                continue  # answered, and kept for the session that asked
            if task is None or task.state not in HELD or run.number != task.run:
                state = f"is {task.state} in run {task.run}" if task else "does not exist"
                yield Inconsistency(f"Run {run.id} is open, but its task {state}.", _close(run))
    for task in every_task(rows):
        if task.state != "in-progress":
            continue
        current = next((run for run in opened.get(task.id, ()) if run.number == task.run), None)
        if current is None:
            yield Inconsistency(
                f"{task.id} is in progress, but its run {task.run} has ended: `interlock task release {task.id}` puts "
                "it back into the queue."
            )
        elif (current.member, current.session) != (task.owner, task.session):
            yield Inconsistency(
                f"{task.id} is held by {task.owner}, but its run belongs to {current.member}: "
                f"`interlock task release {task.id}` puts it back into the queue."
            )


def _close(run: Run) -> Callable[[UnitOfWork], None]:
    def repair(act: UnitOfWork) -> None:
        task = act.rows.tasks.get(run.task_id)
        if task is not None and task.run == run.number:
            end_run(act, task, "reclaimed", "closed by doctor")
        else:
            act.rows.runs.update(run, ended_at=act.at, outcome="reclaimed", reason="closed by doctor")

    return repair


def _people(rows: Rows) -> Iterator[Inconsistency]:
    names = {*rows.team.names(), HUMAN}
    for task in every_task(rows):
        if task.state in FINAL:
            continue
        if task.state == "in-progress" and task.owner not in names:
            verb = f"`interlock task release {task.id}` puts it back into the queue"
            yield Inconsistency(f"{task.id} is claimed by {task.owner}, who is not a member: {verb}.", level="warning")
        if task.reserved_for is not None and task.reserved_for not in names:
            verb = f"`interlock task assign {task.id} --to MEMBER` changes that"
            yield Inconsistency(
                f"{task.id} is reserved for {task.reserved_for}, who is not a member: {verb}.", level="warning"
            )


def _merges(rows: Rows) -> Iterator[Inconsistency]:
    under_way = []
    for task in every_task(rows):
        if task.merging is None:
            continue
        if task.state != "review" or task.worktree is None:
            yield Inconsistency(
                f"{task.id} is {task.state}, but is listed for a merge.",
                lambda act, task=task: act.rows.tasks.update(task, merging=None, updated_at=act.at),  # type: ignore[misc]
            )
        elif task.merging["stage"] == "merging":
            under_way.append(task.id)
    if len(under_way) > 1:
        yield Inconsistency(
            f"{', '.join(under_way)} are being merged at once; `interlock scheduler poll` continues with one."
        )


def _questions(rows: Rows) -> Iterator[Inconsistency]:
    asked = set()
    for question in rows.questions.open():
        asked.add(question.task_id)
        task = rows.tasks.get(question.task_id)
        if task is None or task.state in FINAL:
            state = task.state if task else "gone"
            yield Inconsistency(
                f"Question {question.id} is open, but its task {question.task_id} is {state}.",
                _withdraw(task) if task else None,
            )
    for task in rows.tasks.select(states=["review"]):
        nobody = task.review in (None, "none", HUMAN)
        if nobody and not task.under_way and task.id not in asked:
            yield Inconsistency(
                f"{task.id} is in review and nobody was asked: `interlock task approve {task.id}`, or `reject`.",
                level="warning",
            )


def _withdraw(task: Task) -> Callable[[UnitOfWork], None]:
    return lambda act: questions.withdraw(act, task, f"the task is {task.state}")


def _history(rows: Rows) -> Iterator[Inconsistency]:
    """The events tell the same story as the rows."""
    import json

    states: dict[str, str] = {}
    last, pruned = 0, rows.upkeep.pruned()
    while some := rows.events.raw_since(last, AT_ONCE):
        for seq, type, task_id, payload, _ in some:
            if seq != last + 1 and seq > pruned + 1:
                yield Inconsistency(f"Events {last + 1} to {seq - 1} are missing from the history.")
            last = seq
            if task_id is None or type not in ("task.created", "task.transitioned"):
                continue
            fields = json.loads(payload)
            if type == "task.created":
                states[task_id] = fields["state"]
            else:
                if states.get(task_id) != fields["from"]:
                    yield Inconsistency(f"Event {seq} moves {task_id} from {fields['from']}, where it was not.")
                states[task_id] = fields["to"]
    for task in every_task(rows):
        if states.get(task.id) != task.state:
            told = states.get(task.id, "never made")
            yield Inconsistency(f"{task.id} is {task.state}, but by its history it is {told}.")
