"""From a page to HTML: templates, the regions a page is made of, and what a browser may keep.

A page is a template with places for regions; a region is a template of its own with what it needs. `?region=NAME`
answers one region alone, with an ETag, which is how the open page keeps up to date.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from interlock.core.reports.text import beside_git
from interlock.errors import NotFound
from interlock.model import text
from interlock.model.evidence import in_words, latest_check
from interlock.model.guard import leading_to
from interlock.model.question import Question
from interlock.model.task import Task
from interlock.surfaces.web import sentences
from interlock.surfaces.web.prose import gist, line, prose, verbatim
from interlock.surfaces.web.visit import Visit
from interlock.workflow.state.document import place_of, spoken

HERE = Path(__file__).parent
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FRAGMENT = "region"


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page that is fetched again by itself. `topics`: the first words of the events that concern it.

    `poll`: seconds after which it is looked at without an event, while something in it runs; 0 never.
    """

    name: str
    topics: str
    build: Callable[[Visit], dict[str, Any]]
    poll: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page. `place` is its entry in the navigation."""

    name: str
    place: str
    title: Callable[[Visit], str]
    regions: tuple[Region, ...]


def show(request: Request, visit: Visit, page: Page, nav: Region) -> Response:
    """The page, or the one region of it that was asked for.

    Raises:
        NotFound: the page has no such region. What the verbs raise.
    """
    wanted = request.query_params.get(FRAGMENT)
    regions = {region.name: region for region in (nav, *page.regions)}
    if wanted is not None:
        if wanted not in regions:
            raise NotFound(f"This page has no region {wanted[:40]!r}.")
        return _fragment(request, _region(regions[wanted], visit, page))
    rendered = {name: _region(region, visit, page) for name, region in regions.items()}
    html = _environment().get_template(f"{page.name}.html").render(
        visit=visit, page=page, regions=rendered, title=page.title(visit)
    )  # fmt: skip
    return HTMLResponse(html)


def told(title: str, message: str, status: int, typed: str = "", back: str = "/") -> Response:
    """A page that says why something was not done; `typed` is what the person had written, so that it is not lost."""
    html = _environment().get_template("told.html").render(title=title, message=message, typed=typed, back=back)
    return HTMLResponse(html, status)


def static(name: str, request: Request) -> Response:
    """A file of `static/`.

    Raises:
        NotFound: there is none of that name.
    """
    found = _files().get(name)
    if found is None:
        raise NotFound(f"There is no file {name[:60]!r} here.")
    content, tag = found
    # Asked for again at each visit, answered with 304: modules import each other by plain names, so none may be old.
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=KINDS[Path(name).suffix], headers=headers)


def _region(region: Region, visit: Visit, page: Page) -> Markup:
    template = _environment().get_template(f"regions/{region.name}.html")
    inside = template.render(visit=visit, page=page, **region.build(visit))
    return Markup(
        '<div class="region region-{0}" id="region-{0}" data-region="{0}" data-topics="{1}" data-poll="{2}" '
        'data-src="{3}">{4}</div>'
    ).format(region.name, region.topics, region.poll, visit.address(region=region.name), Markup(inside))


def _fragment(request: Request, html: Markup) -> Response:
    tag = f'"{hashlib.blake2s(html.encode(), digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "vary": "cookie"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(html, headers=headers)


@cache
def _files() -> Mapping[str, tuple[bytes, str]]:
    found = {}
    for path in sorted((HERE / "static").iterdir()):
        if path.suffix in KINDS:
            content = path.read_bytes()
            found[path.name] = (content, f'"{hashlib.blake2s(content, digest_size=12).hexdigest()}"')
    return found


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        prose=prose, verbatim=verbatim, gist=gist, line=line, ago=ago, span=text.span, short=short, state=state_words,
        place=place_of, spoken=spoken,
        before_question=before_question,
        proof=in_words, check=latest_check, entries=sentences.entries, actor=sentences.actor, spent=text.spent,
        tokens=text.tokens, size=text.size, beside_git=beside_git,
    )  # fmt: skip
    environment.globals.update(count=text.count)
    return environment


def ago(at: str | None) -> Markup:
    """A time as `<time>`, which the open page keeps true."""
    if not at:
        return Markup("")
    exact = f"{at[:10]} {at[11:19]} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at, exact, text.ago(at))


def short(id: str) -> str:
    """The part of a task's id that people say."""
    return id.rpartition("-")[2]


def before_question(task: Task, question: Question) -> str:
    """What the task's output says before its question: why it is blocked, say."""
    return leading_to(task.output, question.text)


STATE_WORDS = {
    "backlog": "Waiting",
    "ready": "Ready",
    "in-progress": "In progress",
    "awaiting-response": "Asks you",
    "blocked": "Blocked",
    "review": "In review",
    "done": "Done",
    "deadletter": "Failed",
    "cancelled": "Cancelled",
    "deleted": "Deleted",
}


def state_words(state: str) -> str:
    """A state as a person reads it."""
    return STATE_WORDS.get(state, state)
