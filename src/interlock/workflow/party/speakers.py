"""Where one agent plays several voices: told apart in its words where each begins to speak (BMAD-5.1, 5.2.1).

Hosts write it in every manner that Markdown has:

    Winston: …   **Winston**: …   **Winston:** …   🏗️ **Winston** (Architect): …   > Winston: …   - Winston says: …
    ### 🏗️ Winston — Architect        🏗️ **Winston**        **Winston, Architect:** …

Only those of the cast speak: `Note:` and `**Recommendation:**` are what somebody says, and `Winston is right: …` is
about him. A name alone on its line is a voice where it is marked (a heading, bold, an icon), else it is a list. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.workflow.markdown import CODE, lines

LEAD = r"^(?P<lead>[^\w\n]{0,6}(?:\d{1,2}[^\w\n]{1,3})?(?:[^\w\n]|_){0,12}?)"
"""Quotation marks, bullets, a number, heading marks, emphasis, and an icon, which may be several characters."""
END = r"(?![^\W_])(?![-'’]\w)"
ROLE = r"[ \t]*(?:\([^()\n]{0,60}\)|\[[^\[\]\n]{0,60}\])"
AFTER = {
    # `Winston:`, `Winston (Architect):`, `**Winston**:`, `**Winston:**`, `Winston says:`
    "plain": re.compile(
        rf"[*_`\]]{{0,4}}(?:{ROLE})?[*_`]{{0,4}}"
        r"(?:[ \t]+(?:says|said|adds|replies|answers|responds|asks|continues|speaks))?[*_`]{0,4}[ \t]*[:：](?!//)",
        re.IGNORECASE,
    ),
    # `**Winston, Architect:** …`, `**Winston — Architect**`
    "bold": re.compile(
        rf"(?:{ROLE}|[ \t]*[,–—-][ \t]*[^\n*_:：]{{1,60}})(?:[:：][ \t]*(?:\*\*|__)|(?:\*\*|__)[ \t]*(?:[:：]|$))"
    ),
    # Alone on its line: `🏗️ **Winston** (Architect)`
    "marked": re.compile(rf"[*_`\]]{{0,4}}(?:{ROLE})?[*_`]{{0,4}}[ \t]*$"),
    # `### Winston — Architect`
    "heading": re.compile(rf"[*_`]{{0,4}}(?:{ROLE})?[*_`]{{0,4}}[ \t]*[–—-][ \t]*[^\n:：]{{1,60}}[:：]?[ \t]*$"),
}
HEADING, BOLD, ICON = re.compile(r"#{1,6}\s*"), re.compile(r"\*\*|__"), re.compile(r"[^\x00-\x7f“”„«»‘’•·–—…]")

ANYBODY = re.compile(
    r"^[^\w*]{0,6}\*\*(?P<name>[^*:\n]{2,40}?)(?::\*\*|\*\*\s*(?:\([^)\n]{0,40}\))?\s*:)", re.MULTILINE
)
LABELS = frozenset(
    "action actions agenda agreement alternative answer approach argument assumption background benefit benefits "
    "caution cause caveat concern concerns conclusion confidence cons consensus consequence context decision "
    "discussion disagreement effort evidence example fact facts finding findings fix fixes follow goal hint how "
    "idea ideas impact important issue issues key lesson mitigation next note notes objection open option options "
    "outcome point points position positions problem proposal pros question questions rationale reason reasons "
    "recommendation recommendations recommended result results risk risks round rule scope session severity "
    "solution status step steps summary synthesis task tip todo topic trade tradeoff verdict vote votes warning "
    "what when where why".split()
)
"""First words of what is written in bold before a colon and is nobody; needed only where nobody is known by name."""


def speakers(text: str, known: Sequence[str], *, strangers: bool = False) -> list[tuple[int, str]]:
    """(where, who) of each place at which one of the known begins to speak; with `strangers`, everybody whose name
    stands in bold before a colon is one too. Code that is shown counts only where nobody speaks outside of it."""
    found: dict[int, str] = {}
    if strangers:
        for one in ANYBODY.finditer(text):
            words = re.findall(r"\w+", one["name"])
            if words and words[0].casefold() not in LABELS and not words[0].isdigit():
                found[one.start()] = one["name"].strip()
    if any(one.strip() for one in known):
        names = "|".join(re.escape(one) for one in sorted({one.strip() for one in known}, key=len, reverse=True) if one)
        pattern = re.compile(rf"{LEAD}(?P<name>{names}){END}(?P<rest>[^\n]*)$", re.IGNORECASE | re.MULTILINE)
        for one in pattern.finditer(text):
            name = known_as(one["name"], known)
            if name and _speaks(one["lead"], one["rest"]):
                found[one.start()] = name
    shown = _shown(text) if found else []
    outside = [one for one in sorted(found.items()) if not any(start <= one[0] < end for start, end in shown)]
    return outside or sorted(found.items())


def known_as(name: str, known: Sequence[str]) -> str:
    """The known name that is meant; "" for none."""
    wanted = name.casefold().strip(" *_")
    return next((one for one in known if one.casefold() == wanted), "") if wanted else ""


def _speaks(lead: str, rest: str) -> bool:
    heading, bold = HEADING.search(lead), BOLD.search(lead)
    marked = heading or bold or ICON.search(lead)
    ways = (("plain", True), ("bold", bold), ("heading", heading), ("marked", marked))
    return any(led and AFTER[way].match(rest) for way, led in ways)


def _shown(text: str) -> list[tuple[int, int]]:
    """Where code is shown. Lines are counted as the text has them; what the parser would change is not looked into."""
    found, start = [], 0
    kinds, whole = [one.kind for one in lines(text)], text.split("\n")
    if len(kinds) != len(whole):
        return []
    for line, kind in zip(whole, kinds, strict=True):
        if kind == CODE:
            found.append((start, start + len(line) + 1))
        start += len(line) + 1
    return found
