"""The witness of a team's real work, and its receipt: what it proves, and that no change of it stays unseen."""

from __future__ import annotations

import copy
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.app import receipts
from interlock.core.reports.witness import derive
from interlock.errors import Forbidden, InvalidRequest, StorageError
from interlock.model.witness import Witness, as_text
from interlock.surfaces.cli import main
from tests.behaviours.driving import SHELL, Place
from tests.behaviours.repository import Repository, stage


@pytest.fixture
def repository(place: Place) -> Repository:
    return Repository(place.work)


@pytest.mark.long
def test_a_night_with_a_liar_a_kill_and_a_question_is_told_as_it_was(place: Place, repository: Repository) -> None:
    liar = "say('done')\nif 'lie.txt' in prompt and 'exit code' in prompt: open('lie.txt', 'w').write('true')"
    killed = "import signal\nif not os.path.exists('../../half'):\n    open('../../half', 'w')\n"
    stage(
        place,
        {
            "good": {"run": "echo a > a", "verify": "test -s a"},
            "lie": {"subject": "Write lie.txt", "verify": "test -s lie.txt", "assignee": "lea"},
            "dies": {"subject": "Write b", "verify": "test -s b", "assignee": "dan"},
            "judged": {"run": "echo c > c", "review": "human"},
            "green": {"run": "echo d > d", "verify": "test -s story.txt"},
        },
        {
            "ada": SHELL,
            "lea": place.program("lea", liar),
            "dan": place.program("dan", killed + "    os.kill(os.getpid(), signal.SIGKILL)\nopen('b', 'w').write('b')"),
        },
    )
    place.drive()
    place.team.reply("judged", "approve")
    place.drive()
    told = place.team.witness()
    assert set(place.states().values()) == {"done"}
    assert (told.claimed, told.witnessed, told.verified, told.green_before) == (5, 4, 4, 1)
    assert [(one.task_id, one.lacks) for one in told.unwitnessed] == [(place.task("judged").id, "has no check")]
    assert (told.refused, told.redone, told.lost) == (1, 1, [])
    assert (told.questions, told.genuine, told.touches) == (1, 1, 1)
    assert (told.input_tokens, told.cost_usd, told.tokens_unknown) == (None, None, ["dan", "lea"])
    assert told.verified_per_human_minute == round(4 / told.human_minutes, 3)


def test_work_in_the_users_own_directory_is_verified_and_not_witnessed(place: Place) -> None:
    place.stage({"one": {"run": "true", "verify": "true"}})
    place.drive()
    told = place.team.witness()
    assert (told.claimed, told.verified, told.witnessed) == (1, 1, 0)
    assert told.unwitnessed[0].lacks == "has a check, but not of the merged tree"


def test_history_that_was_pruned_is_said_where_it_was_counted(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.stage({"one": {"run": "true", "verify": "true"}})
    place.drive()
    assert place.team.witness().pruned_at is None
    place.home.prune_ledgers(0)
    told = place.team.witness()
    assert told.pruned_at is not None and f"history was pruned at {told.pruned_at}" in as_text(told)[-1]
    file, earlier = tmp_path / "receipt.json", tmp_path / "earlier.json"
    place.home.write_receipt("crew", str(file))
    with monkeypatch.context() as patch:
        patch.setattr(receipts, "derive", lambda found: replace(derive(found), pruned_at=None))
        place.home.write_receipt("crew", str(earlier))
    for one in (file, earlier):
        found = receipts.verify(str(one))
        assert (found.faults, found.figures.pruned_at) == ([], told.pruned_at)
        assert any("history was pruned" in line for line in receipts.as_text(found))


@pytest.mark.long
def test_a_receipt_is_checked_anywhere_and_against_a_repository(
    place: Place, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    stage(place, {"one": {"run": "echo a > a", "verify": "test -s a"}})
    place.drive()
    file = tmp_path / "night.json"
    key = place.home.write_receipt("crew", str(file))
    secret = Path(place.home.path, "receipts.key")
    assert stat.S_IMODE(os.stat(secret).st_mode) == 0o600 and secret.read_text() not in file.read_text()
    with pytest.raises(StorageError):
        place.home.write_receipt("crew", str(file))
    found = receipts.verify(str(file), str(place.work), key)
    assert (found.faults, found.trees, found.found, found.absent) == ([], 1, 1, [])
    told = place.team.witness()
    assert (found.key, found.figures.witnessed, found.figures.ended_at) == (key, told.witnessed, told.ended_at)
    # By a stranger without any home, another key, and another repository.
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path / "nowhere"))
    assert run("verify-receipt", str(file)) == 0
    said = capsys.readouterr().out
    assert key in said and "no more" in said and "1 of 1 completions of crew witnessed" in said
    assert run("verify-receipt", str(file), "--key", "00" * 32) == 1
    assert "proves nothing: it is signed with the key" in capsys.readouterr().out
    other = Repository(tmp_path / "other")
    assert receipts.verify(str(file), str(other.path)).absent == [place.task("one").evidence[-1]["commit"]]


def run(*words: str) -> int:
    """The exit code of a command line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["interlock", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def receipt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Witness]:
    """A receipt of real work."""
    place = Place(tmp_path_factory.mktemp("night"))
    place.stage({"one": {"run": "echo a > a", "verify": "test -s a"}, "two": {"run": "echo b > b", "review": "human"}})
    place.drive()
    file = place.path / "receipt.json"
    place.home.write_receipt("crew", str(file))
    return file, json.loads(file.read_text()), place.team.witness()


def leaves(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each value in a document."""
    if isinstance(document, (dict, list)) and document:
        for name in document if isinstance(document, dict) else range(len(document)):
            yield from leaves(document[name], (*path, name))
    else:
        yield path


VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.text(max_size=5), st.just("f" * 40))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_change_of_any_field_of_a_receipt_is_found(
    receipt: tuple[Path, dict[str, Any], Witness], tmp_path: Path, data: st.DataObject
) -> None:
    _, original, _ = receipt
    changed = copy.deepcopy(original)
    path = data.draw(st.sampled_from(list(leaves(original))))
    at = changed
    for name in path[:-1]:
        at = at[name]
    if data.draw(st.booleans()) and isinstance(at, dict):
        del at[path[-1]]
    else:
        at[path[-1]] = data.draw(VALUES)
    if json.dumps(changed, sort_keys=True) == json.dumps(original, sort_keys=True):
        return
    file = tmp_path / "changed.json"
    file.write_text(json.dumps(changed))
    try:
        faults = receipts.verify(str(file)).faults
    except InvalidRequest as error:
        faults = [error.message]
    assert faults and ("is no receipt" in faults[0] or "was changed after it was signed" in faults[0])


def test_figures_that_do_not_follow_are_found_though_they_are_signed(
    receipt: tuple[Path, dict[str, Any], Witness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _, told = receipt
    account = receipts._read(str(file))[0].account
    monkeypatch.setattr(receipts, "derive", lambda found: told.__class__(**{**fields(told), "witnessed": 9}))
    forged = tmp_path / "forged.json"
    receipts.issue(str(tmp_path), str(forged), account)
    monkeypatch.undo()
    assert receipts.verify(str(forged)).faults == ["its figures do not follow from its rows"]


def fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"a": 1, "a": 2}', "[" * 50_000, "\x00", '{"format": "x"}'])
def test_what_is_no_receipt_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "receipt.json"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match="is no receipt"):
        receipts.verify(str(file))


def test_a_name_that_comes_twice_is_refused(receipt: tuple[Path, dict[str, Any], Witness], tmp_path: Path) -> None:
    file = tmp_path / "twice.json"
    file.write_text(receipt[0].read_text().replace('"format":', '"key": "00", "format":', 1))
    with pytest.raises(InvalidRequest, match="twice"):
        receipts.verify(str(file))


@pytest.mark.parametrize("text", ["", "00ff", "no key at all"])
def test_a_key_that_is_none_is_refused_and_said_where_it_is(place: Place, tmp_path: Path, text: str) -> None:
    place.stage({"one": {"run": "true"}})
    secret = Path(place.home.path, "receipts.key")
    secret.write_text(text)
    with pytest.raises(StorageError, match=r"receipts\.key back from a backup, or remove it"):
        place.home.write_receipt("crew", str(tmp_path / "receipt.json"))
    assert secret.read_text() == text and not (tmp_path / "receipt.json").exists()


def test_a_run_signs_nothing(place: Place) -> None:
    program = """
    import interlock as library
    try:
        library.connect(os.environ['INTERLOCK_HOME']).write_receipt('crew', 'forged.json')
    except Exception as error:
        say(type(error).__name__)
    """
    place.stage({"one": {"subject": "Sign it"}}, {"bob": place.program("bob", program)})
    place.drive()
    assert Forbidden.__name__ in place.log("one") and not Path(place.work, "forged.json").exists()
