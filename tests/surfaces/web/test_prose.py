"""Texts of agents as HTML: what they may do, and what they may not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.surfaces.web.prose import LONGEST, asked, gist, line, prose, seen, verbatim

ALLOWED = set("p a strong em code pre ul ol li blockquote hr br table thead tbody tr th td".split())


def test_markdown_is_rendered() -> None:
    assert prose("**b** and `c`") == "<p><strong>b</strong> and <code>c</code></p>\n"
    assert "<table>" in prose("| a |\n|---|\n| b |")
    assert '<p class="h" role="heading"' in prose("# Title")


def test_names_keep_their_underscores() -> None:
    assert prose("See __init__.py, _views and **this**") == "<p>See __init__.py, _views and <strong>this</strong></p>\n"


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "a <b onmouseover=alert(1)>b</b>",
        "<svg/onload=alert(1)>",
        "```\n</code></pre><script>alert(1)</script>\n```",
        "| <script> |\n|---|\n| <img src=x> |",
        "![<script>](https://example.org/x)",
    ],
)
def test_html_in_a_text_is_text(text: str) -> None:
    assert not re.search(r"<(script|img|svg|b)\b", str(prose(text)))


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//evil.org",
     "/tasks/1", "\x01javascript:alert(1)", "java\nscript:alert(1)", "&#106;avascript:alert(1)"],
)  # fmt: skip
def test_a_link_leads_to_the_web_or_to_mail_or_is_none(url: str) -> None:
    for text in (f"[x]({url})", f"<{url}>", f"[x][1]\n\n[1]: {url}", f"![x]({url})"):
        assert "href=" not in prose(text), text


def test_a_link_tells_nothing_of_where_it_was() -> None:
    assert 'rel="noopener noreferrer nofollow"' in prose("[x](https://example.org/)")
    assert 'href="mailto:a@example.org"' in prose("[x](mailto:a@example.org)")


def test_an_image_is_a_link_and_never_loaded() -> None:
    shown = prose("![a cat](https://example.org/cat.png)")
    assert "<img" not in shown and 'href="https://example.org/cat.png"' in shown and ">a cat<" in shown


def test_a_text_without_end_is_cut_and_says_so() -> None:
    assert "more characters are not shown" in prose("word " * LONGEST)
    assert len(verbatim("x" * 10 * LONGEST)) < LONGEST + 200


def test_what_steers_a_terminal_is_gone() -> None:
    assert verbatim("\x1b[31mred\x1b[0m\n") == "red"


def test_the_gist_is_the_first_line_that_says_something() -> None:
    assert gist("\n\n# **Done**: all of it\nmore") == "Done: all of it"
    assert len(gist("word " * 100, 40)) <= 40
    assert gist(None) == ""
    assert gist("---\n```\n- `a*b`, then *c*.") == "a*b, then c."
    for name in ("Run pytest -k 'not slow_test' on src/*_views.py in __init__.py", "**/*.py,**/*.js", "2*3*4"):
        assert gist(name) == name, "the marks belong to it"


def test_a_question_beside_its_task_does_not_name_it_again() -> None:
    assert asked("Approve TASK-2026-11-23-001 (Write (all) of it)?") == "Approve this work?"
    assert asked("Approve TASK-2026-11-23-001 (One)? Again (why)?") == "Approve this work? Again (why)?"
    assert asked("TASK-2026-11-23-001 (It) failed permanently: no such file. Retry?") == "No such file. Retry?"
    assert asked("Which port?") == "Which port?"


@given(st.text(alphabet=st.sampled_from("<>&\"'`*_[]()!#\\/:;=-| \n\tabjsx1"), max_size=200))
def test_whatever_is_written_only_known_elements_come_out(text: str) -> None:
    shown = str(prose(text))
    for tag in re.findall(r"<\s*/?\s*([^\s/>]+)", shown):
        assert tag in ALLOWED, shown
    for name in re.findall(r"<[a-z]+((?:\s[^>]*)?)>", shown):
        assert not re.search(r"\son[a-z]+\s*=", re.sub(r'"[^"]*"', '""', name)), shown


def test_hidden_characters_are_named_and_joined_letters_stay_joined() -> None:
    assert seen("\u202esey zero\u200bwidth \u2066\ufeff") == "\\u202esey zero\\u200bwidth \\u2066\\ufeff"
    assert seen("pay\u200dpal") == "pay\\u200dpal"
    assert seen(
        "\U0001f469\u200d\U0001f4bb na\u00efve \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u65e5\u672c"
    ) == ("\U0001f469\u200d\U0001f4bb na\u00efve \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u65e5\u672c")
    for shown in (prose("\u202esey"), verbatim("\u202esey"), gist("\u202esey"), line("\u202esey")):
        assert "\\u202esey" in shown
