"""Agent programs as the home's verbs show them: which there are, and whether they work when they are tried."""

from __future__ import annotations

import os

from interlock.errors import NotAvailable, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from interlock.agents.registry import AgentInfo, AgentRegistry, WhyIdle
    from interlock.client import Home
    from interlock.clients.local.home import LocalHome

CHECKED = "agents-checked.json"
NEEDED = ("session", "prompt", "mcp")
"""Without these a program cannot take part."""


class LocalAgents:
    """See `client.Home`."""

    path: str
    roster: Callable[[], AgentRegistry] | None = None
    open_home: Callable[[str], Home]
    why_idle: WhyIdle | None = None

    def agents(self) -> list[dict[str, Any]]:
        checked = self._checked()
        return [_shown(offer, checked.get(offer.name)) for offer in self._roster().agents()]

    def check_agent(self, name: str, *, model: str | None = None) -> dict[str, Any]:
        import shutil
        from typing import cast

        import anyio

        from interlock.doctor.home import CHECKING, abandoned
        from interlock.runner import agent_check
        from interlock.storage.files import locked_directory

        self.need_person("check an agent")
        hire = self._roster().agent(name)
        for left in abandoned(self.path, (CHECKING,)):
            shutil.rmtree(left, ignore_errors=True)
        # In a home of its own: nobody else works on its team, and what a kill leaves of it is no team of this one.
        place = os.path.join(self.path, f"{CHECKING}{os.urandom(3).hex()}")
        try:
            os.makedirs(place, mode=0o700)
            with locked_directory(place), self.open_home(place) as home:
                team = home.create_team("agent-check")
                team.spawn(agent_check.MEMBER, agent=name)
                task = team.create_task("Check the connection", assignee=agent_check.MEMBER)
                workspace = cast("LocalHome", home).workspace(team.name)

                async def run() -> agent_check.AgentCheck:
                    return await agent_check.try_out(workspace, hire, task, home=place, model=model)

                found = anyio.run(run)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        result = {
            "version": hire.info.version,
            "how": hire.info.how,
            "at": task.created_at,
            "abilities": found.abilities,
            "details": found.details,
            "seconds": found.seconds,
        }
        if found.abilities.get("session"):
            self._keep(name, result)
        return {**_shown(hire.info, result), "works": all(found.abilities.get(one) for one in NEEDED)}

    def _roster(self) -> AgentRegistry:
        if self.roster is None:
            raise NotAvailable("This home was opened without agent programs. Open it with `interlock.connect`.")
        return self.roster()

    def _checked(self) -> dict[str, Any]:
        import json

        try:
            with open(os.path.join(self.path, CHECKED), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}  # It only remembers what the next check finds out again.
        return found if isinstance(found, dict) else {}

    def _keep(self, name: str, result: dict[str, Any]) -> None:
        import json

        from interlock.storage import files

        path = os.path.join(self.path, CHECKED)
        try:
            files.replace(path, json.dumps({**self._checked(), name: result}, indent=2).encode() + b"\n")
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error

    if TYPE_CHECKING:

        def need_person(self, what: str) -> None: ...


def _shown(offer: AgentInfo, checked: dict[str, Any] | None) -> dict[str, Any]:
    """An agent as `agents list` has it. A check of another version, or of another way of starting it, is of no use."""
    from dataclasses import asdict

    if checked is not None and (checked.get("version"), checked.get("how")) != (offer.version, offer.how):
        checked = None
    proven = offer.proven if offer.how == "acp" else ()
    seen: dict[str, bool | None] = checked["abilities"] if checked is not None else {}
    # What could not be seen here may still be known; what failed here does not hold here.
    names = dict.fromkeys([*seen, *proven])
    guarantees = [name for name in names if (name in proven if seen.get(name) is None else seen[name])]
    tested = "checked" if checked is not None else "proven" if proven else "untested"
    told = asdict(offer)
    del told["proven"]
    return {**told, "installed": offer.how is not None, "tested": tested, "guarantees": guarantees, "checked": checked}
