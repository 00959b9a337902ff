"""Killing processes while they bring an old ledger up to a newer schema."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import interlock
from interlock.storage.sqlite import schema
from tests.crash.harness import ROOT, let_live

OPEN = """
import os, sys
sys.path.insert(0, sys.argv[4])
from interlock.clock import SystemClock
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.settings import Settings
from tests.crash.worker import kill_myself_at
point = int(sys.argv[3])
if point:
    kill_myself_at(point, after=point % 2 == 0)
root, team = os.path.split(sys.argv[2])
ledger = SqliteCatalog(root, Settings(), SystemClock(), sys.argv[1]).open(team)
"""
STEP = """
CREATE TABLE step_{0} (n INTEGER);
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) INSERT INTO step_{0} SELECT n FROM c;
"""
OLDEST = schema.VERSION
NEWEST = OLDEST + 4


def migrations(kills: int, seed: int, keep: bool = False) -> list[str]:
    """Kill `kills` processes on their way from our newest schema to one four steps on; what is wrong afterwards."""
    rng = Random(seed)
    directory = Path(tempfile.mkdtemp(prefix="interlock-crash-"))
    scripts = directory / "migrations"
    scripts.mkdir()
    for _, path in schema.migrations():
        shutil.copy(path, scripts)
    for number in range(OLDEST + 1, NEWEST + 1):
        (scripts / f"{number:03d}_step.sql").write_text(STEP.format(number))
    home = interlock.connect(str(directory / "home"))
    team = Path(home.create_team("old").directory)
    home.team("old").create_task("Still here")
    home.close()
    shutil.copytree(team, directory / "fresh")
    problems: list[str] = []
    for _ in range(kills):
        point = rng.randrange(1, 60) if rng.random() < 0.7 else 0
        command = [sys.executable, "-c", OPEN, str(scripts), str(team), str(point), str(ROOT)]
        processes = [subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src")}) for _ in range(2)]
        let_live(processes[0], rng.uniform(0.05, 0.3))
        for process in processes:
            process.send_signal(signal.SIGKILL)
            if process.wait() not in (0, -signal.SIGKILL):
                problems.append(f"a process ended by itself with {process.returncode}")
        reached = _examine(team / "ledger.db", problems)
        for backup in (team / "backups").glob("*.db"):
            before = int(backup.name.split("-")[2])
            if _examine(backup, problems) != before - 1:
                problems.append(f"{backup.name} holds another version")
        if reached == NEWEST:
            shutil.rmtree(team)
            shutil.copytree(directory / "fresh", team)
    if problems:
        problems.append(
            f"again: python -m tests.crash --migrations --kills {kills} --seed {seed}  (files: {directory})"
        )
    elif not keep:
        shutil.rmtree(directory)
    return problems


def _examine(path: Path, problems: list[str]) -> int:
    """The version of a ledger that must be whole."""
    connection = sqlite3.connect(path)
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            problems.append(f"{path} is damaged")
        if connection.execute("SELECT subject FROM tasks").fetchall() != [("Still here",)]:
            problems.append(f"{path} lost its task")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'step_%'")}
        if tables != {f"step_{number}" for number in range(OLDEST + 1, version + 1)}:
            problems.append(f"{path} has version {version} and {sorted(tables)}")
        for table in tables:
            if connection.execute(f"SELECT count(*) FROM {table}").fetchone() != (20_000,):
                problems.append(f"{table} is half-filled")
        told = connection.execute("SELECT count(*) FROM events WHERE type='ledger.migrated'").fetchone()[0]
        if told != version - OLDEST:
            problems.append(f"{path} has version {version} and {told} events of migrations")
        return version
    finally:
        connection.close()
