"""How far the files of a team show its ledger."""

from __future__ import annotations

from binascii import crc32

LOCK = ".mirror.lock"
POSITION = ".mirror.position"


class Position:
    """How far the files have come: the newest event they show and its time, what could not be written, and for each
    inbox file its size and the number of the last message it took in. `view`: the team is shown elsewhere, too."""

    __slots__ = ("at", "inboxes", "owed", "seq", "view")

    def __init__(self) -> None:
        self.seq = 0
        self.at: str | None = None
        self.view = False
        self.owed: list[tuple[str, str]] = []
        self.inboxes: dict[str, tuple[int, int]] = {}

    @classmethod
    def parse(cls, data: bytes | None) -> Position | None:
        """The position in a file's content; null where it is missing or torn."""
        # What follows the line is the end of a longer one, from a process killed before it had cut it off.
        sum_, _, text = (data or b"").partition(b"\n")[0].partition(b" ")
        found = cls()
        try:
            if int(sum_, 16) != crc32(text):
                return None
            seq, *rest = text.decode().split("\t")
            found.seq = int(seq)
            for word in rest:
                kind, name, *numbers = word.split("=")
                if kind == "at":
                    found.at = name
                elif kind == "view":
                    found.view = True
                elif numbers:
                    size, n = numbers
                    found.inboxes[name] = (int(size), int(n))
                else:
                    found.owed.append((kind, name))
        except ValueError:
            return None
        return found

    def as_bytes(self) -> bytes:
        """The reverse of `parse`: one line after its checksum, since the file is written in place.

        Not JSON: every verb reads this, and the hook command would pay for the module at each start.
        """
        owed = [f"{kind}={name}" for kind, name in self.owed]
        inboxes = [f"inbox={name}={size}={n}" for name, (size, n) in self.inboxes.items()]
        at = [f"at={self.at}"] if self.at else []
        view = ["view=on"] if self.view else []
        text = "\t".join([str(self.seq), *at, *view, *owed, *inboxes]).encode()
        return b"%08x %b\n" % (crc32(text), text)

    def covers(self, head: int) -> bool:
        """Whether nothing up to the event `head` is left to do."""
        return self.seq >= head and not self.owed
