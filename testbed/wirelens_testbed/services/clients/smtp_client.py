"""Sends mail: JSON on standard input says where to, how and what."""

import json
import smtplib
import ssl
import sys

TIMEOUT_S = 20.0


def main() -> None:
    asked = json.load(sys.stdin)
    trust = ssl.create_default_context(cafile=asked["trust"])
    if asked["security"] == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            asked["address"], asked["port"], timeout=TIMEOUT_S, context=trust
        )
    else:
        server = smtplib.SMTP(asked["address"], asked["port"], timeout=TIMEOUT_S)
    with server:
        if asked["security"] == "starttls":
            server.starttls(context=trust)
        for message in asked["messages"]:
            server.sendmail(asked["sender"], asked["recipients"], message)


if __name__ == "__main__":
    main()
