"""Which services there are."""

from __future__ import annotations

from wirelens_testbed.services.dns import Dns, Dot
from wirelens_testbed.services.mail import Imap, Smtp
from wirelens_testbed.services.mqtt import Mqtt
from wirelens_testbed.services.service import Server
from wirelens_testbed.services.ssh import Sftp, Ssh
from wirelens_testbed.services.stores import Postgresql, Redis
from wirelens_testbed.services.web import Http, Http2, Https

SERVICES: dict[str, type[Server]] = {
    service.NAME: service
    for service in (
        *(Http, Https, Http2),
        *(Dns, Dot),
        *(Ssh, Sftp),
        *(Smtp, Imap),
        *(Mqtt, Redis, Postgresql),
    )
}
