"""A small shop on the web whose search is open to SQL injection, as real ones have been.

python3 shop_server.py ADDRESS PORT FOLDER
"""

from __future__ import annotations

import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

CATEGORIES, ARTICLES, ACCOUNTS = 6, 120, 12


def fill(path: Path) -> None:
    """Makes the database: articles for all to see, and accounts that are not."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE articles (category INTEGER, name TEXT, price INTEGER)")
        database.execute("CREATE TABLE accounts (id INTEGER, name TEXT, secret TEXT)")
        database.executemany(
            "INSERT INTO articles VALUES (?, ?, ?)",
            [(index % CATEGORIES, f"article {index}", 100 + index) for index in range(ARTICLES)],
        )
        database.executemany(
            "INSERT INTO accounts VALUES (?, ?, ?)",
            [(index, f"user{index}", f"{index * 7919:08x}") for index in range(ACCOUNTS)],
        )


class Shop(BaseHTTPRequestHandler):
    """Answers a search with the articles of a category."""

    protocol_version = "HTTP/1.1"
    database: Path

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        category = asked.get("category", ["0"])[0]
        status, rows = 200, []
        try:
            with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as database:
                # The fault that is attacked: the text of the request becomes part of the query.
                rows = database.execute(
                    f"SELECT name, price FROM articles WHERE category = {category}"
                ).fetchall()
        except (sqlite3.Error, sqlite3.Warning) as failure:
            status, rows = 500, [("error", str(failure))]
        lines = "\n".join(f"<li>{name}: {price}</li>" for name, price in rows)
        body = f"<html><body><h1>Shop</h1><ul>\n{lines}\n</ul></body></html>\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: what was asked is in the capture."""


def main() -> None:
    address, port, folder = sys.argv[1:]
    Shop.database = Path(folder) / "shop.db"
    fill(Shop.database)
    ThreadingHTTPServer((address, int(port)), Shop).serve_forever()


if __name__ == "__main__":
    main()
