"""What `softmrc send` says about its paths and about a receiver that is gone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from softmrc.cli import send as command
from softmrc.endpoint import PathStats
from softmrc.errors import PeerError
from softmrc.transfer.scan import scan
from softmrc.transfer.sender import Sender


class Connection:
    """Statistics as a test wants them."""

    def __init__(self, states, answers=0, inflight=1):
        self.states, self.answers, self.inflight = states, answers, inflight

    def stats(self):
        paths = tuple(PathStats(ev=i, plane=1, state=s, active=s != "-") for i, s in enumerate(self.states))
        counters = dict.fromkeys(command._ANSWERS, 0) | {"tx.sacks_rx": self.answers}
        return SimpleNamespace(paths=paths, counters=counters, inflight=self.inflight)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (["good", "skip", "-"], "2 of 2 paths in use"),
        (["good", "assumed_bad", "denied"], "1 of 3 paths in use, 2 set aside as bad"),
    ],
)
def test_paths_in_words(states, words):
    assert command._Pulse(Connection(states)).text() == words


def test_silence_is_said_with_what_to_do(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    connection = Connection(["good"])
    pulse = command._Pulse(connection)
    pulse.text()
    now[0] += 4.0
    assert pulse.text() == "no answer for 4 s; given up after 20 s, a rerun goes on from here"
    connection.answers = 1
    assert pulse.text() == "1 of 1 paths in use"
    connection.inflight = 0  # nothing is owed
    now[0] += 60.0
    assert pulse.text() == "1 of 1 paths in use"


def test_a_lost_receiver_error_says_that_a_rerun_goes_on(tmp_path):
    class Lost:
        peer = "host"

        def recv_message_sync(self):
            raise PeerError("gone")

        def send_message(self, _):
            raise PeerError("host is lost: no progress on any plane.")

    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(PeerError, match=r"host is lost.*run the same command again to go on"):
        Sender(Lost(), scan([str(tmp_path / "f")])).run()
