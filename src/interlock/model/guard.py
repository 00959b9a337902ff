"""The guard: what leaves a run that cannot go on always carries exactly one question that somebody can answer.

Pure functions from text to text; `tasks.transition.move` applies them, so that no face and no protocol message can go
round them (decisions 22 and 23; INV-1, INV-2 and INV-6 of `blocked-output.md`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

FALLBACKS: dict[str, str] = {
    "implementation": "このタスクを実行するために、以下の情報を教えてください:\n1. 変更対象のファイル\n2. 期待する動作",
    "timeout": "タスクがタイムアウトしました。続行しますか？ (YES/NO)",
    "interactive": "対話的な確認が必要です。続行を許可しますか？ (YES/NO)",
    "default": "YES/NO: このタスクはコード変更を許可しますか？\n(Do you permit code changes for this task?)",
}
"""The questions that stand in where an agent asked none, to the letter of the specification."""

CAUSES = ("timeout", "interactive")
"""Why a run may say that it could not go on; each has a fallback of its own."""

YES_NO = ("YES", "NO")

QUESTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "en": {
        "implementation": (
            "{who} is blocked: {reason} What should it do?",
            "{who} cannot continue: which files should it change, and what should they do then?",
        ),
        "timeout": (
            "{who} ran out of time: {reason} Should it continue? (YES/NO)",
            "{who} ran out of time. Should it continue? (YES/NO)",
        ),
        "interactive": (
            "{who} needs a confirmation: {reason} May it continue? (YES/NO)",
            "{who} needs a confirmation. May it continue? (YES/NO)",
        ),
        "default": (
            "{who} is blocked: {reason} What should it do?",
            "{who} is blocked and gave no reason. Do you permit code changes for this task? (YES/NO)",
        ),
    },
    "ja": {
        "implementation": (
            "{who}は停止しています: {reason} どうすればよいですか？",
            "{who}は先に進めません。変更対象のファイルと期待する動作を教えてください。",
        ),
        "timeout": (
            "{who}がタイムアウトしました: {reason} 続行しますか？ (YES/NO)",
            "{who}がタイムアウトしました。続行しますか？ (YES/NO)",
        ),
        "interactive": (
            "{who}には確認が必要です: {reason} 続行を許可しますか？ (YES/NO)",
            "{who}には確認が必要です。続行を許可しますか？ (YES/NO)",
        ),
        "default": (
            "{who}は停止しています: {reason} どうすればよいですか？",
            "{who}は理由を示さずに停止しました。このタスクはコード変更を許可しますか？ (YES/NO)",
        ),
    },
}
"""What people are asked in the place of a fallback, by language: with the reason that the agent gave, and without."""

SOMEBODY = {"en": "The task", "ja": "タスク"}
REASON_CHARS = 300

# Patterns as text: `re` compiles each when it is first used, which most commands never do.
_FENCE = r"(?ms)^(```|~~~).*?(^\1|\Z)"
_MARKER = r"(?:[-*•>]|\(?[0-9A-Za-z]{1,2}[.)]|\[[0-9A-Za-z]{1,2}\])[ \t]+"
# A sentence ends with its mark before a space, unless a small letter goes on ("e.g. this"), or with a full-width mark.
_SENTENCE_END = (
    r"(?<!\?)\?++[\"'”’»)*_`]*+(?=\s)|(?<![.!])[.!]++[\"'”’»)*_`]*+(?=[ \t]++[^a-z\s])"
    r"|(?<![。！？])[。！？]++[」』）\"'”’»)*_`]*"
)
_ASKS = r"[?？][\"'”’»*_`)」』）]*\Z"
_ASIDE = r"\A[ \t]*[(（][^()（）\n]*[)）][ \t]*\Z"
_LIST = rf"\n(?:[ \t]*\n)?(?:[ \t]*{_MARKER}[^\n]*(?:\n|\Z)){{1,100}}"


class Asked(NamedTuple):
    """What stands in `output` of a task that waits: the text, which ends with `question` and holds no other.

    `context` is the raw text where anything else was asked in it, or said after the question.
    """

    output: str
    question: str
    context: str | None


def fallback(type: str | None, cause: str | None) -> str:
    """The question for a run that asked none: by its task's type, else by what stopped it, else the general one."""
    if type == "IMPLEMENTATION":
        return FALLBACKS["implementation"]
    return FALLBACKS[cause if cause in CAUSES else "default"]


def one_question(text: str | None, *, type: str | None = None, cause: str | None = None) -> Asked:
    """`text` as the output of a task that waits for a person.

    Its last question is the one that is asked: what comes before leads up to it. A list that follows at once belongs to
    it. Without a question the text keeps standing, with the fallback after it.
    """
    raw = (text or "").strip()
    for known in FALLBACKS.values():
        if raw.endswith(known):
            before, others = _without_questions(raw[: -len(known)].rstrip())
            return Asked(_joined(before, known), known, raw if others else None)
    found = _questions(raw)
    if not found:
        stand_in = fallback(type, cause)
        return Asked(_joined(raw, stand_in), stand_in, None)
    start, end = found[-1]
    question = re.sub(rf"\A{_MARKER}", "", raw[start:end].strip())
    if len(found) == 1 and end >= len(raw):
        return Asked(raw, question, None)
    before, _ = _without_questions(raw[:start])
    return Asked(_joined(before, question), question, raw)


def stand_in(asked: Asked, who: str | None, language: str) -> tuple[str, list[str]] | None:
    """What people read and choose from where `asked` ends with a fallback, in their language and with the reason first
    (decision 44); null where the agent asked itself. `who` stopped; null where nobody in particular did."""
    key = next((key for key, known in FALLBACKS.items() if known == asked.question), None)
    if key is None:
        return None
    reason = " ".join(asked.output[: -len(asked.question)].split())
    if len(reason) > REASON_CHARS:
        reason = reason[: REASON_CHARS - 1] + "…"
    if reason and reason[-1] not in ".!?…。！？":
        reason += "。" if language == "ja" else "."
    template = QUESTIONS[language][key][0 if reason else 1]
    text = template.format(who=who or SOMEBODY[language], reason=reason)
    return text, list(YES_NO) if "YES/NO" in template else []


def leading_to(output: str | None, question: str) -> str:
    """What the output of a task says before its question and the question does not say itself."""
    said = (output or "").strip()
    end = next((known for known in (question, *FALLBACKS.values()) if said.endswith(known)), None)
    before = "" if end is None else said[: -len(end)].strip()
    return "" if before in question else before


def explicit(text: str) -> Asked:
    """`text` that somebody asks as a question, with or without a question mark; of several the last is asked."""
    raw = text.strip()
    return one_question(raw) if len(_questions(raw)) > 1 else Asked(raw, raw, None)


def options_of(question: str) -> list[str]:
    """What a question offers to choose from, where that can be told: yes and no, or the list that it ends with."""
    if "YES/NO" in question:
        return list(YES_NO)
    lines = [line.strip() for line in question.splitlines()[1:]]
    found = [re.sub(rf"\A{_MARKER}", "", line) for line in lines if re.match(_MARKER, line)]
    return found if len(found) > 1 and question not in FALLBACKS.values() else []


def _questions(text: str) -> list[tuple[int, int]]:
    """(start, end) of every question in the text; what stands in code asks nobody."""
    hidden = re.sub(_FENCE, lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    found: list[tuple[int, int]] = []
    for line in re.finditer(r"[^\n]+", hidden):
        at = line.start()
        whole = line.group().lstrip().startswith("YES/NO:")
        for sentence in [line.group()] if whole else _sentences(line.group()):
            start, end = at, at + len(sentence)
            at = end
            aside = re.match(_ASIDE, sentence) and found and not hidden[found[-1][1] : start].strip()
            if aside:  # The same question again, in another language or as its choices.
                found[-1] = (found[-1][0], end)
            elif whole or re.search(_ASKS, sentence.rstrip()):
                found.append((start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip())))
    return [(start, _with_list(text, hidden, start, end)) for start, end in found]


def _sentences(line: str) -> list[str]:
    ends = [match.end() for match in re.finditer(_SENTENCE_END, line)]
    return [line[start:end] for start, end in zip([0, *ends], [*ends, len(line)], strict=True) if line[start:end]]


def _with_list(text: str, hidden: str, start: int, end: int) -> int:
    """The end of the question with the list of choices that follows at once, where none of them asks again."""
    listed = re.compile(_LIST).match(hidden, end)
    if listed is None or any(re.search(_ASKS, line.rstrip()) for line in listed.group().splitlines()):
        return end
    return len(text[: listed.end()].rstrip())


def _without_questions(text: str) -> tuple[str, bool]:
    """The text without its questions, and whether there were any."""
    found = _questions(text)
    if not found:
        return text.strip(), False
    edges = [0, *(place for question in found for place in question), len(text)]
    kept = "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    left = [line.rstrip() for line in kept.split("\n") if not re.fullmatch(rf"\s*{_MARKER}\s*", line + " ")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(left)).strip(), True


def _joined(before: str, question: str) -> str:
    before = before.strip()
    return f"{before}\n\n{question}" if before else question
