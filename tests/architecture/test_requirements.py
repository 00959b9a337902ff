"""Requirements and tests know each other, in both directions."""

from __future__ import annotations

from tests.architecture import requirements


def test_every_marked_id_is_a_requirement() -> None:
    known = requirements.known()
    unknown = {one: places for one, places in requirements.marked().items() if one not in known}
    assert not unknown, f"not in docs/requirements.tsv: {unknown}"


def test_every_requirement_of_finished_work_has_a_test() -> None:
    marked = requirements.marked()
    left = [
        f"{one}: {text}"
        for one, text in requirements.known().items()
        if one.startswith(requirements.CLOSED) and one not in marked
    ]
    assert not left, "no test names:\n" + "\n".join(left)


def test_no_requirement_is_listed_twice() -> None:
    lines = requirements.LIST.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(requirements.known()) + 1
