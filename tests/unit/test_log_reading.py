"""The log of a run is read by lines, from wherever somebody looks."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.processes.output import LINE_BYTES
from interlock.runner import log_reading
from interlock.runner.log_reading import BEFORE, read_lines


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wanted=st.lists(st.text(alphabet="abE \u00e9", max_size=5), max_size=30),
    first=st.none() | st.integers(1, 40),
    find=st.sampled_from([None, "a", "B", "ba"]),
    most=st.integers(1, 10),
    piece=st.integers(1, 9),
)
def test_any_window_is_what_was_written(
    tmp_path: Path, wanted: list[str], first: int | None, find: str | None, most: int, piece: int
) -> None:
    path = tmp_path / "log"
    path.write_bytes("".join(f"{line}\n" for line in wanted).encode())
    log_reading._PIECE, usual = piece, log_reading._PIECE  # pieces end within lines and words
    try:
        at, lines, total, found = read_lines(str(path), first=first, find=find, most=most)
    finally:
        log_reading._PIECE = usual
    assert total == len(wanted) and lines == wanted[at - 1 : at - 1 + most]
    hits = [n for n, line in enumerate(wanted, 1) if n >= (first or 1) and find and find.lower() in line.lower()]
    assert found == (hits[0] if hits else None)
    if found:
        assert at == max(1, found - BEFORE)
    elif first is None:
        assert at == max(1, total - most + 1)


def test_a_line_without_end_is_cut_and_the_next_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 * LINE_BYTES) + b"\r\nnext\nunfinished")
    at, lines, total, _ = read_lines(str(path), first=1, find=None, most=9)
    assert (at, total, [len(line) for line in lines[:1]]) == (1, 3, [LINE_BYTES])
    assert lines[1:] == ["next", "unfinished"]
