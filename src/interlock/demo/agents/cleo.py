"""cleo, an agent program: takes a task's text on standard input and writes CHANGELOG.md from HISTORY.txt.

At first she is in a hurry: she writes what was added, leaves out what was fixed, and says that she is done. Told what
a check found, she does all of it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

HISTORY = Path("HISTORY.txt")
CHANGELOG = Path("CHANGELOG.md")
FINDINGS = "## Findings of the last check"
SECTIONS = {"feat": "Added", "fix": "Fixed"}


def say(text: str) -> None:
    print(f"[cleo] {text}", flush=True)


def history() -> tuple[str, dict[str, list[str]]]:
    """The coming version, and its commits by kind: `<id>  <date>  <kind>: <what>`."""
    lines = HISTORY.read_text(encoding="utf-8").splitlines()
    commits: dict[str, list[str]] = {}
    for line in lines[1:]:
        words = line.split(maxsplit=2)
        if len(words) == 3 and ": " in words[2]:
            kind, what = words[2].split(": ", 1)
            commits.setdefault(kind, []).append(what)
    return lines[0].split()[1].rstrip(","), commits


def write(version: str, commits: dict[str, list[str]], kinds: list[str]) -> None:
    parts = [f"# Changelog\n\n## {version}\n"]
    for kind in kinds:
        entries = "".join(f"- {what[0].upper()}{what[1:]}\n" for what in commits.get(kind, []))
        parts.append(f"\n### {SECTIONS[kind]}\n\n{entries}")
    CHANGELOG.write_text("".join(parts), encoding="utf-8")


def main() -> None:
    prompt = sys.stdin.read().strip()
    say(f"my task: {prompt.splitlines()[0] if prompt else 'none given'}")
    version, commits = history()
    time.sleep(0.5)
    if FINDINGS not in prompt:
        write(version, commits, ["feat"])
        say("done. CHANGELOG.md is complete.")
        return
    findings = [line.strip() for line in prompt.split(FINDINGS, 1)[1].splitlines() if line.strip()]
    say("so it was not complete. The check says:")
    for line in findings[:10]:
        say(f"  {line}")
    write(version, commits, list(SECTIONS))
    count = sum(len(commits.get(kind, [])) for kind in SECTIONS)
    say(f"wrote all {count} entries of {version} to CHANGELOG.md")


if __name__ == "__main__":
    main()
