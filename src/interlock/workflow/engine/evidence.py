"""What a step must leave behind before it counts as completed, and whether it has (decision 45).

`wanted` reads it from the step: the document that its settings name, the sections and the frontmatter that its text
asks for, and, of a step that names no document, the files, statuses and commands of its text. `look` compares that with
the project: content counts, never a time stamp, since the step's first start. What the engine has written into a
document itself (its checkpoints) is no change.

Each finding is a `Proof`, kept in the step's record: `seen` by the engine, `held` before the step and said to be
enough, `stated` by the agent alone, or `missing`. Pure but for reading files.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from interlock.lazy_dataclass import dataclass
from interlock.model.workflow import GATE
from interlock.workflow.engine.closing_line import SKIPPED, Closing
from interlock.workflow.engine.documents import NAMES, is_done, listed_in, read, relative, variables_of
from interlock.workflow.engine.steps import GATES, START
from interlock.workflow.engine.turn_interpreter import Reading
from interlock.workflow.markdown import CODE, lines
from interlock.workflow.package import files
from interlock.workflow.package.packages import FOLDER
from interlock.workflow.package.step import Step, is_step_file
from interlock.workflow.package.tagged_steps import TAG, attributes_of
from interlock.workflow.package.variables import Variables
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state.checkpoint_list import KEY as CHECKPOINTS
from interlock.workflow.state.document import Proof, StepRecord

CHANGED, SECTION, FRONTMATTER = "document_changed", "section", "frontmatter"
FILE, COMMAND, VERDICT, NONE = "file_changed", "command_result", "verdict", "none"
WRITTEN = frozenset({CHANGED, FILE})
SEEN, HELD, STATED, MISSING = "seen", "held", "stated", "missing"
NOTHING = Proof(NONE, "", SEEN, "no evidence required by the step")

MOST = 20  # findings of each kind
SEVERAL = 64  # texts of steps of which it is known what they say
MATCHING = 2000  # files that one pattern stands for
GIVEN = re.compile(r"\{\{([\w-]+)\}\}")
PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}|\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>")
BRANCH = re.compile(r"(</?check\b)")
APPENDS = re.compile(
    r"\b(?:append|add|save|saving|write)\b[^\n]{0,60}\b(?:document|sections?|\{outputFile\})|\bcontent structure\b",
    re.IGNORECASE,
)
NEAR = 8  # lines above a fence in which it is said that the fence is to be appended
HEADING = re.compile(r"^##\s+([^#\n].*?)\s*#*\s*$")
LISTS = re.compile(r"stepsCompleted\W{0,3}:\s*\[([^\]\n]*)\]", re.IGNORECASE)
LISTS_ITSELF = re.compile(
    r"\b(?:update|add|append|set|adding|updating)\b[^\n]{0,60}\bsteps ?completed\b(?![^\n]*\[)", re.IGNORECASE
)
WRITES = re.compile(
    r"\b(?:write|save|create|generate|append|update)\b[^\n`{}<]{0,60}[`\"'(]?"
    r"(\{+[\w-]+\}+(?:/[\w./{}-]+)?|(?<=`)(?!\.|references/)(?:[\w-]+/)+[\w-]+\.(?:md|ya?ml|json|csv|txt)(?=`))",
    re.IGNORECASE,
)
RUNS = re.compile(
    r"\b(?:run|execute|re-run)\b[^\n.<]{0,40}?(?:`((?:npm|npx|yarn|pnpm|bun|pytest|tox|ruff|mypy|make|cargo|go|mvn|gradle"
    r"|dotnet|git) [^`{}\n]{2,80})`|\b((?:all |existing |new |full |unit )*(?:regression suite|test suite|tests?"
    r"|lint\w*))\b)",
    re.IGNORECASE,
)
CONDITIONAL = re.compile(
    r"\b(?:if|when|optional(?:ly)?|unless|e\.g\.|example|may|would|should|user)\b|<output|❌|✅", re.I
)
MAY_BE_LEFT_OUT = re.compile(r"\b(?:skip|optional|not (?:needed|applicable|required))", re.IGNORECASE)


@dataclass(slots=True, frozen=True)
class Required:
    """One thing that a step must leave. `paths` are documents, or patterns of their names; one of them is enough.
    `strict`: the agent's word alone does not stand for it."""

    kind: str
    subject: str
    paths: tuple[str, ...] = ()
    strict: bool = True

    @property
    def line(self) -> str:
        """As the agent is told of it."""
        where = " or ".join(f"`{path}`" for path in self.paths)
        return {
            CHANGED: f"changed: {where}",
            SECTION: f"section: `{self.subject}` in {where}",
            FRONTMATTER: f"frontmatter: `stepsCompleted` of {where} lists `{self.subject}`",
            FILE: f"file: {where} changed",
            COMMAND: f"command: {self.subject} run, with its result",
            VERDICT: 'verdict: `"PASSED"` or `"FAILED"` in the closing line',
        }[self.kind]


def wanted(workflow: Workflow, step: Step, values: Mapping[str, str]) -> tuple[Required, ...]:
    """What the step must leave; empty where it names nothing that could be looked at."""
    if str(step.id).startswith(GATE):
        return (Required(VERDICT, "", strict=False),) if str(step.id).removeprefix(GATE) in GATES else ()
    if step.id == START and workflow.follow:
        return ()
    variables = variables_of(workflow, step, values)
    text = _unconditional(step.text)
    documents = _named(step.settings, variables) or _templated(workflow, text, variables)
    if not documents:
        return (*_files(step, text, variables), *_commands(text))
    english = str(variables.value("document_output_language") or "English").casefold().startswith("english")
    sections = sections_of(step.text) if english else ()
    found = [Required(CHANGED, documents[0], documents)]
    found += [Required(SECTION, one, documents) for one in sections]
    # Its text has it put itself on the document's list of completed steps.
    if _literal(step) or LISTS_ITSELF.search(step.text) is not None:
        found.append(Required(FRONTMATTER, str(step.id), documents))
    return tuple(found)


def told(found: Sequence[Required]) -> str:
    """What an agent is told with the step of what it must leave; "" for nothing."""
    if not found:
        return ""
    listed = "\n".join(f"- {one.line}" for one in found)
    return (
        f"## What this step must leave\n\n{listed}\n\n"
        "Interlock looks at it before it goes on. Where nothing had to change because it is there already, or a "
        'condition of the step does not hold, add `"unchanged": "why"` to the closing line; where a command has '
        'run, add `"evidence": ["command: result"]`.'
    )


def snapshot(root: str, found: Iterable[Required]) -> dict[str, str]:
    """The contents of what is to change, by path; "" for what is not there, also of a pattern."""
    kept: dict[str, str] = {}
    for path in dict.fromkeys(path for one in found if one.kind in (CHANGED, FILE) for path in one.paths):
        matching = _matching(root, path)
        kept |= {one: content(root, one) for one in matching} or {path: ""}
    return kept


def look(root: str, found: Sequence[Required], step: Step, record: StepRecord, reading: Reading) -> list[Proof]:
    """What there is of everything that the step must leave."""
    closing = reading.closing
    if not found:
        return [Proof(NONE, "", STATED, closing.unchanged)] if closing.unchanged else [NOTHING]
    if reading.kind == SKIPPED and closing.reason and (step.optional or MAY_BE_LEFT_OUT.search(step.text)):
        return [Proof(NONE, "", STATED, closing.reason)]
    return [_proof(root, step, record, closing, one) for one in found]


def missing(proofs: Iterable[Proof]) -> list[str]:
    """What is missing, a sentence each."""
    return [one.reason for one in proofs if one.found == MISSING]


def unchanged(proofs: Iterable[Proof]) -> bool:
    """Whether the agent has said that something had not to change."""
    return any(one.found == HELD or (one.found == STATED and one.kind != COMMAND) for one in proofs)


def seen(proofs: Iterable[Proof]) -> bool:
    """Whether all is there, and something of it was seen by the engine itself."""
    listed = list(proofs)
    return not missing(listed) and any(one.found == SEEN and one.kind != NONE for one in listed)


def changed(root: str, before: Mapping[str, str], path: str) -> bool:
    """Whether a file is not what it was in a snapshot; one that is not in it counts as changed where it is there."""
    return content(root, path) != before.get(path, "")


def content(root: str, path: str) -> str:
    """What a document is known by: its text without the engine's own lines and without white space at line ends; ""
    for one that is not there or empty."""
    text = read(root, path)
    body = "\n".join([line.rstrip() for line in _without_ours(text).splitlines()]).strip()
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:20] if body else ""


@lru_cache(SEVERAL)
def sections_of(text: str) -> tuple[str, ...]:
    """The level 2 headings that the text says to append: those in a fence below such words, without placeholders."""
    found: list[str] = []
    above: list[str] = []
    inside = False
    for line in lines(text):
        if line.kind == CODE:
            inside = inside or any(APPENDS.search(one) for one in above[-NEAR:])
            heading = HEADING.match(line.text.strip()) if inside else None
            if heading and not re.search(r"[\[\]{}<>|]", heading[1]):
                found.append(heading[1])
        elif line.text.strip():
            if inside:
                above = []
            inside = False
            above.append(line.text)
    return tuple(dict.fromkeys(found))[:MOST]


def _proof(root: str, step: Step, record: StepRecord, closing: Closing, one: Required) -> Proof:
    where = " or ".join(one.paths)
    if one.kind == VERDICT:
        return (
            Proof(VERDICT, "", SEEN) if closing.verdict or closing.issues else _lacks(one, "its verdict is not given")
        )
    if one.kind == COMMAND:
        if record.ran:
            return Proof(COMMAND, one.subject, SEEN, "; ".join(record.ran[-3:]))
        word = "; ".join(closing.evidence) or closing.unchanged
        if word:
            return Proof(COMMAND, one.subject, STATED, word)
        return _lacks(one, f"no result of {one.subject} was given, and no command was seen to run")
    paths = [path for pattern in one.paths for path in _matching(root, pattern)]
    if one.kind in (CHANGED, FILE):
        written = [path for path in paths if changed(root, record.before, path)]
        if written:
            return Proof(one.kind, written[0], SEEN)
        there = any(content(root, path) for path in paths)
        gone = not there and any(record.before.get(path) for path in one.paths)
        if closing.unchanged and (there or gone):
            return Proof(one.kind, paths[0] if paths else where, HELD, closing.unchanged)
        if closing.unchanged and not one.strict:
            return Proof(one.kind, where, STATED, closing.unchanged)
        return _lacks(one, f"{where} {'has not changed since the step began' if there else 'does not exist'}")
    texts = [read(root, path) for path in paths]
    if one.kind == SECTION:
        there = any(_has(text, one.subject) for text in texts)
        return Proof(SECTION, one.subject, SEEN) if there else _lacks(one, f"{where} has no section “{one.subject}”")
    listed = [listed_in(text, path) for text, path in zip(texts, paths, strict=True)]
    literal = {str(item) for item in _literal(step)}
    if any(is_done(step, done) or (literal and literal <= set(done)) for done in listed):
        return Proof(FRONTMATTER, one.subject, SEEN)
    return _lacks(one, f"`stepsCompleted` in the frontmatter of {where} does not list this step ({one.subject})")


def _unconditional(text: str) -> str:
    """The text without what stands in `<check if=…>`: nobody knows whether that condition holds."""
    kept, depth = [], 0
    for piece in BRANCH.split(text):
        if piece in ("<check", "</check"):
            depth = max(0, depth + (1 if piece == "<check" else -1))
        elif depth == 0:
            kept.append(piece)
    return "".join(kept)


def _lacks(one: Required, why: str) -> Proof:
    return Proof(one.kind, one.subject, MISSING, why)


def _named(settings: Mapping[str, object], variables: Variables) -> tuple[str, ...]:
    values = (settings[name] for name in NAMES if isinstance(settings.get(name), str))
    return _paths((str(one) for one in values if one), variables)


def _templated(workflow: Workflow, text: str, variables: Variables) -> tuple[str, ...]:
    """The document of the workflow, for a step of instructions that says that a part of it is written here."""
    for found in TAG.finditer(text):
        if found[1] == "template-output" and "=" not in (found[3] or ""):
            own = attributes_of(found[2]).get("file")
            return _paths([own], variables) if own else _named(workflow.settings, variables)
    return ()


def _paths(values: Iterable[str], variables: Variables) -> tuple[str, ...]:
    """Paths from the project's root, with `*` for what only the agent knows. What lies outside the project or among
    the package's own files is none: nothing is ever written there."""
    root = variables.project_root
    found = []
    for value in values:
        text = GIVEN.sub(lambda name: variables.value(name[1]) or name[0], value)
        text = PLACEHOLDER.sub("*", variables.resolve(text).text)
        path = relative(root, text) if text.strip("*/. ") else ""
        if path and not f"{path}/".startswith(f"{FOLDER}/") and os.path.splitext(path)[1]:
            found.append(path)
    return tuple(dict.fromkeys(found))


def _files(step: Step, text: str, variables: Variables) -> list[Required]:
    """The files that a step without a document says, unconditionally, to write."""
    if step.optional:
        return []
    found: list[str] = []
    for line in text.splitlines():
        match = None if CONDITIONAL.search(line) else WRITES.search(line)
        if match:
            name = re.sub(r"\{\{([\w-]+)\}\}", r"{\1}", match[1])
            found += [path for path in _paths([name], variables) if "*" not in path and not is_step_file(path)]
    return [Required(FILE, one, (one,), strict=False) for one in dict.fromkeys(found)][:MOST]


def _commands(text: str) -> list[Required]:
    for line in text.splitlines():
        match = None if CONDITIONAL.search(line) else RUNS.search(line)
        if match:
            return [Required(COMMAND, (match[1] or match[2]).strip(), strict=False)]
    return []


def _literal(step: Step) -> list[str]:
    """The longest list of completed steps that the text gives, where this step ends it or none is so long."""
    lists = [[item.strip(" '\"") for item in one.split(",") if item.strip()] for one in LISTS.findall(step.text)]
    plain = [one for one in lists if one and all(re.fullmatch(r"[\w.-]+", item) for item in one)]
    return max(plain, key=len, default=[])


def _has(text: str, section: str) -> bool:
    wanted_ = _plain(section)
    headings = (line.text.lstrip("# ") for line in lines(text) if line.heading)
    return any(wanted_ in _plain(one) for one in headings)


def _plain(heading: str) -> str:
    return " ".join(re.findall(r"\w+", heading.casefold()))


def _matching(root: str, pattern: str) -> list[str]:
    if "*" not in pattern:
        return [pattern] if os.path.isfile(os.path.join(root, pattern)) else []
    found = glob.glob(
        os.path.join(glob.escape(root), *(glob.escape(one).replace("[*]", "*") for one in pattern.split("/")))
    )
    return sorted(relative(root, one) for one in found if os.path.isfile(one))[:MATCHING]


def _without_ours(text: str) -> str:
    """`text` without the checkpoints that the engine keeps in a document's frontmatter."""
    every = text.removeprefix("\ufeff").splitlines()
    if not every or every[0].rstrip() != files.FENCE:
        return text
    close = next((n for n, line in enumerate(every[1:], 1) if line.rstrip() == files.FENCE), None)
    if close is None:
        return text
    kept, ours = [], False
    for line in every[1:close]:
        ours = line.startswith((f"{CHECKPOINTS}:", f'"{CHECKPOINTS}":')) or (ours and line.startswith((" ", "\t", "-")))
        if not ours:
            kept.append(line)
    return "\n".join([*([files.FENCE, *kept, files.FENCE] if kept else []), *every[close + 1 :]])
