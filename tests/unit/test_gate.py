"""The gate refuses what is wrong and forgives a coincidence: tried on suites of a few lines, run by the real pytest."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import gate

ROOT = Path(gate.__file__).parents[1]
FINE = "def test_fine(): pass\n"
WRONG = "def test_wrong(): assert 1 == 2\n"
COINCIDENCE = """
import pathlib
def test_coincidence():
    print("seed = 7")
    seen = pathlib.Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("it was busy\\nand slow")
"""
PLAIN = {
    "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,pytest_timeout",
}  # fmt: skip


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -m 'not rare'\nmarkers = once: x\n rare: x\n")
    return tmp_path


def judged(
    suite: Path, *arguments: str, workers: int = 0, variables: dict[str, str] | None = None, **files: str
) -> tuple[int, list[str]]:
    """Run the gate on a suite of these files; the exit code and the lines of the log."""
    for name, text in files.items():
        path = suite / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {**os.environ, **PLAIN}
    for name in ("PYTEST_ADDOPTS", "CI"):
        environment.pop(name, None)
    environment |= variables or {}
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts/gate.py"), "tier", "-n", str(workers), *arguments],
        cwd=suite, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return ran.returncode, ran.stdout.rstrip().splitlines()


def test_a_green_tier_ends_with_its_counts_and_its_time(suite: Path) -> None:
    code, lines = judged(suite, test_a=FINE, test_b=f"import pytest\n@pytest.mark.skip(reason='no')\n{FINE}")
    assert code == 0 and lines[-1].startswith("tier: 1 passed, 0 failed, 0 flaky, 1 skipped in ")
    assert (suite / ".gate/tier.xml").exists() and not (suite / ".gate/flakes.tsv").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_test_that_is_red_once_and_green_alone_is_flaky_and_written_down(suite: Path, workers: int) -> None:
    code, lines = judged(suite, workers=workers, test_a=FINE, test_b=COINCIDENCE)
    assert code == 0 and lines[-1].startswith("tier: 2 passed, 0 failed, 1 flaky, 0 skipped in ")
    assert any(line.startswith("RED test_b.py::test_coincidence") for line in lines)
    rows = (suite / ".gate/flakes.tsv").read_text().splitlines()
    (row,) = csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE)
    assert (row["id"], row["tier"], row["seed"]) == ("test_b.py::test_coincidence", "tier", "7")
    assert "it was busy" in row["error"] and float(row["load"]) >= 0 and float(row["seconds"]) >= 0
    assert "and slow" in json.loads(row["red output"]) and "seed = 7" in json.loads(row["green output"])


def test_a_test_that_is_red_again_is_refused_and_the_last_lines_say_why(suite: Path) -> None:
    code, lines = judged(suite, test_a=FINE, test_b=COINCIDENCE, test_c=WRONG)
    assert code == 1
    end = lines[-20:]
    assert "REFUSED in tier tier" in end and "red: red again when run alone" in end
    (named,) = [line for line in end if line.startswith("  test_c.py::test_wrong (")]
    assert "load" in named and named.endswith("assert 1 == 2")
    assert json.loads((suite / ".gate/tier.json").read_text())["flaky"] == 1
    assert (suite / ".gate/tier.xml").exists()


def test_with_more_than_three_red_none_is_run_again(suite: Path) -> None:
    code, lines = judged(suite, **{f"test_{number}": COINCIDENCE for number in range(4)})
    assert code == 1 and not any("once more" in line for line in lines)
    assert "red: more than 3 are red, so none was run again" in lines[-20:]


@pytest.mark.parametrize("place", ["tests__unit__test_a", "tests__simulation__test_a", "tests__crash__test_a"])
def test_where_coming_and_going_is_the_finding_nothing_is_run_again(suite: Path, place: str) -> None:
    code, lines = judged(suite, **{place: COINCIDENCE})
    assert code == 1 and not any("once more" in line for line in lines)


def test_a_test_marked_once_is_never_run_again(suite: Path) -> None:
    marked = COINCIDENCE.replace("def test", "import pytest\n@pytest.mark.once\ndef test")
    code, lines = judged(suite, test_a=marked)
    assert code == 1 and any("never run again" in line for line in lines[-20:])


def test_a_test_that_a_mark_chose_is_found_again(suite: Path) -> None:
    marked = COINCIDENCE.replace("def test", "import pytest\n@pytest.mark.rare\ndef test")
    code, lines = judged(suite, "-m", "rare", test_a=marked, test_b=FINE)
    assert code == 0 and "1 passed, 0 failed, 1 flaky" in lines[-1]


def test_a_test_that_skips_when_run_again_is_no_green_one(suite: Path) -> None:
    skipping = COINCIDENCE + "    else:\n        import pytest\n        pytest.skip('not now')\n"
    assert judged(suite, test_a=skipping)[0] == 1


def test_a_file_that_cannot_be_read_is_refused_by_name(suite: Path) -> None:
    code, lines = judged(suite, test_a="import nothing_of_the_kind\n", test_b=FINE)
    assert code != 0 and any("test_a.py" in line and "nothing_of_the_kind" in line for line in lines[-20:])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_tier_without_a_test_is_refused(suite: Path, workers: int) -> None:
    code, lines = judged(suite, workers=workers, test_a="")
    assert code != 0 and "REFUSED in tier tier" in lines[-20:]


def test_a_worker_that_dies_makes_its_test_red(suite: Path) -> None:
    code, lines = judged(suite, workers=2, test_a="import os\ndef test_death(): os._exit(3)\n", test_b=FINE)
    assert code != 0 and any("test_a.py::test_death" in line for line in lines[-20:])


SKIPPING = "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_skip(n): pytest.skip('no disk')\n"


def test_where_ci_is_set_a_skip_that_is_not_listed_is_refused_and_named(suite: Path) -> None:
    (suite / "tests").mkdir()
    (suite / "tests/skips.tsv").write_text("test_b.py::test_skip[1]\tneeds a disk\n")
    code, lines = judged(suite, variables={"CI": "true"}, test_a=FINE, test_b=SKIPPING)
    assert code == 1 and "REFUSED in tier tier" in lines[-20:]
    assert any("test_b.py::test_skip[2]" in line and "no disk" in line for line in lines[-20:])
    assert not any("test_b.py::test_skip[1]" in line for line in lines[-20:])
    assert judged(suite)[0] == 0, "elsewhere it is nobody's fault"


def test_a_day_that_ends_meanwhile_is_nobodys_fault(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    once = f"import pytest\npytestmark = pytest.mark.once\n{COINCIDENCE}"
    for number in range(gate.MOST + 1):
        (suite / f"test_{number}.py").write_text(once)
    monkeypatch.chdir(suite)
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    tier = gate.Tier("tier", ["-n", "0"])
    tier.day -= 1
    assert tier.judge() == 0 and f"{gate.MOST + 1} flaky" in capsys.readouterr().out


def test_all_run_in_the_same_surroundings(suite: Path) -> None:
    text = """
import os, pathlib, time
def test_it():
    assert time.tzname[0] == "UTC" and os.environ["PYTHONHASHSEED"] == "0"
    assert list(pathlib.Path.home().iterdir()) == []
"""
    variables = {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "5", "HOME": str(suite)}
    assert judged(suite, variables=variables, test_a=text)[0] == 0


def test_the_sums_of_all_tiers_end_in_the_line_that_programs_read(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(suite, test_a=FINE)
    monkeypatch.chdir(suite)
    first, last = gate.total(["tier"]).splitlines()
    assert first.startswith("tier: 1 passed") and last == "1 passed, 0 failed, 0 skipped"
