"""Invocations, project type, tiers, validation types and cross references, beyond what the verbs' own tests show."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.entry import verdicts
from interlock.workflow.entry.cross_reference_validator import compare, referenced
from interlock.workflow.entry.custom_pattern import CustomPattern, InvalidPattern, register
from interlock.workflow.entry.project_type import Survey, classify, ignored, rules, survey
from interlock.workflow.entry.tier_suggester import KEYWORDS, adjusted, from_levels, suggest
from interlock.workflow.entry.validation_type_detector import ValidationType, detect, judge
from interlock.workflow.entry.workflow_entry_wrapper import TYPES
from interlock.workflow.entry.workflow_entry_wrapper import detect as invoked
from interlock.workflow.markdown import code_spans
from interlock.workflow.package.packages import Invocation
from interlock.workflow.package.validators import check as check_artifact

MEAL = ("bmb", "workflows", "Meal Prep & Nutrition Plan")


@pytest.mark.parametrize(
    ("message", "module", "type", "name", "arguments"),
    [
        ("/bmad:core:workflows:brainstorming", "core", "workflows", "brainstorming", ""),
        ("Please run /bmad:bmm:workflows:dev-story for story 3.", "bmm", "workflows", "dev-story", "for story 3."),
        ("/bmad:bmb:workflows:Meal Prep & Nutrition Plan now", *MEAL, "now"),
        ("/bmad:bmm:agents:dev", "bmm", "agents", "dev", ""),
        ("/bmad:core:tasks:index-docs docs/", "core", "tasks", "index-docs", "docs/"),
        ("/bmad-bmm-dev-story 3", "bmm", "workflows", "dev-story", "3"),
        ("/bmad-agent-bmm-dev", "bmm", "agents", "dev", ""),
        ("/bmad-party-mode", None, "workflows", "party-mode", ""),
        ("(/bmad:bmm:workflows:prd)", "bmm", "workflows", "prd", ""),
    ],
)
def test_invocations(message: str, module: str | None, type: str, name: str, arguments: str) -> None:
    found = invoked(message, [MEAL])
    assert isinstance(found, Invocation)
    assert (found.module, found.type, found.name, found.arguments) == (module, type, name, arguments)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "bmad dev story",
        "see http://host/bmad:a:workflows:b",
        "`/bmad:bmm:workflows:dev-story` does what?",
        "```\n/bmad:bmm:workflows:dev-story\n```",
        "> /bmad:bmm:workflows:dev-story",
        "run /bmad:bmm:workflows:{{next_workflow_id}}",
        "all of /bmad:* are known",
        "the file src/bmad-notes.md and /bmad-notes.md",
        "/bmad-bmm-dev-story/steps",
    ],
)
def test_what_is_only_mentioned_invokes_nothing(message: str) -> None:
    assert invoked(message) is None


NAMES = st.from_regex(r"[a-z]+(-[a-z0-9]+){0,3}", fullmatch=True)


@given(st.from_regex(r"[a-z]{2,5}", fullmatch=True), st.sampled_from(TYPES), NAMES)
def test_every_well_formed_invocation_is_read_as_it_is_written(module: str, type: str, name: str) -> None:
    found = invoked(f"Do /bmad:{module}:{type}:{name} please")
    assert isinstance(found, Invocation) and (found.module, found.type, found.name) == (module, type, name)


@given(st.text(alphabet=st.sampled_from("/bmad:-workflows` \n>{}*x"), max_size=120))
def test_no_message_breaks_the_entry(message: str) -> None:
    invoked(message, [MEAL])


def test_a_flood_of_backticks_takes_no_time() -> None:
    start = time.process_time()
    invoked("`" * 200_000 + "``a`" * 50_000)
    assert time.process_time() - start < 10


@pytest.mark.parametrize("piece", [" ", "Overall ", "<status>", "<!--"])
def test_no_text_takes_the_square_of_its_length(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    start = time.process_time()
    assert detect({}, text) == ValidationType("unknown")
    assert verdicts.read(text) is None
    assert compare(text, text).issues == ()
    assert time.process_time() - start < 10


def test_an_agent_that_is_never_closed_is_looked_through_once() -> None:
    assert check_artifact("/x/workflow.md", "<agent id=" * 20_000).kind == "agent"


@pytest.mark.parametrize(
    ("text", "spans"),
    [("`a` b ``c`d``", ["`a`", "``c`d``"]), ("`a", []), ("``a`", []), ("`a``b`", ["`a``b`"]), ("```x```", ["```x```"])],
)
def test_code_spans_close_with_as_many_backticks(text: str, spans: list[str]) -> None:
    assert [text[start:end] for start, end, _ in code_spans(text)] == spans


def test_what_tools_and_authors_leave_out_is_not_the_project(tmp_path: Path) -> None:
    for folder in ("_bmad/scripts", ".claude/skills", "docs", "node_modules/x", "made", "lib2/cache", "target"):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(20):
            (tmp_path / folder / f"f{number}.py").touch()
    (tmp_path / ".gitignore").write_text("made/\n*/cache\n")
    (tmp_path / "one.py").touch()
    found = survey(str(tmp_path))
    assert found.source_files == 1 and classify(found).project_type == "greenfield"


@pytest.mark.parametrize(
    ("text", "path", "directory", "out"),
    [
        ("*.log", "a/b.log", False, True),
        ("build/", "build", False, False),
        ("build/", "x/build", True, True),
        ("/build", "x/build", True, False),
        ("a/**/b", "a/x/y/b", False, True),
        ("*.py\n!keep.py", "keep.py", False, False),
        ("# note\n\n[ab].c", "a.c", False, True),
        ("[", "[", False, True),
        ("[z-a].c", "z.c", False, False),
    ],
)
def test_ignore_rules(text: str, path: str, directory: bool, out: bool) -> None:
    assert ignored(path, directory, rules(text)) == out


@given(st.text(alphabet=st.sampled_from("*?[]!/\\a.-^\n "), max_size=60), st.text(st.sampled_from("a/.b"), max_size=20))
def test_no_ignore_file_breaks_the_survey(text: str, path: str) -> None:
    ignored(path, False, rules(text))


@given(st.sampled_from(sorted(KEYWORDS)), st.data())
def test_a_tier_with_more_than_half_of_the_words_wins(tier: int, data: st.DataObject) -> None:
    own = [word for word in KEYWORDS[tier] if " " not in word and "-" not in word]
    words = data.draw(st.lists(st.sampled_from(own), min_size=2, max_size=3, unique=True))
    other = data.draw(st.sampled_from([one for one in KEYWORDS if one != tier]))
    stray = data.draw(st.sampled_from([word for word in KEYWORDS[other] if " " not in word and "-" not in word]))
    found = suggest(f"We {' and '.join(words)}, {stray}.")
    assert found.tier == tier and found.confidence != "low"


def test_the_longest_phrase_counts_once() -> None:
    found = suggest("a complex system")
    assert found.matched_keywords == ("complex system",) and found.hits == {3: ("complex system",)}


def test_a_tie_goes_to_the_higher_tier_with_low_confidence() -> None:
    assert (suggest("fix the dashboard").tier, suggest("fix the dashboard").confidence) == (2, "low")


def test_the_code_base_moves_what_is_not_a_single_change() -> None:
    large = Survey(source_files=900, components=("a", "b"))
    assert adjusted(suggest("fix a typo"), large).tier == 0
    assert adjusted(suggest("enterprise"), large).tier == 4
    assert adjusted(suggest("nothing known"), large).tier == 3
    assert adjusted(suggest("nothing known"), Survey(source_files=20)).tier == 1
    assert adjusted(suggest("nothing known"), Survey()).tier == 2


def test_a_packages_own_words_are_added() -> None:
    words = from_levels({"detection_hints": {"keywords": {"level_4": ["live service"], "level_0": "jam"}}})
    assert suggest("a live service", None, words).tier == 4 and from_levels({}) and from_levels({"detection_hints": 3})


@pytest.mark.parametrize(
    ("text", "word", "outcome"),
    [
        ("Overall Status: PASS", "PASS", verdicts.SUCCESS),
        ("**Outcome:** Changes Requested", "CHANGES REQUESTED", verdicts.FAILURE),
        ("**Gate Decision**: `CONCERNS`", "CONCERNS", verdicts.PARTIAL),
        ("Status: Not Ready", "NOT READY", verdicts.FAILURE),
        ("It is NOT APPROVED.", "NOT APPROVED", verdicts.FAILURE),
        ("FAILED at first. Later: PASSED", "PASSED", verdicts.SUCCESS),
        ("Verdict: FAIL\n\nAll tests PASSED.", "FAIL", verdicts.FAILURE),
        ("Verdict: [PASS/FAIL]\nVerdict: PASS", "PASS", verdicts.SUCCESS),
        ("Recommendation: Approve with Comments", "APPROVE WITH COMMENTS", verdicts.SUCCESS),
    ],
)
def test_verdicts(text: str, word: str, outcome: str) -> None:
    found = verdicts.read(text)
    assert found and (found.word, found.outcome) == (word, outcome)


@pytest.mark.parametrize("text", ["[PASS/FAIL/PARTIAL]", "bypass the PASSWORD", "it passed", "ready to block", ""])
def test_no_verdict(text: str) -> None:
    assert verdicts.read(text) is None


def kind(text: str) -> str:
    found = detect({}, text)
    assert isinstance(found, ValidationType)
    return found.validation_type


@pytest.mark.parametrize(
    "text",
    ["[PASSED|FAILED|CONDITIONAL]", "{PASS | CONCERNS | FAIL | WAIVED}", "[READY/NEEDS WORK/NOT READY]",
     "[PASS / FAIL]", "Approve | Approve with Comments | Request Changes | Block", "Approve/Changes Requested/Blocked"],
)  # fmt: skip
def test_the_choices_that_real_workflows_offer_are_verdicts(text: str) -> None:
    assert kind(f"Say {text}\n- [ ] and tick this") == "verdict-based"


@pytest.mark.parametrize(
    ("text", "output", "result"),
    [
        ("0 errors", "3 errors, then 0 errors", "success"),
        ("0 errors", "Found 2 errors.", "failure"),
        ("0 errors", "errors: 4", "failure"),
        ("no issues", "No issues found.", "success"),
        ("0 errors", "All is well.", "unknown"),
        ("- [ ] a", "- [x] a\n- [X] b", "success"),
        ("- [ ] a", "- [x] a\n- [ ] b", "failure"),
        ("PASS/FAIL", "Verdict: CONCERNS", "partial"),
    ],
)
def test_an_output_is_judged_by_the_type(text: str, output: str, result: str) -> None:
    found = detect({}, text)
    assert isinstance(found, ValidationType) and judge(found, output) == result


def test_a_custom_pattern_is_literal_unless_it_says_regex() -> None:
    literal = register({"type": "custom", "success_pattern": "a.c", "failure_pattern": "no"})
    regex = register({"type": "custom", "success_pattern": "^a.c$", "failure_pattern": "no", "regex": True})
    assert isinstance(literal, CustomPattern) and isinstance(regex, CustomPattern)
    assert (literal.result("abc"), literal.result("a.c"), regex.result("x\nabc")) == ("unknown", "success", "success")


def test_a_success_pattern_within_the_failure_pattern_does_not_hide_it() -> None:
    found = register({"type": "custom", "success_pattern": "PASSED", "failure_pattern": "NOT PASSED"})
    assert isinstance(found, CustomPattern) and found.result("It has NOT PASSED") == "failure"


@pytest.mark.parametrize("definition", ["path.md", None, 3, ["x"], {"type": "checklist"}, {"steps": 3}])
def test_anything_else_is_no_custom_pattern(definition: object) -> None:
    assert register(definition) is None


@given(st.dictionaries(st.sampled_from(["type", "success_pattern", "failure_pattern"]),
                       st.one_of(st.text(max_size=8), st.booleans(), st.none(), st.just("custom"))))  # fmt: skip
def test_a_definition_is_either_usable_or_says_why_not(definition: dict[str, object]) -> None:
    found = register(definition)
    if isinstance(found, InvalidPattern):
        assert found.failures and found.as_dict()["error"] == "invalid_pattern"
    elif found is None:
        assert definition.get("type") != "custom"
    else:
        assert found.result("some output") in ("success", "failure", "unknown")


IDS = st.integers(1, 60)


@pytest.mark.req("BMAD-E1.3")
@given(st.sets(IDS, min_size=1, max_size=20), st.data())
def test_no_requirement_or_decision_that_is_left_out_goes_unnoticed(required: set[int], data: st.DataObject) -> None:
    covered = data.draw(st.sets(st.sampled_from(sorted(required))))
    told = data.draw(st.sets(st.sampled_from(sorted(required))))
    style = data.draw(st.sampled_from(["FR{}", "FR-{}", "FR{:03}", "**FR{}**", "fr{}"]))
    prd = "\n".join(f"- FR{number}: something" for number in sorted(required))
    architecture = "\n".join(f"Component for {style.format(number)}" for number in covered) + "\nADR-1\nADR-2\n"
    stories = "\n".join(f"As a user ({style.format(number)})" for number in told) + "\nfollows ADR-002\n"
    found = compare(prd, architecture, stories)
    assert set(found.orphaned_requirements) == {f"FR{number}" for number in required - (covered & told)}
    assert found.unaddressed_decisions == ("ADR-1",)


@given(st.integers(1, 30), st.integers(0, 30), st.sets(IDS, min_size=1))
def test_a_range_names_exactly_what_lies_between_its_ends(low: int, length: int, known: set[int]) -> None:
    keys = {("FR", number, "") for number in known}
    expected = {("FR", number, "") for number in known if low <= number <= low + length}
    for text in (f"FR{low}-FR{low + length}", f"FR{low}–{low + length}", f"FR-{low} to FR-{low + length}"):
        assert referenced(text, keys) == expected


@pytest.mark.parametrize(
    "text", ["FR3 is out of scope.", "<!-- FR3 -->", "FR3: not covered yet", "FR33 and FR3a", "NFR3", "AFR3", "FR3b-x"]
)
def test_what_does_not_take_a_requirement_up_is_no_reference(text: str) -> None:
    assert compare("FR3: x", text).orphaned_requirements == ("FR3",)


def test_an_id_that_no_document_defines_is_reported() -> None:
    found = compare("FR1", "FR1 FR2 ADR-001", "FR1 ADR-001 ADR-9")
    assert [(issue.severity, issue.type, issue.id) for issue in found.issues] == [
        ("MEDIUM", "unknown_reference", "FR2"),
        ("LOW", "unknown_reference", "ADR-9"),
    ]
