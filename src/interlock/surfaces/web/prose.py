"""Texts that agents and people wrote, as HTML that is safe to show.

Markdown is rendered without raw HTML; links lead to http, https and mailto only, open apart and tell nothing of where
they were; images are shown as links, since loading one would tell somebody that it was looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline.emphasis import tokenize
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape
from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Text

from interlock.model.guard import FALLBACKS
from interlock.model.question import FAILED
from interlock.model.text import plain

LONGEST = 40_000
"""Characters of one text that are shown; a page is no place for a whole log."""
HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0]|"
    "(?<=[!-~])[\u200c\u200d](?=[!-~])"
)
"""Characters that take no room, or turn what follows: two texts that look alike differ by them. Joiners are signs of
their own only between letters that are never joined."""
MARKED = re.compile(
    r"(?<!\w)(?:(?P<code>`{1,2})(?P<said>[^`]+)(?P=code)|(?P<mark>\*{1,3})(?=[^\s*/.])(?P<words>[^*]*[^\s*/])(?P=mark))"
    r"(?!\w|\.\w)"
)
"""What Markdown sets apart in a line; a lone mark is part of a name or a pattern, as in `src/*_views.py`."""
NAMED = re.compile(rf"^(?:Approve )?TASK-[\d-]+ \(.+?\)(?:(\?)(?: |$)|{FAILED})", re.DOTALL)
"""How a question about a task begins: with the task's name, for those who see nothing else."""
SAFE = re.compile(r"^(?:https?://|mailto:)", re.IGNORECASE)


def seen(text: str) -> str:
    """The text with hidden characters named, as programs write them: `\\u202e`."""
    return text if text.isascii() else HIDDEN.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


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


def terminal(lines: Sequence[str]) -> list[Markup]:
    """Lines that a program printed, each as HTML with the colours and weights that it gave them."""
    decoder = AnsiDecoder()
    return [_printed(decoder.decode_line(line[:LONGEST])) for line in lines]


def _printed(line: Text) -> Markup:
    made, at = Markup(""), 0
    for span in line.spans:
        style = span.style if isinstance(span.style, Style) else Style.null()
        number = style.color.number if style.color else None
        marks = [f"ansi-{number % 8}"] if number is not None and number < 16 else []
        marks += [name for name in ("bold", "dim") if getattr(style, name)]
        words = plain(seen(line.plain[span.start : span.end]))
        made += escape(plain(seen(line.plain[at : span.start])))
        made += Markup('<i class="{}">{}</i>').format(" ".join(marks), words) if marks else escape(words)
        at = span.end
    return made + escape(plain(seen(line.plain[at:])))


def gist(text: str | None, length: int = 160) -> str:
    """The first line that says anything, without the marks of Markdown."""
    for line in plain(seen((text or "")[: LONGEST // 10])).splitlines():
        bare = re.sub(r"^\s*(?:(?:#+|[>*-])\s+)*", "", line)
        found = MARKED.sub(lambda one: one["said"] or one["words"], bare).strip()
        if found.strip("-*_`#>="):
            return found if len(found) <= length else found[: length - 1].rstrip() + "…"
    return ""


def asked(text: str) -> str:
    """A question without the id and the subject of its task, which are shown beside it."""
    found = NAMED.match(text)
    if found is None:
        return text
    rest = text[found.end() :]
    return f"Approve this work? {rest}".rstrip() if found[1] else rest[:1].upper() + rest[1:]


def line(text: str | None, length: int = 160) -> str:
    """A text as one line, with all of its marks: they belong to names in code."""
    found = " ".join(plain(seen((text or "")[:LONGEST])).split())
    return found if len(found) <= length else found[: length - 1] + "…"


def _bounded(text: str) -> tuple[str, str]:
    shown = plain(seen(text))
    if len(shown) <= LONGEST:
        return shown, ""
    return shown[:LONGEST], f"{len(shown) - LONGEST:,} more characters are not shown here."


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True}, renderer_cls=_Renderer).enable(
        "table"
    )
    # `__init__.py` and `_views` are names; emphasis has stars.
    parser.inline.ruler.at("emphasis", lambda state, silent: state.src[state.pos] != "_" and tokenize(state, silent))
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
                token.attrGet("src") or "", told
            )
        )

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Headings of a text stand below those of the page."""
        return f'<p class="h" role="heading" aria-level="{min(6, 3 + int(tokens[idx].tag[1]))}">'

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """See `heading_open`."""
        return "</p>\n"
