"""Redis and PostgreSQL: the databases' own servers and clients."""

from __future__ import annotations

import random
import shlex
from collections.abc import Sequence
from pathlib import Path

from wirelens_testbed.failure import LabError
from wirelens_testbed.services.service import (
    Endpoint,
    Host,
    Server,
    Visit,
    as_nobody,
    draw_log,
    draw_text,
    give_to_nobody,
    make_certificate,
)


class Redis(Server):
    """One server that keeps nothing; with TLS at a port of its own."""

    NAME = "redis"
    PROGRAMS = {
        "redis-server": "redis-server",
        "redis-cli": "redis-tools",
        "redis-benchmark": "redis-tools",
        "openssl": "openssl",
    }
    STANDARD_PORT = 6379
    TLS_PORT = 6390

    def start(self) -> None:
        make_certificate(self.lab, self.host, self.folder, self.rng)
        settings = self.folder / "redis.conf"
        settings.write_text(
            f"bind 0.0.0.0 ::\nport {self.port}\ntls-port {self.TLS_PORT}\n"
            f"tls-cert-file {self.folder}/tls.crt\ntls-key-file {self.folder}/tls.key\n"
            "tls-auth-clients no\nprotected-mode no\nsave ''\nappendonly no\ndaemonize no\n"
            f"dir {self.folder}\nmaxmemory 64mb\nmaxmemory-policy allkeys-lru\n"
        )
        self.lab.start(self.host.name, "redis-server", settings, log_name=self.host.name)
        for port in (self.port, self.TLS_PORT):
            self.lab.wait_for_listener(self.host.name, port)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(self.NAME, "tcp", port) for port in (self.port, self.TLS_PORT))

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        has_tls = rng.random() < 0.25
        options = ["-h", self.host.address(family)]
        options += ["-p", str(self.TLS_PORT if has_tls else self.port)]
        options += ["--tls", "--cacert", f"{self.folder}/tls.crt"] if has_tls else []
        kind = rng.choice(("command", "session", "bulk", "bulk", "benchmark"))
        if kind == "benchmark":
            program, asked = "redis-benchmark", self._measure(client, rng, options)
        else:
            program = "redis-cli"
            commands, asked = self._draw_commands(rng, 1 if kind == "command" else 0)
            options = [rng.choice(("-2", "-3")), *options]
            self._command(client, kind, options, commands)
        return Visit(f"{'tls ' if has_tls else ''}{kind}", program, asked)

    def _measure(self, client: Host, rng: random.Random, options: list[str]) -> int:
        count, size_bytes = draw_log(rng, 50, 1000), draw_log(rng, 8, 2_000)
        self.lab.run(
            client.name, "redis-benchmark", *options, "-n", str(count), "-d", str(size_bytes),
            "-c", str(rng.choice((1, 2, 5))), "-P", str(rng.choice((1, 1, 8))),
            "-t", rng.choice(("get", "set", "lpush", "set,get")), "-q",
            time_max_s=self.VISIT_MAX_S,
        )  # fmt: skip
        return count * size_bytes

    def _command(
        self, client: Host, kind: str, options: list[str], commands: list[list[str]]
    ) -> None:
        """Alone, in a session that asks what commands there are first, or many without waiting."""
        arguments, data_in = [], b""
        if kind == "command":
            arguments = commands[0]
        elif kind == "session":
            data_in = "\n".join(shlex.join(command) for command in commands).encode()
        else:
            arguments, data_in = ["--pipe"], b"".join(map(serialize, commands))
        said = self.lab.run(
            client.name, "redis-cli", *options, *arguments, data_in=data_in,
            time_max_s=self.VISIT_MAX_S,
        )  # fmt: skip
        is_wrong = b"Could not connect" in said or b"ERR" in said
        if is_wrong or (kind == "bulk" and b"errors: 0" not in said):
            raise LabError(f"redis: {said.decode(errors='replace')[:300]}")

    def _draw_commands(self, rng: random.Random, count: int) -> tuple[list[list[str]], int]:
        commands, asked = [], 0
        for _ in range(count or draw_log(rng, 3, 60)):
            number, size_bytes = rng.randrange(30), draw_log(rng, 10, 20_000)
            value = draw_text(rng, size_bytes).replace("\n", " ")
            command = rng.choice(
                (
                    ["SET", f"page:{number}", value],
                    ["GET", f"page:{number}"],
                    ["GET", f"page:{number}"],
                    ["RPUSH", f"queue:{number}", value],
                    ["LPOP", f"queue:{number}"],
                    ["INCR", f"count:{number}"],
                )
            )
            commands.append(command)
            asked += size_bytes if len(command) > 2 else 0
        return commands, asked


def serialize(command: Sequence[str]) -> bytes:
    """A command as it goes over the wire: RESP, an array of texts."""
    texts = (word.encode() for word in command)
    return b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(t), t) for t in texts)


# A cluster that was just made recovers first; on a busy machine that takes a while.
START_TIME_MAX_S = 30.0


class Postgresql(Server):
    """A cluster of the run's own, which no disk has to be sure of."""

    NAME = "postgresql"
    # The server lies beside its version's other programs, out of the path; this one does not.
    PROGRAMS = {
        "pg_createcluster": "postgresql",
        "psql": "postgresql-client",
        "setpriv": "util-linux",
        "openssl": "openssl",
    }
    STANDARD_PORT = 5432
    USER = "demo"

    def start(self) -> None:
        folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not folders:
            raise LabError(
                "there is no /usr/lib/postgresql/*/bin/initdb; try: apt-get install postgresql"
            )
        self.programs = folders[-1].parent
        make_certificate(self.lab, self.host, self.folder, self.rng)
        self.password = f"{self.rng.getrandbits(40):x}"
        password_file = self.folder / "password"
        password_file.write_text(self.password)
        give_to_nobody(self.folder, password_file, *self.folder.glob("tls.*"))
        data = self.folder / "data"
        self.lab.run(
            self.host.name, *as_nobody(
                self.programs / "initdb", "-D", data, "-U", self.USER, "-A", "scram-sha-256",
                "--pwfile", password_file, "--no-sync", "--no-instructions", "--locale=C.UTF-8",
            ),
            time_max_s=60.0,
        )  # fmt: skip
        with (data / "pg_hba.conf").open("a") as access:
            access.write("host all all 0.0.0.0/0 scram-sha-256\nhost all all ::/0 scram-sha-256\n")
        settings = {
            "port": self.port, "listen_addresses": "*", "unix_socket_directories": self.folder,
            "fsync": "off", "ssl": "on", "ssl_cert_file": self.folder / "tls.crt",
            "ssl_key_file": self.folder / "tls.key", "max_connections": 40,
            "shared_buffers": "16MB", "autovacuum": "off", "jit": "off",
            # In its own folder: what lies in /dev/shm would outlive a run that is killed.
            "dynamic_shared_memory_type": "mmap",
        }  # fmt: skip
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = as_nobody(self.programs / "postgres", "-D", data, *options)
        self.lab.start(self.host.name, *command, log_name=self.host.name)
        # It listens before it lets anyone in.
        place = "-h", str(self.folder), "-p", str(self.port)
        ask = self.programs / "pg_isready"
        self.lab.wait_until(
            lambda: b"accepting" in self.lab.run(
                self.host.name, ask, *place, statuses_wanted=(0, 1, 2)
            ),
            f"{self.host.name} accepting connections to its database", START_TIME_MAX_S,
        )  # fmt: skip
        self._run(
            self.host, "pgbench", "-h", str(self.folder), "-p", str(self.port), "-i", "-q",
            "-I", "dtGp", "postgres",
        )  # fmt: skip

    def visit(self, client: Host, rng: random.Random) -> Visit:
        family = self.draw_family(rng)
        security = rng.choice(("disable", "prefer", "verify-ca"))
        parts = {
            "host": self.host.address(family), "port": self.port, "dbname": "postgres",
            "sslmode": security, "sslrootcert": self.folder / "tls.crt", "connect_timeout": 10,
            "gssencmode": "disable",
        }  # fmt: skip
        where = " ".join(f"{name}={value}" for name, value in parts.items())
        kind = rng.choice(("query", "query", "load", "transactions"))
        asked = 0
        if kind == "transactions":
            options = ["-n", "-t", str(draw_log(rng, 2, 40)), "-c", str(rng.choice((1, 1, 2)))]
            options += rng.choice(([], ["-S"], ["-M", "prepared"], ["-C"]))
            self._run(client, "pgbench", *options, where)
        else:
            asked = draw_log(rng, 100, 400_000)
            sql = self._draw_query(rng, asked) if kind == "query" else self._draw_load(rng, asked)
            self._run(client, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", where, sql=sql)
        variant = f"{'plain' if security == 'disable' else 'tls'} {kind}"
        return Visit(variant, "pgbench" if kind == "transactions" else "psql", asked)

    def _draw_query(self, rng: random.Random, size_bytes: int) -> str:
        width = rng.choice((20, 100, 400))
        queries = [
            f"SELECT i, repeat(md5(i::text), {width // 32 + 1}) "
            f"FROM generate_series(1, {size_bytes // width + 1}) i;",
            "SELECT * FROM pgbench_branches;",
            "SELECT count(*), now() FROM pg_class;",
        ]
        return "\n".join(queries[: rng.randrange(1, 4)])

    def _draw_load(self, rng: random.Random, size_bytes: int) -> str:
        table = f"load_{rng.getrandbits(48):x}"
        rows = draw_text(rng, size_bytes)
        return f"CREATE TABLE {table} (line text);\nCOPY {table} FROM STDIN;\n{rows}\n\\.\n"

    def _run(self, host: Host, program: str, *arguments: str, sql: str = "") -> None:
        self.lab.run(
            host.name, self.programs / program, *arguments, data_in=sql.encode(),
            environment={"PGUSER": self.USER, "PGPASSWORD": self.password},
            time_max_s=self.VISIT_MAX_S,
        )  # fmt: skip
