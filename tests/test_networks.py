"""`[networks]`: what is known of addresses besides packets, as columns of flows."""

import json
import signal
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import quote

import pytest
from command import DEMO, Ran, wirelens
from lab import Listening, datagrams, new_link, wait_until
from mmdb import country, database, system
from test_page import ask, serving

LOCAL = ["10.20.0.0/16", "2001:db8:20::/48", "fe80::/10"]
SYSTEMS = {
    "203.0.113.0/26": (64_496, "Example"),
    "203.0.113.80/32": (4_200_000_000, "Beispiel GmbH"),
    "2001:db8:113::/48": (64_497, 'An "Org", Ltd'),
}
COUNTRIES = {"203.0.113.0/24": "NL", "2001:db8:113::80/128": "DE"}
COLUMNS = ("local", "asn", "as_org", "country")
NETWORKS = f'[networks]\nlocal = {json.dumps(LOCAL)}\nasn = "asn.mmdb"\ncountry = "country.mmdb"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    systems = {network: system(*one) for network, one in SYSTEMS.items()}
    (tmp_path / "asn.mmdb").write_bytes(database(systems))
    countries = {network: country(code) for network, code in COUNTRIES.items()}
    (tmp_path / "country.mmdb").write_bytes(database(countries))
    return tmp_path


def run(folder: Path, text: str, *more: str) -> Ran:
    (folder / "wirelens.toml").write_text(text)
    return wirelens("run", "-q", "-c", "wirelens.toml", *more, cwd=folder)


def of_demo(folder: Path, table: str, networks: str = NETWORKS) -> list[dict[str, str]]:
    rows = 'output = "-"\nformat = "csv"\n'
    ran = run(folder, f'[input]\nread = "{DEMO}"\n{table}\n{rows}{networks}')
    assert ran.status == 0, ran.stderr
    return ran.rows


def found(values: dict, address: str):
    """The value of the longest network that has the address."""
    networks = [network for network in values if ip_address(address) in ip_network(network)]
    longest = max(networks, key=lambda network: ip_network(network).prefixlen, default=None)
    return values[longest] if longest else None


def wanted(address: str) -> tuple[str, ...]:
    is_local = any(ip_address(address) in ip_network(prefix) for prefix in LOCAL)
    number, organization = found(SYSTEMS, address) or ("", "")
    return str(int(is_local)), str(number), organization, found(COUNTRIES, address) or ""


@pytest.mark.parametrize("table", ["[flows]", "[flows]\nstats = true", "[flows]\nread-names = true",
                                   '[classify]\nmodel = "services"'])  # fmt: skip
def test_rows_of_flows_have_what_is_known_of_both_ends(folder: Path, table: str) -> None:
    rows, without = of_demo(folder, table), of_demo(folder, table, "")
    assert len(rows) > 200
    for row, bare in zip(rows, without, strict=True):
        for side in ("src", "dst"):
            assert tuple(row[f"{side}_{name}"] for name in COLUMNS) == wanted(row[f"{side}_ip"])
        added = {f"{side}_{name}" for side in ("src", "dst") for name in COLUMNS}
        assert row.keys() - bare.keys() == added
        assert {name: value for name, value in row.items() if name not in added} == bare
    assert {row["dst_country"] for row in rows} == {"", "NL", "DE"}
    assert {row["src_local"] for row in rows} == {"0", "1"}


def test_columns_are_those_of_the_keys_that_are_given(folder: Path) -> None:
    def added(networks: str) -> list[str]:
        return list(of_demo(folder, "[flows]", f"[networks]\n{networks}")[0])[16:]

    assert added('local = ["10.0.0.0/8"]\n') == ["src_local", "dst_local"]
    assert added('asn = "asn.mmdb"\n') == ["src_asn", "src_as_org", "dst_asn", "dst_as_org"]
    assert added('country = "country.mmdb"\n') == ["src_country", "dst_country"]
    assert added("") == []
    rows = of_demo(folder, "[flows]", "[networks]\nlocal = []\n")
    assert {row["dst_local"] for row in rows} == {"0"}


def test_zeek_and_suricata_get_them(folder: Path) -> None:
    text = f'[input]\nread = "{DEMO}"\n[flows]\nformat = "zeek"\noutput = "logs"\n{NETWORKS}'
    assert run(folder, text).status == 0
    lines = (folder / "logs/conn.log").read_text().splitlines()
    (fields,) = (line.split("\t")[1:] for line in lines if line.startswith("#fields"))
    conn = [dict(zip(fields, line.split("\t"), strict=True)) for line in lines if line[0] != "#"]
    for row in conn:
        for side, key in (("orig", "id.orig_h"), ("resp", "id.resp_h")):
            assert row[f"local_{side}"] == {"1": "T", "0": "F"}[wanted(row[key])[0]]
    assert {row["local_resp"] for row in conn} == {"T", "F"}
    text = f'[input]\nread = "{DEMO}"\n[flows]\nformat = "eve"\noutput = "eve.json"\n{NETWORKS}'
    assert run(folder, text).status == 0
    events = [json.loads(line) for line in (folder / "eve.json").read_text().splitlines()]
    flows = [event for event in events if event["event_type"] == "flow"]
    for event in flows:
        for side, key in (("src", "src_ip"), ("dst", "dest_ip")):
            local, number, organization, code = wanted(event[key])
            values = (bool(int(local)), int(number) if number else None, organization, code)
            for name, value in zip(COLUMNS, values, strict=True):
                assert event["wirelens"].get(f"{side}_{name}") == (None if value == "" else value)
    without = run(folder, text.replace(NETWORKS, "").replace("eve.json", "bare.json"))
    assert without.status == 0
    for event in flows:
        event["wirelens"] = {
            key: value for key, value in event["wirelens"].items()
            if key.removeprefix("src_").removeprefix("dst_") not in COLUMNS
        }  # fmt: skip
    bare = [json.loads(line) for line in (folder / "bare.json").read_text().splitlines()]
    assert [event for event in bare if event["event_type"] == "flow"] == flows


def test_alerts_and_filters_of_the_page_ask_for_them(folder: Path) -> None:
    rules = (
        '[[alert]]\nname = "abroad"\ntable = "flows"\nwhen = "dst_asn == 4200000000"\n'
        'text = "{src_ip} to {dst_as_org}, {dst_country}"\n'
        '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\n'
    )
    ran = run(folder, f'[input]\nread = "{DEMO}"\n[flows]\n{NETWORKS}{rules}')
    assert ran.status == 0, ran.stderr
    alerts = [json.loads(line) for line in (folder / "alerts.jsonl").read_text().splitlines()]
    rows = of_demo(folder, "[flows]")
    ids = {row["community_id"] for row in rows if row["dst_ip"] == "203.0.113.80"}
    assert {alert["community_id"] for alert in alerts} == ids
    assert "10.20.0.11 to Beispiel GmbH, NL" in json.dumps(alerts)
    (folder / "wirelens.toml").write_text(f'[input]\nread = "{DEMO}"\n[flows]\n{NETWORKS}')
    with serving("-c", "wirelens.toml", "--page", "0", cwd=folder) as address:
        where = quote('dst_country == "DE" and src_local == 1')
        asked = f"/api/v1/tables/flows?where={where}&limit=1000&columns=dst_ip,dst_asn"
        answer = ask(address, asked)["rows"]
    here = [row for row in rows if row["dst_country"] == "DE" and row["src_local"] == "1"]
    assert answer == [["2001:db8:113::80", 64_497]] * len(here)
    assert here


def test_what_cannot_be_read_is_named_with_its_line(folder: Path) -> None:
    flows = f'[input]\nread = "{DEMO}"\n[flows]\noutput = "flows.csv"\n'
    good = (folder / "asn.mmdb").read_bytes()
    for networks, words in [
        ('asn = "none.mmdb"', ["none.mmdb: No such file"]),
        ('asn = "country.mmdb"', ["country.mmdb: a database of type `Tests`", "GeoLite2-ASN"]),
        ('country = "wirelens.toml"', ["wirelens.toml: ", "MaxMind's format"]),
        ('asn = "cut.mmdb"', ["cut.mmdb: "]),
        ('local = ["10.0.0.1/8"]', ["`10.0.0.1/8` has bits behind its first 8"]),
        ('local = ["lan"]', ["`lan` is not a prefix", "10.0.0.0/8"]),
        ('as = "asn.mmdb"', ["did you mean `asn`?"]),
    ]:
        (folder / "cut.mmdb").write_bytes(good[: len(good) // 2] + good[-200:])
        ran = run(folder, f"{flows}[networks]\n{networks}\n", "--check")
        assert ran.status == 2 and ran.stdout == b"", (networks, ran.stderr)
        assert "wirelens.toml:6: " in ran.stderr, ran.stderr
        assert all(word in ran.stderr for word in words), ran.stderr
    ran = run(folder, f'[input]\nread = "{DEMO}"\n[top]\noutput = "-"\n{NETWORKS}', "--check")
    assert ran.status == 2 and "[networks] no table has columns for it" in ran.stderr


def test_files_are_read_again_at_a_hangup(folder: Path) -> None:
    systems = folder / "asn.mmdb"
    systems.write_bytes(database({"198.19.0.0/16": system(1, "One")}))
    (folder / "wirelens.toml").write_text(
        f'[input]\ninterface = "wl0"\n[flows]\noutput = "{folder}/flows.csv"\n'
        f'idle-timeout = "1s"\n[networks]\nlocal = ["198.18.0.0/24"]\nasn = "{systems}"\n'
    )

    def rows() -> list[dict[str, str]]:
        lines = [
            line for path in sorted(folder.glob("flows*.csv*")) for line in
            path.read_text().splitlines()
        ]  # fmt: skip
        names = lines[0].split(",") if lines else []
        values = [line.split(",") for line in lines if not line.startswith("community_id")]
        return [dict(zip(names, row, strict=False)) for row in values]

    with new_link() as link, Listening(folder, "run", "-c", folder / "wirelens.toml") as live:
        link.send(datagrams(3))
        live.signal(signal.SIGHUP)
        live.wait_for(r"\[networks\] was reloaded")
        wait_until(lambda: len(rows()) >= 3, "rows", 15)
        systems.write_bytes(database({"198.19.0.0/16": system(2, "Two")}))
        live.signal(signal.SIGHUP)
        live.wait_for(r"(?s)\[networks\] was reloaded.*\[networks\] was reloaded")
        link.send(datagrams(3, port=54))
        live.signal(signal.SIGHUP)
        # What is damaged by then is refused, and what was read before stays in force.
        systems.write_bytes(b"not any more")
        live.signal(signal.SIGHUP)
        live.wait_for(r"asn\.mmdb: .*\n.*were not applied; the previous ones stay in force")
        link.send(datagrams(3, port=55))
        assert live.end().status == 0
    by_port = {(row["dst_port"], row["dst_asn"], row["dst_as_org"]) for row in rows()}
    assert by_port == {("53", "1", "One"), ("54", "2", "Two"), ("55", "2", "Two")}
    assert {(row["src_local"], row["dst_local"]) for row in rows()} == {("1", "0")}
