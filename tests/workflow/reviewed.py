"""A project with a story to implement, its developer, and reviewers that play their part."""

from __future__ import annotations

import json
import re
from pathlib import Path

from interlock.agents.session import Turn
from interlock.workflow.reviews.code_review import CodeReview
from interlock.workflow.state.document import RunPlan, WorkflowState
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Play, Player, play

OUT = "_bmad-output/implementation-artifacts"
STORY = f"{OUT}/1-2-sign-in.md"
SPRINT = f"{OUT}/sprint-status.yaml"
SKILL = "/bmad:bmm:workflows:dev-story"
REVIEW = "/bmad:bmm:workflows:code-review"
ITEMS = 19

STORY_TEXT = """# Story 1.2: Sign in

Status: review

## Story

As a gardener, I want to sign in.

## Acceptance Criteria

1. A wrong password is refused
2. Five wrong ones lock the account

## Tasks / Subtasks

- [x] Check the password (AC: 1)

## Dev Agent Record

### File List

- src/login.py

## Change Log

- 2026-11-20: implemented
"""
SPRINT_TEXT = """# kept
development_status:
  epic-1: in-progress
  1-1-start: done
  1-2-sign-in: review  # at work
  1-3-sign-out: ready-for-dev
  1-4-later: backlog
"""


def story_project(root: Path, *, checklist: bool = True, config: str = "", review: bool = True) -> Path:
    """A project in which dev-story (two steps) and code-review are installed, with one story that was begun."""
    folder = root / "_bmad" / "bmm" / "workflows"
    rows = ["name,description,module,path"]
    for name, steps in (("dev-story", ("Implement", "Finish")), ("code-review", ("Look", "Present"))):
        if name == "code-review" and not review:
            continue
        path = folder / name
        path.mkdir(parents=True)
        named = 'validation: "{installed_path}/checklist.md"\n' if checklist else ""
        (path / "workflow.yaml").write_text(
            f'name: {name}\ninstructions: "{{installed_path}}/instructions.xml"\n{named}standalone: true\n'
        )
        text = "".join(
            f'<step n="{n}" goal="{one}"><action>{one} it, {name}.</action></step>\n' for n, one in enumerate(steps, 1)
        )
        (path / "instructions.xml").write_text(f"<workflow>\n{text}</workflow>\n")
        if checklist:
            last = ["Outcome decided (Approve/Changes Requested/Blocked)", 'Review notes appended under "Review"']
            items = [f"Item {number} is looked at" for number in range(1, ITEMS - 1)] + last
            (path / "checklist.md").write_text("# List\n\n" + "".join(f"- [ ] {one}\n" for one in items))
        rows.append(f'"{name}","x","bmm","_bmad/bmm/workflows/{name}/workflow.yaml"')
    (root / "_bmad" / "_config").mkdir()
    (root / "_bmad/_config/manifest.yaml").write_text("modules:\n  - core\n  - bmm\n")
    (root / "_bmad/_config/workflow-manifest.csv").write_text("\n".join(rows) + "\n")
    places = 'output_folder: "{project-root}/_bmad-output"\nimplementation_artifacts: "{project-root}/' + OUT + '"\n'
    (root / "_bmad/bmm/config.yaml").write_text(f"{places}project_name: Garden\n{config}")
    (root / OUT).mkdir(parents=True)
    (root / STORY).write_text(STORY_TEXT)
    (root / SPRINT).write_text(SPRINT_TEXT)
    (root / "project-context.md").write_text("Never log a password.\n")
    (root / "src").mkdir()
    return root


def issue(
    title: str, severity: str = "medium", location: str = "src/login.py:3", fix: str = "fix it"
) -> dict[str, str]:
    return {"severity": severity, "title": title, "location": location, "fix": fix}


SMALL = [issue("A name says little", "low"), issue("A comment is old", "low", "src/login.py:9"),
         issue("A test has no name", "low", "tests/test_login.py:1")]  # fmt: skip


def said(*issues: dict[str, str], verdict: str = "", items: int = ITEMS, fail: int = 0) -> str:
    """A reviewer's answer."""
    lines = [f"{n}. {'FAIL' if n == fail else 'PASS'}: seen in src/login.py" for n in range(1, items + 1)]
    block = {"verdict": verdict, "summary": "looked at it", "findings": list(issues)}
    return "I read src/login.py.\n\n" + "\n".join(lines) + f"\n\n```json\n{json.dumps(block)}\n```\n"


def judged(prompt: str, answer: str, verdict: str = "fixed") -> str:
    """The answer of a reviewer that also gives its verdict on each finding the prompt lists as open and the answer
    does not report again."""
    listed = re.findall(r"^(?:> )?- (F\d+), \w+: (.+) \(.*\)$", prompt, re.MULTILINE)
    earlier = [
        {"finding": id, "verdict": verdict, "why": "src/login.py:1"} for id, title in listed if title not in answer
    ]
    return answer.replace('"findings": ', f'"earlier": {json.dumps(earlier)}, "findings": ', 1) if earlier else answer


def looking_back(play: Play) -> Play:
    """A reviewer that does so in every answer."""

    async def part(part: Part) -> str | Turn:
        said = await play(part)
        return judged(part.prompt, said) if isinstance(said, str) else said

    return part


class Developer:
    """Implements the story, and fixes what it is told to. `fixed` are the prompts with findings."""

    def __init__(self, root: Path, *, mends: bool = True, answer: str = "Mended.") -> None:
        self.root = root
        self.mended: list[str] = []
        self.mends = mends
        self.answer = answer

    async def __call__(self, part: Part) -> str:
        path = self.root / "src" / "login.py"
        if "asks for changes" in part.prompt:
            self.mended.append(part.prompt)
            if self.mends:
                path.write_text(f"# fixed {len(self.mended)}\n")
            return f"{self.answer}\n{DONE}"
        path.write_text("def sign_in(password): return True\n")
        part.tool("running", "src/login.py")
        part.tool("completed", "src/login.py")
        return f"Implemented.\n{DONE}"


def develop(
    root: Path,
    reviewers: Player,
    *,
    developer: Developer | Player | None = None,
    tier: int = 1,
    desk: MemoryDesk | None = None,
    state: WorkflowState | None = None,
    values: dict[str, str] | None = None,
    skill: str = SKILL,
    looks_back: bool = True,
) -> Outcome:
    """Run dev-story with its review. `looks_back`: the reviewers give a verdict on each finding that is open."""
    play_of = reviewers.play
    if looks_back:
        reviewers.play = looking_back(play_of)
    try:
        return _develop(root, reviewers, developer, desk, state, values, skill, tier)
    finally:
        reviewers.play = play_of


def _develop(
    root: Path,
    reviewers: Player,
    developer: Developer | Player | None,
    desk: MemoryDesk | None,
    state: WorkflowState | None,
    values: dict[str, str] | None,
    skill: str,
    tier: int,
) -> Outcome:
    plan = RunPlan(project=str(root), tier=tier, values=values or {})
    maker = developer if isinstance(developer, Player) else Player(developer or Developer(root))
    return play(
        root, maker, skill=skill, desk=desk, state=state, plan=plan, examinations=(CodeReview(),), subagents=reviewers
    )  # fmt: skip
