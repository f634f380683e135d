"""Packets and bytes by source with DuckDB or Polars, on columns that are parsed already.

Usage: columns.py duckdb|polars memory|parquet THREADS --data DIR

DIR holds src.u32 and len.u32; columns.parquet is made of them where it is
missing. Only the query is timed, once to warm up and three times to count;
each time is printed as a line of JSON.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path


def make_parquet(folder: Path) -> Path:
    """The two columns as Parquet, made once."""
    path = folder / "columns.parquet"
    if not path.exists():
        import numpy as np
        import polars as pl

        names = ("src", "len")
        columns = {name: np.fromfile(folder / f"{name}.u32", dtype="<u4") for name in names}
        partial = path.with_suffix(".partial")
        pl.DataFrame(columns).write_parquet(partial)
        partial.rename(path)
    return path


def polars_query(form: str, path: Path) -> Callable[[], int]:
    import polars as pl

    frame = pl.scan_parquet(path) if form == "parquet" else pl.read_parquet(path).lazy()
    sums = [pl.len().alias("packets"), pl.col("len").cast(pl.UInt64).sum().alias("bytes")]
    query = frame.group_by("src").agg(sums)
    return lambda: query.collect().height


def duckdb_query(form: str, path: Path, threads: int) -> Callable[[], int]:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    source = f"read_parquet('{path}')"
    if form == "memory":
        connection.execute(f"CREATE TABLE packets AS SELECT * FROM {source}")
        source = "packets"
    grouped = f"SELECT src, count(*) AS packets, sum(len) AS bytes FROM {source} GROUP BY src"
    # The rows are made but not handed to Python, as Polars' are not.
    query = f"SELECT count(*), sum(packets), sum(bytes) FROM ({grouped})"
    return lambda: connection.execute(query).fetchone()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["duckdb", "polars"])
    parser.add_argument("form", choices=["memory", "parquet"])
    parser.add_argument("threads", type=int)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    # Polars reads this when it is imported.
    os.environ["POLARS_MAX_THREADS"] = str(arguments.threads)
    path = make_parquet(arguments.data)
    items = (arguments.data / "src.u32").stat().st_size // 4
    if arguments.engine == "polars":
        query = polars_query(arguments.form, path)
    else:
        query = duckdb_query(arguments.form, path, arguments.threads)
    plural = "" if arguments.threads == 1 else "s"
    label = {"duckdb": "DuckDB", "polars": "Polars"}[arguments.engine]
    sources = query()
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        found = query()
        told = {
            "name": f"{label}, {arguments.threads} thread{plural}",
            "items": items,
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
        }
        if found != sources:
            raise SystemExit(f"{label}: {found} sources; wanted {sources} as before")
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
