"""Words that end a Party Mode session: literal, as whole words, in any case (BMAD-FR21d, decision 33).

The asterisk of `*exit` is an asterisk, and `quit` is not in "quite". Upstream says only that a message "contains" one.
"""

from __future__ import annotations

EXIT_WORDS = ("*exit", "goodbye", "end party", "quit")


def exit_word(message: str) -> str | None:
    """The exit word that `message` contains, or None."""
    lowered = message.lower()
    for word in EXIT_WORDS:
        start = lowered.find(word)
        while start >= 0:
            if _bounded(lowered, start, start + len(word)):
                return word
            start = lowered.find(word, start + 1)
    return None


def _bounded(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    return not _in_word(before) and not _in_word(after)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
