from interlock.errors import InterlockError as InterlockError
from interlock.version import __version__ as __version__
from interlock.wiring import connect as connect
from interlock.wiring import work as work
