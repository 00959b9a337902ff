"""Entries go into any settings file and out of it again, and nothing else in it changes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.integrations import HOOKS
from interlock.integrations.entries import PROGRAMS as JOINABLE
from interlock.integrations.entries import additions_for as given_to
from interlock.integrations.project import without_entries
from interlock.integrations.settings_text import Occupied, block, insert, scan, take_out
from interlock.model.names import PROGRAMS

ENTRIES = given_to("claude", home=None, team="alpha", name="ada")[0].entries
SERVER = given_to("claude", home=None, team="alpha", name="ada")[1].entries

names = st.text(max_size=8) | st.sampled_from(["permissions", "allow", "model"])
leaves = st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=12)
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))
groups = st.lists(st.fixed_dictionaries({"hooks": st.lists(st.fixed_dictionaries({"command": st.text(max_size=9)}))}))
settings = st.fixed_dictionaries(
    {},
    optional={
        "permissions": anything,
        "hooks": st.dictionaries(st.sampled_from(["Stop", "SessionStart", "PreToolUse"]), groups, max_size=3),
        "mcpServers": st.dictionaries(st.sampled_from(["a", "b"]), anything, max_size=2),
        "enabledMcpjsonServers": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        "zz": anything,
    },
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A settings file, however somebody may have set it."""
    value = draw(settings)
    indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
    text = json.dumps(
        value, indent=indent, ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")])),
    )  # fmt: skip
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return (
        draw(st.sampled_from(["", " ", "\n", "\ufeff", "// mine\n"])) + text + draw(st.sampled_from(["", "\n", "\n\n"]))
    )


def merged(value: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """`value` with the entries, as any program would merge them."""
    value = json.loads(json.dumps(value))
    for entry in entries:
        holder = value
        for name in entry["path"][:-1]:
            holder = holder.setdefault(name, {})
        last = entry["path"][-1]
        if "key" in entry:
            holder.setdefault(last, {})[entry["key"]] = entry["value"]
        else:
            holder.setdefault(last, []).insert(0, entry["value"])
    return value


@given(texts())
def test_the_entries_stand_in_the_file_beside_everything_that_was_there(text: str) -> None:
    new, _, _ = insert(text, [*ENTRIES, *SERVER])
    assert scan(new).value == merged(scan(text).value, [*ENTRIES, *SERVER])


@given(texts())
def test_what_was_there_keeps_its_order_and_its_form(text: str) -> None:
    new, _, _ = insert(text, [*ENTRIES, *SERVER])
    place = 0
    for character in text.rstrip():  # Every character is still there, in its order: things were only put in between.
        if not character.isspace():
            place = new.index(character, place) + 1


@given(texts())
def test_a_file_that_nobody_edited_comes_back_byte_for_byte(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    new, undo, pieces = insert(text, ENTRIES)
    file = {"kind": "json", "entries": undo, "pieces": pieces, "sha256": digest(new), "original": "kept"}
    assert without_entries(new.encode("utf-8", "surrogatepass"), file, data) == data


@given(texts(), names, anything)
def test_of_a_file_that_somebody_edited_only_our_entries_go(text: str, name: str, value: Any) -> None:
    new, undo, pieces = insert(text, [*ENTRIES, *SERVER])
    edited = scan(new).value
    edited["theirs"] = {name: value}
    edited["hooks"]["Stop"].append({"hooks": [{"command": "say done"}]})
    left = scan(take_out(json.dumps(edited, indent=3), undo, pieces)).value
    wanted = scan(text).value
    wanted["theirs"] = {name: value}
    wanted.setdefault("hooks", {}).setdefault("Stop", []).append({"hooks": [{"command": "say done"}]})
    assert left == wanted


@given(texts())
def test_a_file_that_a_program_only_wrote_in_another_form_comes_back_as_it_was(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    new, undo, pieces = insert(text, ENTRIES)
    file = {"kind": "json", "entries": undo, "pieces": pieces, "sha256": digest(new), "original": "kept"}
    other_form = json.dumps(scan(new).value, indent=7).encode()
    assert without_entries(other_form, file, data) == data


@given(texts())
def test_taking_out_what_is_not_there_changes_nothing(text: str) -> None:
    _, undo, pieces = insert(text, [*ENTRIES, *SERVER])
    taken = take_out(text, undo, pieces)
    assert scan(taken).value == {name: value for name, value in scan(text).value.items() if name in scan(taken).value}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


COMMENTED = """{
  // what it may do
  "permissions": {"allow": ["Bash(ls:*)"]}, // for now
  "hooks": {
    "Stop": [
      {"hooks": [{"command": "say done"}]}, /* a bell */
    ],
  }, // the end
}
"""


def test_comments_and_trailing_commas_stay_where_they_are() -> None:
    new, undo, pieces = insert(COMMENTED, ENTRIES)
    for line in COMMENTED.splitlines():
        assert line in new
    assert scan(new).value["hooks"]["Stop"][1] == {"hooks": [{"command": "say done"}]}
    again = take_out(new + "// edited\n", undo, pieces)
    for comment in ("// what it may do", "// for now", "/* a bell */", "// the end", "// edited"):
        assert comment in again
    assert scan(again).value == scan(COMMENTED).value


def test_a_hook_of_ours_goes_also_when_somebody_changed_its_time_limit_or_put_theirs_beside_it() -> None:
    new, undo, pieces = insert("{}", ENTRIES)
    value = scan(new).value
    value["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 60
    value["hooks"]["SessionStart"][0]["hooks"].append({"command": "say hello"})
    left = scan(take_out(json.dumps(value), undo, pieces)).value
    assert left == {"hooks": {"SessionStart": [{"hooks": [{"command": "say hello"}]}]}}


@pytest.mark.parametrize(
    "text",
    ['{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"mcpServers": {"interlock": {"command": "mine"}}}', '{"hooks": 1}'],
)
def test_what_stands_in_the_place_of_ours_is_never_overwritten(text: str) -> None:
    with pytest.raises(Occupied):
        insert(text, [*ENTRIES, *SERVER])


@pytest.mark.parametrize("text", ["[]", "1", "{", '{"a" 1}', '{"a": 1} x', '{"a": }', "{'a': 1}", '{"a": 1 "b": 2}'])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        insert(text, ENTRIES)


@given(st.text(alphabet="ab \n#[]=\"'1.", max_size=60), st.text(alphabet="xy\n", max_size=20))
def test_a_block_goes_out_as_it_came_in(text: str, later: str) -> None:
    inserted = block(text, "[mcp_servers.interlock]\ncommand = 1\n")
    data = (text + inserted).encode()
    file = {"kind": "block", "inserted": inserted, "sha256": hashlib.sha256(data).hexdigest(), "original": "kept"}
    assert without_entries(data, file, text.encode()) == text.encode()
    edited = without_entries(data + b"theirs = 1\n" + later.encode(), file, text.encode())
    separator = "\n" if inserted.startswith("\n") else ""
    assert edited == (text + separator + "theirs = 1\n" + later).encode()


def test_the_command_line_offers_every_program_that_can_join() -> None:
    assert set(PROGRAMS) == set(JOINABLE) == set(HOOKS)
