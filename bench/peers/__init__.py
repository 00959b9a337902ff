"""Others' tools on the same work, in the same minute, each as its own users call it: `python -m bench --peers`.

Each is installed into `.cache/peers` (`packages`), and paired with Interlock behind the same kind of interface:
commands with commands, HTTP with HTTP, a library with a library. What comes out is docs/peers.tsv, and from that the
table of docs/peers.md and its summary in the README (`figures`).
"""
