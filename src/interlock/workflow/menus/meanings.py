"""What an option means, read from its label: letters mean nothing by themselves (decision 29).

`[C]` is Continue in most menus, and Exit, Manual Review, Clarify or Create in others of the same package.
"""

from __future__ import annotations

import re
from functools import lru_cache

CONTINUE, WAY_ON, ELICITATION, PARTY, EXIT = "continue", "way_on", "elicitation", "party", "exit"
DESTRUCTIVE, ACCEPT, FIX, RETRY, EDIT, HELP = "destructive", "accept", "fix", "retry", "edit", "help"
YES, NO, OTHER = "yes", "no", "other"

WAYS_ON = frozenset({CONTINUE, WAY_ON})
RISKY = frozenset({DESTRUCTIVE, ACCEPT, EXIT})

# Looked for in the whole label: wherever it says so, the option destroys something.
DESTROYS = re.compile(
    r"\b(?:overwrit\w+|delet\w+|discard\w*|eras\w+|start (?:over|fresh)|remove\b|reset\b|force|wipe|drop)\b", re.I
)
# Looked for at the beginning, before any explanation. The first that fits counts.
HEADS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (meaning, re.compile(pattern, re.IGNORECASE))
    for meaning, pattern in (
        (EXIT, r"^(?:exit|quit|cancel|dismiss|leave|abort|stop|end)\b"),
        (PARTY, r"\bparty[ -]?mode\b"),
        (ELICITATION, r"\belicitation\b"),
        (DESTRUCTIVE, r"^(?:apply|archive|replace|move to archive|update meta|publish|deploy|push|merge|commit)\b"),
        (ACCEPT, r"^(?:accept|ignore|skip|waive|acknowledge)\b|\b(?:anyway|as[- ]is)\b"),
        (FIX, r"^(?:fix|resolve|address|repair|mend)\b"),
        (RETRY, r"^(?:retry|re-?run|reshuffle|try again|repeat)\b"),
        (EDIT, r"^(?:edit|modify|adjust|make adjustments|manual|clarify|revise|change|refine|launch edit)\b"),
        (HELP, r"^(?:get help|help|explain|list all|show|view|more|overview)\b"),
        (CONTINUE, r"^(?:yes,? )?(?:continue|proceed|next|go on|weiter)\b"),
        (
            WAY_ON,
            r"^(?:yes,|complete|finish|finali[sz]e|done|begin|start|save|approve|confirm|looks good|ready|execute"
            r"|resume|implement)",
        ),
        (YES, r"^(?:yes|y|ok|okay|sure)$"),
        (NO, r"^(?:no|n)\b"),
    )
)


@lru_cache(1000)
def meaning(label: str) -> str:
    """What that label means, one of the names above."""
    if DESTROYS.search(label):
        return DESTRUCTIVE
    if re.search(r"\bnot recommended\b", label, re.IGNORECASE):
        return OTHER
    beginning = head(label)
    return next((name for name, pattern in HEADS if pattern.search(beginning)), OTHER)


def head(label: str) -> str:
    """The name of an option, without the explanation that follows a dash, a colon or a bracket."""
    return re.split(r"\s[-–—]\s|:\s|\s\(", label, maxsplit=1)[0].strip(" *_\"'.")
