"""`python -m bench --peers [PEER …]`: install, race, record, and write what is recorded where it is quoted.

What was recorded of the others stays: a peer and Interlock were raced in turns, different peers need not have been.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.peers import figures, packages, work
from bench.peers.contender import Failed


def main(names: Sequence[str]) -> int:
    """Race those peers, or all; 1 when none could be."""
    if unknown := set(names) - set(work.CONTENDERS):
        print(f"There are {', '.join(work.CONTENDERS)}, no {', '.join(sorted(unknown))}.", file=sys.stderr)
        return 2
    found: list[work.Figure] = []
    for name in names or work.CONTENDERS:
        title = packages.PACKAGES[name].title
        try:
            packages.install(name)
            print(f"racing {title} ...", file=sys.stderr)
            raced = work.race(name, work.DOSES[name])
        except (packages.NotInstalled, Failed, OSError) as error:
            print(f"{title} was not raced: {error}", file=sys.stderr)
            raced = [work.Figure(name, "everything", "", None, None, note=f"not raced: {' '.join(str(error).split())}")]
        found += raced
        figures.publish(figures.now(name), raced)
    print(figures.table(*figures.read(figures.RECORD.read_text(encoding="utf-8"))))
    return not any(figure.ours for figure in found)
