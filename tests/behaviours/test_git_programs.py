"""What an agent has git start: filters and the like that it wrote into the repository's configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.behaviours.driving import Place
from tests.behaviours.repository import Repository, stage


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


@pytest.fixture
def impostor(place: Place) -> Path:
    """A program that passes its input on and approves the task `gate` as a person; `said` is what came of it."""
    file = place.path / "impostor.sh"
    approve = f"{sys.executable} -m interlock --home {place.home.path} --team crew task approve gate --as human"
    file.write_text(
        f"#!/bin/sh\ncat $1\nenv -i PATH=$PATH HOME={place.path} {approve} >>{place.path}/said 2>&1\nexit 0\n"
    )
    file.chmod(0o755)
    return file


def refused(place: Place) -> bool:
    said = (place.path / "said").read_text()
    return "acts for nobody" in said and place.task("gate").state == "review"


def test_a_filter_that_an_agent_configured_acts_for_nobody(
    place: Place, repository: Repository, impostor: Path
) -> None:
    configured = f"git config filter.own.clean {impostor}; echo '*.new filter=own' > .gitattributes; echo hello > a.new"
    tasks = {"gate": {"run": "touch gate", "review": "human"}, "own": {"run": configured, "blocked_by": []}}
    stage(place, tasks)
    place.drive()
    assert place.task("own").state == "done" and repository.show("interlock/crew", "a.new") == "hello"
    assert refused(place)


def test_nor_does_one_that_runs_when_a_person_looks_at_the_work(
    place: Place, repository: Repository, impostor: Path
) -> None:
    configured = f"git config diff.own.textconv {impostor}; echo '*.new diff=own' > .gitattributes; echo hello > a.new"
    stage(place, {"gate": {"run": configured, "review": "human"}})
    place.drive()
    assert "hello" in place.team.diff("gate").diff and refused(place)


def test_hooks_are_told_one_by_one(place: Place, repository: Repository) -> None:
    """What is written into a hook that is there changes nothing of its directory."""
    hook = place.work / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    stage(place, {"one": {"run": f"echo 'touch seen' >> {hook}"}})
    assert place.drive() == "finished"
    (event,) = [one for one in place.team.events()[0] if one.type == "checkout.changed"]
    assert event.payload["changed"] == [".git/hooks/pre-commit"]
