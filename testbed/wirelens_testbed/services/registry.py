"""Which services there are."""

from __future__ import annotations

from wirelens_testbed.services.bittorrent import BitTorrent
from wirelens_testbed.services.dash import Dash
from wirelens_testbed.services.dns import Dns, Dot
from wirelens_testbed.services.http3 import Http3
from wirelens_testbed.services.mail import Imap, Smtp
from wirelens_testbed.services.management import Ntp, Snmp
from wirelens_testbed.services.mqtt import Mqtt
from wirelens_testbed.services.service import Server
from wirelens_testbed.services.sip import Sip
from wirelens_testbed.services.ssh import Sftp, Ssh
from wirelens_testbed.services.stores import Postgresql, Redis
from wirelens_testbed.services.tunnels import OpenVpn, WireGuard
from wirelens_testbed.services.web import Http, Http2, Https

SERVICES: dict[str, type[Server]] = {
    service.NAME: service
    for service in (
        *(Http, Https, Http2, Http3),
        *(Dns, Dot),
        *(Ssh, Sftp),
        *(Smtp, Imap),
        *(Ntp, Snmp, Sip),
        *(WireGuard, OpenVpn),
        *(BitTorrent, Dash),
        *(Mqtt, Redis, Postgresql),
    )
}
