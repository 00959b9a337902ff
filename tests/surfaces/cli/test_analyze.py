"""`interlock analyze …`: what the workflow engine sees, each criterion of the specification through the verb itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.cli.conftest import Interlock

APC = "[A] Advanced Elicitation [P] Party Mode [C] Continue"


class TestMenu:
    @pytest.mark.req("BMAD-2b.1.1", "BMAD-2b.1.5", "BMAD-FR7")
    def test_the_usual_menu_is_detected_with_its_options_and_score(self, interlock: Interlock) -> None:
        found = interlock("analyze", "menu", "-", input=APC)
        assert found.code == 0 and found.json == {
            "menu_detected": True,
            "confidence": 100,
            "options": [
                {"key": "A", "label": "Advanced Elicitation"},
                {"key": "P", "label": "Party Mode"},
                {"key": "C", "label": "Continue"},
            ],
            "score_breakdown": {"structural_markers": 30, "position": 20, "option_count": 20, "known_form": 30},
            "guards": [],
        }

    def test_the_text_comes_on_stdin_where_no_file_is_named(self, interlock: Interlock) -> None:
        assert interlock("analyze", "menu", input=APC).json["menu_detected"]

    @pytest.mark.parametrize(
        ("text", "guard"),
        [
            pytest.param(f"```\n{APC}\n```", "code_block", marks=pytest.mark.req("BMAD-2b.1.2")),
            pytest.param(f"~~~~text\n```\n{APC}\n```\n~~~~", "code_block", marks=pytest.mark.req("BMAD-2b.1.2")),
            pytest.param(f"As follows.\n\n    {APC}\n", "code_block", marks=pytest.mark.req("BMAD-2b.1.2")),
            pytest.param(f"> {APC}", "blockquote", marks=pytest.mark.req("BMAD-2b.1.3")),
            pytest.param(f"> > {APC}", "blockquote", marks=pytest.mark.req("BMAD-2b.1.3")),
            pytest.param(f"Example:\n{APC}", "example", marks=pytest.mark.req("BMAD-2b.1.4")),
            pytest.param(f"**Example:** {APC}", "example", marks=pytest.mark.req("BMAD-2b.1.4")),
            pytest.param(f"`{APC}`", "inline_code", marks=pytest.mark.req("BMAD-2b.1.2")),
        ],
    )
    def test_what_is_only_shown_is_no_menu(self, interlock: Interlock, text: str, guard: str) -> None:
        found = interlock("analyze", "menu", "-", input=text).json
        assert (found["menu_detected"], found["guards"], found["options"]) == (False, [guard], [])

    def test_the_steps_own_menu_in_a_fence_is_a_signal_of_its_own(self, interlock: Interlock, here: Path) -> None:
        (here / "step-01-x.md").write_text(f"# Step\n\nDisplay: {APC}\n\n- IF C: load, then execute {{nextStepFile}}\n")
        found = interlock("analyze", "menu", "-", "--step", "step-01-x.md", input=f"```\n{APC}\n```").json
        assert found["menu_detected"] is False and [one["key"] for one in found["step_menu"]] == ["A", "P", "C"]
        assert (found["selection"]["mode"], found["selection"]["selection"]) == ("automatic", "C")

    def test_a_file_that_is_not_there_is_exit_1_and_a_missing_argument_2(self, interlock: Interlock) -> None:
        assert interlock("analyze", "menu", "nothing.txt").code == 1
        assert interlock("analyze", "validation").code == 2


class TestValidation:
    def see(self, interlock: Interlock, text: str, *more: str) -> Any:
        Path("workflow.md").write_text(text, encoding="utf-8")
        found = interlock("analyze", "validation", "workflow.md", *more)
        assert found.code == 0
        return found.json

    @pytest.mark.req("BMAD-1.1.1", "BMAD-E1.2", "BMAD-FR13")
    @pytest.mark.parametrize("text", ["Verdict: PASS/FAIL", "It is APPROVED/REJECTED.", "Say APPROVED or REJECTED."])
    def test_verdicts(self, interlock: Interlock, here: Path, text: str) -> None:
        found = self.see(interlock, text)
        assert found["validation_type"] == "verdict-based" and found["patterns"][0] in (
            "PASS/FAIL",
            "APPROVED/REJECTED",
        )

    @pytest.mark.req("BMAD-1.1.2", "BMAD-E1.2", "BMAD-FR13")
    @pytest.mark.parametrize("phrase", ["0 errors", "no issues"])
    def test_error_counts(self, interlock: Interlock, here: Path, phrase: str) -> None:
        found = self.see(interlock, f"Done when there are {phrase}.")
        assert (found["validation_type"], found["patterns"]) == ("error-based", [phrase])

    @pytest.mark.req("BMAD-1.1.3", "BMAD-E1.2", "BMAD-FR13")
    def test_check_boxes_are_counted(self, interlock: Interlock, here: Path) -> None:
        found = self.see(interlock, "- [ ] one\n- [x] two\n  - [X] three\n1. [ ] four\nsee [x](y)\n")
        assert (found["validation_type"], found["checkbox_count"]) == ("checklist-based", 4)

    @pytest.mark.req("BMAD-1.1.4")
    @pytest.mark.parametrize("text", ["Nothing to see.", "There were 500 errors.", ""])
    def test_no_pattern(self, interlock: Interlock, here: Path, text: str) -> None:
        found = self.see(interlock, text)
        assert (found["validation_type"], found["confidence"]) == ("unknown", 0)

    CUSTOM = (
        "---\nvalidation:\n  type: custom\n  success_pattern: 'Quality Gate: PASSED'\n"
        "  failure_pattern: 'Quality Gate: FAILED'\n---\nPASS/FAIL, 0 errors, - [ ] one\n"
    )

    @pytest.mark.req("BMAD-1.4.1", "BMAD-1.4.3", "BMAD-E1.4", "BMAD-FR40")
    def test_a_custom_pattern_goes_before_everything_built_in(self, interlock: Interlock, here: Path) -> None:
        found = self.see(interlock, self.CUSTOM)
        assert found["validation_type"] == "custom"
        assert found["patterns"] == ["Quality Gate: PASSED", "Quality Gate: FAILED"]

    @pytest.mark.req("BMAD-1.4.2", "BMAD-E1.4")
    @pytest.mark.parametrize(
        ("output", "result"),
        [
            ("… Quality Gate: PASSED.", "success"),
            ("Quality Gate: FAILED", "failure"),
            ("Quality Gate: FAILED\nQuality Gate: PASSED", "success"),
            ("PASSED", "unknown"),
        ],
    )
    def test_its_result_is_found_in_an_output(self, interlock: Interlock, here: Path, output: str, result: str) -> None:
        (here / "output.txt").write_text(output)
        assert self.see(interlock, self.CUSTOM, "--output", "output.txt")["result"] == result

    @pytest.mark.req("BMAD-1.4.4")
    def test_an_invalid_pattern_says_all_that_is_wrong(self, interlock: Interlock, here: Path) -> None:
        found = self.see(interlock, "---\nvalidation:\n  type: custom\n  regex: maybe\n---\n")
        assert found["error"] == "invalid_pattern"
        assert found["failures"] == [
            "regex must be true or false, not 'maybe'",
            "success_pattern is required",
            "failure_pattern is required",
        ]

    def test_a_path_is_a_checklist_whatever_else_the_file_says(self, interlock: Interlock, here: Path) -> None:
        (here / "checklist.md").write_text("- [ ] a\n- [ ] b\n")
        (here / "workflow.yaml").write_text("name: x\nvalidation: '{installed_path}/checklist.md'\n")
        found = interlock("analyze", "validation", "workflow.yaml").json
        assert (found["validation_type"], found["checkbox_count"]) == ("checklist-based", 2)

    @pytest.mark.req("BMAD-2a.6.5")
    def test_settings_with_a_syntax_error_are_reported_with_their_line(self, interlock: Interlock, here: Path) -> None:
        found = self.see(interlock, "---\nname: x\nvalidation: [open\n---\nText\n")
        assert (found["error"], found["line"]) == ("config_parse_error", 3) and found["details"]


class TestCrossReference:
    def see(self, interlock: Interlock, **documents: str) -> Any:
        arguments = []
        for name, text in documents.items():
            Path(f"{name}.md").write_text(text)
            arguments += [f"--{name}", f"{name}.md"]
        found = interlock("analyze", "cross-reference", *arguments)
        assert found.code == 0
        return found.json

    @pytest.mark.req("BMAD-1.3.1", "BMAD-FR15")
    def test_a_requirement_that_the_architecture_leaves_out(self, interlock: Interlock, here: Path) -> None:
        found = self.see(interlock, prd="- FR1: a\n- FR2: b\n- FR3: c\n", architecture="Covers FR1 and FR2.")
        assert found["orphaned_requirements"] == ["FR3"] and found["issues"][0]["severity"] == "HIGH"

    @pytest.mark.req("BMAD-1.3.2")
    def test_a_decision_that_no_story_takes_up(self, interlock: Interlock, here: Path) -> None:
        architecture = "### ADR-001: PostgreSQL\n\nAffected components: Store, API\n\n### ADR-002: REST\n"
        found = self.see(interlock, architecture=architecture, stories="Story 1 follows ADR-002.")
        assert found["unaddressed_decisions"] == ["ADR-001"]
        assert found["issues"][0]["affected_components"] == ["Store", "API"]

    @pytest.mark.req("BMAD-1.3.3")
    def test_documents_that_agree(self, interlock: Interlock, here: Path) -> None:
        found = self.see(interlock, prd="FR1 FR2 FR3", architecture="FR1-FR3, ADR-001", stories="FR-1, FR2, FR3, ADR-1")
        assert (found["alignment_status"], found["issues"]) == ("ALIGNED", [])

    @pytest.mark.req("BMAD-1.3.4")
    def test_the_most_severe_issues_come_first(self, interlock: Interlock, here: Path) -> None:
        found = self.see(interlock, prd="NFR1 FR1", architecture="ADR-001 FR9", stories="ADR-7")
        severities = [issue["severity"] for issue in found["issues"]]
        assert found["alignment_status"] == "MISALIGNED" and set(severities) == {"HIGH", "MEDIUM", "LOW"}
        assert severities == sorted(severities, key=["HIGH", "MEDIUM", "LOW"].index)

    def test_one_document_alone_cannot_be_compared(self, interlock: Interlock, here: Path) -> None:
        (here / "prd.md").write_text("FR1")
        assert interlock("analyze", "cross-reference", "--prd", "prd.md").code == 2


class TestSkill:
    @pytest.mark.req("BMAD-2a.1.1")
    def test_an_invocation(self, interlock: Interlock) -> None:
        found = interlock("analyze", "skill", "/bmad:bmm:workflows:dev-story").json
        assert found["detected"] is True
        assert (found["module"], found["type"], found["name"]) == ("bmm", "workflows", "dev-story")

    @pytest.mark.req("BMAD-2a.1.3")
    def test_a_message_without_one(self, interlock: Interlock) -> None:
        assert interlock("analyze", "skill", "Please fix the login.").json == {"detected": False}

    @pytest.mark.req("BMAD-2a.1.4")
    @pytest.mark.parametrize("text", ["/bmad:invalid", "/bmad:", "/bmad:bmm:steps:x", "/bmad:a:workflows:b:c"])
    def test_a_malformed_one(self, interlock: Interlock, text: str) -> None:
        found = interlock("analyze", "skill", text)
        assert found.code == 0 and found.json["error"] == "invalid_skill_path"
        assert "/bmad:bmm:workflows:dev-story" in found.json["examples"]

    def test_one_that_is_not_installed_is_another_error(self, interlock: Interlock, here: Path) -> None:
        found = interlock("analyze", "skill", "/bmad:bmm:workflows:nothing", "--dir", ".").json
        assert found["error"] == "workflow_not_found"


class TestProject:
    @pytest.mark.req("BMAD-2a.3.1", "BMAD-2a.3.4", "BMAD-FR4", "BMAD-E2a.2")
    def test_an_empty_project_with_nine_files_is_greenfield(self, interlock: Interlock, here: Path) -> None:
        for number in range(9):
            (here / f"m{number}.py").touch()
        found = interlock("analyze", "project", ".").json
        assert found["project_type"] == "greenfield" and len(found["detection_signals"]) == 3

    @pytest.mark.req("BMAD-2a.3.2", "BMAD-2a.3.4", "BMAD-FR4", "BMAD-E2a.2")
    def test_a_source_directory_and_a_package_file_are_brownfield(self, interlock: Interlock, here: Path) -> None:
        (here / "src").mkdir()
        for number in range(50):
            (here / "src" / f"m{number}.js").touch()
        (here / "package.json").write_text("{}")
        found = interlock("analyze", "project", ".").json
        assert found["project_type"] == "brownfield"
        assert found["detection_signals"] == ["directory src/", "package file package.json", "50 source files"]

    @pytest.mark.req("BMAD-2a.3.3", "BMAD-FR4", "BMAD-E2a.2")
    def test_a_package_file_alone_is_brownfield(self, interlock: Interlock, here: Path) -> None:
        (here / "package.json").write_text("{}")
        found = interlock("analyze", "project", ".").json
        assert (found["project_type"], found["detection_signals"]) == ("brownfield", ["package file package.json"])

    def test_ten_source_files_are_brownfield(self, interlock: Interlock, here: Path) -> None:
        for number in range(10):
            (here / f"m{number}.py").touch()
        assert interlock("analyze", "project", ".").json["detection_signals"] == ["10 source files"]

    def test_a_directory_that_is_not_there_is_exit_1(self, interlock: Interlock) -> None:
        assert interlock("analyze", "project", "nowhere").code == 1


class TestTier:
    @pytest.mark.req("BMAD-2a.4.1", "BMAD-FR5", "BMAD-E2a.3")
    @pytest.mark.parametrize("word", ["fix", "bug", "typo", "patch"])
    def test_a_small_change(self, interlock: Interlock, word: str) -> None:
        found = interlock("analyze", "tier", f"Please {word} the thing").json
        assert (found["tier"], found["matched_keywords"]) == (0, [word])

    @pytest.mark.req("BMAD-2a.4.2", "BMAD-FR5", "BMAD-E2a.3")
    def test_a_complex_system(self, interlock: Interlock) -> None:
        found = interlock("analyze", "tier", "A platform for the integration of a complex system").json
        assert (found["tier"], found["matched_keywords"]) == (3, ["complex system", "integration", "platform"])

    @pytest.mark.req("BMAD-2a.4.3", "BMAD-E2a.3")
    def test_mixed_signals(self, interlock: Interlock) -> None:
        half = interlock("analyze", "tier", "simple dashboard with complex integrations").json
        assert (half["tier"], half["confidence"]) == (3, "low")
        most = interlock("analyze", "tier", "simple platform with complex integrations").json
        assert (most["tier"], most["confidence"]) == (3, "high")

    @pytest.mark.req("BMAD-2a.4.4")
    def test_no_keyword(self, interlock: Interlock) -> None:
        found = interlock("analyze", "tier", "Something with prefixes and bugle calls").json
        assert (found["tier"], found["confidence"], found["matched_keywords"]) == (2, "low", [])

    @pytest.mark.req("BMAD-2a.4.5")
    def test_a_large_code_base_moves_it(self, interlock: Interlock, here: Path) -> None:
        (here / "src").mkdir()
        for number in range(500):
            (here / "src" / f"m{number}.py").touch()
        found = interlock("analyze", "tier", "Add a simple export", "--dir", ".").json
        assert (found["adjusted_from"], found["tier"]) == (1, 2)


class TestConfidence:
    def see(self, interlock: Interlock, tier: int | None = None, **signals: Any) -> Any:
        found = interlock("analyze", "confidence", input=json.dumps({"signals": signals, "tier": tier}))
        assert found.code == 0
        return found.json

    @pytest.mark.req("BMAD-2b.11.1", "BMAD-FR19", "BMAD-FR19e", "BMAD-E2b.2")
    def test_four_signals_are_weighted(self, interlock: Interlock) -> None:
        found = self.see(interlock, validation_verdict=80, memory_match=70, reviewer_agreement=60, party_mode=90)
        assert found["score"] == 0.35 * 80 + 0.25 * 70 + 0.25 * 60 + 0.15 * 90
        points = [signal["points"] for signal in found["breakdown"]["signals"].values()]
        assert points == [28.0, 17.5, 15.0, 13.5]

    @pytest.mark.req("BMAD-2b.11.2", "BMAD-E2b.2", "BMAD-FR19e")
    def test_the_fifth_signal_scales_the_weights(self, interlock: Interlock) -> None:
        everything = dict.fromkeys(("validation_verdict", "memory_match", "reviewer_agreement", "party_mode"), 100)
        found = self.see(interlock, **everything, model_selection=100)
        assert found["score"] == 100
        weights = [signal["weight"] for signal in found["breakdown"]["signals"].values()]
        assert weights == [31.82, 22.73, 22.73, 13.64, 9.09]

    @pytest.mark.req("BMAD-2b.11.3", "BMAD-FR19g", "BMAD-E2b.12")
    def test_no_signal_is_25_unadjusted(self, interlock: Interlock) -> None:
        assert self.see(interlock, 4)["score"] == 25
        assert self.see(interlock, 4, memory_match=None)["score"] == 25

    @pytest.mark.req("BMAD-2b.11.4", "BMAD-FR19h", "BMAD-E2b.12")
    def test_a_single_source_is_capped_at_60_before_the_tier_counts(self, interlock: Interlock) -> None:
        assert self.see(interlock, validation_verdict=95)["score"] == 60
        assert self.see(interlock, 4, validation_verdict=95)["score"] == 45
        assert self.see(interlock, validation_verdict=50)["score"] == 50

    @pytest.mark.req("BMAD-2b.11.5", "BMAD-FR19i", "BMAD-E2b.12")
    def test_signals_in_conflict_are_weighted_by_priority(self, interlock: Interlock) -> None:
        found = self.see(interlock, validation_verdict=90, reviewer_agreement=50)
        assert found["score"] == round((90 * 1.5 * 35 + 50 * 1.0 * 25) / (1.5 * 35 + 1.0 * 25), 1)
        near = self.see(interlock, validation_verdict=80, reviewer_agreement=50)
        assert near["score"] == round((80 * 35 + 50 * 25) / 60, 1)

    @pytest.mark.req("BMAD-2b.11.6", "BMAD-FR19j", "BMAD-E2b.12")
    @pytest.mark.parametrize("value", ["high", -1, 101, True, [50]])
    def test_a_signal_that_is_no_score_gives_the_fallback(self, interlock: Interlock, value: Any) -> None:
        found = self.see(interlock, 4, validation_verdict=value)
        assert (found["score"], found["classification"], found["error"]) == (30, "Low", "calculation_failed")

    @pytest.mark.req("BMAD-2b.11.6")
    @pytest.mark.parametrize("text", ["", "{", "[]", '{"signals": 3}', '{"signals": {"x": 1}}', '{"tier": 9}'])
    def test_what_cannot_be_read_gives_it_too(self, interlock: Interlock, text: str) -> None:
        found = interlock("analyze", "confidence", "-", input=text)
        assert found.code == 0 and found.json["score"] == 30

    @pytest.mark.req("BMAD-2b.11.7", "BMAD-FR19f", "BMAD-E2b.13")
    @pytest.mark.parametrize(("value", "name"), [(70, "High"), (69.9, "Medium"), (40, "Medium"), (39.9, "Low")])
    def test_the_class_follows_the_score(self, interlock: Interlock, value: float, name: str) -> None:
        assert self.see(interlock, validation_verdict=value, memory_match=value)["classification"] == name

    @pytest.mark.req("BMAD-FR19f", "BMAD-E2b.13")
    def test_the_tier_adjusts_the_score_within_0_to_100(self, interlock: Interlock) -> None:
        scores = [self.see(interlock, tier, validation_verdict=90, memory_match=90)["score"] for tier in range(5)]
        assert scores == [90, 90, 85, 80, 75]
        assert self.see(interlock, 4, validation_verdict=5, memory_match=5)["score"] == 0
