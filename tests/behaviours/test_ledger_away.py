"""A ledger that is away while agents work: its server is stopped, or its disk full."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.core.waiting import in_thread
from interlock.errors import CommitUnknown, InterlockError, StorageError
from interlock.storage import away as patience
from tests.behaviours.driving import SHELL, Place, Runner, running
from tests.behaviours.repository import Repository
from tests.postgres import Breakable
from tests.waiting import until


@pytest.fixture
def database() -> Iterator[Breakable]:
    made = Breakable()
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path, database: Breakable) -> Iterator[Place]:
    """A home whose ledgers are on a server that can be stopped."""
    (tmp_path / "home").mkdir(mode=0o700)
    settings = tmp_path / "home" / "settings.json"
    settings.touch(0o600)
    settings.write_text(json.dumps({"ledger": database.url, "busy_timeout": 0.5}))
    place = Place(tmp_path)
    yield place
    place.home.close()


def waits_for(place: Place, name: str) -> str:
    """A command that goes on until that file is there."""
    begins = f"echo $$ >> {place.path}/pids"
    return f"{begins}; while [ ! -e {place.path}/{name} ]; do sleep 0.05; done; echo {name} > {name}"


def alive(place: Place) -> int:
    """How many of these commands run."""
    file = place.path / "pids"
    return sum(running(int(pid)) for pid in file.read_text().split()) if file.exists() else 0


@contextmanager
def at_work(place: Place, *names: str, **options: Any) -> Iterator[Runner]:
    """A runner whose members are at the tasks `names`, each until a file of that name is there."""
    tasks: dict[str, Any] = {name: {"run": waits_for(place, name), "verify": f"test -s {name}"} for name in names}
    tasks["after"] = {"run": "echo after > after", "blocked_by": list(names)}
    place.stage(tasks, {f"m{number}": SHELL for number in range(len(names))}, isolation="worktree")
    with place.runner(**options) as runner:
        until(lambda: alive(place) == len(names))
        yield runner


@pytest.mark.long
def test_agents_work_on_and_what_they_did_counts_once_the_ledger_is_back(place: Place, database: Breakable) -> None:
    repository = Repository(place.work)
    with at_work(place, "short", "lasting", parallel=2) as runner:
        with database.down():
            assert runner.hears("notice The ledger at .* could not be reached")
            (place.path / "short").touch()
            until(lambda: alive(place) == 1)
        assert runner.hears("the ledger is there again")
        (place.path / "lasting").touch()
        assert runner.hears("ended: finished")
    assert place.states() == {"short": "done", "lasting": "done", "after": "done"}
    for name in ("short", "lasting"):
        task = place.task(name)
        assert (task.run, task.failures, task.rounds) == (1, 0, 0), "nothing was done again"
        assert repository.show("interlock/crew", name) == name


@pytest.mark.long
def test_who_is_told_to_stop_does_not_wait_for_the_ledger(place: Place, database: Breakable) -> None:
    Repository(place.work)
    with at_work(place, "one") as runner, database.down():
        assert runner.hears("notice The ledger at .* could not be reached")
        runner.send(signal.SIGTERM)
        assert runner.wait() != 0
        assert not alive(place)
    (place.path / "one").touch()
    assert place.drive() == "finished"
    task = place.task("one")
    assert (task.state, task.run, task.failures) == ("done", 2, 0)


class Away:
    """A verb that meets these errors first."""

    def __init__(self, *errors: InterlockError) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def outcome(verb: Callable[[], str], **how: Any) -> str:
    try:
        return anyio.run(lambda: in_thread(verb, **how))
    except InterlockError as error:
        return error.message


def test_a_result_is_kept_until_the_ledger_is_back(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "LOOK_AGAIN", 0.0)
    away, unknown = StorageError("away", away=True), CommitUnknown("unknown")
    assert outcome(Away(away)) == "away", "only a runner waits"
    told = patience.goes_on.set(lambda: True)
    request.addfinalizer(lambda: patience.goes_on.reset(told))
    assert outcome(Away(away, away)) == "done"
    assert outcome(Away(away), on_away=lambda error: False) == "away"
    assert outcome(Away(unknown)) == "unknown", "it may have been done"
    assert outcome(Away(unknown, away), repeatable=True) == "done"
    assert outcome(Away(StorageError("refused"))) == "refused", "what does not pass is said at once"
    monkeypatch.setattr(patience, "AWAY_SECONDS", -1.0)
    assert outcome(Away(away)) == "away"
