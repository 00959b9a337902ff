"""The client port on the ledgers of this machine."""

from interlock.clients.local.home import LocalHome

__all__ = ["LocalHome"]
