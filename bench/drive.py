"""What `interlock run` asks of the ledger, and uses of the processor, for a trivial task of a plan.

Its command writes a file, its check looks for that. Counted in the process of the command itself; the floor of its time
is the same interpreter starting and ending.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from bench import homes
from bench.measure import Row, at_most, median
from scripts.metrics import TRACED

ROUNDS = 5
PLAN = """\
team: bench
isolation: {isolation}
members:
  sh: {{agent: shell}}
tasks:
"""
TASK = "  t{n}: {{subject: Write it, run: echo hello > made{n}.txt, verify: test -f made{n}.txt}}\n"
MORE = 20
"""How many tasks a longer plan has beyond the first."""
COUNTED = f"""
{TRACED}
import resource
from interlock.gitwork.git import Git
gits, git = [], Git._run
def counted(self, *about):
    gits.append(about)
    return git(self, *about)
Git._run = counted
def told():
    used = resource.getrusage(resource.RUSAGE_SELF)
    begun = [one for one in asked if one.startswith("BEGIN")]
    print(begun.count("BEGIN"), len(asked), used.ru_utime + used.ru_stime, len(gits), file=sys.stderr)
from interlock.surfaces.cli.entry import run
try:
    code = run(["run", "plan.yaml"])
except SystemExit as ended:
    code = ended.code
told()
sys.exit(code)
"""


def run() -> list[Row]:
    """Looks, statements and seconds, without worktrees and with them."""
    bare = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        bare.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    rows = []
    for isolation, where in (("none", "in place"), ("worktree", "in a worktree")):
        counted = [one_run(isolation) for _ in range(ROUNDS)]
        looks, statements, seconds, gits = (median(list(column)) for column in zip(*counted, strict=True))
        goals = (at_most(25), at_most(250)) if isolation == "none" else ()
        rows += [
            Row(f"one task {where}: looks at the ledger", looks, None, goals[:1], ""),
            Row(f"one task {where}: statements", statements, None, goals[1:], ""),
            Row(f"one task {where}: processor, start included", seconds * 1000, median(bare) * 1000),
        ]
        longer = median([one_run(isolation, 1 + MORE)[2] for _ in range(ROUNDS)])
        each = (longer - seconds) / MORE * 1000
        rows.append(Row(f"each more task {where}: processor", each, None, (at_most(250),)))
        if isolation == "worktree":
            rows.append(Row(f"one task {where}: calls of git", gits, None, (), ""))
    return rows


def one_run(isolation: str, count: int = 1) -> tuple[float, ...]:
    """Read snapshots, statements, seconds of the processor and calls of git of one whole run."""
    with homes.directory() as place:
        project = place / "project"
        project.mkdir()
        (project / "plan.yaml").write_text(
            PLAN.format(isolation=isolation) + "".join(TASK.format(n=n) for n in range(count))
        )
        for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
            subprocess.run(
                ["git", "-c", "user.name=b", "-c", "user.email=b@localhost", *arguments], cwd=project, check=True
            )
        environment = {**os.environ, "INTERLOCK_HOME": str(place / "home"), "PYTHONPATH": os.pathsep.join(sys.path)}
        environment |= {
            f"GIT_{who}_{what}": "b@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        # Its tables are made once in the life of a team, and are no part of a task.
        made = [sys.executable, "-m", "interlock.surfaces.cli", "team", "create", "bench"]
        subprocess.run(made, cwd=project, env=environment, capture_output=True, check=True)
        ran = subprocess.run(
            [sys.executable, "-c", COUNTED], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert (project / "made0.txt").exists() == (isolation == "none"), "its command ran elsewhere"
        return tuple(float(one) for one in ran.stderr.splitlines()[-1].split())
