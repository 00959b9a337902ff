"""Checks that CHANGELOG.md names the coming version and every `feat:` and `fix:` of HISTORY.txt."""

import sys
from pathlib import Path


def main() -> int:
    """Say what is missing; the exit code says whether anything is."""
    path = Path("CHANGELOG.md")
    if not path.exists():
        print("there is no CHANGELOG.md")
        return 1
    changelog = path.read_text(encoding="utf-8").lower()
    history = Path("HISTORY.txt").read_text(encoding="utf-8").splitlines()
    version = history[0].split()[1].rstrip(",")
    wanted = [line.split(maxsplit=2)[2] for line in history[1:] if "feat: " in line or "fix: " in line]
    missing = [entry for entry in wanted if entry.split(": ", 1)[1].lower() not in changelog]
    if f"## {version}" not in changelog:
        missing.insert(0, f"a heading for {version}")
    for entry in missing:
        print(f"missing: {entry}")
    print(f"{len(wanted)} entries wanted, {len(missing)} things missing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
