"""Dependencies that an agent proposes for stories of which nobody says what they wait for.

It never contradicts anybody: it is asked about the stories alone whose order is only that of the list, and what their
list, file, text or `interlock.workflows.yaml` says later goes before it. What makes no sense, such as a dependency
cycle, is refused, and the agent is told why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlock.model.json import Json
from interlock.model.plan import cycles
from interlock.workflow.answers import objects
from interlock.workflow.stories.inventory import Backlog, PlannedStory

TEXT = 1500  # characters of a story's text that the agent reads
_ASKED = """\
Say which of these stories have to be done before which others. Change no file and begin with none of them: look at the
project as far as you need.

{stories}

Say it of: {keys}. A story has to wait for another where it uses what that one makes, or where both change the same
places. The others are implemented at the same time. Leave out what follows from the rest: where c waits for b and b for
a, c waits for b.

Answer with one JSON object and nothing after it, with an entry for each story that you are asked about:

{{"dependencies": [{{"story": "KEY", "depends_on": {{"KEY": "why, in a few words"}}}}]}}
"""


class ProposedDependencies(BaseModel):
    """What one story would wait for, with the reasons."""

    model_config = ConfigDict(extra="forbid")

    story: str
    depends_on: dict[str, str] = Field(default_factory=dict, max_length=50)


class DependencyAnswer(BaseModel):
    """The whole answer."""

    model_config = ConfigDict(extra="forbid")

    dependencies: list[ProposedDependencies]


def unsaid(backlog: Backlog) -> list[PlannedStory]:
    """The stories that are not done and whose order is only that of the list."""
    return [one for one in backlog.stories if not one.said and not one.done]


def request(backlog: Backlog) -> str:
    """What the agent is asked."""
    told = []
    for one in backlog.stories:
        known = f", waits for {', '.join(one.depends_on) or 'nothing'}" if one.said else ""
        text = "".join(f"> {line}\n" for line in one.text.strip()[:TEXT].splitlines())
        told.append(f"{one.key} ({one.status}, epic {one.epic}{known}): {one.title}\n{text}")
    return _ASKED.format(stories="\n".join(told), keys=", ".join(one.key for one in unsaid(backlog)))


def judge(backlog: Backlog, answer: str) -> tuple[str, list[Json]]:
    """The proposal in an answer, as JSON of `{KEY: {KEY: why}}`, and what is wrong with it, as `{line, message}`."""
    found = [one for _, one in objects(answer, ("dependencies",))]
    try:
        if not found:
            return "", [_fault("there is no JSON object with `dependencies` in the answer")]
        told = DependencyAnswer.model_validate(found[-1])
    except ValidationError as error:
        said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return json.dumps(found[-1]), [_fault(one) for one in said]
    proposed = {one.story: {key: " ".join(why.split())[:200] for key, why in one.depends_on.items()}
                for one in told.dependencies}  # fmt: skip
    every, asked = {one.key for one in backlog.stories}, {one.key for one in unsaid(backlog)}
    faults = [
        f"{key}: leave it out, it is none of those that you were asked about" for key in proposed if key not in asked
    ]
    faults += [f"{key} is missing" for key in asked if key not in proposed]
    faults += [f"{key}: there is no story {one}" for key, its in proposed.items() for one in its if one not in every]
    edges = {one.key: list(one.depends_on) for one in backlog.stories}
    edges |= {key: list(its) for key, its in proposed.items() if key in asked}
    faults += [f"dependency cycle: {' -> '.join(one)}" for one in cycles(edges) if asked & set(one)]
    return json.dumps(proposed), [_fault(one) for one in faults]


def correction(faults: Sequence[Mapping[str, object]]) -> str:
    """What the agent is told of a proposal that cannot be used."""
    listed = "\n".join(f"- {one['message']}" for one in faults[:20])
    return f"That cannot be used:\n\n{listed}\n\nAnswer with the whole JSON object again, corrected.\n"


def _fault(message: str) -> Json:
    return {"line": None, "message": message}
