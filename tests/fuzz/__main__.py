"""`python -m tests.fuzz [MINUTES] [NAME...]`: look for texts that crash or hang what reads them, guided by coverage.

Each target gets so many minutes (default 1). What was found stays in `.fuzz/NAME/`, with the corpus.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LONGEST = 4096


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris  # type: ignore[import-not-found,unused-ignore]

    with atheris.instrument_imports(include=["interlock"]):
        from tests.fuzz.targets import ROOT, run, seeds
    place = Path(ROOT, ".fuzz", name)
    (place / "corpus").mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (place / "corpus" / f"seed-{number}").write_bytes(seed[:LONGEST])
    bounds = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=10", "-rss_limit_mb=2048"]
    places = [f"-artifact_prefix={place}/", str(place / "corpus")]
    atheris.Setup(["fuzz", *bounds, "-print_final_stats=1", *places], lambda data: run(name, data))
    atheris.Fuzz()


def main(given: list[str]) -> int:
    """1 where something was found."""
    if given[:1] == ["--one"]:
        fuzz(given[1], int(given[2]))
    from tests.fuzz.targets import ROOT, TARGETS

    minutes = float(given.pop(0)) if given and given[0].replace(".", "", 1).isdigit() else 1.0
    failed = 0
    for name in given or TARGETS:
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", "--one", name, str(round(minutes * 60))],
            cwd=ROOT, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        failed += done.returncode != 0
        runs = [line for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        print(f"{name}: {'nothing found' if not done.returncode else 'FOUND'} {' '.join(runs)}", flush=True)
        if done.returncode:
            print("\n".join((done.stdout + done.stderr).splitlines()[-40:]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
