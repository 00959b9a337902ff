"""Which pages there are, and of which regions each is made.

The canonical address of a thing is under its project, since ids are counted per team; the short forms `/tasks/{id}` and
`/sessions/{id}` show the same where the id is unique in the home, and link there.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from interlock.errors import TaskNotFound
from interlock.surfaces.http.request_context import Reader
from interlock.surfaces.web import actions
from interlock.surfaces.web.page_context import PageContext
from interlock.surfaces.web.rendering import Page, Region, show, static
from interlock.surfaces.web.views import project, task, workflow_run

WORK = "task question run verify review team runner plan merge workflow member"
GRAPH = "dependency task.created task.updated task.transitioned task.assigned task.deleted"
"""What changes the picture of dependencies; words in a Work Log do not."""
NAV = Region("nav", "task question team member review", project.nav)
LIVE = 3
"""Seconds between two looks at what running programs print, which is no event."""


def _page(name: str, title: str | Callable[[PageContext], str], *regions: Region, place: str | None = None) -> Page:
    """Return a page; a title that is text is followed by the project's name."""
    if isinstance(title, str):
        return Page(name, place or name, lambda context: f"{title} · {context.project}", (NAV, *regions))
    return Page(name, place or name, title, (NAV, *regions))


MAIL = (Region("mail", "message", project.mail), Region("write", "member", project.write))
REPORT = Region("report", WORK, project.report)
GLOBAL_PAGES: dict[str, Page] = {
    "/": _page(
        "home",
        lambda context: "Needs you",
        Region("needs_all", WORK, project.needs_everywhere),
        Region("projects", WORK, project.projects),
    ),
    "/report": _page("report", lambda context: "Report", REPORT, place="all-report"),
}
PAGES: dict[str, Page] = {
    "": _page(
        "project",
        lambda context: str(context.project),
        Region("needs", WORK, project.needs_here),
        Region("doing", f"{WORK} message", project.doing, LIVE),
        Region("sessions", "task", project.chats),
        place="now",
    ),
    "/board": _page("board", "Board", Region("board", WORK, project.board)),
    "/board/{state}": _page("state", project.state_title, Region("state", WORK, project.state), place="board"),
    "/graph": _page("graph", "Dependencies", Region("graph", GRAPH, project.graph)),
    "/tasks/{task}": _page(
        "task",
        task.title,
        Region("head", WORK, task.head),
        Region("question", "question task", task.question),
        Region("workflow", "workflow task", workflow_run.of_task),
        Region("talk", WORK, task.talk),
        Region("output", "run verify", task.output, LIVE),
        Region("work", WORK, task.work),
        Region("history", f"{WORK} dependency delegation", task.history),
        Region("near", "task dependency", task.near),
        Region("facts", "task dependency", task.facts),
        place="board",
    ),
    "/tasks/{task}/changes": _page(
        "review",
        task.review_title,
        Region("subject", WORK, task.head),
        Region("about", WORK, task.about),
        Region("changes", "merge work verify", task.changes),
        Region("output", "run verify", task.output, LIVE),
        Region("decide", WORK, task.decide),
        place="board",
    ),
    "/tasks/{task}/log": _page("log", task.log_title, Region("log", "run verify", task.log, LIVE), place="board"),
    "/sessions/{session}": _page(
        "session", project.chat_title, Region("thread", WORK, project.chat, LIVE), place="now"
    ),
    "/members": _page("members", "Members", Region("crew", f"{WORK} member session message", project.members, LIVE)),
    "/members/{member}": _page(
        "member",
        lambda context: f"{context.params['member']} · {context.project}",
        Region("member", f"{WORK} member session message", project.member),
        *MAIL,
        place="members",
    ),
    "/messages": _page("messages", "Messages", *MAIL),
    "/timeline": _page("timeline", "Timeline", Region("timeline", "*", project.timeline)),
    "/workflows": _page("workflows", "Workflows", Region("workflows", "workflow question", workflow_run.runs)),
    "/stories": _page("epics", "Stories", Region("epics", WORK, project.epics), place="workflows"),
    "/workflows/{run}": _page(
        "run",
        workflow_run.title,
        Region("run_head", WORK, workflow_run.head, LIVE),
        Region("question", "question task workflow", workflow_run.question),
        Region("run_steps", "workflow", workflow_run.steps, LIVE),
        Region("run_party", "workflow", workflow_run.party, LIVE),
        Region("run_say", "workflow", workflow_run.say),
        Region("run_decisions", "workflow", workflow_run.decisions),
        Region("run_preferences", "workflow", workflow_run.preferences),
        Region("run_around", "workflow", workflow_run.around, LIVE),
        place="workflows",
    ),
    "/workflows/{run}/rollback": _page(
        "run_rollback",
        workflow_run.title,
        Region("run_rollback", "workflow", workflow_run.rollback),
        place="workflows",
    ),
    "/report": _page("report", "Report", REPORT),
}


def router() -> APIRouter:
    """Return the pages, what their forms do, and the files they need."""
    made = APIRouter(include_in_schema=False)
    pages = {**GLOBAL_PAGES, **{f"/projects/{{project}}{path}": page for path, page in PAGES.items()}}
    endpoints: dict[str, Callable[..., Response]] = {path: _showing(page) for path, page in pages.items()}
    endpoints |= {"/tasks/{task}": _task, "/sessions/{session}": _session, "/static/{name}": _static}
    endpoints["/static/{version}/{name}"] = _static
    endpoints["/projects/{project}/tasks/{task}/log.txt"] = _whole_log
    for path, endpoint in endpoints.items():
        made.add_api_route(path, endpoint, methods=["GET"], response_class=Response)
    actions.add(made)
    return made


def _showing(page: Page) -> Callable[..., Response]:
    # A plain function, so that it runs in a thread: the core is synchronous.
    def endpoint(request: Request, caller: Reader) -> Response:
        return show(request, PageContext(request, caller), page)

    return endpoint


def _task(request: Request, caller: Reader, task: str) -> Response:
    team = caller.home.locate(task)
    return _short(request, caller, team.name, "tasks", "task", team.task(task).id)


def _whole_log(caller: Reader, project: str, task: str, run: int | None = None) -> Response:
    path, number = caller.team(project).output(task, run)
    return FileResponse(path, media_type="text/plain; charset=utf-8", filename=f"{task}.{number}.log")


def _session(request: Request, caller: Reader, session: str) -> Response:
    found = caller.home.group_tasks(session)
    if not found or not found[0].project_id:
        raise TaskNotFound(f"There is no session {session[:60]!r}.")
    return _short(request, caller, found[0].project_id, "sessions", "session", session)


def _short(request: Request, caller: Reader, project: str, kind: str, name: str, id: str) -> Response:
    """Show a page asked for by its short address: what it links to and fetches again is the canonical one."""
    caller.check(project)
    context = PageContext(request, caller)
    context.params = {"project": project, name: id}
    context.path = context.to(kind, id)
    return show(request, context, PAGES[f"/{kind}/{{{name}}}"])


def _static(request: Request, name: str, version: str | None = None) -> Response:
    return static(name, request, version)
