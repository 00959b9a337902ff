"""What the process that others are forked from loads: all that a server and a runner need."""

from __future__ import annotations

import gc

import interlock.agents.acp.agent
import interlock.app.engine
import interlock.serve.up
import interlock.storage.sqlite.catalog
import interlock.surfaces.cli.entry
import interlock.surfaces.cli.server
import interlock.surfaces.web.pages
import interlock.wakeup.socket
import interlock.wiring  # noqa: F401

gc.freeze()
