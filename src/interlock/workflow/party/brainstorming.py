"""Brainstorming workflows: ideas of several perspectives are gathered before the step that ideates (BMAD-5.11, FR25a).

Up to tier 2 by simulated ideation: three to five personas, each by itself. From tier 3 on the domain's own questions
come first, and Party Mode is held in full. Either gives the same summary, which the step's agent gets with the step.
"""

from __future__ import annotations

import re
from dataclasses import replace

from interlock.model.json import Json
from interlock.workflow.engine import documents
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import Save
from interlock.workflow.markdown import quoted
from interlock.workflow.package.step import Step
from interlock.workflow.party import cast, party_mode_driver, rounds
from interlock.workflow.party.party_mode_driver import SIMULATED, Party
from interlock.workflow.party.rounds import IDEATION, LARGE, SEED

NAMED = re.compile(r"brainstorm", re.IGNORECASE)
IDEATES = re.compile(
    r"technique[- ]execution|ideat|idea[- ]?generat|generat\w{0,20}[- ]ideas|diverg|brainstorm", re.IGNORECASE
)
PREPARES = re.compile(
    r"set-?up|\binit|continu|select|recommend|random|progressive|discover|organi[sz]|context|complete|session$", re.I
)
ROUNDS = 2  # of simulated ideation: each for itself, then building on the others
TOPIC = 4000  # characters

QUESTIONS = (
    "What comes to mind that is not obvious? Name three to five ideas, the boldest first.",
    "Which one would you try first, and what would show quickly whether it holds?",
)
DOMAINS: dict[str, tuple[str, tuple[str, ...]]] = {
    "healthcare": (
        r"health\w*|medic\w*|patient|clinic\w*|hospital|therap\w*|nurs\w*",
        (
            "Who is harmed if the idea is wrong, and how would it be noticed in time?",
            "Which part of the day of patients and of those who care for them becomes lighter?",
            "Which data does it need, and could it do without them?",
        ),
    ),
    "finance": (
        r"financ\w*|fintech|bank\w*|payment|invest\w*|insur\w*|account\w*|tax\w*|trad(?:e|ing)",
        (
            "Where does money or trust get lost today, and who bears it?",
            "What would make fraud or a mistake visible before it costs?",
            "Which rule looks like an obstacle and could be made a strength?",
        ),
    ),
    "games": (
        r"game\w*|player\w*|quest|level design|multiplayer",
        (
            "What does the player do again and again, and why is it still fun the hundredth time?",
            "Which feeling should be left after five minutes, and after five hours?",
            "What would this game be with one of its mechanics taken away?",
        ),
    ),
    "education": (
        r"educat\w*|learn\w*|teach\w*|student\w*|school\w*|cours\w*",
        (
            "What can somebody do afterwards that they could not do before, and how do they notice?",
            "Where do learners give up, and what keeps them going there?",
        ),
    ),
    "commerce": (
        r"shop\w*|store|retail|commerce|checkout|customer\w*|market\w*",
        (
            "Why would somebody come back who has bought once?",
            "What do people ask before they buy that nobody answers them?",
        ),
    ),
    "software": (
        r"software|app|api|platform|tool|developer\w*|data|cloud|web",
        (
            "What do people do by hand today, around the tools that they have?",
            "What would it be if it had to work without a screen, without a network, or without an account?",
            "What is the smallest part that somebody would use every day?",
        ),
    ),
}
GENERAL = (
    "For whom would this be so good that they tell others of it?",
    "What does everybody in this field take for given, and what if the opposite held?",
)


def prepare(run: Draft) -> bool:
    """Before a step begins: whether ideas are to be gathered for it first. They are for the one that ideates, once in a
    run."""
    party = rounds.of(run)
    if party is not None and party.running and party.purpose == IDEATION and party.step == run.record.id:
        return True
    if SEED in run.state.party or not run.staffed or ideating(run) != run.step:
        return False
    topic = run.observe("topic", lambda: _topic(run))
    if not topic:
        return False
    large = run.settings.tier >= LARGE
    problem = f"Ideas are wanted. The topic:\n\n{quoted(topic)}"
    party = rounds.new(run, IDEATION, "ideas are wanted", topic=cast.IDEATION, problem=problem)
    questions = (*_prompts(run, topic), *QUESTIONS) if large else QUESTIONS
    party = replace(party, questions=questions, max_rounds=party_mode_driver.ROUNDS if large else ROUNDS)
    why = f"tier {run.settings.tier}: {'simulated ideation' if party.how == SIMULATED else 'full Party Mode'}"
    run.decide(Decision("brainstorming", party.how, why))
    rounds.keep(run, party)
    return True


def seed(run: Draft, party: Party) -> None:
    """The step gets the ideas that were gathered."""
    prompts = _prompts(run, party.problem) if run.settings.tier >= LARGE else ()
    summary = party_mode_driver.summary(party).as_dict()
    kept: Json = {
        "step": run.record.id, "text": cast.seed(party, prompts), "how": party.how, "summary": summary
    }  # fmt: skip
    run.state.party = {**run.state.party, SEED: kept}
    run.effect(Save())


def ideating(run: Draft) -> Step | None:
    """The step of a brainstorming workflow in which ideas are found; None for any other workflow."""
    workflow = run.workflow
    if not NAMED.search(workflow.skill.name) or workflow.skill.type != "workflows":
        return None
    for one in workflow.steps:
        name = one.path.rpartition("/")[2] if workflow.follow else one.title
        if IDEATES.search(f"{name} {one.title}") and not PREPARES.search(name.removesuffix(".md")):
            return one
    return workflow.first


def domain_prompts(domain: str | None, topic: str) -> tuple[str, ...]:
    """The questions of the domain that is named, else of the one that the topic's words speak of most."""
    counted = {name: len(re.findall(rf"\b(?:{words})\b", topic, re.I)) for name, (words, _) in DOMAINS.items()}
    named = next((name for name, (words, _) in DOMAINS.items() if domain and re.fullmatch(words, domain, re.I)), None)
    best = named or max(counted, key=lambda name: counted[name])
    return (*(DOMAINS[best][1] if named or counted[best] else ()), *GENERAL)


def _prompts(run: Draft, topic: str) -> tuple[str, ...]:
    domain = "games" if run.workflow.module == "bmgd" else run.state.plan.domain
    return domain_prompts(domain, topic)


def _topic(run: Draft) -> str:
    """What it is about, as far as anybody has said: the request, the brief, answers, and what was written so far."""
    state = run.state
    said = [state.plan.arguments, state.plan.brief]
    said += [f"{one.get('text', '')} → {one['answer']}" for one in state.asked if one.get("answer")][-6:]
    written = [*state.documents, *(path for one in state.steps.values() for path in one.files)]
    for path in documents.existing(run.root, dict.fromkeys(one for one in written if one.endswith(".md")))[:3]:
        said.append(documents.read(run.root, path)[:TOPIC])
    return "\n\n".join(one.strip() for one in said if one.strip())[:TOPIC]
