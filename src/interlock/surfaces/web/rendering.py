"""From a page to HTML: templates, the regions a page is made of, and what a browser may keep.

A page is a template with places for regions; a region is a template of its own with what it needs. `?region=NAME`
answers one region alone, with an ETag, which is how the open page keeps up to date; who has an older one may ask for
what has changed since.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from interlock.errors import NotFound
from interlock.lazy_dataclass import dataclass
from interlock.model import text
from interlock.model.evidence import in_words, latest_check
from interlock.model.guard import leading_to
from interlock.model.json import Json
from interlock.model.report import beside_git
from interlock.model.workflow import place_of, spoken
from interlock.surfaces.web import event_text
from interlock.surfaces.web.page_context import PERMISSION_WORDS, STATE_WORDS, PageContext
from interlock.surfaces.web.prose import asked, gist, line, prose, seen, terminal, verbatim
from interlock.surfaces.web.region_changes import MANIPULATION, SentRegions, ageless

HERE = Path(__file__).parent
SMALL = 1000
"""Bytes that are not worth packing."""
SENT = SentRegions()
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page that is fetched again by itself.

    Attributes:
        topics: the types of the events that concern it, or their first words.
        poll: seconds after which it is looked at without an event, while something in it runs; 0 never.
    """

    name: str
    topics: str
    build: Callable[[PageContext], Json]
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
        rendered = {name: _tagged(_region(region, context, page)) for name, region in regions.items()}
        template = _environment().get_template(f"{page.name}.html")
        html = template.render(
            context=context, page=page, regions=rendered, title=page.title(context), version=_version()
        )
        return _packed(request, html.encode(), "text/html", {})
    if wanted not in regions:
        raise NotFound(f"This page has no region {wanted[:40]!r}.")
    return _changed(request, ageless(_region(regions[wanted], context, page)))


def told(title: str, message: str, status: int, typed: str = "", back: str = "/") -> Response:
    """Return a page that says why something was not done; `typed` is what the person had written, lest it be lost."""
    html = _environment().get_template("told.html").render(title=title, message=message, typed=typed, back=back)
    return HTMLResponse(html, status)


def static(name: str, request: Request, version: str | None = None) -> Response:
    """Return a file of `static/`; at an address with the version of them all it is kept for good.

    Raises:
        NotFound: there is none of that name.
    """
    if name not in _files():
        raise NotFound(f"There is no file {name[:60]!r} here.")
    content, tag = _files()[name]
    # Modules import each other by plain names, below the same version, so none is ever old.
    kept = "private, max-age=31536000, immutable" if version == _version() else "no-cache"
    return _unless_known(request, content, tag, KINDS[Path(name).suffix], {"cache-control": kept})


def _changed(request: Request, text: str) -> Response:
    """Return a region, or only what differs from the one that was sent before, where that is asked for."""
    tag = _tag(text.encode())
    known = request.headers.get("if-none-match", "")
    change = None
    if known != tag and request.headers.get("a-im") == MANIPULATION:
        change = SENT.change(known, text)
    SENT.keep(tag, text)
    if change is None:
        return _unless_known(request, text.encode(), tag, "text/html", {})
    answer = _packed(request, change, "application/json", {"etag": tag, "im": MANIPULATION, "delta-base": known})
    answer.status_code = 226
    return answer


def _unless_known(request: Request, content: bytes, tag: str, kind: str, headers: dict[str, str]) -> Response:
    headers["etag"] = tag
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return _packed(request, content, kind, headers)


def _packed(request: Request, content: bytes, kind: str, headers: dict[str, str]) -> Response:
    headers["vary"] = "cookie, accept-encoding"
    if len(content) > SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, 5)
        headers["content-encoding"] = "gzip"
    return Response(content, media_type=kind, headers=headers)


def _tag(content: bytes) -> str:
    # Weak: it names the text, packed or not.
    return f'W/"{hashlib.blake2s(content, digest_size=12).hexdigest()}"'


def _region(region: Region, context: PageContext, page: Page) -> Markup:
    template = _environment().get_template(f"regions/{region.name}.html")
    inside = template.render(context=context, page=page, **region.build(context))
    return Markup(
        '<div class="region region-{0}" id="region-{0}" data-region="{0}" data-topics="{1}" data-poll="{2}" '
        'data-src="{3}">{4}</div>'
    ).format(region.name, region.topics, region.poll, context.address(region=region.name), Markup(inside))


def _tagged(region: Markup) -> Markup:
    """Return a region of a whole page, with its tag: what is not changed since is not fetched."""
    return Markup(
        region.replace("<div ", Markup("<div data-tag='{}' ").format(Markup(_tag(ageless(region).encode()))), 1)
    )


@cache
def _files() -> Mapping[str, tuple[bytes, str]]:
    paths = [path for path in sorted((HERE / "static").iterdir()) if path.suffix in KINDS]
    return {path.name: (content := path.read_bytes(), _tag(content)) for path in paths}


@cache
def _version() -> str:
    return hashlib.blake2s("".join(tag for _, tag in _files().values()).encode(), digest_size=8).hexdigest()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Whatever a template shows of others; what a form sends back as it was is `|exact`.
        finalize=lambda value: seen(value) if type(value) is str else value,
    )
    environment.filters.update(
        prose=prose, asked=asked, verbatim=verbatim, terminal=terminal, gist=gist, line=line, ago=ago, span=text.span,
        size=text.size, spent=text.spent, tokens=text.tokens, place=place_of, spoken=spoken, proof=in_words,
        check=latest_check, exact=escape, entries=event_text.entries, actor=event_text.actor, beside_git=beside_git,
        changed_files=text.changed_files,
        short=lambda id: id.rpartition("-")[2],  # the part of a task's id that people say
        state=lambda state: STATE_WORDS.get(state, state),
        # What a task's output says before its question: why it is blocked, say.
        before_question=lambda task, question: leading_to(task.output, question.text),
    )  # fmt: skip
    environment.globals.update(count=text.count, permission_words=PERMISSION_WORDS)
    return environment


def ago(at: str | None) -> Markup:
    """Return a time as `<time>`, which the open page keeps true."""
    if not at:
        return Markup("")
    exact = f"{at[:10]} {at[11:19]} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at, exact, text.ago(at))
