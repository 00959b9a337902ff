"""Who is given a piece of work, and which installed agent plays the part."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workflow.agents.assignment import KINDS, Assignment
from interlock.workflow.agents.roles import ROLES, route
from interlock.workflow.package import packages
from interlock.workflow.package.personas import Persona, personas

INSTALLED = tuple(
    Persona(name, name.title(), f"the {name}", "does it", module="bmm")
    for name in ("analyst", "architect", "dev", "tea", "agent-builder", "tech-writer")
)


@pytest.mark.parametrize(
    ("label", "kind", "role", "played_by"),
    [
        ("cross-reference", "validation", "cross-reference", "tech-writer"),
        ("preflight of step 3", "validation", "preflight", "architect"),
        ("08a", "validation", "plan-traceability", "analyst"),
        ("08e", "validation", "structure", "agent-builder"),
        ("checklist", "validation", "validator", "tea"),
        ("reviewer-security", "code_review", "reviewer-security", "architect"),
        ("reviewer-tests", "code_review", "reviewer-tests", "tea"),
        ("second-opinion", "code_review", "reviewer", "dev"),
        ("brainstorm-1", "creative", "brainstormer", "analyst"),
        ("mary", "creative", "creative", "analyst"),
        ("why-it-fails", "analysis", "analyst", "analyst"),
        ("add-a-field", "implementation", "developer", "dev"),
    ],
)
def test_work_goes_to_whoever_is_specialised_in_it(label: str, kind: str, role: str, played_by: str) -> None:
    found = route(Assignment(label, "…", kind), INSTALLED)
    assert (found.role.name, found.persona and found.persona.name, found.warning) == (role, played_by, None)
    assert found.preamble.startswith(f"You are {played_by.title()}, the {played_by}.")
    assert found.preamble.endswith(found.role.stance)
    alone = route(Assignment(label, "…", kind))
    assert alone.persona is None and alone.preamble == found.role.stance


def test_a_reviewer_is_adversarial_whoever_plays_it() -> None:
    assert "adversarial" in route(Assignment("reviewer-tests", "…", "code_review"), INSTALLED).preamble


def test_what_nobody_is_specialised_in_goes_to_a_general_purpose_agent_with_a_warning() -> None:
    found = route(Assignment("sing", "…", "karaoke"), INSTALLED)
    assert found.role.name == "general-purpose" and found.persona is None
    assert found.warning == "nobody is specialised in 'karaoke': sing goes to a general-purpose agent"


def test_who_is_to_do_it_may_be_said_a_role_or_an_installed_agent() -> None:
    assert route(Assignment("x", "…", "analysis", role="sidecar")).role.name == "sidecar"
    played = route(Assignment("x", "…", "creative", role="architect"), INSTALLED)
    assert (played.role.name, played.persona and played.persona.name) == ("creative", "architect")


def test_of_two_namesakes_that_of_the_workflows_own_module_is_asked() -> None:
    games = Persona("tea", "Glados", module="bmgd")
    for installed in ((*INSTALLED, games), (games, *INSTALLED)):
        found = route(Assignment("x", "…", "validation"), installed, module="bmgd").persona
        assert found is games


def test_nobody_who_judges_is_reused() -> None:
    assert {one.name for one in ROLES if one.reuse} == {"analyst", "developer", "general-purpose"}
    assert all(route(Assignment("x", "…", kind)).warning is None for kind in KINDS)


def test_the_agents_of_a_package_are_read_from_its_manifest_or_its_configuration(tmp_path: Path) -> None:
    config = tmp_path / "_bmad" / "_config"
    config.mkdir(parents=True)
    (config / "agent-manifest.csv").write_text(
        "name,displayName,title,icon,role,identity,communicationStyle,principles,module,path\n"
        '"tea","Murat","Test Architect","T","Tester","Knows &quot;it&quot;","Blunt","Risk first","bmm","x.md"\n'
        '"","nobody","","","","","","","bmm",""\n'
    )
    (tmp_path / "_bmad" / "config.toml").write_text(
        '[agents.bmad-agent-architect]\nmodule = "bmm"\nname = "Winston"\ntitle = "Architect"\n'
        'description = "Boring."\n'
    )
    (tmp_path / "_bmad" / "custom").mkdir()
    (tmp_path / "_bmad" / "custom" / "config.toml").write_text('[agents.bmad-agent-architect]\nname = "Wina"\n')
    found = {one.name: one for one in personas(packages.load(str(tmp_path)))}
    assert list(found) == ["tea", "architect"]
    assert found["tea"].text == (
        'You are Murat, Test Architect.\nRole: Tester\nIdentity: Knows "it"\nStyle: Blunt\nPrinciples: Risk first'
    )
    assert (found["architect"].display, found["architect"].identity) == ("Wina", "Boring.")
    assert Persona("someone").text == ""
