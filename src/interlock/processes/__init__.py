"""Processes: which is which, the programs that Interlock runs, and how everything that they start is ended."""

from interlock.processes.groups import RUN_HOME as RUN_HOME
from interlock.processes.groups import RUN_KEEP as RUN_KEEP
from interlock.processes.groups import RUN_TEAM as RUN_TEAM
from interlock.processes.groups import RUN_TOKEN as RUN_TOKEN
from interlock.processes.groups import RUN_WITHIN as RUN_WITHIN
from interlock.processes.groups import end_group as end_group
from interlock.processes.groups import end_marked as end_marked
from interlock.processes.groups import group_members as group_members
from interlock.processes.groups import supervises as supervises
from interlock.processes.ref import ProcessRef as ProcessRef
from interlock.processes.ref import alive as alive
from interlock.processes.ref import current as current
from interlock.processes.ref import identify as identify

Identity = ProcessRef
