"""Several servers on one database, each on a machine of its own: one that does not have what a team works in leaves its
tasks to the others."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

import interlock
from interlock.app.team import Team
from tests.behaviours.driving import SHELL, Runner
from tests.behaviours.repository import Repository
from tests.network import apart
from tests.postgres import on_postgres
from tests.surfaces.http.harness import Server
from tests.waiting import until

pytestmark = pytest.mark.long


class Machines:
    """Two: this one, whose `work` the team works in, and `other`, which has something else in that place."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path, self.work = path, path / "work"
        self.repository = Repository(self.work)
        on_postgres(path / "home")
        (path / "other").mkdir(mode=0o700)
        shutil.copy(path / "home" / "settings.json", path / "other")
        self._stack = stack

    def stage(self, tasks: dict[str, Any], **more: Any) -> Team:
        """A team with that plan."""
        plan = {"team": "crew", "workdir": str(self.work), "members": {"ada": SHELL}, "tasks": tasks, **more}
        (self.path / "plan.yaml").write_text(yaml.safe_dump(plan))
        home = self._stack.enter_context(interlock.connect(str(self.path / "home")))
        home.stage(str(self.path / "plan.yaml"))
        return home.team("crew")

    def here(self) -> Server:
        return self._server(Server(self.path / "home"))

    def other(self, work: Path) -> Server:
        """A server on the other machine, where `work` lies in the place of this one's."""
        return self._server(Server(self.path / "other", within=apart("elsewhere", {self.work: work})))

    def worker(self, name: str, server: Server) -> Runner:
        token = server.tokens.create(name, role="machine", team="crew")[1]
        runner = Runner(str(self.path / name), {"server": server.url, "token": token, "name": name, "labels": ["far"]})
        self._stack.callback(runner.end)
        return runner

    def _server(self, server: Server) -> Server:
        self._stack.callback(server.close)
        return server


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with ExitStack() as stack:
        yield Machines(tmp_path, stack)


def nothing(path: Path, work: Path) -> None:
    path.mkdir()


def a_clone(path: Path, work: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", str(work), str(path)], check=True)


@pytest.mark.parametrize("lies_there", [nothing, a_clone])
def test_a_server_without_the_repository_of_a_team_offers_none_of_its_tasks(
    machines: Machines, lies_there: Callable[[Path, Path], None]
) -> None:
    team = machines.stage({"one": {"run": "echo made > made", "labels": ["far"]}}, isolation="worktree")
    first = machines.here()
    until(lambda: "interlock/crew" in machines.repository.branches())
    lies_there(machines.path / "there", machines.work)
    second = machines.other(machines.path / "there")
    far = machines.worker("far", second)
    assert far.hears("the home can offer no run")
    (task,) = team.tasks()
    assert (task.state, task.failures, team.runs("one")) == ("ready", 0, [])
    machines.worker("near", first)
    until(lambda: team.task("one").state == "done")
    assert machines.repository.show("interlock/crew", "made") == "made"
    team.set_worker("far", "draining")
    assert far.wait() == 0
    assert "team crew is skipped" in second.close()


def test_no_second_machine_works_for_a_team_without_worktrees(machines: Machines) -> None:
    tasks = {f"t{n}": {"run": "hostname >> hosts", **({"blocked_by": [f"t{n - 1}"]} if n else {})} for n in range(8)}
    team = machines.stage({"first": {"run": "true"}}, isolation="none")
    machines.here()
    until(lambda: team.task("first").state == "done")
    nothing(machines.path / "there", machines.work)
    second = machines.other(machines.path / "there")
    machines.stage({"first": {"run": "true"}, **tasks}, isolation="none")
    until(lambda: team.task("t7").state == "done")
    assert len((machines.work / "hosts").read_text().split()) == 8
    assert "without worktrees" in second.close()
