"""Set-up of a connection.

Who is there, does it know the token, do the ends fit. Queue pairs are made by `setup.py`.

Messages: hello, hello, [proof, proof], offer, offer, ready, ready; the connecting end speaks first. With a
token the connecting end proves first, and from then on every message carries a MAC of the session, so that
neither a stranger nor a later meddler gets or changes a QPN, PSN or key. Either end may answer `error`
instead and close.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any

from softmrc.endpoint.exchange import Exchange
from softmrc.endpoint.offer import CAPABILITIES, VERSIONS, Hello, decode, encode
from softmrc.errors import PeerError, UsageError

__all__ = ["BUSY", "Handshake", "token_bytes"]

BUSY = "busy"


def token_bytes(token: str | bytes | None) -> bytes | None:
    """Bring a token into bytes; UsageError when it is empty."""
    if token is None:
        return None
    raw = token.encode() if isinstance(token, str) else bytes(token)
    if not raw:
        raise UsageError("an empty token protects nothing: give a secret, or none at all")
    return raw


class Refused(PeerError):
    """The peer answered `error`."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the code for the caller."""
        super().__init__(f"the peer refused the connection: {message}")
        self.code = code


class Handshake:
    """The conversation of one end over an exchange."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        initiator: bool,
        software: str,
        token: bytes | None,
        versions: int = VERSIONS,
        requires: tuple[str, ...] = CAPABILITIES,
    ) -> None:
        """Prepare; `versions` and `requires` differ from their defaults in tests and future releases."""
        self._exchange = exchange
        self._initiator = initiator
        self._token = token
        self._key: bytes | None = None
        self._sent = self._received = 0
        self._hello = Hello(
            software=software,
            versions=versions,
            capabilities=CAPABILITIES,
            requires=requires,
            nonce=os.urandom(32).hex(),
            auth=token is not None,
        )
        self.peer: Hello | None = None
        self.proven = False

    async def open(self) -> None:
        """Exchange hellos and proofs. On return the peer speaks our version and knows the token.

        Raises:
            PeerError: no common version, missing capability, wrong or missing token. The peer was told.
        """
        if self._initiator:
            await self.send(self._hello.to_json())
            self.peer = Hello.from_json(await self.recv("hello"))
            await self._check(self.peer)
        else:
            self.peer = Hello.from_json(await self.recv("hello"))
            await self._check(self.peer)
            await self.send(self._hello.to_json())
        if self._token is not None:
            await self._prove(self.peer)
        self.proven = True

    async def _check(self, peer: Hello) -> None:
        ours = self._hello
        if not ours.versions & peer.versions:
            await self.refuse(
                "version",
                f"no common protocol version: {ours.software} speaks {_bits(ours.versions)}, "
                f"{peer.software} speaks {_bits(peer.versions)}",
            )
        for wanting, having in ((ours, peer), (peer, ours)):
            missing = [c for c in wanting.requires if c not in having.capabilities]
            if missing:
                await self.refuse(
                    "capability",
                    f"{wanting.software} requires {', '.join(missing)}, which {having.software} lacks",
                )
        if ours.auth and not peer.auth:
            await self.refuse("token", "a token is required and none was given")
        if peer.auth and not ours.auth:
            await self.refuse(
                "token", "a token was given but none is set on the other end, so it cannot prove itself"
            )

    async def _prove(self, peer: Hello) -> None:
        assert self._token is not None
        first, second = (self._hello, peer) if self._initiator else (peer, self._hello)
        transcript = hashlib.sha256(encode(first.to_json()) + b"\0" + encode(second.to_json())).digest()

        def mac(label: bytes) -> bytes:
            return hmac.new(
                self._token or b"", b"softmrc " + label + b"\0" + transcript, hashlib.sha256
            ).digest()

        mine, theirs = (b"initiator", b"responder") if self._initiator else (b"responder", b"initiator")
        if self._initiator:
            await self.send({"type": "proof", "mac": mac(mine).hex()})
        given = (await self.recv("proof")).get("mac")
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), mac(theirs).hex().encode()):
            await self.refuse("token", "wrong token")
        if not self._initiator:
            await self.send({"type": "proof", "mac": mac(mine).hex()})
        self._key = mac(b"session")

    async def refuse(self, code: str, message: str) -> None:
        """Tell the peer why not, and raise the same.

        Raises:
            PeerError: always.
        """
        await self.tell_error(code, message)
        raise PeerError(message)

    async def tell_error(self, code: str, message: str) -> None:
        """Tell the peer why not; a peer that is already gone need not know."""
        try:
            await asyncio.wait_for(self.send({"type": "error", "code": code, "message": message[:500]}), 1.0)
        except (TimeoutError, PeerError, OSError):
            return

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one message, with a MAC once there is a session."""
        body = encode(message)
        if self._key is not None:
            body = encode(
                {
                    "type": "sealed",
                    "body": body.decode(),
                    "mac": self._seal(body, self._sent, self._initiator),
                }
            )
            self._sent += 1
        await self._exchange.send(body)

    async def recv(self, kind: str) -> dict[str, Any]:
        """Receive the message that must come now.

        Raises:
            PeerError: another one came, its MAC is wrong, or the peer refused.
        """
        message = decode(await self._exchange.recv())
        if self._key is not None:
            body, given = message.get("body"), message.get("mac")
            if message["type"] != "sealed" or not isinstance(body, str) or not isinstance(given, str):
                raise PeerError("the peer left the authenticated session")
            want = self._seal(body.encode(), self._received, not self._initiator)
            self._received += 1
            if not hmac.compare_digest(given.encode(), want.encode()):
                raise PeerError("a set-up message was changed on its way")
            message = decode(body.encode())
        if message["type"] == "error":
            text = message.get("message")
            clean = (
                "".join(c for c in text[:500] if c.isprintable())
                if isinstance(text, str)
                else "no reason given"
            )
            raise Refused(str(message.get("code"))[:32], clean)
        if message["type"] != kind:
            raise PeerError(f"the peer sent {message['type'][:32]!r} where {kind!r} was due")
        return message

    def _seal(self, body: bytes, number: int, from_initiator: bool) -> str:
        assert self._key is not None
        head = b"%d %d " % (from_initiator, number)
        return hmac.new(self._key, head + body, hashlib.sha256).hexdigest()


def _bits(versions: int) -> str:
    names = [f"V{i + 1}" for i in range(64) if versions >> i & 1]
    return ", ".join(names) or "none"
