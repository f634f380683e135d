"""Reads a mailbox: JSON on standard input says which, how and what of it."""

import imaplib
import json
import ssl
import sys
import time
from typing import Any

TIMEOUT_S = 20.0


def main() -> None:
    asked = json.load(sys.stdin)
    trust = ssl.create_default_context(cafile=asked["trust"])
    if asked["security"] == "tls":
        server: imaplib.IMAP4 = imaplib.IMAP4_SSL(
            asked["address"], asked["port"], ssl_context=trust, timeout=TIMEOUT_S
        )
    else:
        server = imaplib.IMAP4(asked["address"], asked["port"], timeout=TIMEOUT_S)
    with server:
        if asked["security"] == "starttls":
            server.starttls(ssl_context=trust)
        server.login(asked["user"], asked["password"])
        server.select("INBOX")
        act(server, asked)


def act(server: imaplib.IMAP4, asked: dict[str, Any]) -> None:
    if asked["kind"] == "fetch":
        for number in asked["numbers"]:
            status, parts = server.fetch(str(number), "(RFC822)")
            if status != "OK" or not parts[0]:
                sys.exit(f"message {number}: wanted its text, the server said {status} {parts}")
    elif asked["kind"] == "headers":
        server.fetch("1:*", "(FLAGS BODY.PEEK[HEADER.FIELDS (FROM SUBJECT DATE)])")
    elif asked["kind"] == "append":
        server.create("Sent")
        server.append("Sent", r"\Seen", None, f"Subject: sent\r\n\r\n{asked['message']}".encode())
    else:
        # As a reader that stays and asks now and then whether there is something new.
        for _ in range(3):
            server.noop()
            time.sleep(asked["pause_s"])


if __name__ == "__main__":
    main()
