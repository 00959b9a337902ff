"""What is pinned: exact, complete, from any registry, and noticed when it moves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scripts import pinned

NAMES = list(pinned.PROGRAMS)


@pytest.mark.parametrize("name", NAMES)
def test_each_pin_names_exact_releases_with_their_hashes_and_no_registry(name: str) -> None:
    if pinned.PROGRAMS[name].npm:
        lock = json.loads((pinned.PINS / name / "package-lock.json").read_text())["packages"]
        packages = [about for path, about in lock.items() if path and not about.get("link")]
        assert packages and all(one["integrity"].startswith("sha512-") and "resolved" not in one for one in packages)
    else:
        text = (pinned.PINS / f"{name}.txt").read_text()
        assert "://" not in text and "--index" not in text
        entries = re.findall(r"(?m)^[^\s#].*(?:\n .*)*", text)
        assert entries and all("==" in one and "--hash=sha256:" in one for one in entries)
    assert set(pinned.versions(name)) and set(pinned.USUAL) <= set(NAMES)


def test_what_is_installed_counts_only_as_long_as_its_pin_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned, "PINS", tmp_path / "pins")
    monkeypatch.setattr(pinned, "WHERE", tmp_path / "there")
    monkeypatch.setitem(pinned.PROGRAMS, "tool", pinned.Program(pypi=("tool",)))
    pinned.PINS.mkdir()
    (pinned.PINS / "tool.txt").write_text("")  # nothing to download
    assert not pinned.is_there("tool")
    home = pinned.install("tool")
    assert (home / "bin/python").exists() and pinned.is_there("tool")
    (pinned.PINS / "tool.txt").write_text("neither a name nor a release\n")
    assert not pinned.is_there("tool")
    with pytest.raises(pinned.NotInstalled, match="pip"):
        pinned.install("tool")
    assert not pinned.is_there("tool")


def test_an_unknown_program_is_refused_with_the_names_of_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert pinned.main(["emacs"]) == 2
    assert "no emacs" in capsys.readouterr().err
