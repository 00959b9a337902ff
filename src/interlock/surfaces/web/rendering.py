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

from interlock.errors import NotFound
from interlock.model import text
from interlock.model.evidence import in_words, latest_check
from interlock.model.guard import leading_to
from interlock.model.report import beside_git
from interlock.model.workflow import place_of, spoken
from interlock.surfaces.web import event_text
from interlock.surfaces.web.page_context import PageContext
from interlock.surfaces.web.prose import gist, line, prose, verbatim

HERE = Path(__file__).parent
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
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


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page that is fetched again by itself.

    Attributes:
        topics: the first words of the events that concern it.
        poll: seconds after which it is looked at without an event, while something in it runs; 0 never.
    """

    name: str
    topics: str
    build: Callable[[PageContext], dict[str, Any]]
    poll: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page. `place` is its entry in the navigation."""

    name: str
    place: str
    title: Callable[[PageContext], str]
    regions: tuple[Region, ...]


def show(request: Request, context: PageContext, page: Page) -> Response:
    """Return the page, or the one region of it that was asked for.

    Raises:
        NotFound: the page has no such region. What the verbs raise.
    """
    regions = {region.name: region for region in page.regions}
    wanted = request.query_params.get("region")
    if wanted is None:
        rendered = {name: _region(region, context, page) for name, region in regions.items()}
        template = _environment().get_template(f"{page.name}.html")
        html = template.render(context=context, page=page, regions=rendered, title=page.title(context))
        return HTMLResponse(html)
    if wanted not in regions:
        raise NotFound(f"This page has no region {wanted[:40]!r}.")
    fragment = _region(regions[wanted], context, page)
    headers = {"vary": "cookie"}
    return _unless_known(request, fragment.encode(), _tag(fragment.encode()), "text/html", headers)


def told(title: str, message: str, status: int, typed: str = "", back: str = "/") -> Response:
    """Return a page that says why something was not done; `typed` is what the person had written, lest it be lost."""
    html = _environment().get_template("told.html").render(title=title, message=message, typed=typed, back=back)
    return HTMLResponse(html, status)


def static(name: str, request: Request) -> Response:
    """Return a file of `static/`.

    Raises:
        NotFound: there is none of that name.
    """
    if name not in _files():
        raise NotFound(f"There is no file {name[:60]!r} here.")
    content, tag = _files()[name]
    # Asked for again at each visit, answered with 304: modules import each other by plain names, so none may be old.
    return _unless_known(request, content, tag, KINDS[Path(name).suffix], {"cache-control": "no-cache"})


def _unless_known(request: Request, content: bytes, tag: str, kind: str, headers: dict[str, str]) -> Response:
    headers["etag"] = tag
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


def _tag(content: bytes) -> str:
    return f'"{hashlib.blake2s(content, digest_size=12).hexdigest()}"'


def _region(region: Region, context: PageContext, page: Page) -> Markup:
    template = _environment().get_template(f"regions/{region.name}.html")
    inside = template.render(context=context, page=page, **region.build(context))
    return Markup(
        '<div class="region region-{0}" id="region-{0}" data-region="{0}" data-topics="{1}" data-poll="{2}" '
        'data-src="{3}">{4}</div>'
    ).format(region.name, region.topics, region.poll, context.address(region=region.name), Markup(inside))


@cache
def _files() -> Mapping[str, tuple[bytes, str]]:
    paths = [path for path in sorted((HERE / "static").iterdir()) if path.suffix in KINDS]
    return {path.name: (content := path.read_bytes(), _tag(content)) for path in paths}


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
        prose=prose, verbatim=verbatim, gist=gist, line=line, ago=ago, span=text.span, size=text.size,
        spent=text.spent, tokens=text.tokens, place=place_of, spoken=spoken, proof=in_words, check=latest_check,
        entries=event_text.entries, actor=event_text.actor, beside_git=beside_git,
        short=lambda id: id.rpartition("-")[2],  # the part of a task's id that people say
        state=lambda state: STATE_WORDS.get(state, state),
        # What a task's output says before its question: why it is blocked, say.
        before_question=lambda task, question: leading_to(task.output, question.text),
    )  # fmt: skip
    environment.globals.update(count=text.count)
    return environment


def ago(at: str | None) -> Markup:
    """Return a time as `<time>`, which the open page keeps true."""
    if not at:
        return Markup("")
    exact = f"{at[:10]} {at[11:19]} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at, exact, text.ago(at))
