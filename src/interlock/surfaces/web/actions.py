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

from interlock.errors import Conflict, InterlockError, InvalidRequest
from interlock.model import text
from interlock.model.question import APPROVE, asking_for, changes_asked
from interlock.model.task import COLUMNS
from interlock.surfaces.http.failures import note, status_of, wants_page
from interlock.surfaces.http.request_context import SLOW_VERBS, Reader
from interlock.surfaces.web.page_context import PageContext
from interlock.surfaces.web.rendering import told
from interlock.surfaces.web.task_actions import BULK, perform, takes
from interlock.surfaces.web.views.project import AT_ONCE, sought_in
from interlock.surfaces.web.views.task import reviews

EVERYBODY = "*"
AGREED = "include."
"""How the ticked files of a rollback are named, each before its path."""
TYPED = ("reply", "content", "body", "reason", "words")
"""Where people write at length."""
Form = dict[str, str]
FormAction = Callable[[PageContext, Form], str | None]
"""Does what a form says; answers where to go, `None` for back to where one was."""


def reply(page: PageContext, form: Form) -> str | None:
    """Answer a question: a button that was pressed says more than a box that was left. Who reviews is led on."""
    choice, text, question_id = form.get("choice", ""), form.get("reply", "").strip(), form.get("question_id") or None
    if text and not choice and changes_asked(text) is None and not text.lower().startswith(APPROVE):
        asked = next((one for one in page.team.questions() if one.id == question_id), None)
        if asked is not None and asked.choices != asked.options and text.lower() not in asked.options:
            text = asking_for(text)
    warnings = page.acting.reply(page.params["task"], choice or text, question=question_id).warnings
    page.told = " ".join(["Answered.", *warnings]) if warnings else None
    following = reviews(page, page.params["task"]) if form.get("then") == "review" else []
    return page.to("tasks", following[0], "changes") if following else None


def task(page: PageContext, form: Form) -> None:
    perform(page.acting, page.params["task"], form.get("verb", ""), form)


def bulk(page: PageContext, form: Form) -> None:
    """Do something to every task that the filter found; those that do not take it are left alone.

    Raises:
        Conflict: more tasks are found by now than were shown.
        InvalidRequest: there is no such button, or none of the tasks takes it. What the verb raises.
    """
    verb, column = form.get("verb", ""), form.get("column")
    if verb not in BULK:
        raise InvalidRequest(f"There is no button {verb!r}.", field="verb")
    sought = sought_in({**form, "member": form.get("member_sought", "")})
    some = (page.team.column(name, sought, limit=AT_ONCE) for name in ([column] if column else COLUMNS))
    found = [task for tasks in some for task in tasks]
    if len(found) > (int(form["found"]) if form.get("found", "").isdecimal() else 0):
        raise Conflict(f"Now {len(found)} tasks are found, more than you saw. Look at them, then do it again.")
    taken, refused = 0, None
    for task in found:
        if takes(task, verb, page.me):
            try:
                perform(page.acting, task.id, verb, form)
                taken += 1
            except InterlockError as error:
                refused = refused or error
    if not taken:
        raise refused or InvalidRequest(f"None of these tasks can take that: {BULK[verb]}.", field="verb")
    page.told = f"{BULK[verb]}: {text.count(taken, 'task')}."
    if taken < len(found):
        page.told += f" Left as they are: {len(found) - taken}.{f' {refused.message}' if refused else ''}"


def merge(page: PageContext, form: Form) -> None:
    """Merge a task's work into the branch that was shown, and no other."""
    if not form.get("into"):
        raise InvalidRequest("Say into which branch: `into`.", field="into")
    done = page.acting.merge([page.params["task"]], into=form["into"])
    page.told = f"{done.into} has it now." if done.merged else f"{done.into} had all of it already."


def create(page: PageContext, form: Form) -> None:
    page.acting.create_task(
        form.get("subject", ""),
        body=form.get("body", ""),
        priority=form.get("priority") or "normal",
        assignee=form.get("assignee") or None,
        blocked_by=form.get("blocked_by", "").replace(",", " ").split(),
    )


def chat(page: PageContext, form: Form) -> str | None:
    session = form.get("session_id") or None
    found = page.home.chat(page.project or "", form.get("content", ""), session_id=session, by=page.me)
    return page.to("sessions", found.session_id)


def member(page: PageContext, form: Form) -> None:
    """Add a member that an agent drives; `interlock up` gives it work at once."""
    if not form.get("agent"):
        raise InvalidRequest("Choose the agent that drives it.", field="agent")
    # A command is run as it stands: nobody is asked.
    permissions = None if form["agent"] == "shell" else form.get("permissions") or None
    made = page.acting.spawn(form.get("name", "").strip(), agent=form["agent"], permissions=permissions)
    page.told = f"{made.name} is a member now."


def write(page: PageContext, form: Form) -> None:
    if form.get("to") == EVERYBODY:
        page.acting.broadcast(content=form.get("content", ""))
    else:
        page.acting.send(to=form.get("to", ""), content=form.get("content", ""))


def read(page: PageContext, form: Form) -> None:
    """Note that the person has seen what was written to them."""
    with page.acting.mail(again=True) as mail:
        ids = [message.id for message in mail.messages]
    page.acting.acknowledge(ids)


def pause(page: PageContext, form: Form) -> None:
    """Pause or resume the team, or the member of the address."""
    member, verb = page.params.get("member"), form.get("verb")
    if verb == "pause":
        page.acting.pause(member)
    elif verb == "resume":
        page.acting.resume(member)
    else:
        raise InvalidRequest(f"There is no button {verb!r}.", field="verb")


def run(page: PageContext, form: Form) -> None:
    id, verb = page.params["run"], form.get("verb")
    if verb == "resume":
        page.told = str(page.acting.resume_workflow(id)["resumed"])
    elif verb == "cancel":
        page.acting.cancel_workflow(id)
    elif verb == "undo":
        page.acting.rollback_workflow(id)
    else:
        raise InvalidRequest(f"There is no button {verb!r}.", field="verb")


def rollback(page: PageContext, form: Form) -> str | None:
    """Take a run back; the files that somebody else has changed go along where they were ticked."""
    if not form.get("to"):
        raise InvalidRequest("Choose the step to go back to before.", field="to")
    agreed = [name.removeprefix(AGREED) for name in form if name.startswith(AGREED)]
    page.acting.rollback_workflow(page.params["run"], to=form["to"], include=agreed)
    return page.to("workflows", page.params["run"])


def say(page: PageContext, form: Form) -> None:
    """Take a wish about care and progress, or feedback: whichever the words are."""
    id, words = page.params["run"], form.get("words", "").strip()
    if not words:
        raise InvalidRequest("Say something: `use tier 3`, say, or `Don't do that again`.", field="words")
    page.told = page.acting.tell_workflow(words, run=id)


def project(page: PageContext, form: Form) -> str | None:
    found = page.home.create_project(form.get("id", "").strip(), form.get("workdir", "").strip() or None)
    return page.to(project=found.id)


def push(page: PageContext, form: Form) -> None:
    """Send notices to this browser, or no more."""
    page.context.need_home()
    given = [form.get(name, "") for name in ("endpoint", "p256dh", "auth")]
    service = page.home.push_to(*given, stop=form.get("verb") == "stop")
    page.told = (
        f"Notices come to this browser by way of {service}." if service else "No more notices come to this browser."
    )


ACTIONS: dict[str, FormAction] = {
    "/projects": project,
    "/push": push,
    "/projects/{project}/chat": chat,
    "/projects/{project}/messages": write,
    "/projects/{project}/messages/read": read,
    "/projects/{project}/pause": pause,
    "/projects/{project}/board": bulk,
    "/projects/{project}/tasks": create,
    "/projects/{project}/tasks/{task}/reply": reply,
    "/projects/{project}/tasks/{task}/move": task,
    "/projects/{project}/tasks/{task}/merge": merge,
    "/projects/{project}/members": member,
    "/projects/{project}/members/{member}/move": pause,
    "/projects/{project}/workflows/{run}/move": run,
    "/projects/{project}/workflows/{run}/rollback": rollback,
    "/projects/{project}/workflows/{run}/say": say,
}


def add(router: APIRouter) -> None:
    """Mount the forms."""
    for path, action in ACTIONS.items():
        router.add_api_route(path, _endpoint(action), methods=["POST"], response_class=Response)


def _endpoint(action: FormAction) -> Callable[..., Any]:
    async def endpoint(request: Request, caller: Reader) -> Response:
        given = await request.form()
        form = {key: value.replace("\r\n", "\n") for key, value in given.items() if isinstance(value, str)}
        page = PageContext(request, caller)
        scripted = "application/json" in request.headers.get("accept", "")
        # Where the form was, as its own page says; only ever an address of ours.
        place = urlsplit(request.headers.get("referer", ""))
        if place.path.startswith("/") and not place.path.startswith("//"):
            back = place.path + (f"?{place.query}" if place.query else "")
        else:
            back = page.to() if page.project else "/"
        try:
            caller.principal.must("operator", "admin")  # Here, so that who is refused keeps what was written.
            to = await anyio.to_thread.run_sync(action, page, form, limiter=SLOW_VERBS)
        except InterlockError as error:
            await note(error, request.scope)
            if scripted or not wants_page(request.scope):
                return JSONResponse(error.as_dict(), status_of(error))
            typed = next((form[name] for name in TYPED if form.get(name)), "")
            return told("That was not done", error.message, status_of(error), typed, back)
        return JSONResponse({"to": to, "told": page.told}) if scripted else RedirectResponse(to or back, 303)

    return endpoint
