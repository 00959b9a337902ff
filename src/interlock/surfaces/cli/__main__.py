"""`python -m interlock.surfaces.cli`, for where the console script is not on the path."""

from __future__ import annotations

from interlock.surfaces.cli import main

main()
