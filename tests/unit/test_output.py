"""Blanking, cutting and logging what a program prints."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import StorageError
from interlock.processes import output
from interlock.processes.output import Blanker, Excerpt, Output


def blanked(secrets: list[str], *chunks: bytes) -> bytes:
    blanker = Blanker(secrets)
    return b"".join(blanker.feed(chunk) for chunk in chunks) + blanker.finish()


def test_a_secret_is_blanked_also_across_chunks() -> None:
    assert blanked(["hunter22"], b"a hunter22 b") == b"a *** b"
    assert blanked(["hunter22"], b"a hun", b"ter", b"22 b") == b"a *** b"
    assert blanked(["hunter22"], b"a hunter2") == b"a hunter2"


def test_a_secret_that_begins_another_hides_the_whole_of_it() -> None:
    assert blanked(["secret", "secret-long"], b"secret-lo", b"ng|secret|") == b"***|***|"


def test_each_line_of_a_long_key_is_a_secret() -> None:
    key = "-----BEGIN-----\nabcdefghij\nxy\n-----END-----\n"
    assert blanked([key], b'{"k": "abcdefghij\\nxy"}') == b'{"k": "***\\nxy"}'
    assert blanked([key], key.encode()) == b"***\n"


def test_what_cannot_be_a_secret_is_not_held_back() -> None:
    assert Blanker(["hunter22"]).feed(b"Go on? ") == b"Go on? "
    assert Blanker([]).feed(b"anything") == b"anything"
    assert Blanker(["", " "]).feed(b"anything ") == b"anything "


letters = st.text(alphabet="abX", min_size=1, max_size=5)


@given(st.lists(letters, min_size=1, max_size=4), st.lists(st.text(alphabet="abX", max_size=4), max_size=12))
def test_however_a_stream_is_cut_the_same_is_shown(secrets: list[str], chunks: list[str]) -> None:
    whole = "".join(chunks)
    covered = [False] * len(whole)
    for secret in secrets:
        for match in re.finditer(f"(?={secret})", whole):
            covered[match.start() : match.start() + len(secret)] = [True] * len(secret)
    shown = blanked(secrets, *(chunk.encode() for chunk in chunks)).decode()
    # Whatever a secret covers is gone, whatever none covers is there.
    assert shown.replace("***", "") == "".join(c for c, hidden in zip(whole, covered, strict=True) if not hidden)
    assert shown == blanked(secrets, whole.encode()).decode()


def test_output_within_the_limit_is_kept_whole() -> None:
    kept = Excerpt(1024)
    for _ in range(64):
        kept.feed(b"0123456789abcde\n")
    assert kept.text() == "0123456789abcde\n" * 64


def test_of_long_output_beginning_and_end_are_kept() -> None:
    kept = Excerpt(1024)
    text = "".join(f"line {number:05}\n" for number in range(50_000))
    for start in range(0, len(text), 7777):
        kept.feed(text[start : start + 7777].encode())
    cut = kept.text()
    head, _, tail = cut.partition("\n[… ")
    count, _, tail = tail.partition(" bytes cut …]\n")
    assert text.startswith(head) and text.endswith(tail)
    assert len(head) + len(tail) + int(count) == len(text)
    assert len(cut.encode()) <= 1024


def test_a_character_on_the_cut_is_left_out() -> None:
    kept = Excerpt(1024)
    kept.feed(("é" * 5000 + "x").encode())
    assert "\ufffd" not in kept.text()


@given(st.binary(max_size=600), st.integers(min_value=70, max_value=300))
def test_what_is_kept_is_never_above_the_limit(text: bytes, limit: int) -> None:
    kept = Excerpt(limit)
    kept.feed(bytes(b & 0x7F for b in text))
    assert len(kept.text().encode()) <= limit


def test_lines_log_and_text_are_all_blanked(tmp_path: Path) -> None:
    log = tmp_path / "runs" / "1.log"
    lines: list[str] = []
    told = Output(log=str(log), secrets=["hunter22"], limit=4096)
    told.feed(b"one\r\ntwo hunt", lines.append)
    assert lines == ["one"]
    told.feed(b"er22\nlast", lines.append)
    told.finish(lines.append)
    assert lines == ["one", "two ***", "last"]
    assert told.text == "one\r\ntwo ***\nlast"
    assert log.read_bytes() == b"one\r\ntwo ***\nlast"
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_log_is_appended_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in (b"a\n", b"b\n"):
        told = Output(log=str(log), secrets=[], limit=4096)
        told.feed(word, lambda line: None)
        told.finish(lambda line: None)
    assert log.read_bytes() == b"a\nb\n"


def test_a_line_without_end_comes_in_pieces() -> None:
    lines: list[str] = []
    told = Output(log=None, secrets=[], limit=4096)
    told.feed(b"x" * (output.LINE_BYTES + 1), lines.append)
    told.finish(lines.append)
    assert [len(line) for line in lines] == [output.LINE_BYTES, 1]


def test_a_log_never_fills_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "LOG_BYTES", 100)
    log = tmp_path / "log"
    told = Output(log=str(log), secrets=[], limit=4096)
    for _ in range(50):
        told.feed(b"0123456789", lambda line: None)
    told.finish(lambda line: None)
    assert log.read_text().startswith("0123456789" * 10 + "\n[interlock: the log is full")
    assert log.stat().st_size < 200
    assert told.warning is not None and "full" in told.warning
    assert len(told.text) == 500


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_does_not_stop_the_output() -> None:
    lines: list[str] = []
    told = Output(log="/dev/full", secrets=[], limit=4096)
    told.feed(b"a\nb\n", lines.append)
    assert lines == ["a", "b"]
    assert told.warning is not None and "No space left" in told.warning


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("keep")
    (tmp_path / "log").symlink_to(target)
    with pytest.raises(StorageError):
        Output(log=str(tmp_path / "log"), secrets=[], limit=4096)
    assert target.read_text() == "keep"
