"""A patch by file and line: what was written is shown, with the numbers that it has before and after."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.surfaces.web.patch import LINES, PatchFile, files_of

LINE = st.sampled_from(
    ["a = 1", "@@ -1 +1 @@", "-- old", "++ new", 'x = """', "<b>", "", "diff --git a/x b/x", "\\ none"]
)
TEXT = st.lists(LINE, max_size=12)


def compared(place: Path, before: list[str] | None, after: list[str] | None) -> list[PatchFile]:
    """What `git diff` says of a file `a b.py` with these lines before and after; `None` where there is no file."""
    sides = []
    for name, lines in (("before", before), ("after", after)):
        (place / name).mkdir(exist_ok=True)
        file = place / name / "a b.py"
        file.unlink(missing_ok=True)
        if lines is not None:
            file.write_text("".join(f"{line}\n" for line in lines))
        sides.append(name)
    words = ["git", "diff", "--no-index", "--src-prefix=a/", "--dst-prefix=b/", *sides]
    return files_of(subprocess.run(words, cwd=place, capture_output=True, text=True).stdout)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TEXT, after=TEXT)
def test_each_line_is_shown_with_its_numbers(tmp_path: Path, before: list[str], after: list[str]) -> None:
    found = compared(tmp_path, before, after)
    if before == after:
        assert found == []
        return
    (file,) = found
    assert file.path.endswith("a b.py") and not file.binary
    for kinds, number, text in ((("removed", "same"), "old", before), (("added", "same"), "new", after)):
        for line in file.lines:
            if line.kind in kinds:
                assert line.text.striptags() == " ".join(text[getattr(line, number) - 1].split()) or "<b>" in line.text
    kept = sum(line.kind == "same" for line in file.lines)
    assert file.added - file.removed == len(after) - len(before) and kept <= min(len(before), len(after))


def test_what_happens_to_a_file_is_said_and_much_is_cut(tmp_path: Path) -> None:
    assert [(one.what, one.added) for one in compared(tmp_path, None, ["x"])] == [("new", 1)]
    assert [(one.what, one.removed) for one in compared(tmp_path, ["x"], None)] == [("deleted", 1)]
    (long,) = compared(tmp_path, [], ["y"] * (LINES + 7))
    assert (long.added, len(long.lines), long.hidden, long.folded) == (LINES + 7, LINES, 8, True)
    (wide,) = compared(tmp_path, [], ["z" * 100_000, "\u202eevil"])
    assert len(wide.lines[1].text) < 1000 and "\\u202e" in wide.lines[2].text
