"""`python -m interlock`: the command line."""

from __future__ import annotations

from interlock.surfaces.cli import main

main()
