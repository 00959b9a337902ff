"""Web Push: notices that a browser shows while no page of ours is open. The push service of the browser's maker
delivers them (RFC 8030).

It is off until the setting `notify.push` names an address, and then for those browsers that somebody subscribed on the
page. The service learns when something is sent, and from where: the message is sealed for the browser alone (RFC 8291)
and always of one length. The home's own key (RFC 8292) says who sends; it lies with the subscriptions in a file that
only its owner reads. Only addresses of known services are taken, so that nobody can make the server call other places.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.text import plain
from interlock.storage.shared_state import read_state, shared_state

FILE = "push.json"
SERVICES = {
    "fcm.googleapis.com": "Google",
    "push.services.mozilla.com": "Mozilla",
    "push.apple.com": "Apple",
    "notify.windows.com": "Microsoft",
}
"""Where the makers of browsers take messages, and who they are."""
MOST = 20
"""Browsers of one home; one more takes the place of the oldest."""
LONGEST = 1000
"""Characters of an endpoint."""
TITLE, LINK, ROOM = 200, 600, 2400
"""Characters of a title and of a link, and bytes that every message takes."""
TOKEN_SECONDS = 43_200
KEPT_SECONDS = 86_400
"""For so long a service keeps what it cannot deliver yet."""
GONE = (404, 410)
"""What a service answers for a browser that is subscribed no more."""


@dataclass(frozen=True, slots=True)
class PushSubscription:
    """A browser: its address at the push service and its keys, and the contact and private key of the home."""

    endpoint: str
    p256dh: bytes = field(repr=False)
    auth: bytes = field(repr=False)
    contact: str
    key: str = field(repr=False)
    home: str


def asked(setting: str) -> tuple[str, tuple[str, ...]]:
    """The contact, and the origins of further services, that `notify.push` names; empty where it is off.

    Raises:
        InvalidRequest: it makes no sense.
    """
    contact, *origins = setting.split() or [""]
    parts = [urlsplit(one) for one in origins]
    good = all(one.scheme in ("https", "http") and one.netloc and not one.path.strip("/") for one in parts)
    if not good or (contact and not contact.startswith(("mailto:", "https://"))):
        raise InvalidRequest(
            "notify.push must be an address of yours, such as mailto:you@example.org, and after it, where your "
            "browsers use another push service than their maker's, its origin, such as https://push.example.org.",
            field="notify.push",
        )
    return contact, tuple(one.rstrip("/") for one in origins)


def public_key(home: str) -> str:
    """The key that browsers know this home by; made when it is first asked for."""
    with shared_state(os.path.join(home, FILE), wait=True) as state:
        assert state is not None
        key = state.setdefault("key", _text(_made().private_numbers().private_value.to_bytes(32, "big")))
        return _text(_point(_private(key).public_key()))


def subscribe(home: str, setting: str, endpoint: str, p256dh: str, auth: str) -> str:
    """Send to this browser from now on; whose service delivers it.

    Raises:
        InvalidRequest: push is off, the endpoint is of no known service, or the keys are none.
    """
    contact, origins = asked(setting)
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    service = next((maker for name, maker in SERVICES.items() if f".{host}".endswith(f".{name}")), None)
    if not contact:
        raise InvalidRequest("Push is off. `interlock config set notify.push mailto:YOU@EXAMPLE.ORG` turns it on.")
    if f"{parts.scheme}://{parts.netloc}" in origins:
        service = host
    elif parts.scheme != "https" or parts.netloc != host:
        service = None
    if service is None or len(endpoint) > LONGEST:
        raise InvalidRequest(
            f"The push service {host[:80]!r} is not known; notify.push can allow it.", field="endpoint"
        )
    try:
        _receiver(_bytes(p256dh))
        known = len(_bytes(auth)) == 16
    except ValueError:
        known = False
    if not known:
        raise InvalidRequest("These are no keys of a browser.", field="p256dh")
    public_key(home)
    with shared_state(os.path.join(home, FILE), wait=True) as state:
        assert state is not None
        others = [one for one in state.get("browsers", []) if one["endpoint"] != endpoint]
        state["browsers"] = [*others, {"endpoint": endpoint, "p256dh": p256dh, "auth": auth}][-MOST:]
    return service


def unsubscribe(home: str, endpoint: str) -> None:
    """Send nothing more to this browser."""
    with shared_state(os.path.join(home, FILE), wait=True) as state:
        assert state is not None
        state["browsers"] = [one for one in state.get("browsers", []) if one["endpoint"] != endpoint]


def subscriptions(home: str, setting: str) -> list[PushSubscription]:
    """The browsers to send to: none while push is off."""
    contact, _ = asked(setting)
    state = read_state(os.path.join(home, FILE)) if contact else {}
    return [
        PushSubscription(one["endpoint"], _bytes(one["p256dh"]), _bytes(one["auth"]), contact, state["key"], home)
        for one in state.get("browsers", [])
    ]


def message(to: PushSubscription, document: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """What the push service gets for this browser: body and headers."""
    said = {"id": document["id"], "title": plain(str(document["title"]))[:TITLE], "count": document["count"]}
    link = document["link"]
    said |= {"link": link} if link and len(link) <= LINK else {}
    headers = {
        "Authorization": _authorization(to),
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(KEPT_SECONDS),
        "Urgency": "high",
    }
    return _sealed(json.dumps(said, ensure_ascii=False).encode(), to), headers


def _sealed(text: bytes, to: PushSubscription) -> bytes:
    """RFC 8291: one record, for which a key is agreed with the browser's."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    def derive(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
        return HKDF(SHA256(), length, salt, info).derive(secret)

    own, salt = _made(), os.urandom(16)
    public = _point(own.public_key())
    shared = own.exchange(ec.ECDH(), _receiver(to.p256dh))
    secret = derive(to.auth, shared, b"WebPush: info\0" + to.p256dh + public, 32)
    key = derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
    nonce = derive(salt, secret, b"Content-Encoding: nonce\0", 12)
    body = AESGCM(key).encrypt(nonce, text + b"\2" + bytes(ROOM - len(text)), None)
    return salt + (4096).to_bytes(4, "big") + bytes([len(public)]) + public + body


def _authorization(to: PushSubscription) -> str:
    """RFC 8292: who sends, signed with the home's key for this service and the next hours."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    key = _private(to.key)
    parts = urlsplit(to.endpoint)
    claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": int(time.time()) + TOKEN_SECONDS, "sub": to.contact}
    token = ".".join(_text(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256"}, claims))
    r, s = decode_dss_signature(key.sign(token.encode(), ec.ECDSA(SHA256())))
    signature = _text(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
    return f"vapid t={token}.{signature}, k={_text(_point(key.public_key()))}"


def _made() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _private(text: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.derive_private_key(int.from_bytes(_bytes(text), "big"), ec.SECP256R1())


def _receiver(point: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)


def _point(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    found: bytes = key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return found


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"no base64: {text[:10]}…") from error
