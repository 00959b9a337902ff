"""What a browser shows where there is no page: before sign-in, and where something went wrong outside of the page.

A browser that is not signed in gets no file of ours, so these pages carry their own style, and a policy that knows it
by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape

from starlette.responses import HTMLResponse

STYLE = """
:root { color-scheme: light dark; --paper: #faf9f6; --sunk: #f2f0eb; --ink: #1d1c1a; --ink-2: #57544d; --ink-3: #6d6a62;
  --rule: #e4e1da; --accent: #ad4100; }
@media (prefers-color-scheme: dark) { :root { --paper: #141412; --sunk: #21211e; --ink: #ebe9e3; --ink-2: #b1aea5;
  --ink-3: #96938a; --rule: #2c2b28; --accent: #f4a259; } }
* { box-sizing: border-box; margin: 0; padding: 0; }
body { background: var(--paper); color: var(--ink); font: 400 0.9375rem/1.55 -apple-system, BlinkMacSystemFont,
  "Segoe UI Variable Text", "Segoe UI", Inter, Cantarell, Ubuntu, "Noto Sans", system-ui, sans-serif; }
main { max-width: 36rem; margin: 14vh auto; padding: 0 1.25rem; display: grid; gap: 1rem; }
.wordmark { display: flex; align-items: center; gap: 0.6rem; font-weight: 600; font-size: 1.0625rem; }
.mark { width: 1.75rem; height: 1.75rem; fill: none; stroke: currentcolor; stroke-width: 2; stroke-linecap: round;
  stroke-linejoin: round; }
.lamp { fill: var(--accent); stroke: var(--accent); }
h1 { font-size: 1.5rem; line-height: 1.3; letter-spacing: -0.012em; text-wrap: balance; margin-top: 0.6rem; }
a { color: inherit; }
p { color: var(--ink-2); overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 0.9em; }
p code { background: var(--sunk); padding: 0.08em 0.3em; border-radius: 4px; }
pre { background: var(--sunk); color: var(--ink); border-radius: 8px; padding: 0.9rem 1.1rem; overflow: auto;
  font-size: 1rem; user-select: all; }
.small { font-size: 0.8125rem; color: var(--ink-3); border-top: 1px solid var(--rule); padding-top: 1rem;
  margin-top: 0.6rem; }
"""
MARK = (
    '<svg class="mark" viewBox="0 0 28 28" aria-hidden="true"><path d="M2 20H26"/><path d="M5 20 17 8H26"/>'
    '<circle class="lamp" cx="17" cy="8" r="3.4"/></svg>'
)
PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Interlock: {title}</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
    f'<link rel="icon" href="data:,"><style>{STYLE.replace("{", "{{").replace("}", "}}")}</style></head>'
    f'<body><main><div class="wordmark">{MARK}<span>Interlock</span></div>'
    "<h1>{title}</h1>{body}</main></body></html>"
)
POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
SCRIPT = """
const form = document.forms[0];
const headers = { accept: "application/json" };
fetch(form.action, { method: "POST", headers }).then(async (answer) => {
  if (!answer.ok) return form.submit();
  localStorage.setItem("interlock-key", (await answer.json()).key);
  location.replace("/");
});
"""
"""Keeps the key of this browser where only pages of this origin, port included, find it."""
SIGN_IN = (
    '<form method="post"><p><button>Sign in</button></p></form>'
    "<p>This signs this browser in for thirty days. The link works once.</p>"
    f"<script>{SCRIPT}</script>"
)
SIGN_IN_POLICY = (
    POLICY.replace("form-action 'none'", "form-action 'self'")
    + f"; connect-src 'self'; script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
)
NOT_SIGNED_IN = "<p>This page is for the owner of this server; this browser is not signed in, or not any more.</p>"
HOW_TO = (
    "<p>In a terminal of that machine, type:</p><pre>interlock open</pre>"
    "<p>It prints a link, and opens it where it can. A link works once; it signs this browser in for thirty days.</p>"
)
TITLES = {401: "Sign in with a link", 404: "Nothing here"}


def sign_in_page() -> HTMLResponse:
    """Return the page that a link leads to; its button, or its script, signs the browser in."""
    html = PAGE.format(title="Sign in", body=SIGN_IN)
    return HTMLResponse(html, headers={"content-security-policy": SIGN_IN_POLICY})


def page(status: int, message: str, headers: dict[str, str], *, link: bool = False) -> HTMLResponse:
    """Return the page that says why something was not done, and what to do.

    Args:
        message: may hold `code`.
        link: the browser followed a link that is not valid any more.
    """
    words = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(message))
    if status != 401:
        body = f'<p role="alert">{words}</p><p><a href="/">To the first page</a></p>'
    elif link:
        body = f'<p role="alert">{words}</p>{HOW_TO}'
    else:
        body = f'{NOT_SIGNED_IN}{HOW_TO}<p class="small">{words}</p>'
    html = PAGE.format(title=TITLES.get(status, "That did not work"), body=body)
    return HTMLResponse(html, status, {**headers, "content-security-policy": POLICY})
