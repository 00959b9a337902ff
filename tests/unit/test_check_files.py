"""Which changed files belong to a check, by its command and their names."""

from __future__ import annotations

import pytest

from interlock.gitwork.changes import ChangedPath
from interlock.runner import check_files

NONE, FULL = ("000000", "0" * 40), ("100644", "1" * 40)


def own(command: str, *paths: str, within: str = "", protect: tuple[str, ...] = ()) -> list[str]:
    """The check's own of these paths; `+path` is a new file."""
    changes = [
        ChangedPath(path.lstrip("+"), "A" if path[0] == "+" else "M", NONE if path[0] == "+" else FULL, FULL)
        for path in paths
    ]
    return check_files.of(command, changes, protect, within).paths


@pytest.mark.parametrize(
    ("command", "its_own", "others"),
    [
        ("pytest -q", ["tests/test_a.py", "+conftest.py", "pyproject.toml"], ["+tests/test_b.py", "a.py", "Makefile"]),
        (".venv/bin/python -m pytest tests/new/test_n.py::test_it", ["+tests/new/test_n.py"], ["+tests/test_b.py"]),
        ("uv run --quiet pytest", ["+sitecustomize.py", "+json.py", "tests/data.json"], ["+src/a/json.py", "a.md"]),
        ("python3 -m unittest tests.test_a.TestA", ["+tests/test_a.py", "+unittest/case.py"], ["+test/test_b.py"]),
        ("cd sub && python3 -m unittest", ["+sub/argparse.py", "+argparse.py"], ["+other/argparse.py"]),
        ("python3 checks/all.py --fast a.txt", ["+checks/all.py", "+checks/re.py"], ["a.txt", "+a.py"]),
        ("python3 -c 'import slug'", ["test_slug.py"], ["slug.py"]),
        ("timeout 60 sh check", ["+check"], ["other.sh"]),
        ("sh -c 'cd a && ./check.sh | tail -1'", ["+a/check.sh"], ["check.sh", "+tail"]),
        ("CI=1 make -s test", ["Makefile", "+GNUmakefile", "rules.mk", "package.json", "tests/a"], ["src/a.c"]),
        ("npm test", ["package.json", "+vitest.config.ts", "src/a.test.ts"], ["+src/b.test.ts", "pyproject.toml"]),
        ("npx jest src/b.test.ts", ["+src/b.test.ts", "src/__snapshots__/b.snap"], ["+src/c.test.ts", "src/b.ts"]),
        ("go test ./...", ["a/a_test.go", "a/testdata/x"], ["a/a.go", "go.mod", "+a/b_test.go"]),
        ("cargo test", ["tests/it.rs", "+.cargo/config.toml"], ["src/lib.rs", "Cargo.toml"]),
        ("mvn -q test", ["src/test/java/AppTest.java"], ["src/main/java/App.java", "pom.xml"]),
        ("test -s NOTES.md && grep -q x tests/test_a.py", [], ["NOTES.md", "tests/test_a.py", "+conftest.py"]),
        ("ruff check src/a.py", ["ruff.toml"], ["src/a.py"]),
        ("sh 'unclosed", ["Makefile"], ["a.py"]),
    ],
)
def test_a_check_reads_its_script_its_tests_and_the_configuration_of_its_runner(
    command: str, its_own: list[str], others: list[str]
) -> None:
    assert own(command, *its_own, *others) == [path.lstrip("+") for path in its_own]


def test_names_are_relative_to_where_the_command_runs() -> None:
    assert own("sh check.sh", "app/check.sh", "check.sh", within="app/") == ["app/check.sh"]
    assert own("pytest", "+app/argparse.py", "+other/argparse.py", within="app/") == ["app/argparse.py"]
    assert own("cmp a b", "app/golden/x/a", "golden/b", "app/b.gold", within="app", protect=("golden/", "*.gold")) == [
        "app/golden/x/a", "app/b.gold",
    ]  # fmt: skip


def test_an_empty_package_of_new_tests_is_no_offence() -> None:
    empty = ChangedPath("tests/__init__.py", "A", NONE, ("100644", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"))
    found = check_files.of("pytest", [empty])
    assert found.own == () and found.beside == (empty,)
