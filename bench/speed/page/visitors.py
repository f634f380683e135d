"""Open pages and a crawler, as a run that is looked at has them.

`visitors.py ADDRESS PAGES CRAWLERS SECONDS` prints a line of JSON: requests answered, refused and
failed, and how long they took.

A page listens to events and asks once a second what the overview asks; a crawler asks for large
answers of every table, one after the other without a pause.
"""

import http.client
import json
import socket
import sys
import threading
import time
from urllib.parse import quote, urlsplit

OVERVIEW = (
    "tables/traffic?sort=-start_ns&limit=2",
    "tables/traffic/series?value=bytes&aggregate=sum&step=10s",
    "tables/flows/groups?by=src_ip&sum=src_bytes%2Cdst_bytes&sort=-sum_src_bytes&limit=6",
    "tables/classify/groups?by=label&sort=-rows&limit=8",
    f"tables/classify/groups?by=label&min=first_ns&sort={quote('-min_first_ns')}&limit=6",
    "hosts?limit=8&sort=-bytes",
)
CRAWL = (
    "state", "health", "openapi.json",
    "tables/flows?limit=10000", "tables/flows?limit=10000&sort=-bytes",
    "tables/flows?limit=100&where=example", "tables/classify?limit=10000&sort=label",
    "tables/flows/groups?by=src_ip,dst_ip,dst_port&sum=bytes&limit=10000",
    "tables/flows/series?value=bytes&by=dst_ip&step=1s&series=50", "hosts?limit=10000",
    "tables/latency?limit=10000", "tables/traffic?limit=10000",
)  # fmt: skip


class Counts:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.took_s: list[float] = []
        self.refused = self.failed = self.events = self.bytes = 0

    def asked(self, connection: http.client.HTTPConnection, path: str) -> None:
        start = time.monotonic()
        try:
            connection.request("GET", f"/api/v1/{path}")
            answer = connection.getresponse()
            size = len(answer.read())
        except (OSError, http.client.HTTPException):
            connection.close()
            with self.lock:
                self.failed += 1
            return
        with self.lock:
            self.bytes += size
            if answer.status == 200:
                self.took_s.append(time.monotonic() - start)
            else:
                self.refused += 1


def listen(host: str, until: float, counts: Counts) -> None:
    name, port = host.rsplit(":", 1)
    with socket.create_connection((name, int(port)), 10) as stream:
        stream.settimeout(1)
        stream.sendall(f"GET /api/v1/stream HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        while time.monotonic() < until:
            try:
                received = stream.recv(1 << 16)
            except TimeoutError:
                continue
            if not received:
                break
            with counts.lock:
                counts.events += received.count(b"event: state")
                counts.bytes += len(received)


def look(host: str, until: float, counts: Counts) -> None:
    connection = http.client.HTTPConnection(host, timeout=20)
    while time.monotonic() < until:
        start = time.monotonic()
        for path in OVERVIEW:
            counts.asked(connection, path)
        time.sleep(max(0.0, min(start + 1, until) - time.monotonic()))


def crawl(host: str, until: float, counts: Counts) -> None:
    connection = http.client.HTTPConnection(host, timeout=20)
    while time.monotonic() < until:
        for path in CRAWL:
            counts.asked(connection, path)


def main() -> None:
    host, pages, crawlers = urlsplit(sys.argv[1]).netloc, int(sys.argv[2]), int(sys.argv[3])
    until = time.monotonic() + float(sys.argv[4])
    counts = Counts()
    work = [listen, look] * pages + [crawl] * crawlers
    threads = [threading.Thread(target=each, args=(host, until, counts)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = sorted(counts.took_s)

    def at(share: float) -> float | None:
        return round(took[int(share * (len(took) - 1))] * 1e3, 1) if took else None

    print(json.dumps({
        "answers": len(took), "refused": counts.refused, "failed": counts.failed,
        "events": counts.events, "answer_bytes": counts.bytes,
        "answer_ms_p50": at(0.5), "answer_ms_p99": at(0.99),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
