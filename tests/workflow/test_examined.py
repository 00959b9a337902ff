"""An examination of finished work: findings go to whoever made it, until those who examine it approve."""

from __future__ import annotations

from pathlib import Path

from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.examination import APPROVE, BLOCKED, CHANGES, Examined, Finding
from tests.workflow.stage import DONE, MemoryDesk, Part, Player, play, project, writes


class Twice:
    """Wants one thing fixed, then approves."""

    name, title = "second_look", "Second look"

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = list(verdicts)

    def called_for(self, run: Draft) -> str | None:
        return "every plan gets one"

    def begin(self, run: Draft, round: int) -> Examined:
        found = (Finding("major", "part 2 names no date", "plan.md:3", "name it"),)
        return Examined(self.verdicts[round - 1], "one thing is open", found)


def test_what_is_found_goes_to_the_maker_and_is_examined_again(tmp_path: Path) -> None:
    root, mended = project(tmp_path), []
    author = writes(root)

    async def part(part: Part) -> str:
        if "Second look asks for changes" in part.prompt:
            mended.append(part.prompt)
            return f"Mended.\n{DONE}"
        return str(await author(part))

    outcome = play(root, Player(part), examinations=(Twice(CHANGES, APPROVE),))
    assert outcome.ending.kind == "completed", outcome.ending
    assert len(mended) == 1 and "part 2 names no date (plan.md:3)" in mended[0]
    rounds = outcome.state.examinations["second_look"]["rounds"]
    assert [one["verdict"] for one in rounds] == [CHANGES, APPROVE]
    assert outcome.state.completed_steps[-1] == "gate-second_look"


def test_what_its_maker_cannot_mend_is_put_to_a_human(tmp_path: Path) -> None:
    root = project(tmp_path)
    desk = MemoryDesk(answers=lambda asking: "retry")
    outcome = play(root, Player(writes(root)), desk=desk, examinations=(Twice(BLOCKED, APPROVE),))
    assert outcome.ending.kind == "completed", outcome.ending
    asked = [one for one in desk.asked.values() if one.kind == "escalation"]
    assert len(asked) == 1 and "part 2 names no date" in asked[0].text
