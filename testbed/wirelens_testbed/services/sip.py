"""Telephone calls: SIP and RTP by sipp, whose server sends back the sound that it is sent."""

from __future__ import annotations

import random

from wirelens_testbed.services.service import Endpoint, Host, Server, Visit

# Payload types of sipp's streams: bytes a second, as they lie in the file it plays.
CODECS = {"PCMU": (0, 8000), "PCMA": (8, 8000), "G722": (9, 8000), "G729": (18, 1000)}
CALL_MIN_S, CALL_MAX_S = 1.5, 10.0
MEDIA_PORT_MIN, MEDIA_PORT_MAX = 20_000, 40_000
OWN_PORT_MIN, OWN_PORT_MAX = 49_152, 65_535
ANSWER_TIME_MAX_MS = 8_000

HEADERS = """Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:caller@testbed.example>;tag=[pid]caller[call_number]
      To: <sip:callee@testbed.example>{tag}
      Call-ID: [call_id]
      CSeq: {sequence} {method}
      Contact: <sip:caller@[local_ip]:[local_port];transport=[transport]>
      Max-Forwards: 70
      User-Agent: testbed
"""
SOUND = """Content-Type: application/sdp
      Content-Length: [len]

      v=0
      o=user 1 1 IN IP[local_ip_type] [local_ip]
      s=-
      c=IN IP[media_ip_type] [media_ip]
      t=0 0
      m=audio [{port}] RTP/AVP {types}
"""


class Sip(Server):
    """A phone that answers every call, over UDP and TCP."""

    NAME = "sip"
    RTP_LABEL = "rtp"
    PROGRAMS = {"sipp": "sip-tester"}
    STANDARD_PORT = 5060
    TRANSPORTS = {"udp": "u1", "tcp": "t1"}

    def start(self) -> None:
        scenario = self.folder / "answer.xml"
        scenario.write_text(ANSWER)
        media_port = self.rng.randrange(MEDIA_PORT_MIN, MEDIA_PORT_MAX, 100)
        for family in (4, 6):
            for word in self.TRANSPORTS.values():
                address = self.host.address(family)
                self.lab.start(
                    self.host.name, "sipp", "-sf", scenario, "-t", word, "-i", address,
                    "-mi", address, "-p", str(self.port), "-mp", str(media_port), "-rtp_echo",
                    "-nostdin", log_name=self.host.name,
                )  # fmt: skip
                media_port += 10
        command = ["ss", "-Hlntu", f"sport = :{self.port}"]
        self.lab.wait_until(
            lambda: len(self.lab.run(self.host.name, *command).splitlines()) == 4,
            f"{self.host.name} listening on port {self.port}, udp and tcp, in both families",
        )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        signals = (Endpoint(self.NAME, protocol, self.port) for protocol in self.TRANSPORTS)
        return *signals, Endpoint(self.RTP_LABEL, "udp", None)

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        transport = rng.choice(list(self.TRANSPORTS))
        kind = rng.choice(("call", "call", "call", "options", "register"))
        variant, asked = f"{transport} {kind}", 0
        local, remote = client.address(family), self.host.address(family)
        place = f"[{remote}]" if family == 6 else remote
        with self.scratch() as folder:
            scenario = folder / "scenario.xml"
            if kind == "call":
                codec, duration_s = rng.choice(list(CODECS)), rng.uniform(CALL_MIN_S, CALL_MAX_S)
                payload_type, rate = CODECS[codec]
                variant, asked = f"{variant} {codec}", round(duration_s * rate)
                sound = folder / "sound.raw"
                # Noise: a codec of constant rate sends as much for speech.
                sound.write_bytes(rng.randbytes(rate))
                stream = f"{sound},-1,{payload_type}"
                scenario.write_text(_call(codec, payload_type, stream, round(duration_s * 1000)))
            else:
                scenario.write_text(_request(kind.upper()))
            media_port = rng.randrange(MEDIA_PORT_MIN, MEDIA_PORT_MAX, 10)
            # Its own would always be 5060, and two visits one flow.
            own_port = rng.randrange(OWN_PORT_MIN, OWN_PORT_MAX)
            self.lab.run(
                client.name, "sipp", "-sf", scenario, "-t", self.TRANSPORTS[transport],
                "-i", local, "-p", str(own_port), "-mi", local, "-mp", str(media_port), "-m", "1", "-nostdin",
                "-recv_timeout", str(ANSWER_TIME_MAX_MS), "-timeout", "25s",
                f"{place}:{self.port}", time_max_s=self.VISIT_MAX_S,
            )  # fmt: skip
        return Visit(variant, "sipp", asked)


def _send(method: str, sequence: int, body: str, tag: str = "") -> str:
    headers = HEADERS.format(method=method, sequence=sequence, tag=tag)
    return f"""
  <send retrans="500"><![CDATA[
      {method} sip:callee@[remote_ip]:[remote_port] SIP/2.0
      {headers.rstrip()}
      {body}
  ]]></send>"""


def _scenario(*parts: str) -> str:
    return '<?xml version="1.0"?>\n<scenario name="testbed">' + "".join(parts) + "\n</scenario>\n"


def _request(method: str) -> str:
    return _scenario(_send(method, 1, "Content-Length: 0\n"), '\n  <recv response="200"/>')


def _call(codec: str, payload_type: int, stream: str, duration_ms: int) -> str:
    sound = SOUND.format(port="rtpstream_audio_port", types=payload_type).rstrip()
    sound += f"\n      a=rtpmap:{payload_type} {codec}/8000"
    nothing = "Content-Length: 0\n"
    return _scenario(
        _send("INVITE", 1, sound + "\n"),
        '\n  <recv response="180" optional="true"/>',
        '\n  <recv response="200"/>',
        _send("ACK", 1, nothing, "[peer_tag_param]").replace(' retrans="500"', ""),
        f'\n  <nop><action><exec rtp_stream="{stream}"/></action></nop>',
        f'\n  <pause milliseconds="{duration_ms}"/>',
        '\n  <nop><action><exec rtp_stream="pause"/></action></nop>',
        _send("BYE", 2, nothing, "[peer_tag_param]"),
        '\n  <recv response="200"/>',
    )


def _answer(status: str, body: str) -> str:
    return f"""
  <send><![CDATA[
      SIP/2.0 {status}
      [last_Via:]
      [last_From:]
      [last_To:];tag=[pid]callee[call_number]
      [last_Call-ID:]
      [last_CSeq:]
      Contact: <sip:[local_ip]:[local_port];transport=[transport]>
      {body}
  ]]></send>"""


# One scenario for calls and for what stands alone: it branches on the method that comes first.
ANSWER = _scenario(
    '\n  <recv request="OPTIONS" optional="true" next="1"/>',
    '\n  <recv request="REGISTER" optional="true" next="1"/>',
    '\n  <recv request="INVITE" crlf="true"/>',
    _answer("180 Ringing", "Content-Length: 0\n"),
    '\n  <pause distribution="uniform" min="50" max="600"/>',
    _answer(
        "200 OK",
        SOUND.format(port="media_port", types="0 8 9 18").rstrip() + "\n",
    ),
    '\n  <recv request="ACK" crlf="true"/>',
    '\n  <recv request="BYE"/>',
    '\n  <label id="1"/>',
    _answer("200 OK", "Content-Length: 0\n").replace(";tag=[pid]callee[call_number]", ""),
)
