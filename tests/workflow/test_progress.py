"""Progress, as talkative as it is wanted: from events and the clock to lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from interlock.clock import iso
from interlock.model.event import Event
from interlock.model.progress import MODES, ProgressDisplay, live, percent, summary
from interlock.model.text import count
from interlock.surfaces.cli.workflow_board import last_words
from interlock.workflow.preferences.hints import progress_mode

START = 1_795_000_000.0
RUN = "bmm-make-plan-x"


class Story:
    """A run of six steps as it goes on, with the lines that a display of it shows."""

    def __init__(self, mode: str, steps: int = 6) -> None:
        self.display = ProgressDisplay(mode)
        self.now = START
        self.steps = steps
        self.done: list[int] = []
        self.run: dict[str, Any] = {"workflow_id": RUN, "skill": "/x", "state": "RUNNING", "outcome": None, "steps": {}}
        self.run |= {"current_step": None, "documents": ["plan.md"], "waiting": None}
        self._count()

    def _count(self) -> None:
        left = [one for one in range(1, self.steps + 1) if one not in self.done]
        self.run["progress"] = {
            "completed_count": len(self.done), "remaining_count": len(left),
            "progress_percent": len(self.done) * 100 // self.steps, "eta_ms": None,
            "completed_steps": [{"step": one, "name": f"Part {one}"} for one in self.done],
            "remaining_steps": [{"step": one, "name": f"Part {one}"} for one in left],
        }  # fmt: skip

    def event(self, type: str, after: float = 0.0, **payload: Any) -> list[str]:
        self.now += after
        event = Event(1, type, iso(self.now), "ada", "T", {"workflow_id": RUN, **payload})
        return self.display.advance([event], self.run, self.now)

    def begin(self, step: int, after: float = 0.0) -> list[str]:
        self.run["current_step"], self.run["current_step_name"] = step, f"Part {step}"
        record = {"id": step, "name": f"Part {step}", "status": "in_progress", "started_at": iso(self.now + after)}
        self.run["steps"][f"step_{step}"] = record
        return self.event("workflow.step_started", after, step=step, name=f"Part {step}", visit=1)

    def finish(self, step: int, after: float = 0.0) -> list[str]:
        self.done.append(step)
        self.run["steps"][f"step_{step}"] |= {"status": "completed", "duration_ms": int(after * 1000)}
        self._count()
        return self.event("workflow.step_completed", after, step=step, name=f"Part {step}", status="completed")

    def menu(self, after: float = 0.0) -> list[str]:
        return self.event("workflow.decided", after, kind="menu", choice="C", why="the only option", seq=1)

    def end(self) -> list[str]:
        self.run |= {"state": "TERMINAL", "outcome": "COMPLETED", "current_step": None}
        return self.event("workflow.ended", outcome="COMPLETED")

    def wait(self, seconds: float) -> list[str]:
        self.now += seconds
        return self.display.tick(self.run, self.now)


@pytest.mark.req("BMAD-7.7.1", "BMAD-E7.6", "BMAD-FR57")
def test_verbose_tells_every_operation_at_once_with_its_reason() -> None:
    story = Story("verbose")
    assert story.begin(1) == ["step 1 begins: Part 1"]
    assert story.display.heard("write plan.md, completed") == ["    write plan.md, completed"]
    assert story.menu(2) == ["menu: C (the only option)"]
    assert story.event("workflow.decided", kind="next_step", choice="2", why="the file names it") == [
        "next step: 2 (the file names it)"
    ]
    assert story.finish(1, 3) == ["step 1 completed: Part 1"]
    assert story.event("workflow.step_failed", step=2, reason="no scope") == ["step 2 failed its check (no scope)"]
    assert story.end()[0].startswith("Completed in 5 s: 1 step, 2 other operations")


@pytest.mark.req("BMAD-7.7.2", "BMAD-E7.6", "BMAD-FR57")
def test_summary_tells_five_operations_in_one_line() -> None:
    story = Story("summary")
    quiet = [*story.begin(1), *story.menu(1), *story.finish(1, 1), *story.begin(2), *story.menu(1), *story.finish(2, 1)]
    assert quiet == []
    assert story.begin(3) == []
    (line,) = story.menu(1)
    assert line == (
        "5 operations in 4 s: menu: C; step 1 completed: Part 1; menu: C; step 2 completed: Part 2; menu: C. "
        "2 of 6 steps, 33 %"
    )
    assert story.finish(3, 1) == [], "a new bunch begins"


@pytest.mark.req("BMAD-7.7.2", "BMAD-E7.6", "BMAD-FR57")
def test_summary_tells_what_there_is_after_thirty_seconds() -> None:
    story = Story("summary")
    assert story.wait(100) == [], "where nothing has happened, nothing is told"
    assert story.begin(1) == [] and story.finish(1, 5) == []
    assert story.wait(29) == []
    (line,) = story.wait(1)
    assert line.startswith("1 operation in 30 s: step 1 completed: Part 1.")
    assert story.wait(100) == []


@pytest.mark.req("BMAD-7.7.3", "BMAD-E7.6", "BMAD-E7.12", "BMAD-FR57")
def test_silent_tells_nothing_until_it_has_ended_and_then_all_of_it() -> None:
    story = Story("silent", steps=3)
    said = []
    for step in (1, 2, 3):
        said += [*story.begin(step), *story.menu(40), *story.finish(step, 40), *story.wait(60)]
    assert said == [] and story.display.heard("a tool") == []
    first, *rest = story.end()
    assert first == "Completed in 7 min: 3 steps, 3 other operations."
    assert "Done: Part 1, Part 2, Part 3." in rest and "Documents: plan.md." in rest


@pytest.mark.req("BMAD-7.7.4", "BMAD-FR58", "BMAD-E7.6", "BMAD-E7.9")
def test_streaming_tells_the_step_and_the_percentage_of_what_takes_longer_than_thirty_seconds() -> None:
    story = Story("streaming", steps=4)
    assert story.begin(1) == [] and story.finish(1, 20) == ["step 1 completed: Part 1, 25 %"]
    assert story.begin(2) == [] and story.wait(29) == []
    (line,) = story.wait(1)
    assert line == "step 2: Part 2, 40 % (30 s)"
    assert story.wait(5) == [], "not at every look"
    (later,) = story.wait(25)
    assert later == "step 2: Part 2, 43 % (1 min)"
    assert story.finish(2, 1) == ["step 2 completed: Part 2, 50 %"]


@pytest.mark.req("BMAD-7.7.4", "BMAD-E7.9")
def test_what_waits_for_a_human_or_is_over_is_no_long_operation() -> None:
    story = Story("streaming")
    story.begin(1)
    assert live(story.run, story.now + 31) is not None
    assert live({**story.run, "state": "WAITING_USER"}, story.now + 31) is None
    story.finish(1, 31)
    assert live(story.run, story.now + 31) is None and live({}, story.now) is None


@pytest.mark.req("BMAD-7.7.5", "BMAD-FR59", "BMAD-E7.10")
def test_a_summary_on_request_names_the_steps_and_estimates_the_rest() -> None:
    story = Story("silent", steps=4)
    story.begin(1)
    story.finish(1, 10)
    story.begin(2)
    found = summary(story.run, story.now + 10)
    assert found == ["done (1): 1 Part 1", "now: 2 Part 2, since 10 s", "left (2): 3 Part 3, 4 Part 4", "about 37 %"]
    story.end()
    assert summary(story.run, story.now)[0].startswith("done")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("progress: silent", "silent"),
        ("Progress mode: Verbose", "verbose"),
        ("set progress to streaming please", "streaming"),
        ("progress = summary", "summary"),
        ("silent progress", "silent"),
        ("be quiet", "silent"),
        ("progress", None),
        ("the progress bar is silent on errors, fix it", None),
        ("summary", None),
    ],
)
def test_a_mode_is_asked_for_in_words(text: str, mode: str | None) -> None:
    assert progress_mode(text) == mode


STEPS = some.lists(
    some.tuples(some.sampled_from(["menu", "step", "wait"]), some.floats(0, 90)), min_size=1, max_size=40
)


@pytest.mark.req("BMAD-FR57", "BMAD-E7.12")
@given(mode=some.sampled_from(MODES), happened=STEPS)
def test_whatever_happens_nothing_is_lost_or_told_twice(mode: str, happened: list[tuple[str, float]]) -> None:
    story = Story(mode, steps=50)
    lines: list[str] = []
    menus = steps = 0
    for what, seconds in happened:
        if what == "wait":
            lines += story.wait(seconds)
        elif what == "menu":
            menus += 1
            lines += story.menu(seconds)
        else:
            steps += 1
            lines += [*story.begin(steps), *story.finish(steps, seconds)]
        if mode == "summary":
            assert len(story.display.held) < 5
            assert story.display.since is None or story.now - story.display.since < 30
        assert mode != "silent" or lines == []
    told = [*lines, *story.end()]
    ended = next(line for line in told if line.startswith("Completed"))
    assert f"{count(steps, 'step')}, {count(menus, 'other operation')}" in ended
    if mode in ("verbose", "summary", "streaming"):
        whole = "; ".join(told)
        assert all(whole.count(f"step {one} completed: Part {one}") >= 1 for one in range(1, steps + 1))
        assert sum(line.count("menu: C") for line in told) == (0 if mode == "streaming" else menus)


@given(elapsed=some.lists(some.floats(0, 1000), min_size=2, max_size=2).map(sorted), done=some.integers(0, 5))
def test_the_percentage_only_grows_and_is_whole_only_at_the_end(elapsed: list[float], done: int) -> None:
    story = Story("streaming")
    for step in range(1, done + 1):
        story.begin(step)
        story.finish(step, 10)
    story.begin(done + 1)
    first, second = (percent(story.run, story.now + one) for one in elapsed)
    assert done * 100 // 6 <= first <= second <= 99
    story.end()
    assert percent(story.run, story.now) == 100


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Saved step 3.\n{"step": "completed"}', "Saved step 3."),
        ('[reviewer-tests] I looked.\n```json\n{"verdict": "approve"}\n```', "[reviewer-tests] I looked."),
        ('[reviewer-tests] {"verdict": "approve"}', ""),
        ("```", ""),
        ("", ""),
    ],
)
def test_what_an_agent_said_last_is_shown_without_what_is_for_the_engine(text: str, shown: str) -> None:
    assert last_words(text) == shown
