"""What names say of a flow's class, as evidence: for `bench/evaluation/classify/names.py`.

Kinds of evidence, each an entry of `models/recipes/services-names.tsv`:

- suffix: the longest suffix of the server's name that is in the list, or a DNS query's label
- label: a label of the name, such as `smtp`; beside a suffix it counts for little
- protocol: the application protocol, unless it carries others
- carrier: TLS, QUIC, HTTP and DTLS, where neither suffix nor label says more

A flow whose protocol is known and not in the list is of no class that the list knows.
"""

import csv
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KINDS = ("protocol", "carrier", "suffix", "label", "label beside suffix")
STATES = ("none", "carrier", "protocol", "label", "suffix")
CARRIERS = frozenset({"tls", "quic", "http", "http2", "dtls"})
# Second labels under which registries of countries give out names.
_SECOND = frozenset({"co", "com", "org", "net", "ac", "gov", "edu", "ne", "or"})


@dataclass(frozen=True)
class Evidence:
    """What is known of a flow beside its first packets."""

    # Kind and class.
    known: tuple[tuple[str, str], ...]
    # Words whose weights would have to be learned.
    words: tuple[str, ...]
    # Whether the protocol is known and not in the list.
    is_unlisted: bool = False

    @property
    def state(self) -> str:
        """The strongest kind."""
        kinds = {kind for kind, _ in self.known}
        return next((one for one in reversed(STATES) if one in kinds), "none")


class NameList:
    """The list, by kind."""

    def __init__(self, path: Path, without: str = "", without_kind: str = "") -> None:
        kinds = ("protocol", "label", "suffix", "query")
        self.classes: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
        with path.open(encoding="utf-8") as text:
            for row in csv.DictReader(text, delimiter="\t"):
                if row["class"] != without and row["kind"] != without_kind:
                    self.classes[row["kind"]][row["value"]] = row["class"]

    def suffix(self, name: str) -> str | None:
        """The class of the longest suffix."""
        parts = name.split(".")
        tails = (".".join(parts[first:]) for first in range(len(parts)))
        return next((self.classes["suffix"][t] for t in tails if t in self.classes["suffix"]), None)

    def label(self, word: str) -> str | None:
        return self.classes["label"].get(word)


def _host(name: str) -> str:
    """A host's name without port and last dot, empty where it is an address or has no dot."""
    plain = re.sub(r":\d+$", "", name) if name.count(":") == 1 else name
    plain = plain.lower().rstrip(".")
    try:
        ipaddress.ip_address(plain.strip("[]"))
    except ValueError:
        return plain if "." in plain else ""
    return ""


def _words(labels: list[str]) -> list[str]:
    """Words of labels, without the numbers at their ends."""
    parts = (re.sub(r"\d+$", "", part) for label in labels for part in re.split(r"[-_]", label))
    return list(dict.fromkeys(part for part in parts if len(part) > 1))


def _divided(host: str) -> tuple[list[str], str]:
    """Labels before the registered domain, and the domain."""
    parts = host.split(".")
    is_second = len(parts) > 2 and len(parts[-1]) == 2 and parts[-2] in _SECOND
    count = 3 if is_second else 2
    return parts[:-count], ".".join(parts[-count:])


def evidence(said: Mapping[str, str], listed: NameList) -> Evidence:
    """What the columns of `wirelens flows --read-names` say of a flow."""
    protocol = said["app_protocol"]
    words = [f"app={protocol}"] if protocol else []
    queries = said["dns_query"].lower().split(".") if protocol == "dns" else []
    for label in queries:
        if label in listed.classes["query"]:
            return Evidence((("suffix", listed.classes["query"][label]),), tuple(words))
    known = []
    protocols = listed.classes["protocol"]
    is_unlisted = bool(protocol and protocols) and protocol not in protocols
    if protocol in protocols:
        kind = "carrier" if protocol in CARRIERS else "protocol"
        known.append((kind, protocols[protocol]))
    host = _host(said["server_name"] or said["resolved_name"])
    if protocol in ("tls", "quic"):
        words.append("alpn=" + re.sub(r"-\d+$", "", said["alpn"].split(",")[0]))
    if not host:
        return Evidence(tuple(known), tuple(words), is_unlisted)
    labels, domain = _divided(host)
    own = _words(labels)
    words += [f"domain={domain}", *(f"label={word}" for word in own)]
    found = listed.suffix(host)
    by_label = [listed.label(word) for word in dict.fromkeys([*own, *_of_domain(domain)])]
    kind = "label beside suffix" if found else "label"
    told = [("suffix", found)] if found else []
    told += [(kind, one) for one in dict.fromkeys(by_label) if one is not None]
    if told and protocol in CARRIERS:
        known = []
        words = [word for word in words if not word.startswith(("app=", "alpn="))]
    return Evidence((*known, *told), tuple(words), is_unlisted and not told)


def _of_domain(domain: str) -> list[str]:
    """Words of a registered domain."""
    return [part for part in re.split(r"[-_]|\d+", domain.split(".")[0]) if len(part) > 1]
