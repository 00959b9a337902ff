"""Receipts: what a team's witness says, with the rows that it says it from, signed by the key of a home (Ed25519).

    {"format", "account": the rows, "figures": what was derived from them, "key": public, hex, "signature": hex}

The signature is of the document without `signature` as canonical JSON (sorted keys, no spaces, UTF-8). A receipt proves
that whoever holds the key said so, and that the figures follow from the rows; not that the rows are true. Where there
is a repository, that the commits which they name have the trees which they name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from interlock.core.reports.witness import derive
from interlock.errors import InvalidRequest, StorageError
from interlock.gitwork.git import Git
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.names import RECEIPT_KEY_FILE
from interlock.model.witness import Account, Witness, pruned
from interlock.storage import files

FORMAT = "interlock-receipt/1"
GIT_SECONDS = 60.0
SECRET_BYTES = 32
LARGEST = 256 * 1024 * 1024
NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""What git calls a commit or a tree."""


@dataclass(slots=True, frozen=True)
class Receipt:
    """A receipt as it is written."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    format: str
    account: Account
    figures: Witness
    key: str
    signature: str


@dataclass(slots=True, frozen=True)
class CheckedReceipt:
    """What a receipt proves. `faults`: why it proves nothing; its figures are then not to be believed.

    Attributes:
        key: the public key that it is signed with.
        trees: how many commits it names, with the tree of each.
        found: how many of them the repository has, with that tree; None where none was asked.
        absent: commits that the repository does not have.
    """

    key: str
    team: str
    at: str
    figures: Witness
    trees: int
    found: int | None
    absent: list[str]
    faults: list[str]


def issue(home: str, path: str, account: Account) -> str:
    """Write the receipt of an account to a new file, signed with the key of that home, which is made with the first
    receipt. Returns the public key.

    Raises:
        StorageError: the file exists, or it or the key cannot be written.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(_secret(home))
    public = key.public_key().public_bytes_raw().hex()
    body = _form().dump_python(Receipt(FORMAT, account, derive(account), public, ""), mode="json")
    body["signature"] = key.sign(_canonical(body)).hex()
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(json.dumps(body, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error
    return public


def verify(path: str, repository: str | None = None, key: str | None = None) -> CheckedReceipt:
    """Check a receipt, offline: its signature, its figures against its rows, and, with a repository, its trees.

    Args:
        key: the public key that it has to be signed with; without one, any.

    Raises:
        InvalidRequest: it is no receipt.
        GitFailed: that is no repository.
    """
    receipt, faults = _read(path)
    account = receipt.account
    if faults:
        return CheckedReceipt(receipt.key, account.team, account.at, receipt.figures, 0, None, [], faults)
    if key is not None and key.strip().lower() != receipt.key:
        faults.append(f"it is signed with the key {receipt.key}, not with {key.strip()}")
    figures = receipt.figures
    try:
        counted = derive(account)
        # Earlier versions did not say that history was pruned, though their rows do.
        follows = figures in (counted, replace(counted, pruned_at=None))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRequest(f"{path} is no receipt: its rows make no sense.", field="file") from error
    if follows:
        figures = counted
    else:
        faults.append("its figures do not follow from its rows")
    named = dict(_named(account))
    absent: list[str] = []
    found = None
    if repository is not None:
        git, found = Git(repository, timeout=GIT_SECONDS), 0
        git("rev-parse", "--git-dir")
        for commit, tree in named.items():
            has = git("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}", ok=(0, 1, 128)).text
            found += has == tree
            absent += [] if has else [commit]
            if has not in ("", tree):
                faults.append(f"commit {commit} has the tree {has}, not {tree}")
    return CheckedReceipt(receipt.key, account.team, account.at, figures, len(named), found, absent, faults)


def as_text(found: CheckedReceipt) -> list[str]:
    """What that proves, in words."""
    if found.faults:
        return [f"This receipt proves nothing: {fault}." for fault in found.faults]
    lines = [
        f"Signed with the key {found.key}, at {found.at}.",
        "The figures follow from the rows that it carries: "
        f"{found.figures.witnessed} of {found.figures.claimed} completions of {found.team} witnessed.",
    ]
    if found.figures.pruned_at is not None:
        lines.append(f"Its {pruned(found.figures)}.")
    if found.found is None:
        lines.append(f"It names {found.trees} merged trees; give --repository to compare them.")
    else:
        lines.append(f"The repository has {found.found} of the {found.trees} merged trees that it names.")
    return [
        *lines,
        "It proves that the home with this key said so, and no more: compare the key with one that you got from its "
        "owner (--key). Whether the rows are true, only the owner's word says.",
    ]


@cache
def _form() -> TypeAdapter[Receipt]:
    return TypeAdapter(Receipt)


def _read(path: str) -> tuple[Receipt, list[str]]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise InvalidRequest(f"{path} is too large for a receipt.", field="file")
        document = json.loads(text, object_pairs_hook=_once)
        receipt = _form().validate_json(text)
        if receipt.format != FORMAT:
            raise ValueError(f"its format is {receipt.format[:40]!r}")
        public, signature = bytes.fromhex(receipt.key), bytes.fromhex(receipt.signature)
        signed = Ed25519PublicKey.from_public_bytes(public)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.", field="file") from error
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InvalidRequest(f"{path} is no receipt: {where}: {error.errors()[0]['msg']}.", field="file") from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{path} is no receipt: {error}.", field="file") from None
    try:
        signed.verify(signature, _canonical(document))
    except InvalidSignature:
        return receipt, ["it was changed after it was signed, or never signed with the key that it names"]
    return receipt, []


def _once(pairs: list[tuple[str, Any]]) -> Json:
    """An object in which no name comes twice: another reader could take the other value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice in it")
    return found


def _canonical(document: Json) -> bytes:
    body = {name: value for name, value in document.items() if name != "signature"}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _named(account: Account) -> Iterator[tuple[str, str]]:
    """(commit, tree) of each merge."""
    for task in account.tasks:
        for one in task.evidence:
            commit, tree = str(one.get("commit")), str(one.get("tree"))
            if one.get("kind") == "diff" and NAME.fullmatch(commit) and NAME.fullmatch(tree):
                yield commit, tree


def _secret(home: str) -> bytes:
    """The private key of a home, which only its user can read; made where there is none."""
    path = os.path.join(home, RECEIPT_KEY_FILE)
    try:
        with files.locked_file(os.path.join(home, ".receipts.lock")):
            if not os.path.exists(path):
                files.replace(path, os.urandom(SECRET_BYTES).hex().encode())
            with open(path, encoding="ascii") as file:
                found = bytes.fromhex(file.read().strip())
        if len(found) != SECRET_BYTES:
            raise ValueError(f"it has {len(found)} bytes, not {SECRET_BYTES}")
        return found
    except (OSError, ValueError) as error:
        raise StorageError(
            f"The key of receipts cannot be read or made: {error}. Put {path} back from a backup, or remove it: the "
            "next receipt makes a new key.",
            path=path,
        ) from error
