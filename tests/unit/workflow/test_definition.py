"""Settings, variables, steps and what follows which, from texts of all the kinds that authors write."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.package import files, next_steps, packages, step, tagged_steps
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Invocation
from interlock.workflow.package.variables import Variables, looked_up


@pytest.mark.parametrize(
    ("text", "values", "body"),
    [
        ("---\na: 1\nb: [x, y]\n---\nText\n", {"a": 1, "b": ["x", "y"]}, "Text\n"),
        ("\ufeff---\r\na: yes\r\n---\r\nText", {"a": "yes"}, "Text"),
        ("---\n---\nText", {}, "Text"),
        ("Text", {}, "Text"),
        ("---\n\nA rule above, no settings.\n", {}, "---\n\nA rule above, no settings.\n"),
        ("---\nday: 2026-01-12\n---\n", {"day": "2026-01-12"}, ""),
        ("---\na: b\na: b\n---\n", {"a": "b"}, ""),
    ],
)
def test_settings_are_read(text: str, values: dict[str, object], body: str) -> None:
    read = files.read(text)
    assert (read.values, read.body, read.fault) == (values, body, None)


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("---\nname: x\nfile: {a}/b-{c}.md\n---\n", "x.md", 3),
        ("name: x\nlist: [a\n", "workflow.yaml", 3),
        ("---\nname: x\n", "x.md", 1),
        ("---\n- a\n---\n", "x.md", 2),
        ("---\na: 1\na: 2\n---\n", "x.md", 3),
        ("---\na: 2026-13-45\n---\n", "x.md", 2),
        ("---\na: &b {c: *b}\n---\n", "x.md", 2),
    ],
)
def test_a_fault_names_its_line(text: str, name: str, line: int) -> None:
    fault = files.read(text, name).fault
    assert fault and fault.line == line and fault.as_error()["error"] == "config_parse_error"


@given(st.text(alphabet=st.sampled_from("-:{}[]&*!|>'\"#%@`, \nab1~?.<=/\t"), max_size=200), st.booleans())
def test_no_text_breaks_the_reader(text: str, whole: bool) -> None:
    read = files.read(text if whole else f"---\n{text}\n---\n", "a.yaml" if whole else "a.md")
    assert isinstance(read.values, dict)


@given(st.dictionaries(st.text(st.characters(categories=("Ll",)), min_size=1), st.integers() | st.booleans()))
def test_what_was_written_is_read(values: dict[str, object]) -> None:
    text = "".join(f'"{key}": {str(value).lower()}\n' for key, value in values.items())
    assert files.parse(text) == (values, None)


def test_what_one_reader_does_to_settings_no_other_sees() -> None:
    text = "menus: [{code: C, does: continue}]"
    first, _ = files.parse(text)
    first["menus"][0]["code"] = "X"
    first["menus"].append("more")
    assert files.parse(text) == ({"menus": [{"code": "C", "does": "continue"}]}, None)


def variables(own: dict[str, object], config: dict[str, object] | None = None) -> Variables:
    known = {"output_folder": "{project-root}/out", "user_name": "Ada", "empty": ""} if config is None else config
    return Variables(own, project_root="/p", installed_path="/p/_bmad/x", config=known, configs=lambda path: known)


@pytest.mark.parametrize(
    ("text", "resolved", "missing"),
    [
        ("{project-root}/_bmad", "/p/_bmad", ()),
        ("{config_source}:user_name", "Ada", ()),
        ("{config_source}:output_folder", "/p/out", ()),
        ("{config_source}:nothing", "{config_source}:nothing", ("nothing",)),
        ("{config_source}:empty", "{config_source}:empty", ("empty",)),
        ("{output_folder}/prd.md", "/p/out/prd.md", ()),
        ("{workflow_path}/steps/a.md", "/p/_bmad/w/steps/a.md", ()),
        ("{installed_path}/checklist.md", "/p/_bmad/x/checklist.md", ()),
        ("{{runtime}} {unknown}", "{{runtime}} {unknown}", ("unknown",)),
        ("{date}", "{date}", ()),
        ("{loop}", "{loop}", ("loop",)),
        ("{inner}", "deep", ()),
    ],
)
def test_variables(text: str, resolved: str, missing: tuple[str, ...]) -> None:
    own = {
        "config_source": "{project-root}/_bmad/c.yaml",
        "workflow_path": "{project-root}/_bmad/w",
        "loop": "{loop}",
        "variables": {"inner": "deep"},
    }
    found = variables(own).resolve(text)
    assert (found.text, found.missing) == (resolved, missing)


def test_variables_that_name_each_other_end() -> None:
    found = variables({"a": "{b}", "b": "{a}"}).resolve("{a}")
    assert found.missing


def test_alternatives_and_look_ups() -> None:
    found = variables({}).alternatives("{output_folder}/a.yaml || {project-root}/b.yaml")
    assert [one.text for one in found] == ["/p/out/a.yaml", "/p/b.yaml"]
    assert looked_up({"a": "{c}:x", "b": {"c": ["{c}:y", "z:{c}"]}}) == ["x", "y"]


@given(st.text(alphabet=st.sampled_from("{}abc:-_|. "), max_size=80), st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.text(alphabet=st.sampled_from("{}abc:"), max_size=12)))  # fmt: skip
def test_no_variables_break_the_resolver(text: str, own: dict[str, object]) -> None:
    variables(own, {"a": "{b}"}).resolve(text)


@pytest.mark.parametrize(
    ("path", "id", "order"),
    [
        ("w/steps/step-01-init.md", 1, ("", 1, "")),
        ("w/steps/step-01b-continue.md", "1b", ("", 1, "b")),
        ("w/steps-c/step-08a-plan.md", "8a", ("", 8, "a")),
        ("w/steps-e/e-03a-edit.md", "e3a", ("e", 3, "a")),
        ("w/steps-v/v-02-check.md", "v2", ("v", 2, "")),
        ("w/steps-v/step-v-07-leak.md", "v7", ("v", 7, "")),
        ("w/step-oneshot.md", "oneshot", None),
    ],
)
def test_a_file_name_says_which_step_it_is(path: str, id: int | str, order: object) -> None:
    assert step.is_step_file(path) and step.step_id(path) == id and step.order_of(path) == order


def steps(*texts: tuple[str, str]) -> dict[str, list[str]]:
    """Which steps follow each of the files (path, text), by name."""
    paths = [path for path, _ in texts]
    follow = {}
    for path, text in texts:
        one = step.of_file(path, files.read(text))
        known = variables({"workflow_path": "{project-root}/gone", **one.settings})
        ways = next_steps.next_steps(one, known, paths, lambda path: path in paths)
        follow[path] = [way.path for way in ways]
    return follow


def test_the_next_step_by_frontmatter_by_words_and_by_order() -> None:
    follow = steps(
        ("w/steps/step-01-a.md", "---\nnextStepFile: '{workflow_path}/steps/step-02-b.md'\n---\n# A"),
        ("w/steps/step-01b-c.md", "# Continue"),
        ("w/steps/step-02-b.md", "# B\n\nThen load `./step-04-d.md`"),
        ("w/steps/step-03-c.md", "# C"),
        ("w/steps/step-04-d.md", "# D\n\nThis is the final step."),
        ("w/steps/step-05-e.md", "# E"),
    )
    # The directory that the first one names is not there: the file of that name beside it is meant.
    assert follow == {
        "w/steps/step-01-a.md": ["w/steps/step-02-b.md"],
        "w/steps/step-01b-c.md": [],
        "w/steps/step-02-b.md": ["w/steps/step-04-d.md"],
        "w/steps/step-03-c.md": ["w/steps/step-04-d.md"],
        "w/steps/step-04-d.md": [],
        "w/steps/step-05-e.md": [],
    }


def test_steps_within_instructions_are_found_though_they_are_no_xml() -> None:
    text = (
        '<workflow>\n<step n="1" goal="Find > it" tag=\'x\'>\n<ask>Which & what?</ask>\n<check if="a < b">\n</step>\n'
        '<step n="2" goal="Save" optional="true"><template-output>summary</template-output>\n<step n="2" if="x">'
    )
    found = tagged_steps.steps_of(text, "i.md")
    assert [(one.id, one.title, one.line, one.optional) for one in found] == [
        (1, "Find > it", 2, False),
        (2, "Save", 6, True),
        ("2.1", "Step 2.1", 7, True),
    ]
    assert "<ask>Which & what?</ask>" in found[0].text and "summary" in found[1].text


@given(st.text(alphabet=st.sampled_from("<>step n=\"1'/ask\n#2.:"), max_size=200))
def test_no_text_breaks_the_instructions(text: str) -> None:
    for one in [*tagged_steps.steps_of(text, "x"), *tagged_steps.sections_of(text, "x")]:
        assert one.id is not None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "_bmad" / "bmm" / "workflows" / "made"
    (folder / "steps").mkdir(parents=True)
    (folder / "workflow.md").write_text(
        "---\nname: make\nmain_config: '{project-root}/_bmad/bmm/config.yaml'\n---\n# Make\n\n"
        "Load, read the full file and then execute `steps/step-01-init.md`\n"
    )
    (folder / "steps" / "step-01-init.md").write_text("---\nnextStepFile: ./step-02-end.md\noversight: none\n---\n# 1")
    (folder / "steps" / "step-02-end.md").write_text("# 2\n\nThe workflow is complete.")
    return tmp_path


MAKE = Invocation("bmm", "workflows", "make", "/bmad:bmm:workflows:make")


def test_a_workflow_of_step_files_is_read(project: Path) -> None:
    package = packages.load(str(project))
    found = package.find(MAKE)
    assert found and found.path.endswith("made/workflow.md")
    read = workflows.read(package, found)
    assert (read.kind, [one.id for one in read.steps], read.first and read.first.id) == ("md", [1, 2], 1)
    assert [way.path.rpartition("/")[2] for way in read.after(read.steps[0])] == ["step-02-end.md"]


def test_the_overlay_adds_what_the_author_has_not_said(project: Path) -> None:
    (project / "interlock.workflows.yaml").write_text(
        "workflows:\n  bmm/make:\n    oversight: required\n    domain: finance\n    name: other\n"
    )
    package = packages.load(str(project))
    found = package.find(MAKE)
    assert found
    read = workflows.read(package, found)
    assert [one.settings.get("oversight") for one in read.steps] == ["none", "required"]
    assert read.settings["domain"] == "finance" and read.settings["name"] == "make"


def test_a_workflow_that_changes_has_another_hash(project: Path) -> None:
    before = workflows.read(packages.load(str(project)), packages.load(str(project)).find(MAKE))  # type: ignore[arg-type]
    (project / "_bmad/bmm/workflows/made/steps/step-02-end.md").write_text("# 2, changed")
    after = workflows.read(packages.load(str(project)), packages.load(str(project)).find(MAKE))  # type: ignore[arg-type]
    assert before.hash != after.hash


def test_a_package_is_found_from_within_its_project(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (project / "deep" / "er").mkdir(parents=True)
    found = packages.find(str(project / "deep" / "er"))
    assert found and found.root == str(project)
