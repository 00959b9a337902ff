"""A small builder module: a workflow that makes an agent, with six validation steps of its own; and its validators."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from interlock.agents.session import Turn
from interlock.workflow.reviews.parallel_bmb_validation import ParallelBmbValidation
from tests.workflow import virtual
from tests.workflow.stage import APC, DONE, MemoryDesk, Outcome, Part, Player, play

SKILL = "/bmad:bmb:workflows:agent"
LETTERS = "abcdef"
LABELS = tuple(f"08{letter}" for letter in LETTERS)
SLUGS = (
    *("plan-traceability", "metadata-validation", "persona-validation"),
    *("menu-validation", "structure-validation", "sidecar-validation"),
)
MADE = "_bmad-output/creations/poet/poet.agent.yaml"
AGENT = """\
agent:
  metadata:
    id: poet
    name: Poet
    title: Writes verses
    icon: P
    hasSidecar: {sidecar}
  persona:
    role: a poet
    identity: a poet of many years
    communication_style: in verses
    principles: [short is better]
  critical_actions: [load the memories]
  menu:
    - trigger: WV or fuzzy match on write-verse
      description: writes a verse
      action: write one
"""
PASSED = json.dumps(
    {"status": "passed", "findings": [], "blocking_errors": 0, "major_issues": 0, "summary": "all well"}
)


def builder(root: Path, *, overlay: str = "") -> Path:
    """A project with the builder; `overlay` is what our own file says about its workflow."""
    folder = root / "_bmad" / "bmb" / "workflows" / "agent"
    (folder / "steps-c").mkdir(parents=True)
    (root / "_bmad" / "_config").mkdir()
    (root / "_bmad" / "_config" / "workflow-manifest.csv").write_text(
        'name,description,module,path\n"agent","x","bmb","_bmad/bmb/workflows/agent/workflow.md"\n'
    )
    (root / "_bmad" / "bmb" / "config.yaml").write_text(
        'output_folder: "{project-root}/_bmad-output"\n'
        'bmb_creations_output_folder: "{project-root}/_bmad-output/creations"\n'
    )
    (folder / "workflow.md").write_text(
        "---\nname: agent\n---\n# Agent\n\nLoad and execute `steps-c/step-01-plan.md`.\n"
    )
    names = ["step-01-plan", "step-07a-build", *(f"step-08{x}-{slug}" for x, slug in zip(LETTERS, SLUGS, strict=True))]
    names.append("step-09-celebrate")
    for name, following in zip(names, [*names[1:], ""], strict=True):
        (folder / "steps-c" / f"{name}.md").write_text(_step(name, following))
    if overlay:
        (root / "interlock.workflows.yaml").write_text(f"workflows:\n  bmb/agent:\n{overlay}")
    return root


def _step(name: str, following: str) -> str:
    onward = f"nextStepFile: './{following}.md'\n" if following else ""
    if "08e" in name:
        onward = (
            "nextStepFileExpert: './step-08f-sidecar-validation.md'\nnextStepFileSimple: './step-09-celebrate.md'\n"
        )
    built = "builtYaml: '{bmb_creations_output_folder}/{agent-name}/{agent-name}.agent.yaml'\n" if "08" in name else ""
    menu = f'Display: "{APC}"\n\n- IF C: load {{nextStepFile}}' if following else "This is the final step."
    # What the real ones call themselves is wrong as well.
    said = name.replace("08", "07")
    return f"---\nname: '{said}'\n{onward}{built}---\n# {name}\n\nLook at {{builtYaml}} for {name}.\n\n{menu}\n"


def write_agent(root: Path, *, sidecar: bool = True, text: str | None = None) -> None:
    path = root / MADE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text is not None else AGENT.format(sidecar=str(sidecar).lower()))


class Maker:
    """Makes the agent in step 7a, fixes what it is told to, and keeps what it was asked."""

    def __init__(self, root: Path, *, sidecar: bool = True, text: str | None = None, mends: bool = False) -> None:
        self.root, self.sidecar, self.text, self.mends = root, sidecar, text, mends
        self.steps: list[str] = []
        self.fixes: list[str] = []
        self.told: dict[str, str] = {}

    async def __call__(self, part: Part) -> str:
        if "asks for changes" in part.prompt:
            self.fixes.append(part.prompt)
            if self.mends:
                write_agent(self.root, sidecar=self.sidecar)
            return f"Fixed {len(self.fixes)}.\n{DONE}"
        if part.step:
            self.steps.append(part.step)
            self.told[part.step] = part.prompt
            if part.step == "7a":
                write_agent(self.root, sidecar=self.sidecar, text=self.text)
        return f"Done with {part.step}.\n{DONE}"


Act = str | Turn | float
"""What a validator does: answers, ends so, or works so many seconds and then answers that all is well."""


class Validators:
    """Plays the validators: `acts[label]` are what each does, one attempt after the other; without one it finds
    nothing. `most` is how many were at work at the same time."""

    def __init__(self, acts: Mapping[str, list[Act]] | None = None, seconds: float = 10.0) -> None:
        self.acts = {label: list(acts) for label, acts in (acts or {}).items()}
        self.seconds = seconds
        self.began: list[tuple[str, float]] = []
        self.prompts: dict[str, list[str]] = {}
        self.at_work: set[str] = set()
        self.most = 0

    async def __call__(self, part: Part) -> str | Turn:
        found = re.search(r"^# Validation ([\w-]+): ", part.prompt, re.MULTILINE)
        if found is None:  # a voice of Party Mode
            return '{"position": "fix it", "recommendation": "fix what has a cause in common", "confidence": 90}'
        label = found[1]
        self.began.append((label, anyio.current_time()))
        self.prompts.setdefault(label, []).append(part.prompt)
        self.at_work.add(label)
        self.most = max(self.most, len(self.at_work))
        acts = self.acts.get(label) or [PASSED]
        act = acts.pop(0) if len(acts) > 1 else acts[0]
        try:
            left = act if isinstance(act, float) else self.seconds
            while left > 0:  # audibly: what is silent is ended sooner
                await virtual.passes(min(left, AUDIBLE))
                left -= AUDIBLE
                part.say("…")
        finally:
            self.at_work.discard(label)
        return PASSED if isinstance(act, float) else act

    @property
    def attempts(self) -> dict[str, int]:
        return {label: len(prompts) for label, prompts in self.prompts.items()}


AUDIBLE = 25.0  # seconds
DIES = Turn("failed", "", 1, "it crashed")
BABBLES = "The weather is fine today."
SLEEPS = 100_000.0


def finds(*severities: str, field: str = "agent.persona.role", **more: Any) -> str:
    """An answer with findings of those severities."""
    findings = [
        {"severity": one, "field": f"{field}.{n}", "expected": "x", "actual": "y", "remediation": "write x"}
        for n, one in enumerate(severities)
    ]
    return f"My report.\n\n```json\n{json.dumps({'status': 'issues', 'findings': findings, **more}, indent=1)}\n```"


def build(root: Path, maker: Maker, validators: Validators, **more: Any) -> Outcome:
    """Run the builder's workflow with its parallel validation."""
    more.setdefault("examinations", (ParallelBmbValidation(),))
    return play(root, Player(maker), skill=SKILL, subagents=Player(validators), **more)


def rounds(outcome: Outcome) -> list[dict[str, Any]]:
    """The rounds of the validation."""
    return list(outcome.state.examinations["parallel_validation"]["rounds"])


class Watching(MemoryDesk):
    """A desk that remembers how the validators stood at each save."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.stood: list[dict[str, str]] = []

    async def save(self, state: Any, events: Any = (), asking: Any = None) -> str | None:
        answer = await super().save(state, events, asking)
        now = state.examinations.get("parallel_validation", {}).get("now", {})
        self.stood.append({label: one["status"] for label, one in now.get("validators", {}).items()})
        return answer
