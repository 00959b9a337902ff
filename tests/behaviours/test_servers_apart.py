"""Several servers on one database: one on a machine that does not have what a team works in leaves its tasks to the
others; and behind one proxy, whichever of them is asked, it is as if there were one."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

import interlock
from interlock.app.team import Team
from interlock.model.event import Event
from tests.behaviours.driving import SHELL, Runner
from tests.behaviours.repository import Repository
from tests.network import NGINX, Nginx, apart
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

    def here(self, home: str = "home", **settings: str) -> Server:
        return self._server(Server(self.path / home, environment=settings))

    def other(self, work: Path) -> Server:
        """A server on the other machine, where `work` lies in the place of this one's."""
        return self._server(Server(self.path / "other", within=apart("elsewhere", {self.work: work})))

    def worker(self, name: str, server: Server, url: str = "") -> Runner:
        token = server.tokens.create(name, role="machine", team="crew")[1]
        about = {"server": url or server.url, "token": token, "name": name, "labels": ["far"]}
        runner = Runner(str(self.path / name), about)
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


WAITS = "while [ ! -e {} ]; do sleep 0.05; done"
RANDOM = "head -c 2500000 /dev/urandom"
AT_ONCE = 1_000_000  # bytes; less than goes with one request


@pytest.mark.timeout(300)
@pytest.mark.skipif(NGINX is None or shutil.which("openssl") is None, reason="needs nginx and openssl")
def test_behind_one_proxy_any_server_takes_up_what_another_began(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machines.work / "given").write_bytes(os.urandom(3 * AT_ONCE))
    machines.repository.commit("much")
    team = machines.stage(
        {
            name: {"run": f"{RANDOM} > {name}; interlock message send --to lead {name}; {wait}", "labels": ["far"]}
            for name, wait in (("one", WAITS.format(machines.path / "go")), ("two", WAITS.format(machines.path / "on")))
        },
        isolation="worktree",
    )
    servers = [machines.here(name, INTERLOCK_HTTP_PROXIES="127.0.0.1") for name in ("home", "other")]
    proxy = Nginx(tmp_path / "nginx", *(one.url for one in servers))
    monkeypatch.setenv("SSL_CERT_FILE", str(proxy.certificate))
    seen: list[Event] = []

    def listen() -> None:
        with interlock.connect(proxy.url, servers[1].tokens.admin(), environment={}) as there:
            for event in there.team("crew").follow():
                seen.append(event)
                if there.team("crew").task("two").state == "done":
                    return

    listening = threading.Thread(target=listen)
    try:
        listening.start()
        worker = machines.worker("far", servers[0], proxy.url)
        until(lambda: [one.content for one in team.inbox("lead")] == ["one"])
        (machines.path / "go").touch()
        until(lambda: [one.content for one in team.inbox("lead")] == ["one", "two"])
        servers[0].kill()
        (machines.path / "on").touch()
        until(lambda: {one.state for one in team.tasks()} == {"done"})
        listening.join(100.0)
        assert [event.seq for event in seen] == list(range(seen[0].seq, seen[-1].seq + 1)) and not listening.is_alive()
        team.set_worker("far", "draining")
        assert worker.wait() == 0
    finally:
        proxy.close()
    assert [team.task(one.id).run for one in team.tasks()] == [1, 1]
    for name in ("given", "one", "two"):
        assert int(machines.repository.git("cat-file", "-s", f"interlock/crew:{name}")) > AT_ONCE
    assert list((machines.work / ".git" / "interlock-bundles").iterdir()) == []
