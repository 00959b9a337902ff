"""What people put around a wish without changing it: "could you please … from now on"."""

from __future__ import annotations

import re

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
