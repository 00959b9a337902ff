"""A home whose ledgers are not kept in the directories of its teams."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.home import Home
from interlock.clock import SystemClock
from interlock.errors import TeamNotFound
from interlock.settings import Settings
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.wakeup.inprocess import InProcessNotifier


def test_nothing_but_the_catalog_knows_where_ledgers_are(tmp_path: Path) -> None:
    settings, clock = Settings({}), SystemClock()
    catalog = SqliteCatalog(str(tmp_path / "ledgers"), settings, clock)
    home = Home(str(tmp_path / "home"), settings, clock, catalog, InProcessNotifier(), lambda member: None)  # type: ignore[arg-type, return-value]
    team = home.create_team("alpha")
    team.spawn("bob")
    task = team.create_task("Write it")
    team.claim(task.id, by="bob")
    files = tmp_path / "home" / "teams" / "alpha"
    assert not list(files.glob("ledger.db*"))
    assert [path.parent.name for path in files.glob("tasks/*/*.md")] == ["in-progress"]
    assert home.teams() == ["alpha"]
    home.delete_team("alpha", force=True)
    assert home.teams() == [] and not files.exists()
    with pytest.raises(TeamNotFound):
        home.team("alpha")
    home.close()
