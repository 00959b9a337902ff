"""Whatever agents leave in their worktrees is merged whole or not at all, and nothing of the user's moves."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.gitwork.git import Git, GitOutput
from interlock.gitwork.repository import open_repository
from interlock.gitwork.trees import MERGING, Trees
from tests.behaviours.repository import Repository, checkout

FILES = ("a.txt", "b.txt", "sub/c.txt")
START = "1\n2\n3\n"
EDITS = st.tuples(st.sampled_from(FILES), st.sampled_from(["append", "first", "delete", "new"]))
LEAVES = st.sampled_from(["open", "commit", "stage", "detach", "branch", "lock", "push", "update-ref", "occupy"])
TASKS = st.lists(st.tuples(st.lists(EDITS, max_size=3), LEAVES), min_size=1, max_size=4)


class Known:
    """What a ledger knows of the integration branch, kept by the one process that there is here."""

    def __init__(self) -> None:
        self.landed: str | None = None
        self.told: list[tuple[str | None, str | None]] = []

    def commits(self) -> tuple[str | None, str | None]:
        return self.landed, None

    def begins(self, commit: str, into: str | None) -> None:
        self.landed = commit

    def moved(self, here: str | None, landed: str, lines: Sequence[str], work_of: str | None) -> str | None:
        self.told.append((here, work_of))
        return f"refs/kept/{here}" if lines else None


def edit(root: Path, name: str, file: str, how: str) -> None:
    target = root / (file if how != "new" else f"{name}-{file.replace('/', '-')}")
    if how == "delete":
        target.unlink(missing_ok=True)
        return
    text = target.read_text() if target.exists() else ""
    target.parent.mkdir(exist_ok=True)
    target.write_text(f"{name} {text}" if how == "first" else f"{text}{name}\n")


def leave(root: Path, how: str) -> None:
    """As agents do: committed or not, on the branch or off it, killed in the middle of git."""
    git = checkout(root).git
    if how == "lock":
        Path(root / git("rev-parse", "--git-path", "index.lock")).touch()
    elif how == "stage":
        git("add", "--all")
    elif how != "open":
        if how == "detach":
            git("checkout", "--quiet", "--detach")
        elif how == "branch":
            git("switch", "--quiet", "--create", f"mine-{root.name}")
        elif how == "occupy":
            git("symbolic-ref", "HEAD", "refs/heads/interlock/crew")
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message", "its own")
        if how == "push":
            git("push", "--quiet", "--force", ".", "HEAD:interlock/crew")
        elif how == "update-ref":
            git("update-ref", "refs/heads/interlock/crew", "HEAD")


def tree(repository: Repository, name: str) -> dict[str, str]:
    return {file: repository.git("show", f"{name}:{file}") for file in repository.files(name) if file}


def content(root: Path) -> dict[str, str]:
    files = (file for file in root.rglob("*") if file.is_file() and file.name != ".git")
    return {str(file.relative_to(root)): file.read_text().rstrip("\n") for file in files}


def untouchable(repository: Repository) -> dict[str, object]:
    """All of it but for branches that the agents themselves have made."""
    found = repository.untouchable()
    return {**found, "refs": [line for line in found["refs"] if "/mine-" not in line]}  # type: ignore[attr-defined]


def hold(found: Trees, ledger: Known, repository: Repository, tasks: list[tuple[list[tuple[str, str]], str]]) -> None:
    before = untouchable(repository)
    started: list[dict[str, Any]] = []
    for number, (edits, how) in enumerate(tasks):
        known = found.make(f"T-{number}", None)
        root = Path(str(known["path"]))
        for file, kind in edits:
            edit(root, f"t{number}", file, kind)
        leave(root, how)
        moved = repository.head("interlock/crew")
        assert found.head() == ledger.landed == repository.head("interlock/crew")
        assert moved == ledger.landed or (ledger.told[-1][0] == moved and ledger.told[-1][1]), "they are a task's work"
        assert moved == ledger.landed or repository.head(f"refs/kept/{moved}") == moved
        started.append(known)
    for number, known in enumerate(started):
        wanted = content(Path(str(known["path"])))
        sealed = found.seal(known, f"work {number}")
        assert tree(repository, sealed.head) == wanted and found.seal(known, "again").head == sealed.head
        assert repository.head(str(known["branch"])) == sealed.head
        onto = found.head()
        path = found.path(f"T-{number}", MERGING)
        if found.repository.git.contains(sealed.head, onto):
            # Nothing was done; or another did the very same in the same second, and made the same commit.
            continue
        found.detached(path, onto)
        commit, conflicts = found.merge(path, sealed.head, f"Merge {number}")
        found.remove(path)
        if commit is None:
            assert conflicts and found.head() == onto
            assert found.update(known) == conflicts and found.update(known) == conflicts
        else:
            assert not found.land(commit, "0" * 39 + "1") and found.land(commit, onto)
            ledger.landed = commit
            assert found.head() == commit
            changed = {name for name in wanted if wanted[name] != tree(repository, str(known["base"])).get(name)}
            assert changed <= set(tree(repository, commit))
    for known in started:
        found.remove(str(known["path"]))
        found.remove(str(known["path"]))
    assert found.all() == [] and untouchable(repository) == before


def check(tasks: list[tuple[list[tuple[str, str]], str]]) -> None:
    with tempfile.TemporaryDirectory(prefix="il-") as place:
        repository = Repository(Path(place) / "work")
        repository.commit("start", **dict.fromkeys(FILES, START))
        opened = open_repository(str(repository.path), timeout=60)
        ledger = Known()
        found = Trees(opened, "crew", "0001", os.path.join(place, "home", "worktrees"), ledger)
        assert found.begin() == (repository.head(), True) and found.begin() == (repository.head(), False)
        hold(found, ledger, repository, tasks)


@pytest.mark.long
def test_of_two_runners_that_begin_at_any_moment_of_each_other_both_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, steps = 1, 1
    other: Trees | None = None

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == at and other is not None:
            assert other.begin()[0] == repository.head()

    called = Git.__call__

    def call(git: Git, *words: str, **options: Any) -> GitOutput:
        step()
        return called(git, *words, **options)

    class Seen(Known):
        def commits(self) -> tuple[str | None, str | None]:
            step()
            return super().commits()

        def begins(self, commit: str, into: str | None) -> None:
            step()
            super().begins(commit, into)

    monkeypatch.setattr(Git, "__call__", call)
    while at <= steps:
        other = None
        repository, ledger = Repository(tmp_path / str(at)), Seen()
        mine, other = (
            Trees(open_repository(str(repository.path), timeout=60), "crew", "0001", str(tmp_path / "trees"), ledger)
            for _ in range(2)
        )
        steps = 0
        assert mine.begin()[0] == repository.head() == ledger.landed == repository.head("interlock/crew"), at
        at += 1
    assert at > 8


FEW = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
MANY = settings(FEW, max_examples=60)


@pytest.mark.long
@given(TASKS)
@FEW
def test_what_agents_leave_is_merged_whole_or_not_at_all(tasks: list[tuple[list[tuple[str, str]], str]]) -> None:
    check(tasks)


@pytest.mark.storm
@pytest.mark.timeout(1800)
@given(TASKS)
@MANY
def test_what_agents_leave_is_merged_whole_or_not_at_all_many_times(
    tasks: list[tuple[list[tuple[str, str]], str]],
) -> None:
    check(tasks)
