"""What the engine says to an agent: the workflow once for a session, each step when its turn comes, and answers.

An agent gets the current step only, with its variables filled in (NFR3): the sources tell it to load the next file
itself, which would take the run out of our hands, so each prompt says who brings it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.model.workflow import GATE, place_of
from interlock.workflow.engine import deliverables, documents, evidence
from interlock.workflow.engine.examination import Examined
from interlock.workflow.markdown import quoted
from interlock.workflow.package.step import Step
from interlock.workflow.package.tagged_steps import STEP
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state.document import CODE_REVIEW, RunPlan, WorkflowState

FRAME = 30_000  # characters of the workflow's own text
DECIDED = 12  # answers that a prompt repeats

RULES = """\
## How this run works

Interlock runs this workflow and speaks for its user. It gives you one step at a time.

- Do the step below, and only it. Do not load or begin another step file, whatever the text says about loading the
  next one: Interlock gives you the next step when this one is done.
- Do the file work of the step yourself (create and append to documents, update their frontmatter). Files below
  `_bmad/` and the step files are never changed.
- Where the step has a menu, show it as the last thing you say and end your turn. Where you need an answer, ask it last
  and end your turn. The answer is the next thing you read.
- What the brief or an earlier decision answers is not asked again.
- Where you have the tools `step_done`, `ask` and `choose` of Interlock, end every turn with the one of them that fits:
  `step_done` when the step is done and saved, skipped, blocked or failed, `ask` for an answer that you need, `choose`
  for the step's menu. Without them end every turn with one line of JSON, the very last line:
  `{"step": "completed"}` when this step is done and saved; add `"next": "FILE OR NUMBER"` where the step leads
  somewhere else than to the one that follows, and `"verdict": "PASSED"` or `"FAILED"` with `"issues": ["…"]` where the
  step validates something.
  `{"step": "waiting"}` when a menu or a question stands above it.
  `{"step": "skipped", "reason": "…"}` for an optional step or one whose condition does not hold.
  `{"step": "blocked", "reason": "…"}` where the step says HALT or you cannot go on.
  `{"step": "finished"}` when the whole workflow has ended early, as its text demands.
  To any of these add `"learned": [{"kind": "…", "text": "…", "importance": N}]` where this turn has settled or found
  out something that later work must know: what and why, one sentence each. The importance is 9 or 10 for
  `architecture`, 8 for another `decision`, 7 or 8 for an `implementation_pattern` or a `problem_solution` (the problem
  is its `text`, what helped its `solution`), 6 or 7 for a `milestone`."""

YOLO = """\
This is a YOLO run: nobody is there to answer. Skip confirmations and optional elicitation, decide as an experienced
user of this project would, and say which assumptions you made. What the text calls HALT or blocked is not decided: end
with it, and a person is asked."""


def framing(workflow: Workflow, state: WorkflowState, memory: str = "") -> str:
    """What a session is told once: the workflow's own rules, its variables, the brief and what was decided before."""
    plan = state.plan
    parts = [f"# Workflow {state.skill}", own_text(workflow), settings_of(workflow, plan)]
    if plan.arguments:
        parts.append(f"## What was asked\n\n{plan.arguments}")
    if plan.brief:
        parts.append(
            f"## Brief\n\nThe user's own words; they answer questions before anybody is asked.\n\n{plan.brief}"
        )
    if state.misaligned:
        listed = "\n".join(f"- {one}" for one in state.misaligned)
        parts.append(f"## What the project's documents disagree about\n\n{listed}")
    if memory:
        parts.append(f"## From earlier work\n\n{memory}")
    about = [f"- {name}: {value}" for name, value in _about(plan) if value]
    if about:
        parts.append("## Project\n\n" + "\n".join(about))
    decided = decisions(state)
    if decided:
        parts.append(decided)
    parts.append(RULES)
    if plan.yolo:
        parts.append(YOLO)
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def own_text(workflow: Workflow) -> str:
    """The workflow's own text: all of a `workflow.md`, of instructions what stands before their first step."""
    text = workflow.variables.resolve(workflow.text).text
    found = STEP.search(text)
    if found and any(one.path == path for path in workflow.files[1:] or workflow.files for one in workflow.steps[:1]):
        text = text[: found.start()]
    elif workflow.steps and workflow.steps[0].path in workflow.files and not workflow.follow:
        text = text[: text.find(workflow.steps[0].text)] if workflow.steps[0].text in text else text
    return text[:FRAME].strip()


def settings_of(workflow: Workflow, plan: RunPlan) -> str:
    """The variables of the workflow with their values, those given with `--set` last."""
    variables = workflow.variables
    values: dict[str, str] = {}
    nested = workflow.settings.get("variables")
    for source in (workflow.settings, nested if isinstance(nested, Mapping) else {}):
        for name, value in source.items():
            if isinstance(value, (str, int, float)) and str(value).strip() and name not in ("name", "description"):
                values[name] = " || ".join(one.text for one in variables.alternatives(str(value)))
    for name in ("project_name", "user_name", "communication_language", "document_output_language", "output_folder"):
        found = variables.value(name)
        if found:
            values.setdefault(name, found)
    values |= plan.values
    return "## Variables\n\n" + "\n".join(f"- {name}: {value}" for name, value in values.items()) if values else ""


def step_prompt(
    workflow: Workflow,
    state: WorkflowState,
    step: Step,
    *,
    again: str = "",
    wanted: Sequence[evidence.Required],
) -> str:
    """One step. `again` says why it is begun once more; `wanted` is what it must leave."""
    variables = documents.variables_of(workflow, step, state.plan.values)
    # A menu is quoted in the step as the agent will show it; everything else of the text stays as it was written.
    whole = workflow.one_prompt or str(step.id).startswith(GATE)
    title = f"# {step.title}" if whole else f"# Step {step.id}: {step.title}"
    parts = [title, f"File: {step.rendered or step.path}" if step.path else ""]
    condition = {
        name: value for name, value in step.attributes.items() if name in ("if", "optional", "for-each", "repeat")
    }
    if condition:
        parts.append("Attributes of the step: " + ", ".join(f'{name}="{value}"' for name, value in condition.items()))
    if again:
        parts.append(again)
    parts.append(variables.resolve(step.text).text.strip("\n"))
    seed = state.party.get("seed") or {}
    if seed.get("text") and seed.get("step") == state.current_step:
        parts.append(str(seed["text"]))
    known = [
        f"- {{{name}}}: {variables.resolve(value).text}"
        for name, value in step.settings.items()
        if isinstance(value, str) and value.rsplit(".", 1)[-1] in ("md", "yaml", "csv", "xml", "json", "yml")
    ]
    if known:
        parts.append("Files of this step:\n" + "\n".join(known))
    parts.append(evidence.told(wanted))
    parts.append(deliverables.told(workflow, step, state.plan.arguments, state.plan.values))
    return "\n\n".join(filter(None, parts))


def answer(text: str, why: str) -> str:
    """An answer to a menu or a question; its first line is the answer alone."""
    return f"{text}\n\n({why}. Do what the step says about this answer, save it, and end with the JSON line.)"


def preferences(words: Sequence[str]) -> str:
    """What the user wants remembered, as they said it."""
    if not words:
        return ""
    return "\n".join(["## What the user prefers, wherever a step leaves it open", *(f"- {one}" for one in words)])


def from_brief(question: str, unwanted: Sequence[str] = ()) -> str:
    """A question goes back to the agent, which knows the brief: only what the brief does not say goes to a human.
    `unwanted` are options that the user does not want."""
    never = f"The user does not want {' or '.join(unwanted)} here.\n\n" if unwanted else ""
    return never + (
        "Answer this yourself, from the brief, the variables and what was decided before, and go on with the step:\n\n"
        f"{quoted(question)}\n\n"
        "Only if none of them says it, repeat the question alone and end with this line:\n"
        '{"step": "waiting", "brief": "silent"}'
    )


def decide_yourself(question: str) -> str:
    """The same where nobody is there (`--yolo`)."""
    return (
        "Nobody is there to answer. Decide as an experienced user of this project would, write the assumption down "
        f"where it belongs, and go on with the step:\n\n{quoted(question)}"
    )


def unclear(step: Step) -> str:
    """A turn ended and did not say how."""
    return (
        f"Your turn ended without saying how {place_of(step.id, step.title)} stands. If it has a menu, show it now. If "
        'it is done and saved, end with {"step": "completed"}; if you need something, ask for it and end with '
        '{"step": "waiting"}.'
    )


def asks_nothing(step: Step) -> str:
    """A turn ended with `waiting` and asked nothing."""
    return (
        f"You wait, but you ask nothing. If {place_of(step.id, step.title)} is done and saved, end with "
        '{"step": "completed"}; if you need an answer, ask one question, the last thing you say, and end with '
        '{"step": "waiting"}.'
    )


def own_menu(step: Step, keys: Sequence[str]) -> str:
    """A menu was shown that is not the step's."""
    return (
        f"This menu is not one of {place_of(step.id, step.title)}, whose menu offers {', '.join(keys)}. Show that "
        "one as the step's text gives it, or say how the step stands."
    )


def which_next(step: Step, ways: Sequence[str]) -> str:
    """A step is done, and several may follow."""
    listed = "\n".join(f"- {way}" for way in ways)
    place = place_of(step.id, step.title)
    return (
        f"{place[:1].upper()}{place[1:]} is done. Which of these follows, by what was decided in it?\n\n{listed}\n\n"
        'Do nothing else; answer with one line: {"step": "completed", "next": "FILE"}'
    )


def fix(strategy: str, findings: str, hint: str = "") -> str:
    """A validation failed: what to do about it, by strategy (BMAD-2b.12.5)."""
    ways = {
        "memory_patterns": f"This was solved before, in this way:\n\n{hint}\n\nApply it to the findings below.",
        "heuristic_fixes": "Fix each finding below where it stands, with the smallest change that removes it.",
        "template_fixes": f"Bring the structure back to that of the template{f' ({hint})' if hint else ''} section by "
        "section, keeping what was written, so that the findings below go away.",
    }
    return (
        f"The step's validation failed. {ways.get(strategy, ways['heuristic_fixes'])}\n\n{quoted(findings)}\n\n"
        'Then validate again and end with {"step": "completed", "verdict": "PASSED"}, or "FAILED" with what is left in '
        '"issues".'
    )


def missing(step: Step, listed: Sequence[str]) -> str:
    """What a step that is said to be completed has not left."""
    place = place_of(step.id, step.title)
    lines = "\n".join(f"- {one}" for one in listed)
    return (
        f"{place[:1].upper()}{place[1:]} is not completed yet. This is missing:\n\n{lines}\n\nDo it now, and end "
        'with {"step": "completed"}. Where nothing has to change because it is there already, or a condition of the '
        'step does not hold, add "unchanged": "why"; for a command that has run, "evidence": ["command: result"].'
    )


def nested_over(what: str, came_to: str = "") -> str:
    """A nested operation was ended for its time; `came_to` is what is known of it."""
    said = f"\n\n{quoted(came_to)}" if came_to else ""
    return f"{what} was ended: its time is up. Go back to the step's own menu with what you have, and show it.{said}"


def interrupted(restored: bool) -> str:
    """Why a step begins again."""
    files = "Its files are as they were before it began." if restored else "Parts of it may stand in the files already."
    return (
        "This step was interrupted: the session that was at work on it ended before its turn did. It begins again. "
        f"{files} Look before you write, and write nothing twice."
    )


def decisions(state: WorkflowState) -> str:
    """The answers of people so far."""
    given = [one for one in state.asked if one.get("answer")][-DECIDED:]
    if not given:
        return ""
    lines = [f"- {_called(state, one.get('step'))}: {_short(one.get('text', ''))} → {one['answer']}" for one in given]
    return "## What was decided\n\n" + "\n".join(lines)


def _called(state: WorkflowState, step: str | int | None) -> str:
    if step is None:
        return "earlier"
    record = state.step(step)
    return place_of(step, record.name if record else None)


def summary(state: WorkflowState) -> str:
    """What a finished run answers: the steps, the documents and who decided what."""
    done = [state.steps[key] for key in state.steps if state.steps[key].status in ("completed", "skipped")]
    documents_ = ", ".join(state.documents) or "none"
    asked = sum(one.get("by") == "human" and one["key"].startswith(state.workflow_id) for one in state.asked)
    examined = "".join(f" {one}" for one in (_examined(state), _next(state)) if one)
    return (
        f"{state.skill} is {str(state.outcome or state.state).lower()}: {len(done)} steps, documents: {documents_}; "
        f"{len(state.menu_history)} menus answered, {asked} question{'' if asked == 1 else 's'} put to people."
        f"{examined}"
    )


def _examined(state: WorkflowState) -> str:
    """Who has looked at the work beside whoever made it; that nobody has is said too."""
    said = []
    for name, kept in state.examinations.items():
        rounds = kept.get("rounds", ())
        record = state.step(f"{GATE}{name}")
        title = record.name if record and record.name else name.replace("_", " ")
        if record is not None and record.status == "skipped":
            said.append(f"{title}: left out, {record.reason}.")
        elif rounds:
            times = "once" if len(rounds) == 1 else f"{len(rounds)} times"
            said.append(f"{title}: {str(rounds[-1]['verdict']).replace('_', ' ')}, looked at {times}.")
    return " ".join(said)


def _next(state: WorkflowState) -> str:
    rounds = state.rounds_of(CODE_REVIEW)
    story = rounds[-1].get("next_story") if rounds else None
    return f"The next story that is ready is {story}." if story else ""


def _about(plan: RunPlan) -> list[tuple[str, str | None]]:
    tier = None if plan.tier is None else str(plan.tier)
    return [("project type", plan.project_type), ("tier", tier), ("domain", plan.domain)]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:157] + "…"


def findings(what: str, found: Examined) -> str:
    """What others found wrong with the work, for whoever made it."""
    listed = []
    for number, one in enumerate(found.findings, 1):
        place = f" ({one.location})" if one.location else ""
        mend = f"\n   Fix it so: {one.fix}" if one.fix else ""
        listed.append(f"{number}. {one.severity}: {one.title}{place}{mend}")
    return (
        f"{what} asks for changes: {found.summary}\n\n"
        + "\n".join(listed)
        + "\n\nFix each of these in the work itself. "
        "Where one is wrong, say why, and leave it. Then end your turn with "
        '`{"step": "completed"}`; your work will be examined again.'
    )
