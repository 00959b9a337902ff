"""Which pages there are, and of which regions each is made.

The canonical address of a thing is under its project, since ids are counted per team; the short forms `/tasks/{id}` and
`/sessions/{id}` show the same where the id is unique in the home, and link there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from interlock.errors import TaskNotFound
from interlock.surfaces.http.visitor import Reader
from interlock.surfaces.web import actions
from interlock.surfaces.web.rendering import Page, Region, show, static
from interlock.surfaces.web.views import board, changes, chat, events, now, people, run, task, workflows
from interlock.surfaces.web.visit import Visit

WORK = "task question run verify review team runner plan merge workflow member"
NAV = Region("nav", "task question team member review", now.nav)
LIVE = 3
"""Seconds between two looks at what running programs print, which is no event."""


def _named(text: str) -> Callable[[Visit], str]:
    return lambda visit: f"{text} · {visit.project}"


def _page(name: str, title: Callable[[Visit], str], *regions: Region, place: str | None = None) -> Page:
    return Page(name, place or name, title, regions)


HOME = _page(
    "home",
    lambda visit: "Needs you",
    Region("needs_all", WORK, now.needs_everywhere),
    Region("projects", WORK, now.projects),
)
PAGES: dict[str, Page] = {
    "": _page(
        "project",
        lambda visit: str(visit.project),
        Region("needs", WORK, now.needs_here),
        Region("doing", f"{WORK} message", now.doing, LIVE),
        Region("sessions", "task", chat.sessions),
        place="now",
    ),
    "/board": _page("board", _named("Board"), Region("board", WORK, board.board)),
    "/board/{state}": _page("state", _named("Board"), Region("state", WORK, board.state), place="board"),
    "/graph": _page("graph", _named("Dependencies"), Region("graph", "task dependency", board.graph)),
    "/tasks/{task}": _page(
        "task",
        task.title,
        Region("head", WORK, task.head),
        Region("question", "question task", task.question),
        Region("workflow", "workflow task", workflows.of_task),
        Region("talk", WORK, task.talk),
        Region("output", "run verify", task.output, LIVE),
        Region("work", WORK, task.work),
        Region("history", f"{WORK} dependency delegation", task.history),
        Region("near", "task dependency", task.near),
        Region("facts", "task dependency", task.facts),
        place="board",
    ),
    "/tasks/{task}/changes": _page(
        "task_changes", changes.title, Region("changes", "merge work verify", changes.changes), place="board"
    ),
    "/sessions/{session}": _page("session", chat.title, Region("thread", WORK, chat.thread, LIVE), place="now"),
    "/members": _page(
        "members", _named("Members"), Region("crew", f"{WORK} member session message", people.crew, LIVE)
    ),
    "/members/{member}": _page(
        "member",
        lambda visit: f"{visit.params['member']} · {visit.project}",
        Region("member", f"{WORK} member session message", people.member),
        Region("mail", "message", people.mail),
        Region("write", "member", people.write),
        place="members",
    ),
    "/messages": _page(
        "messages",
        _named("Messages"),
        Region("mail", "message", people.mail),
        Region("write", "member", people.write),
    ),
    "/timeline": _page("timeline", _named("Timeline"), Region("timeline", "*", events.timeline)),
    "/workflows": _page("workflows", _named("Workflows"), Region("workflows", "workflow question", workflows.runs)),
    "/workflows/{run}": _page(
        "run",
        run.title,
        Region("run_head", WORK, run.head, LIVE),
        Region("question", "question task workflow", run.question),
        Region("run_steps", "workflow", run.steps, LIVE),
        Region("run_party", "workflow", run.party, LIVE),
        Region("run_say", "workflow", run.say),
        Region("run_decisions", "workflow", run.decisions),
        Region("run_preferences", "workflow", run.preferences),
        Region("run_around", "workflow", run.around, LIVE),
        place="workflows",
    ),
    "/workflows/{run}/rollback": _page(
        "run_rollback", run.title, Region("run_rollback", "workflow", run.rollback), place="workflows"
    ),
    "/report": _page("report", _named("Report"), Region("report", WORK, events.report)),
}
REPORT = _page("report", lambda visit: "Report", Region("report", WORK, events.report), place="all-report")


def router() -> APIRouter:
    """The pages, what their forms do, and the files they need."""
    made = APIRouter(include_in_schema=False)
    made.add_api_route("/", _showing(HOME), methods=["GET"], response_class=Response)
    made.add_api_route("/report", _showing(REPORT), methods=["GET"], response_class=Response)
    for path, page in PAGES.items():
        made.add_api_route("/projects/{project}" + path, _showing(page), methods=["GET"], response_class=Response)
    made.add_api_route("/tasks/{task}", _task, methods=["GET"], response_class=Response)
    made.add_api_route("/sessions/{session}", _session, methods=["GET"], response_class=Response)
    made.add_api_route("/static/{name}", _static, methods=["GET"], response_class=Response)
    actions.add(made)
    return made


def _showing(page: Page) -> Callable[..., Response]:
    # A plain function, so that it runs in a thread: the core is synchronous.
    def endpoint(request: Request, visitor: Reader) -> Response:
        return show(request, Visit(request, visitor), page, NAV)

    return endpoint


def _task(request: Request, visitor: Reader, task: str) -> Response:
    team = visitor.home.locate(task)
    visitor.check(team.name)
    return _short(Visit(request, visitor), request, team.name, "tasks", "task", team.task(task).id)


def _session(request: Request, visitor: Reader, session: str) -> Response:
    found: list[Any] = visitor.home.group_tasks(session)
    if not found or not found[0].project_id:
        raise TaskNotFound(f"There is no session {session[:60]!r}.")
    visitor.check(found[0].project_id)
    return _short(Visit(request, visitor), request, found[0].project_id, "sessions", "session", session)


def _short(visit: Visit, request: Request, project: str, kind: str, name: str, id: str) -> Response:
    """A page asked for by its short address: what it links to and fetches again is the canonical one."""
    visit.params = {"project": project, name: id}
    visit.path = visit.to(kind, id)
    return show(request, visit, PAGES[f"/{kind}/{{{name}}}"], NAV)


def _static(request: Request, name: str) -> Response:
    return static(name, request)
