"""Command lines run in this process, through the same entry as the program's: Python and the product are not loaded
anew for each. For tests of what a command does; where the process is the point, they start it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, chdir, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner

from interlock.surfaces.cli.entry import run


@dataclass
class Answer:
    """What a command line printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The JSON document on stderr."""
        return json.loads(self.err)

    @property
    def told(self) -> dict[str, Any]:
        """The JSON document of either, and the exit code with it."""
        text = self.out.strip() or self.err.strip().splitlines()[-1]
        return {**json.loads(text), "exit": self.code}


def command(
    *arguments: str,
    input: str | bytes | None = None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """Run `interlock ARGUMENT…`, in that directory and with nothing but that environment where they are given."""
    given: AbstractContextManager[Any] = nullcontext()
    if environment is not None:
        given = patch.dict(os.environ, dict(environment), clear=True)
    with (
        chdir(directory) if directory else nullcontext(),
        given,
        CliRunner().isolation(input=input) as streams,
    ):
        try:
            code = run(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = streams[0].getvalue(), streams[1].getvalue()
    return Answer(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
