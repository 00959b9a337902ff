"""Texts that agents and people wrote, as HTML that is safe to show.

Markdown is rendered without raw HTML; links lead to http, https and mailto only, open apart and tell nothing of where
they were; images are shown as links, since loading one would tell somebody that it was looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from interlock.model.guard import FALLBACKS
from interlock.model.text import plain

LONGEST = 40_000
"""Characters of one text that are shown; a page is no place for a whole log."""
SAFE = re.compile(r"^(?:https?://|mailto:)", re.IGNORECASE)


@lru_cache(maxsize=512)
def prose(text: str | None) -> Markup:
    """A text in Markdown as HTML."""
    if not text or not text.strip():
        return Markup("")
    known = next((one for one in FALLBACKS.values() if text.rstrip().endswith(one)), None)
    if known is not None:  # The specification's own line: in another language than the page.
        asked = Markup("<br>").join(
            Markup("<span{}>{}</span>").format(Markup("" if part.isascii() else ' lang="ja"'), part)
            for part in known.splitlines()
        )
        return prose(text.rstrip()[: -len(known)]) + Markup("<p>{}</p>").format(asked)
    shown, cut = _bounded(text)
    return Markup(_parser().render(shown)) + (Markup('<p class="quiet">{}</p>').format(cut) if cut else Markup(""))


def verbatim(text: str | None) -> Markup:
    """What a program printed, as it is, without what would steer a terminal."""
    shown, cut = _bounded(text or "")
    return escape(shown.strip("\n")) + (f"\n\n{cut}" if cut else "")


def gist(text: str | None, length: int = 160) -> str:
    """The first line that says anything, without the marks of Markdown."""
    for line in plain((text or "")[: LONGEST // 10]).splitlines():
        found = re.sub(r"^[\s#>*-]+|[*_`]{1,3}", "", line).strip()
        if found:
            return found if len(found) <= length else found[: length - 1].rstrip() + "…"
    return ""


def line(text: str | None, length: int = 160) -> str:
    """A text as one line, with all of its marks: they belong to names in code."""
    found = " ".join(plain((text or "")[:LONGEST]).split())
    return found if len(found) <= length else found[: length - 1] + "…"


def _bounded(text: str) -> tuple[str, str]:
    shown = plain(text)
    if len(shown) <= LONGEST:
        return shown, ""
    return shown[:LONGEST], f"{len(shown) - LONGEST:,} more characters are not shown here."


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}, renderer_cls=_Renderer).enable("table")
    parser.validateLink = lambda url: bool(SAFE.match(url.strip()))  # type: ignore[method-assign]
    return parser


class _Renderer(RendererHTML):
    """Links that give nothing away, and links in the place of images."""

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A link leads out of here, in a tab of its own."""
        token = tokens[idx]
        token.attrSet("rel", "noopener noreferrer nofollow")
        token.attrSet("target", "_blank")
        return self.renderToken(tokens, idx, options, env)

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Not loaded: its text, as a link to it."""
        token = tokens[idx]
        told = self.renderInlineAsText(token.children or [], options, env) or "image"
        return str(
            Markup('<a rel="noopener noreferrer nofollow" target="_blank" href="{}">{}</a>').format(
                _text(token.attrGet("src")), told
            )
        )

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Headings of a text stand below those of the page."""
        return f'<p class="h" role="heading" aria-level="{min(6, 3 + int(tokens[idx].tag[1]))}">'

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """See `heading_open`."""
        return "</p>\n"


def _text(value: Any) -> str:
    return "" if value is None else str(value)
