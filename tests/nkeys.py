"""Keys and JWTs of NATS for tests, made with openssl: as `nk` and `nsc` would write them."""

import base64
import binascii
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The first byte of a public key by its kind, and that of a seed.
KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
SEED = 18 << 3
KEY_LEN = 32


def encoded(data: bytes) -> str:
    whole = data + binascii.crc_hqx(data, 0).to_bytes(2, "little")
    return base64.b32encode(whole).decode().rstrip("=")


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class Key:
    """An Ed25519 key of an operator, an account or a user."""

    kind: str
    der: bytes
    public: str

    @property
    def seed(self) -> str:
        kind = KINDS[self.kind]
        return encoded(bytes([SEED | kind >> 5, (kind & 31) << 3]) + self.der[-KEY_LEN:])

    def sign(self, data: bytes) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            key, text = Path(folder) / "key.der", Path(folder) / "text"
            key.write_bytes(self.der)
            text.write_bytes(data)
            return openssl(
                "pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", key, "-in", text
            )

    def jwt(self, of: "Key", claims: dict) -> str:
        """What this key says of another one."""
        nats = {"type": of.kind, "version": 2, **claims}
        body = {"iss": self.public, "sub": of.public, "name": of.kind, "iat": 1, "nats": nats}
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        text = ".".join(base64url(json.dumps(part).encode()) for part in (head, body))
        return f"{text}.{base64url(self.sign(text.encode()))}"


def openssl(*arguments: str | Path, given: bytes = b"") -> bytes:
    ran = subprocess.run(["openssl", *arguments], input=given, check=True, capture_output=True)
    return ran.stdout


def new_key(kind: str) -> Key:
    der = openssl("genpkey", "-algorithm", "ed25519", "-outform", "DER")
    public = openssl("pkey", "-inform", "DER", "-pubout", "-outform", "DER", given=der)
    return Key(kind, der, encoded(bytes([KINDS[kind]]) + public[-KEY_LEN:]))


def credentials(jwt: str, user: Key) -> str:
    """A file of credentials."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )


def operator_settings(user: Key) -> tuple[str, str]:
    """Settings of a server whose users have JWTs, and the JWT of one of them."""
    operator, account, system = new_key("operator"), new_key("account"), new_key("account")
    unlimited = {
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True,
        "conn": -1, "leaf": -1,
    }  # fmt: skip
    storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    accounts = {
        account.public: operator.jwt(account, {"limits": {**unlimited, **storage}}),
        system.public: operator.jwt(system, {"limits": unlimited}),
    }
    known = "\n".join(f"  {public}: {jwt}" for public, jwt in accounts.items())
    settings = (
        f"operator: {operator.jwt(operator, {})}\nsystem_account: {system.public}\n"
        f"resolver: MEMORY\nresolver_preload {{\n{known}\n}}\n"
    )
    return settings, account.jwt(user, {"subs": -1, "data": -1, "payload": -1})
