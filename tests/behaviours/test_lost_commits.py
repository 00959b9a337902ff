"""Of any commit of a runner nobody may be able to tell whether it was made: no work is lost, counted or told twice."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.scripted import Say
from interlock.agents.session import Opening, Update
from interlock.errors import StorageError
from interlock.runner import completion, team_runner
from interlock.storage import away
from interlock.storage.ledger import Rows
from interlock.storage.sqlite.ledger import SqliteLedger
from tests.behaviours.driving import SHELL, Place
from tests.behaviours.lasting import play
from tests.behaviours.repository import Repository

SPENT = {"turns": 1, "input_tokens": 1000, "output_tokens": 200, "cost_usd": 0.5}


class Undone(Exception):
    """A commit that is not made."""


class Commits:
    """Counts the commits of all ledgers; that of the number `lost` gets no answer, whether or not it was `made`, and
    its ledger can be opened again at the third try only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lost: int, made: bool) -> None:
        self.count = self.away = 0
        self.events: list[str] = []
        """The types of what the lost commit has written."""
        transaction, recover = SqliteLedger.transaction, SqliteLedger._recover
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC

        @contextmanager
        def losing(ledger: SqliteLedger, *entering: Any) -> Iterator[Rows]:
            here = False
            with suppress(Undone), transaction(ledger, *entering) as rows:
                yield rows
                self.count += 1
                here = self.count == lost
                self.events = [one[1] for one in rows.events.written] if here else self.events
                if here and not made:
                    raise Undone
            if here:
                self.away = 2
                ledger._unknown = True
                ledger._settle(rows.events.last, error)  # type: ignore[attr-defined]

        def opened(ledger: SqliteLedger, *event: Any) -> bool | None:
            if self.away:
                self.away -= 1
                raise StorageError("The disk still fails.", away=True)
            return recover(ledger, *event)

        monkeypatch.setattr(SqliteLedger, "transaction", losing)
        monkeypatch.setattr(SqliteLedger, "_recover", opened)
        monkeypatch.setattr(away, "LOOK_AGAIN", 0.0)
        monkeypatch.setattr(completion, "FIRST_PAUSE", 0.05)
        monkeypatch.setattr(team_runner, "LOOK_AGAIN", 0.2)


def night(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, lost: int, made: bool) -> Commits:
    """A little night, of an agent or of commands, in which that commit is lost; what is wrong with it is an error."""
    place = Place(path)
    Repository(place.work)

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        say.update(Update("usage", "", SPENT))
        Path(opening.workdir, "made").write_text(prompt)
        return '{"status": "COMPLETE", "output": "It is made."}'

    agent = kind == "agent"
    members: dict[str, Any] = play(place, {"bob": bob}) if agent else {"ada": SHELL}
    work = {} if agent else {"run": "date +%N > made"}
    place.stage({"one": {"subject": "One", "verify": "test -s made", **work}}, members, isolation="worktree")
    commits = Commits(monkeypatch, lost, made)
    ended = place.drive()
    task = place.task("one")
    # What has written no event cannot be looked up, and what was not made is done again: by another run or merge.
    again = () if commits.events and made else ("task.transitioned", "merge.started")
    events = [one for one in place.team.events()[0] if one.type not in again]
    told = Counter((one.type, one.task_id, str(one.payload)) for one in events)
    doubled = {what: times for what, times in told.items() if times > 1}
    where = f"commit {lost} ({commits.events}), made: {made}\n{place.said}"
    assert (ended, task.state, task.failures) == ("finished", "done", 0), where
    assert not agent or place.team.status().spent["cost_usd"] == SPENT["cost_usd"], where
    assert task.run == 1 or not commits.events, where
    assert not doubled, f"{doubled}\n{where}"
    place.home.close()
    return commits


@pytest.mark.long
@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize(
    ("kind", "lost"), [*(("agent", lost) for lost in range(3, 18)), *(("commands", lost) for lost in range(3, 14))]
)
def test_a_commit_that_got_no_answer_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, lost: int, made: bool
) -> None:
    commits = night(tmp_path, monkeypatch, kind, lost, made)
    assert commits.count >= lost, "there are so many"


AMONG_OTHERS = """
import subprocess, sys
from interlock.processes import ref
from interlock.runner.run_processes import end_programs

token = "0123456789abcdef0123456789abcdef"
beside = subprocess.Popen(["sleep", "100"])
ours = subprocess.Popen(["sleep", "100"], env={"INTERLOCK_RUN_TOKEN": token})
gone = end_programs(ref.current().with_token(token).as_text(), 0.1)
print(gone, beside.poll(), ours.wait())
beside.kill()
"""


def test_who_ends_what_an_earlier_try_of_its_own_left_ends_nothing_beside_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AMONG_OTHERS], start_new_session=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "True None -15\n", done
