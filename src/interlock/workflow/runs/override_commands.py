"""What is said about care and progress, kept where the runs of a session find it: at a run's beginning, and while it
is at work (BMAD-7.1, 7.2, 7.7).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import Forbidden, InvalidRequest
from interlock.model.json import Json
from interlock.model.progress import MODES
from interlock.storage.ledger import Rows
from interlock.workflow.engine.adaptive_settings import BATCH, TIER, Care, adapt
from interlock.workflow.package import overlay
from interlock.workflow.package.files import Files
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.party import exits
from interlock.workflow.preferences import menu_rate, overrides, profiles, safety, wishes
from interlock.workflow.preferences.hints import PROGRESS, progress_mode
from interlock.workflow.preferences.profiles import Profile
from interlock.workflow.preferences.wishes import HINT, INLINE, PROFILE, SETTING, Blocked, Override
from interlock.workflow.state.document import WorkflowState

EXAMPLES = (
    "`use tier 3`, `profile: cautious`, `batch_size: 2`, `confidence: 85`, `fewer interruptions` or `progress: silent`"
)


def session_of(state: WorkflowState) -> str:
    """The session whose workflows share what is said: the one that they were begun in, else the run's own. Whoever says
    something does not know which runner will work on a run, so it is never the runner's."""
    return state.plan.session or state.workflow_id


def profiles_in(root: str) -> dict[str, Profile]:
    """The profiles that a project adds.

    Raises:
        InvalidRequest, SafetyOverrideBlocked: one cannot be used.
    """
    return profiles.read(overlay.profiles(Files(root))) if root else {}


def refuse_configured(workflow: Workflow, root: str) -> None:
    """Refuse to begin a workflow whose configuration wants to switch off what nobody can.

    Raises:
        SafetyOverrideBlocked: it does; the message says where.
    """
    skill = workflow.skill
    ours = overlay.read_overlay(Files(root), skill.module, skill.name)
    places: list[tuple[Mapping[Any, Any], str]] = [(ours.raw, overlay.FILE), (workflow.settings, skill.path)]
    places += [(one.settings, one.path) for one in workflow.steps]
    for settings, where in places:
        found = safety.in_settings(settings)
        if found:
            raise safety.refusal(found[0], found[0], where)


def at_the_beginning(
    run: str, root: str, *, tier: int | None, profile: str, progress: str, arguments: str, brief: str, at: str, by: str
) -> tuple[Json, str]:
    """(what was said about care when a run was asked for, its arguments without that). Arguments may be nothing else:
    `/bmad:…:create-prd use tier 3`; an inline modifier among them, or in the brief, is about the whole run.

    Raises:
        InvalidRequest: there is no such tier, profile or mode. SafetyOverrideBlocked.
    """
    document: Json = {}
    said: list[Override] = []
    word, left = wishes.inline(arguments)
    found = wishes.understood(left) if left else None
    if isinstance(found, Blocked):
        raise found.error
    mode = progress_mode(left) if found is None and left else None
    if found or mode:
        said, left = list(found or ()), ""
    word = word or wishes.inline(brief)[0]
    # What an option says is no less explicit than words.
    said += [Override(TIER, TIER, tier, f"--tier {tier}")] if tier is not None else []
    said += [Override(PROFILE, profile, None, f"--profile {profile}")] if profile else []
    overrides.check(said, profiles_in(root))
    overrides.apply(document, [one for one in said if one.kind != INLINE], at=at, by=by)
    if word is not None:
        overrides.apply_inline(document, run, word, None, at=at, by=by)
    kept = document.get(overrides.KEY, {})
    if mode or progress:
        kept[PROGRESS] = _progress(mode or progress, at, by)
    return kept, left


def say(
    act: UnitOfWork, text: str, *, session: str, state: WorkflowState | None = None, root: str = "", clear: bool = False
) -> Json:
    """Keep what somebody says for the workflows of a session; `state` is the run it is about, if there is one yet.

    Raises:
        Forbidden: only the lead and people may, no agent about its own work.
        InvalidRequest: nothing of the kind is said, or there is no such tier, profile or mode.
        SafetyOverrideBlocked: it would switch off what nobody can.
    """
    if not act.leads:
        raise Forbidden("How careful a workflow is, is said by the lead or a human, not by who is at work in it.")
    text = "clear overrides" if clear else text
    word = exits.exit_understood(text, state)
    if word is not None and state is not None:
        return _left(act, state, word)
    document = act.rows.workflows.session(session)
    mode = progress_mode(text)
    said = None if mode else wishes.understood(text)
    if isinstance(said, Blocked):
        raise said.error
    if mode is not None:
        document.setdefault(overrides.KEY, {})[PROGRESS] = _progress(mode, act.at, act.name)
    elif said is None:
        raise InvalidRequest(f"{text[:80]!r} says nothing about care or progress. Say, for instance, {EXAMPLES}.")
    else:
        own = profiles_in(state.plan.project if state is not None else root)
        overrides.check(said, own)
        overrides.apply(document, said, at=act.at, by=act.name)
        for one in said:
            if one.kind == INLINE:
                if state is None:
                    raise InvalidRequest(f"[{one.name}] is about one operation, and no workflow is at work here.")
                # About the step at hand; the next one where that waits at its end.
                waits = state.waiting.data if state.waiting is not None else {}
                step = waits.get("next", state.current_step)
                overrides.apply_inline(document, state.workflow_id, one.name, step, at=act.at, by=act.name)
    menu_rate.spoke(document)
    act.rows.workflows.keep_session(session, document, act.at)
    task = state.task_id if state is not None else None
    texts = [text] if mode else [one.text for one in said or ()]
    act.event("workflow.said", task, workflow_id=state.workflow_id if state else None, session=session, said=texts)
    return {**_answer(document, state, said or (), mode), "session": session, "said": texts}


def _left(act: UnitOfWork, state: WorkflowState, word: str) -> Json:
    """An exit word to the discussion that is under way (BMAD-5.4.1)."""
    session = session_of(state)
    document = act.rows.workflows.session(session)
    exits.say_exit(document, state, word)
    act.rows.workflows.keep_session(session, document, act.at)
    act.event("workflow.said", state.task_id, workflow_id=state.workflow_id, session=session, said=[word])
    text = "Party Mode ends; the run goes on with what was said so far."
    return {"workflow_id": state.workflow_id, "in_force": None, "text": text, "session": session, "said": [word]}


def now(rows: Rows, session: str, state: WorkflowState | None, mode: str) -> Json:
    """What is in force, and what was said, without a change."""
    document = rows.workflows.session(session)
    said = overrides.layered(state.plan.said if state is not None else {}, document.get(overrides.KEY) or {})
    texts = [str(one["text"]) for kind in (TIER, PROFILE, HINT, PROGRESS) if (one := said.get(kind))]
    texts += [str(one["text"]) for one in (said.get(SETTING) or {}).values()]
    care = care_of(state, document) if state is not None else None
    return {
        "workflow_id": state.workflow_id if state is not None else None,
        "session": session,
        "said": texts,
        "in_force": care.as_dict() if care is not None else None,
        "progress_mode": (said.get(PROGRESS) or {}).get("value") or mode,
        "text": f"In force: {care.text}." if care is not None else f"Said: {', '.join(texts) or 'nothing'}.",
    }


def _answer(
    document: Mapping[str, Any], state: WorkflowState | None, said: tuple[Override, ...], mode: str | None
) -> Json:
    run = state.workflow_id if state is not None else None
    if mode is not None:
        return {"workflow_id": run, "progress_mode": mode, "in_force": None, "text": f"Progress is {mode} from now on."}
    if state is None:
        text = f"Noted for the workflows of this session: {', '.join(one.text for one in said)}."
        return {"workflow_id": None, "in_force": None, "text": text}
    care = care_of(state, document)
    left = overrides.unheard(said, care)
    text = f"In force from the next decision on: {care.text}." + (f" {left}." if left else "")
    return {"workflow_id": run, "in_force": care.as_dict(), "text": text}


def care_of(state: WorkflowState, document: Mapping[str, Any]) -> Care:
    """What is in force for a run, as its next decision will have it."""
    said, own = document.get(overrides.KEY) or {}, {}
    if PROFILE in said or PROFILE in state.plan.said:
        with suppress(InvalidRequest, Forbidden):
            own = profiles_in(state.plan.project)
    care = overrides.in_force(state, said, own)
    adapted = adapt(state.plan.tier, module=state.module, domain=state.plan.domain, care=care)
    if adapted.batch != care.values[BATCH]:
        sources = {**care.sources, BATCH: {"method": "domain", "text": f"the domain {state.plan.domain}"}}
        care = replace(care, values={**care.values, BATCH: adapted.batch}, sources=sources)
    return care


def shown(state: WorkflowState, rows: Rows, now: float, mode: str) -> Json:
    """What every face shows of it: `{in_force, rate_limited, next_available_at, rate_limit_reason, progress_mode,
    estimated_percent}`. `mode` is the setting's."""
    document = rows.workflows.session(session_of(state))
    said = overrides.layered(state.plan.said, document.get(overrides.KEY) or {})
    known = said.get(PROGRESS) or {}
    return {
        "in_force": care_of(state, document).as_dict(),
        "progress_mode": known.get("value") or mode,
        **menu_rate.status(document, now),
    }


def _progress(mode: str, at: str, by: str) -> Json:
    if mode not in MODES:
        raise InvalidRequest(f"There is no progress mode {mode!r}. There are: {', '.join(MODES)}.", field="progress")
    return {"value": mode, "text": f"progress: {mode}", "by": by, "at": at}
