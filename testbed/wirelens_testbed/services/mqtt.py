"""MQTT: mosquitto and its two clients."""

from __future__ import annotations

import random
import subprocess

from wirelens_testbed.failure import LabError
from wirelens_testbed.services.service import (
    Endpoint,
    Host,
    Server,
    Visit,
    draw_log,
    draw_text,
    make_certificate,
)

VERSIONS = {"mqttv31": "3.1", "mqttv311": "3.1.1", "mqttv5": "5"}
RETAINED_COUNT = 12
PAYLOAD_MIN_BYTES, PAYLOAD_MAX_BYTES = 8, 30_000
SUBSCRIBE_TIME_MAX_S = 15


class Mqtt(Server):
    """A broker with some topics that keep their last message, in the clear and over TLS."""

    NAME = "mqtt"
    PROGRAMS = {
        "mosquitto": "mosquitto",
        "mosquitto_pub": "mosquitto-clients",
        "mosquitto_sub": "mosquitto-clients",
        "openssl": "openssl",
    }
    STANDARD_PORT = 1883
    TLS_PORT = 8883

    def start(self) -> None:
        make_certificate(self.lab, self.host, self.folder, self.rng)
        (self.folder / "tls.key").chmod(0o644)  # read after root's rights are gone
        settings = self.folder / "mosquitto.conf"
        settings.write_text(
            "per_listener_settings false\nallow_anonymous true\npersistence false\nuser nobody\n"
            f"listener {self.port}\nlistener {self.TLS_PORT}\n"
            f"certfile {self.folder}/tls.crt\nkeyfile {self.folder}/tls.key\n"
        )
        self.lab.start(self.host.name, "mosquitto", "-c", settings, log_name=self.host.name)
        for port in (self.port, self.TLS_PORT):
            self.lab.wait_for_listener(self.host.name, port)
        for index in range(RETAINED_COUNT):
            self.lab.run(
                self.host.name, "mosquitto_pub", "-h", "127.0.0.1", "-p", str(self.port),
                "-t", f"kept/{index}", "-r", "-s",
                data_in=draw_text(self.rng, draw_log(self.rng, 10, 5_000)).encode(),
            )  # fmt: skip

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(self.NAME, "tcp", port) for port in (self.port, self.TLS_PORT))

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        has_tls = rng.random() < 0.25
        version = rng.choice(list(VERSIONS))
        options = ["-h", self.host.address(family), "-V", version, "-q", rng.choice("012")]
        options += ["-p", str(self.TLS_PORT if has_tls else self.port)]
        options += ["--cafile", f"{self.folder}/tls.crt"] if has_tls else []
        kind = rng.choice(("report", "report", "read", "converse"))
        if kind == "read":
            self.lab.run(
                client.name, "mosquitto_sub", *options, "-t", "kept/#", "-C", str(RETAINED_COUNT),
                "-W", str(SUBSCRIBE_TIME_MAX_S),
            )  # fmt: skip
            asked, program = 0, "mosquitto_sub"
        elif kind == "report":
            asked, program = self._report(client, rng, options, f"report/{rng.randrange(9)}")
        else:
            asked, program = self._converse(client, rng, options)
        variant = f"mqtt/{VERSIONS[version]} qos{options[5]} {'tls ' if has_tls else ''}{kind}"
        return Visit(variant, program, asked)

    def _report(
        self, client: Host, rng: random.Random, options: list[str], topic: str, count: int = 0
    ) -> tuple[int, str]:
        """Publishes lines as a sensor does: a few at their times over one connection."""
        publisher = self.lab.start(
            client.name, "mosquitto_pub", *options, "-t", topic, "-l", stdin=subprocess.PIPE
        )
        assert publisher.stdin is not None
        count = count or rng.randrange(1, 12)
        size_bytes = draw_log(rng, PAYLOAD_MIN_BYTES, PAYLOAD_MAX_BYTES) // count + 1
        try:
            for _ in range(count):
                publisher.stdin.write(
                    draw_text(rng, size_bytes).replace("\n", " ").encode() + b"\n"
                )
                publisher.stdin.flush()
                self.lab.pause(rng.uniform(0.02, 0.4))
            publisher.stdin.close()
            status = publisher.wait(self.VISIT_MAX_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            status = None
        if status != 0:
            self.lab.stop(publisher)
            raise LabError(f"mqtt: mosquitto_pub ended with status {status}, wanted 0")
        return size_bytes * count, "mosquitto_pub"

    def _converse(self, client: Host, rng: random.Random, options: list[str]) -> tuple[int, str]:
        """Publishes what somebody on the same host waits for."""
        topic, count = f"talk/{rng.getrandbits(48):x}", rng.randrange(2, 8)
        subscriber = self.lab.start(
            client.name, "mosquitto_sub", *options, "-t", topic, "-C", str(count),
            "-W", str(SUBSCRIBE_TIME_MAX_S), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.lab.pause(0.5)
        asked, _ = self._report(client, rng, options, topic, count)
        if status := subscriber.wait(SUBSCRIBE_TIME_MAX_S + 2.0):
            raise LabError(f"mqtt: mosquitto_sub ended with status {status}, wanted 0")
        return asked, "mosquitto_sub mosquitto_pub"
