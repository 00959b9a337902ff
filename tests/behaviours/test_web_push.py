"""A browser that somebody subscribed is told by Web Push: sealed for it alone, signed by the home, at least once."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import interlock
from interlock.app.home import Home
from interlock.errors import InvalidRequest
from tests.behaviours.test_notice_delivery import Later, Server, serving

CONTACT = "mailto:ada@example.org"


class Browser:
    """A browser's half: the keys of a subscription, and what opens messages that are sealed for it (RFC 8291)."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | None = None, auth: bytes = b"") -> None:
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.auth = auth or os.urandom(16)
        self.point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def keys(self) -> tuple[str, str]:
        return text(self.point), text(self.auth)

    def opened(self, body: bytes) -> bytes:
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender, record = body[21 : 21 + length], body[21 + length :]
        assert len(record) <= size
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        shared = self.key.exchange(ec.ECDH(), point)
        secret = HKDF(SHA256(), 32, self.auth, b"WebPush: info\0" + self.point + sender).derive(shared)
        key = HKDF(SHA256(), 16, salt, b"Content-Encoding: aes128gcm\0").derive(secret)
        nonce = HKDF(SHA256(), 12, salt, b"Content-Encoding: nonce\0").derive(secret)
        padded = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\0")
        assert padded.endswith(b"\2")
        return padded[:-1]


@pytest.fixture
def service() -> Iterator[Server]:
    """The push service."""
    with serving(Server()) as one:
        yield one


@pytest.fixture
def home(tmp_path: Path, service: Server) -> Iterator[Home]:
    with interlock.connect(str(tmp_path / "home")) as opened:
        opened.configure({"notify.push": f"{CONTACT} {service.url}"})
        yield opened


def test_what_opens_messages_here_opens_the_example_of_the_standard() -> None:
    key = ec.derive_private_key(
        int.from_bytes(data("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"), "big"), ec.SECP256R1()
    )
    body = data(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
        "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
    opened = Browser(key, data("BTBZMqHH6r4Tts7J_aSIgg")).opened(body)
    assert opened == b"When I grow up, I want to be a watermelon"


def test_a_subscribed_browser_is_told_what_it_alone_can_read(home: Home, service: Server) -> None:
    browser = Browser()
    team, task = asking(home, "Move the database", "The password is hunter2")
    with home.notices("alpha", link="http://page") as notices:
        assert home.push_to(f"{service.url}/sub/1", *browser.keys) == "127.0.0.1"
        team.acting("ada", session="s").ask(task, "Which password?")
        notices.tell(hurry=True)
    (path, headers, body), *others = service.heard
    said = json.loads(browser.opened(body))
    assert (path, others) == ("/sub/1", [])
    assert said == {
        "id": said["id"], "count": 1, "title": "Waits for you (clarification): Move the database",
        "link": f"http://page/projects/alpha/tasks/{task}",
    }  # fmt: skip
    assert b"database" not in body and b"password" not in browser.opened(body)
    assert headers["Content-Encoding"] == "aes128gcm" and headers["TTL"] == "86400"
    checked(headers["Authorization"], service.url, str(home.push_key()))
    file = Path(home.path) / "push.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    # However much there is to say, every message is of one length, which a service takes.
    team, task = asking(home, "Ünicode " * 24, "x")
    with home.notices(link="http://page") as notices:
        team.acting("ada", session="s").ask(task, "Which?")
        notices.tell(hurry=True)
    assert len(service.heard[-1][2]) == len(body) < 4096


def test_a_service_that_is_down_gets_the_same_again_and_a_browser_that_is_gone_is_forgotten(
    home: Home, service: Server
) -> None:
    browser, later = Browser(), Later(home)
    team, task = asking(home, "Move the database", "x")
    notices = home.notices("alpha", link="http://page")  # Not started: only what is told here is told.
    home.push_to(f"{service.url}/sub/1", *browser.keys)
    service.answers[:] = [503]
    team.acting("ada", session="s").ask(task, "Which?")
    notices.tell()
    assert ("notice.failed", "push") in [(one.type, one.payload.get("via")) for one in team.latest(limit=5)]
    later.by(31)
    service.answers[:] = [201]
    notices.tell()
    first, again = (json.loads(browser.opened(body)) for _, _, body in service.heard)
    assert first == again, "with its id"

    team.reply(task, "This one")
    ada = team.acting("ada", session="s")
    ada.claim(task)
    ada.ask(task, "And now?")
    later.by(31)
    service.answers[:] = [410]
    notices.tell()
    assert len(service.heard) == 3
    assert json.loads((Path(home.path) / "push.json").read_text())["browsers"] == []
    later.by(40)
    notices.tell()
    assert len(service.heard) == 3, "nobody is there"


def test_it_is_off_until_somebody_asks_for_it_and_calls_no_other_places(tmp_path: Path) -> None:
    keys = Browser().keys
    endpoint = "https://fcm.googleapis.com/fcm/send/abc"
    with interlock.connect(str(tmp_path / "home")) as home:
        assert home.push_key() is None
        with pytest.raises(InvalidRequest, match="Push is off"):
            home.push_to(endpoint, *keys)
        assert not (tmp_path / "home" / "push.json").exists()
        for wrong in ("ada", f"{CONTACT} push.example.org", f"{CONTACT} https://push.example.org/path"):
            with pytest.raises(InvalidRequest, match=r"notify\.push must be"):
                home.configure({"notify.push": wrong})
        home.configure({"notify.push": CONTACT})
        assert home.push_to(endpoint, *keys) == "Google"
        assert home.push_to("https://updates.push.services.mozilla.com/wpush/v2/x", *keys) == "Mozilla"
        for elsewhere in (
            "http://127.0.0.1:8080/admin", "https://fcm.googleapis.com.example.org/x", "https://evil@10.0.0.1/x",
            "http://fcm.googleapis.com/x", "https://fcm.googleapis.com:8443/x", "https://[::1]/x", "x",
        ):  # fmt: skip
            with pytest.raises(InvalidRequest, match="is not known"):
                home.push_to(elsewhere, *keys)
        for wrong_keys in (("", ""), (keys[0], "c2hvcnQ"), ("AAAA", keys[1]), ("é", keys[1])):
            with pytest.raises(InvalidRequest, match="no keys of a browser"):
                home.push_to(endpoint, *wrong_keys)
        home.push_to(endpoint, stop=True)
        left = json.loads((tmp_path / "home" / "push.json").read_text())["browsers"]
        assert [one["endpoint"] for one in left] == ["https://updates.push.services.mozilla.com/wpush/v2/x"]
        for n in range(30):
            home.push_to(f"{endpoint}{n}", *keys)
        left = json.loads((tmp_path / "home" / "push.json").read_text())["browsers"]
        assert len(left) == 20 and left[-1]["endpoint"] == f"{endpoint}29"


def asking(home: Home, subject: str, body: str) -> tuple[Any, str]:
    """A team whose member has a task in hand."""
    if "alpha" not in home.teams():
        home.create_team("alpha")
        home.team("alpha").spawn("ada")
    team = home.team("alpha")
    task = team.create_task(subject, body=body).id
    team.acting("ada", session="s").claim(task)
    return team, task


def checked(authorization: str, origin: str, public: str) -> None:
    """Check a VAPID header (RFC 8292)."""
    scheme, _, values = authorization.partition(" ")
    parts = dict(one.strip().split("=", 1) for one in values.split(","))
    assert scheme == "vapid" and parts["k"] == public
    head, claims, signature = parts["t"].split(".")
    assert json.loads(data(head)) == {"typ": "JWT", "alg": "ES256"}
    assert {**json.loads(data(claims)), "exp": 0} == {"aud": origin, "exp": 0, "sub": CONTACT}
    r, s = (int.from_bytes(data(signature)[part], "big") for part in (slice(32), slice(32, 64)))
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data(public))
    key.verify(encode_dss_signature(r, s), f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))


def text(bits: bytes) -> str:
    return base64.urlsafe_b64encode(bits).decode().rstrip("=")


def data(said: str) -> bytes:
    return base64.urlsafe_b64decode(said + "=" * (-len(said) % 4))
