"""Wishes about care in natural language, and how far each one shifts it (BMAD-7.1.1).

A shift counts in levels, of which there are four: tiers 0 and 1, which run through, and 2, 3 and 4. Up is more careful.

What people put around a wish without changing it: "could you please … from now on".
"""

from __future__ import annotations

import re

from interlock.model.progress import MODES, SILENT, STREAMING, SUMMARY, VERBOSE

LEAD = (
    r"(?:(?:please|ok(?:ay)?|hey|well|now|just|and|but|from\s+now\s+on|for\s+now|today|let'?s|"
    r"(?:i'?d|i\s+would|i\s+do|i|we)\s+(?:really\s+)?(?:want|like|prefer|need|wish)(?:\s+(?:you|it|this|to|for|that))*|"
    r"(?:can|could|would|will)\s+(?:you|we)|you\s+(?:can|should|may|could)|try\s+to|have|give\s+me|with|use|make\s+it|"
    r"there\s+should\s+be)[\s,]+)*"
)
TAIL = (
    r"(?:[\s,]+(?:please|now|from\s+now\s+on|for\s+(?:this|the|me|now|once|today|good)(?:\s+\w+)?|today|this\s+time|"
    r"with\s+(?:me|this|it)|here|thanks?|thank\s+you|too|altogether|entirely|in\s+this\s+(?:session|run|workflow)|"
    r"at\s+all|if\s+possible))*"
)


def wish(pattern: str) -> re.Pattern[str]:
    """A pattern for `fullmatch` that leaves room for what is put around it."""
    return re.compile(rf"{LEAD}(?:{pattern}){TAIL}", re.IGNORECASE)


def plain(text: str) -> str:
    """`text` in one line, without the marks around it, with straight apostrophes."""
    return " ".join(text.replace("\u2019", "'").split()).strip(" .!?,;")


FEWEST, FEWER, MORE, MOST = -2, -1, 1, 2

_STOPS = (
    r"(?:interruptions?|questions?|checkpoints?|prompts?|pauses?|stops?|confirmations?|menus?|babysitting|"
    r"hand[- ]?holding)"
)
_NOT = r"(?:do\s+not|don'?t|never|stop)"
_ASK = r"(?:interrupt|bother|disturb|pester|ask)(?:ing)?(?:\s+me)?"
_UNLESS = (
    r"(?:\s+(?:anything|any\s?more|again|unless\s+(?:you\s+(?:must|have\s+to|need\s+to)|(?:it'?s\s+)?necessary)))?"
)
_CAREFUL = r"(?:careful(?:ly)?|cautious(?:ly)?|thorough(?:ly)?|conservative(?:ly)?|strict(?:er|ly)?)"
_BRISK = (
    r"(?:faster|quicker|quickly|bold(?:er|ly)?|autonomous(?:ly)?|independent(?:ly)?|on\s+your\s+own|aggressive(?:ly)?)"
)
_FEWEST = (
    r"(?:minimal|minimum|as\s+few|(?:the\s+)?fewest(?:\s+possible)?|no|zero|almost\s+no|hardly\s+any|"
    r"without(?:\s+any)?)"
)

HINTS = tuple(
    (shift, wish("|".join(patterns)))
    for shift, patterns in (
        (
            FEWEST,
            (
                rf"{_FEWEST}\s+{_STOPS}(?:\s+as\s+possible)?",
                rf"(?:i\s+)?(?:do\s+not|don'?t)\s+want\s+(?:any\s+)?{_STOPS}",
                rf"(?:minimi[sz]e|avoid)\s+(?:the\s+|all\s+)?{_STOPS}",
                rf"keep\s+(?:the\s+)?{_STOPS}\s+(?:to\s+a\s+minimum|minimal|low|few)",
                rf"{_NOT}\s+{_ASK}{_UNLESS}",
                r"leave\s+me\s+alone|(?:be\s+)?fully\s+autonomous(?:ly)?|(?:go|run)\s+hands[- ]?(?:free|off)",
                r"only\s+ask\s+(?:me\s+)?(?:when|if)\s+(?:you\s+(?:must|have\s+to|need\s+to)|necessary)",
            ),
        ),
        (
            FEWER,
            (
                rf"(?:i\s+)?(?:do\s+not|don'?t)\s+want\s+(?:so|that|as)\s+many\s+{_STOPS}",
                rf"(?:fewer|less|not\s+(?:so|that|as)\s+many)\s+{_STOPS}",
                rf"{_NOT}\s+(?:{_ASK}|(?:stop|paus|check)(?:e|p?ing)?(?:\s+in)?(?:\s+with\s+me)?)\s+"
                r"(?:(?:so|as|that|too|all\s+the)\s+)?(?:often|much|many\s+(?:questions|times)|time)",
                r"(?:ask|interrupt|stop|pause|bother)\s+(?:me\s+)?less(?:\s+often|\s+frequently)?",
                rf"(?:be|go|work|run|move)\s+(?:a\s+bit\s+|much\s+|more\s+)?{_BRISK}",
                rf"(?:be\s+)?less\s+{_CAREFUL}|{_NOT}\s+be\s+(?:so|that|too)\s+{_CAREFUL}",
                r"(?:more|higher)\s+automation|automate\s+more|trust\s+yourself(?:\s+more)?",
            ),
        ),
        (
            MOST,
            (
                rf"(?:be|work)\s+(?:very|extra|extremely|especially|really|as)\s+{_CAREFUL}(?:\s+as\s+possible)?",
                r"(?:ask|check\s+in|check|stop|pause|confirm)(?:\s+with)?(?:\s+me)?\s+(?:before|after|at)\s+(?:each|every)"
                r"\s+step",
                rf"(?:the\s+)?(?:maximum|most|maximal)\s+{_STOPS}|as\s+many\s+{_STOPS}\s+as\s+possible",
                r"ask\s+me\s+(?:about\s+)?everything|double[- ]?check\s+everything",
            ),
        ),
        (
            MORE,
            (
                rf"(?:be|work|go)\s+(?:a\s+bit\s+)?(?:more\s+)?(?:{_CAREFUL}|slow(?:er|ly)?)",
                rf"(?:more|extra|additional)\s+(?:{_STOPS}|oversight|control|supervision)|(?:less|lower)\s+automation",
                r"(?:ask|check\s+in|stop|pause|interrupt|consult|involve)(?:\s+with)?(?:\s+me)?\s+more"
                r"(?:\s+often|\s+frequently)?|ask\s+(?:me\s+)?more\s+questions",
                r"slow\s+down|take\s+(?:it\s+slow(?:ly)?|your\s+time|more\s+care)|careful",
            ),
        ),
    )
)


def shift(text: str) -> int | None:
    """By how many levels these words shift care; None where they are no such wish."""
    said = plain(text)
    return next((by for by, pattern in HINTS if pattern.fullmatch(said)), None)


PROGRESS = "progress"
"""Where what was said about it is kept: in the overrides of a session or run."""
MODE_WORDS = {
    "quiet": SILENT,
    "none": SILENT,
    "detailed": VERBOSE,
    "summaries": SUMMARY,
    "stream": STREAMING,
    "live": STREAMING,
}
_WORDS = "|".join([*MODES, *MODE_WORDS])
_MODE = wish(
    rf"(?:set\s+)?(?:the\s+)?progress(?:\s+mode|\s+display)?\s*(?:[:=]|to|is)?\s*(?P<one>{_WORDS})|"
    rf"(?P<two>{_WORDS})\s+progress(?:\s+mode)?|(?:be\s+)?(?P<three>silent|verbose|quiet)(?:\s+mode)?"
)


def progress_mode(text: str) -> str | None:
    """The mode that a message asks for (`progress: silent`); None where it is about something else."""
    found = _MODE.fullmatch(" ".join(text.split()).strip(" .!,")) if len(text) <= 80 else None
    if found is None:
        return None
    word = (found["one"] or found["two"] or found["three"]).lower()
    return MODE_WORDS.get(word, word)
