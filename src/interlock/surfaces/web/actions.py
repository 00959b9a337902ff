"""What the forms of the page do: each is one verb, then back to where one was.

A script that sends a form asks for `application/json` and gets `{"to": address, "told": words}` or the error in our
usual shape; without script the browser is led on, and a refusal is a page that keeps what had been written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from interlock.errors import InterlockError, InvalidRequest
from interlock.surfaces.http.failures import status_of
from interlock.surfaces.http.slow import THREADS
from interlock.surfaces.http.visitor import Operator
from interlock.surfaces.web.moves import perform
from interlock.surfaces.web.rendering import told
from interlock.surfaces.web.visit import Visit
from interlock.workflow.preferences import preferences

EVERYBODY = "*"
AGREED = "include."
"""How the ticked files of a rollback are named, each before its path."""
TYPED = ("reply", "content", "body", "reason", "words")
"""Where people write at length."""
Form = dict[str, str]
Done = Callable[[Visit, Form], str | None]
"""Does what a form says; answers where to go, null for back to where one was."""


def add(router: APIRouter) -> None:
    """Mount the forms."""
    for path, action in ACTIONS.items():
        router.add_api_route(path, _doing(action), methods=["POST"], response_class=Response)


def reply(visit: Visit, form: Form) -> str | None:
    """Answer a question: a button that was pressed says more than a box that was left."""
    choice, text = form.get("choice", ""), form.get("reply", "").strip()
    team, question_id = _team(visit), form.get("question_id") or None
    if not choice and text and _is_review(visit, question_id) and not text.lower().startswith(("approve", "changes:")):
        text = f"changes: {text}"
    warnings = team.reply(visit.params["task"], choice or text, question=question_id).warnings
    visit.told = " ".join(["Answered.", *warnings]) if warnings else None
    return None


def move(visit: Visit, form: Form) -> str | None:
    """A button of a task."""
    perform(_team(visit), visit.params["task"], form.get("verb", ""), form)
    return None


def merge(visit: Visit, form: Form) -> str | None:
    """A task's work into the branch that was shown, and no other."""
    if not form.get("into"):
        raise InvalidRequest("Say into which branch: `into`.", field="into")
    done = _team(visit).merge([visit.params["task"]], into=form["into"])
    visit.told = f"{done['into']} has it now." if done["merged"] else f"{done['into']} had all of it already."
    return None


def create(visit: Visit, form: Form) -> str | None:
    """A new task."""
    _team(visit).create_task(
        form.get("subject", ""),
        body=form.get("body", ""),
        priority=form.get("priority") or "normal",
        assignee=form.get("assignee") or None,
        blocked_by=[one for one in form.get("blocked_by", "").replace(",", " ").split() if one],
    )
    return None


def chat(visit: Visit, form: Form) -> str | None:
    """A message to the front door."""
    session = form.get("session_id") or None
    found = visit.home.chat(
        visit.project or "", form.get("content", ""), session_id=session, by=visit.me
    )  # fmt: skip
    return visit.to("sessions", str(found["session_id"]))


def write(visit: Visit, form: Form) -> str | None:
    """A message to a member, or to all."""
    team, to = _team(visit), form.get("to", "")
    if to == EVERYBODY:
        team.broadcast(content=form.get("content", ""))
    else:
        team.send(to=to, content=form.get("content", ""))
    return None


def read(visit: Visit, form: Form) -> str | None:
    """The person has seen what was written to them."""
    team = _team(visit)
    with team.mail(again=True) as mail:
        ids = [message.id for message in mail.messages]
    team.acknowledge(ids)
    return None


def pause(visit: Visit, form: Form) -> str | None:
    """Stop starting new work, or go on."""
    _pausing(visit, form, None)
    return None


def member(visit: Visit, form: Form) -> str | None:
    """A button of a member."""
    _pausing(visit, form, visit.params["member"])
    return None


def run(visit: Visit, form: Form) -> str | None:
    """A button of a workflow's run."""
    team, id, verb = _team(visit), visit.params["run"], form.get("verb")
    if verb == "resume":
        visit.told = str(team.resume_workflow(id)["resumed"])
    elif verb == "cancel":
        team.cancel_workflow(id)
    elif verb == "undo":
        team.rollback_workflow(id)
    else:
        raise InvalidRequest(f"There is no button {verb!r}.", field="verb")
    return None


def rollback(visit: Visit, form: Form) -> str | None:
    """Take a run back; the files that somebody else has changed go along where they were ticked."""
    if not form.get("to"):
        raise InvalidRequest("Choose the step to go back to before.", field="to")
    agreed = [name.removeprefix(AGREED) for name in form if name.startswith(AGREED)]
    _team(visit).rollback_workflow(visit.params["run"], to=form["to"], include=agreed)
    return visit.to("workflows", visit.params["run"])


def say(visit: Visit, form: Form) -> str | None:
    """A wish about care and progress, or feedback: whichever the words are."""
    team, id, words = _team(visit), visit.params["run"], form.get("words", "").strip()
    if not words:
        raise InvalidRequest("Say something: `use tier 3`, say, or `Don't do that again`.", field="words")
    if preferences.understood(words) is not None:
        visit.told = str(team.workflow_feedback(words, run=id)["text"])
    else:
        visit.told = str(team.adjust_workflow(words, id)["text"])
    return None


def project(visit: Visit, form: Form) -> str | None:
    """A new project."""
    found = visit.home.create_project(form.get("id", "").strip(), form.get("workdir", "").strip() or None)
    return visit.to(project=str(found["id"]))


ACTIONS: dict[str, Done] = {
    "/projects": project,
    "/projects/{project}/chat": chat,
    "/projects/{project}/messages": write,
    "/projects/{project}/messages/read": read,
    "/projects/{project}/pause": pause,
    "/projects/{project}/tasks": create,
    "/projects/{project}/tasks/{task}/reply": reply,
    "/projects/{project}/tasks/{task}/move": move,
    "/projects/{project}/tasks/{task}/merge": merge,
    "/projects/{project}/members/{member}/move": member,
    "/projects/{project}/workflows/{run}/move": run,
    "/projects/{project}/workflows/{run}/rollback": rollback,
    "/projects/{project}/workflows/{run}/say": say,
}


def _doing(action: Done) -> Callable[..., Any]:
    async def endpoint(request: Request, visitor: Operator) -> Response:
        given = await request.form()
        form = {key: value.replace("\r\n", "\n") for key, value in given.items() if isinstance(value, str)}
        visit = Visit(request, visitor)
        scripted = "application/json" in request.headers.get("accept", "")
        back = _back(request, visit)
        try:
            to = await anyio.to_thread.run_sync(action, visit, form, limiter=THREADS)
        except InterlockError as error:
            if scripted:
                return JSONResponse(error.as_dict(), status_of(error))
            typed = next((form[name] for name in TYPED if form.get(name)), "")
            return told("That was not done", error.message, status_of(error), typed, back)
        return JSONResponse({"to": to, "told": visit.told}) if scripted else RedirectResponse(to or back, 303)

    return endpoint


def _team(visit: Visit) -> Any:
    return visit.acting


def _pausing(visit: Visit, form: Form, member: str | None) -> None:
    team, verb = _team(visit), form.get("verb")
    if verb == "pause":
        team.pause(member)
    elif verb == "resume":
        team.resume(member)
    else:
        raise InvalidRequest(f"There is no button {verb!r}.", field="verb")


def _is_review(visit: Visit, question_id: str | None) -> bool:
    return any(one.id == question_id and one.kind == "review" for one in visit.team.questions())


def _back(request: Request, visit: Visit) -> str:
    """Where the form stood, as its own page says; only ever an address of ours."""
    place = urlsplit(request.headers.get("referer", ""))
    if place.path.startswith("/") and not place.path.startswith("//"):
        return place.path + (f"?{place.query}" if place.query else "")
    return visit.to() if visit.project else "/"
