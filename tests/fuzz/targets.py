"""What reads texts that others wrote, called on bytes: anything but a refusal of ours is a fault.

`python -m tests.fuzz [MINUTES] [NAME...]` (`make fuzz`) drives it with atheris, guided by coverage; the storm of
`test_fuzz.py` with changes of the same seeds that need nothing installed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from interlock.app import analysis
from interlock.errors import InterlockError
from interlock.integrations import settings_text
from interlock.plan import reading
from interlock.protocol import message
from interlock.surfaces.web import patch
from interlock.workflow.package import files

ROOT = Path(__file__).resolve().parent.parent.parent
MEGABYTE = 1_000_000
SECONDS = 1.0
"""Of CPU time that a text of a megabyte may take; a shorter one half of it, so that a slow machine is no hang."""
ENTRY: settings_text.SettingsEntry = {
    "path": ["hooks", "Stop"], "value": {"hooks": [{"command": "interlock hook stop"}]}, "sign": "interlock hook",
}  # fmt: skip


def aof(text: str) -> None:
    """The reader of AOF/1 says what is wrong, and never raises."""
    for explicit in (False, True):
        message.parse(text, explicit=explicit)
    list(message.in_output(text))


def plan(text: str) -> None:
    """A plan is read or refused."""
    with suppress(InterlockError):
        reading.parse(text, "fuzz.yaml")


def menus(text: str) -> None:
    """A text ends in a menu or in none, whatever step it is said in."""
    analysis.menu(text)
    analysis.menu(text, text)


def frontmatter(text: str) -> None:
    """Settings are read, or have a fault with a line."""
    files.read(text)
    files.read(text, "workflow.yaml")


def jsonc(text: str) -> None:
    """What is put into settings can be taken out again, and leaves the text as it was."""
    try:
        written, entries, pieces = settings_text.insert(text, [ENTRY])
    except ValueError:
        return
    left = settings_text.take_out(written, entries, pieces)
    was = settings_text.scan(text).value if text.strip("\ufeff \t\r\n") else {}
    assert settings_text.scan(left).value == was, "taking out is not the reverse of putting in"


def diff(text: str) -> None:
    """Every patch is shown."""
    for file in patch.files_of(text):
        repr(file)


TARGETS: dict[str, Callable[[str], None]] = {
    "aof": aof, "plan": plan, "menus": menus, "frontmatter": frontmatter, "jsonc": jsonc, "diff": diff,
}  # fmt: skip
REPEATED = (
    "[", "{", '{"a":', "- ", "a:\n ", "&a *a ", "/*", "//", " ", "\n", "\t", "---\n", "[A] Advanced\n", "1. x\n",
    "**[C]**", "AOF/1 ", "@@ -1 +1 @@\n", "diff --git a/x b/x\n", "\\", '"', "`", "\N{ZERO WIDTH SPACE}", "é", "9", "#",
)  # fmt: skip
"""What is repeated for a text of a megabyte: what nests, and what begins something that never ends."""


def seeds(name: str) -> list[bytes]:
    """Texts of the repository of that kind."""
    where = {
        "plan": ("examples/**/*.yaml", "tests/**/*.yaml"),
        "diff": ("tests/mutants/*.patch",),
        "jsonc": ("plugins/**/*.json", "server.json"),
        "frontmatter": ("plugins/**/*.md", "tests/corpus/**/*.md", "tests/**/workflow.yaml"),
        "menus": ("tests/corpus/**/*.md", "docs/guides/*.md"),
    }
    found = [path.read_bytes() for glob in where.get(name, ()) for path in sorted(ROOT.glob(glob))]
    own = {
        "aof": [json.dumps({
            "protocol": "aof", "version": 1, "type": kind, "taskId": "TASK-2026-11-18-001", "fromAgent": "ada",
            "toAgent": "lead", "sentAt": "2026-11-18T00:00:00Z", "payload": {"outcome": "done", "notes": "so"},
        }) for kind in ("completion.report", "status.update", "handoff.request")],
        "plan": ["team: a\nmembers:\n  ada: {agent: claude}\ntasks:\n  one: {subject: One, verify: make, needs: []}\n"],
        "menus": ["What now?\n\n[A] Advanced Elicitation\n[P] Party Mode\n[C] Continue\n", "1. One\n2. Two\n\nChoose:"],
        "frontmatter": ["---\nname: a\ndescription: 'b'\nsteps: [1, {a: b}]\n---\n\nText\n"],
        "jsonc": ['{\n  // mine\n  "hooks": {"Stop": [1, 2,],},\n  /* so */ "a": [{}]\n}\n', "", "[]", '{"hooks": {}}'],
        "diff": ["diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n", "Binary files a/x and b/y"],
    }  # fmt: skip
    return [text.encode() for text in own[name]] + [text for text in found if len(text) < 50_000]


def changed(random: Random, known: list[bytes]) -> bytes:
    """One of the texts with a few changes."""
    text = bytearray(random.choice(known))
    for _ in range(random.randint(1, 6)):
        start = random.randint(0, len(text))
        end = min(len(text), start + random.choice([0, 1, 1, 4, 30]))
        other = random.choice(known)
        cut = random.randint(0, len(other))
        text[start:end] = random.choice([
            b"", bytes([random.randrange(256)]), random.choice(REPEATED).encode() * random.choice([1, 2, 200]),
            other[cut : cut + random.choice([1, 8, 80])], text[start:end] * 2, b"\xed\xa0\x80",
        ])  # fmt: skip
    return bytes(text)


def endless() -> Iterator[tuple[str, str]]:
    """Texts of a megabyte that ask for trouble, each with what it repeats, alone and behind a beginning."""
    for piece in REPEATED:
        text = piece * (MEGABYTE // len(piece.encode()))
        for before in ("", "---\n", "AOF/1 {", '{"a": '):
            yield f"{before}{piece}", before + text


def run(name: str, data: bytes) -> None:
    """Give a target a text.

    Raises:
        AssertionError: it took too long.
    """
    text = data.decode("utf-8", "replace")
    started = time.process_time()
    TARGETS[name](text)
    passed = time.process_time() - started
    assert passed <= SECONDS * max(1.0, len(data) / MEGABYTE), f"{name}: {passed:.1f} s for {len(data):,} bytes"
