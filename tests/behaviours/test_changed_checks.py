"""A task that changes what its own check reads: the earlier check runs as well, and every word says how that ended."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.model.report import as_text
from interlock.surfaces.cli.task_text import whole
from tests.behaviours.driving import Place
from tests.behaviours.repository import Repository, kept_path, stage

ONLY = "verified only by tests it changed, namely {}"
BOTH = "verified (its tests changed; the earlier ones pass, too), namely {}"
TEST = """\
import unittest
from work import add
class Adds(unittest.TestCase):
    def test_adds(self): self.assertEqual(add(2, 2), 4)
"""
MAKEFILE = "test:\n\tgrep -qx done work.txt\n"
UNITTEST = "python3 -m unittest -q tests.test_add"


@pytest.fixture
def repository(place: Place) -> Repository:
    """A user's repository with a check that nothing passes yet, in several forms."""
    found = Repository(place.work)
    found.commit("checks", **{
        "work.py": "def add(a, b): return 0\n", "tests/__init__.py": "", "tests/test_add.py": TEST,
        "check.sh": "grep -qx done work.txt\n", "Makefile": MAKEFILE, ".gitignore": "__pycache__/\n",
    })  # fmt: skip
    return found


def outcome(place: Place, run: str, verify: str, **more: Any) -> str:
    """What is said of a task that does `run`."""
    stage(place, {"one": {"run": run, "verify": verify}}, check_before=False, **more)
    place.drive()
    report = place.team.report()
    if not report.done:
        return place.task("one").state
    (found,) = report.done
    proof, own = found.proof, [row["own_check"] for row in found.evidence if row["kind"] == "verify"][-1]
    assert own == ("changed" if "only by tests" in proof else "earlier_passes" if "its tests changed" in proof else own)
    assert own is None or "namely" in proof or "changed its check" in proof
    return proof


def write(path: str, text: str) -> str:
    """The shell command that writes a file."""
    return f"mkdir -p $(dirname {path}) && cat > {path} <<'END'\n{text}\nEND\n"


PASS = "import unittest\nclass Adds(unittest.TestCase):\n    def test_adds(self): pass"
EXITS = "import os\nos._exit(0)"


@pytest.mark.parametrize(
    ("verify", "run", "named"),
    [
        pytest.param(UNITTEST, write("tests/test_add.py", PASS), "tests/test_add.py", id="a-test-that-passes-always"),
        pytest.param("sh check.sh", write("check.sh", "exit 0"), "check.sh", id="a-script-that-does-nothing"),
        pytest.param("sh -c './check'", "echo 'exit 0' > check; chmod +x check", "check", id="a-script-of-its-own"),
        pytest.param("make -s test", write("Makefile", "test:\n\t@touch test"), "Makefile", id="a-target-and-stamp"),
        pytest.param(
            "make -s test", write("GNUmakefile", "test:\n\t@true"), "GNUmakefile", id="a-makefile-that-comes-first"
        ),
        pytest.param(UNITTEST, write("unittest/__init__.py", EXITS), "unittest/__init__.py", id="a-runner-of-its-own"),
        pytest.param(UNITTEST, write("argparse.py", EXITS), "argparse.py", id="a-module-that-the-runner-imports"),
        pytest.param(UNITTEST, write("tests/__init__.py", EXITS), "tests/__init__.py", id="a-package-of-tests"),
        pytest.param(
            "python3 -m unittest discover -s tests -t .", "git rm -q tests/test_add.py", "tests/test_add.py",
            id="a-test-that-is-gone",
        ),
        pytest.param(
            UNITTEST, "mv tests/test_add.py . && rm -r tests && mkdir other && ln -s other tests && "
            + write("other/test_add.py", PASS) + "touch other/__init__.py", "tests/test_add.py", id="a-link",
        ),
    ],
)  # fmt: skip
def test_a_check_that_passes_since_the_work_changed_it_is_called_that(
    place: Place, repository: Repository, verify: str, run: str, named: str
) -> None:
    said = outcome(place, run, verify)
    assert said.startswith("verified only by tests it changed, namely ") and named in said
    (row,) = [one for one in place.task("one").evidence if one["kind"] == "verify" and one.get("merged")]
    assert row["passed"] and row["earlier"] is False and named in row["changed_check"]


@pytest.mark.parametrize("file", ["conftest.py", "pytest.ini"])
def test_configuration_of_pytest_that_empties_the_run_is_the_checks_own(
    place: Place, repository: Repository, file: str
) -> None:
    emptied = {"conftest.py": "import os\nos._exit(0)", "pytest.ini": "[pytest]\naddopts = --collect-only"}
    assert outcome(place, write(file, emptied[file]), f"{sys.executable} -m pytest -q tests") == ONLY.format(file)


GOOD = write("work.py", "def add(a, b): return a + b")


def test_a_test_that_was_changed_beside_good_work_is_said_to_have_passed_as_it_was(
    place: Place, repository: Repository
) -> None:
    more = TEST + "    def test_more(self): self.assertEqual(add(1, 2), 3)\n"
    assert outcome(place, GOOD + write("tests/test_add.py", more), UNITTEST) == BOTH.format("tests/test_add.py")


def test_new_tests_beside_the_earlier_ones_are_no_offence(place: Place, repository: Repository) -> None:
    new = GOOD + write("tests/test_more.py", TEST) + "touch tests/more/__init__.py 2>/dev/null || true\n"
    assert outcome(place, new, "python3 -m unittest discover -q -s tests -t .") == "verified"


def test_new_tests_are_left_out_where_the_earlier_ones_run_again(place: Place, repository: Repository) -> None:
    new = write("tests/helper.py", "from tests.test_add import *\nVALUE = 4") + write(
        "tests/test_more.py", "from tests.test_add import EXTRA"
    )
    run = GOOD + new + "echo 'EXTRA = 1' >> tests/test_add.py"
    assert outcome(place, run, "python3 -m unittest discover -q -s tests -t .") == BOTH.format("tests/test_add.py")


def test_a_test_that_the_command_names_and_the_task_wrote_speaks_only_for_itself(
    place: Place, repository: Repository
) -> None:
    run = GOOD + write("tests/test_new.py", TEST)
    assert outcome(place, run, "python3 -m unittest -q tests.test_new") == ONLY.format("tests/test_new.py")


def test_what_only_looks_at_the_work_has_no_files_of_its_own(place: Place, repository: Repository) -> None:
    assert outcome(place, "echo x > tests/test_add.py", "grep -qx x tests/test_add.py") == "verified"


def test_the_compiled_form_of_a_changed_test_is_not_taken_for_the_earlier_one(
    place: Place, repository: Repository
) -> None:
    """Both have the same size, and are written within the same second."""
    cheat = TEST.replace("add(2, 2), 4)", "add(2, 2), 0)")
    assert len(cheat) == len(TEST)
    assert outcome(place, f"printf %s {shlex.quote(cheat)} > tests/test_add.py", UNITTEST) == ONLY.format(
        "tests/test_add.py"
    )


def test_a_plan_names_more_files_of_its_checks(place: Place, repository: Repository) -> None:
    repository.commit("data", **{"golden/a.txt": "done\n"})
    verify = "cmp golden/a.txt work.txt"
    run = "echo wrong > work.txt; echo wrong > golden/a.txt"
    assert outcome(place, run, verify, protect=["golden"]) == ONLY.format("golden/a.txt")


def test_a_plan_that_is_strict_has_a_person_look_once(place: Place, repository: Repository) -> None:
    assert outcome(place, write("check.sh", "exit 0"), "sh check.sh", strict=True) == "review"
    (need,) = place.needs("review")
    assert "only by tests it changed" in need.headline and "check.sh" in need.headline
    assert "check.sh" not in repository.git("diff", "--name-only", "main", "interlock/crew")
    assert "waits for review by human, since it is verified only" in "\n".join(as_text(place.team.report()))
    place.team.approve("one")
    place.drive()
    (done,) = place.team.report().done
    assert done.proof == ONLY.format("check.sh") + ", approved by human" and not place.team.questions()
    ends = [one.payload["outcome"] for one in place.team.events()[0] if one.type == "merge.finished"]
    assert ends == ["doubtful", "merged"]


def test_what_a_person_sends_back_is_asked_about_again(place: Place, repository: Repository) -> None:
    outcome(place, write("check.sh", "exit 0"), "sh check.sh", strict=True)
    place.team.reject("one", reason="not like that")
    place.drive()
    assert place.task("one").state == "review" and len(place.needs("review")) == 1


def test_strict_work_whose_earlier_tests_pass_waits_for_nobody(place: Place, repository: Repository) -> None:
    run = "echo done > work.txt; echo '# checks' >> check.sh"
    assert outcome(place, run, "sh check.sh", strict=True) == BOTH.format("check.sh")


def test_reviews_of_work_that_changed_its_check_come_first_and_say_so(place: Place, repository: Repository) -> None:
    plain = {"run": "echo done > work.txt", "verify": "sh check.sh", "review": "human"}
    tasks = {"plain": plain, "cheat": {**plain, "run": "echo exit 0 > check.sh", "blocked_by": []}}
    stage(place, tasks, check_before=False, parallel=1)
    place.drive()
    first, second = place.needs("review")
    assert "It changed files of its own check: check.sh." in first.headline
    assert first.task_id == place.task("cheat").id and "own check" not in second.headline
    assert [one.task_id for one in place.team.questions()] == [first.task_id, second.task_id]


def test_each_merged_task_lists_what_it_changed_its_check_first(place: Place, repository: Repository) -> None:
    many = "for n in $(seq 60); do echo $n > file$n; done; echo '# checks' >> check.sh; git rm -q story.txt; "
    outcome(place, f"{many} echo done > work.txt", "sh check.sh")
    changes = (place.task("one").worktree or {})["changes"]
    assert changes["files"][0] == {"path": "check.sh", "status": "changed"} and len(changes["files"]) == 50
    assert changes["count"] == 63
    (done,) = place.team.report().done
    assert done.changes == changes
    lines = "\n".join(as_text(place.team.report()))
    assert "changed check.sh, file1 (new), file10 (new), file11 (new), file12 (new) and 58 more" in lines


def test_links_that_leave_the_repository_are_told(place: Place, repository: Repository) -> None:
    outcome(place, "mkdir in && ln -s ../story.txt in/fine && ln -s /etc/hosts far && ln -s ../../x in/up", "true")
    assert (place.task("one").worktree or {})["changes"]["links"] == ["far -> /etc/hosts", "in/up -> ../../x"]
    assert "links out of the repository: far -> /etc/hosts" in "\n".join(as_text(place.team.report()))


def test_task_show_lists_what_was_changed_and_what_its_check_proves(place: Place, repository: Repository) -> None:
    outcome(place, "echo '# it' >> check.sh; echo done > work.txt; git rm -q story.txt", "sh check.sh")
    lines = whole(place.task("one"), [], [], [], "crew")
    assert lines[-1] == "  changed check.sh, story.txt (deleted), work.txt (new)"
    assert f"    {BOTH.format('check.sh')}" in lines


def test_a_commit_in_a_submodule_that_no_remote_has_keeps_its_worktree(
    place: Place, repository: Repository, tmp_path: Path
) -> None:
    module = Repository(tmp_path / "module")
    allow = ("-c", "protocol.file.allow=always")
    repository.git(*allow, "submodule", "add", "--quiet", str(module.path), "lib")
    repository.commit("a submodule")
    git = "git -C lib -c user.name=A -c user.email=a@example.org"
    begin = f"git {' '.join(allow)} submodule update --init -q"
    run = f"{begin} && echo x > lib/new && git -C lib add new && {git} commit -qm x"
    outcome(place, run, "true")
    (done,) = place.team.report().done
    kept = kept_path(place.task("one"))
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=kept / "lib", text=True).strip()
    assert done.changes is not None and done.changes["submodules"] == [f"lib at {head[:12]}"]
    (told,) = place.team.report().kept
    assert told.why is not None and "no remote has the commit of a submodule: lib at" in told.why
