// Hosts from flows, for reports: each flow counts for both of its ends.

import { type MemoryTable, queryRows, selected } from "./query.ts";
import type { Cell, Column, HostsQuery, Row, Rows, TableInfo } from "./source.ts";

const COLUMNS: Column[] = [
  { name: "host", type: "text" },
  { name: "bytes_sent", type: "u64" },
  { name: "bytes_received", type: "u64" },
  { name: "packets_sent", type: "u64" },
  { name: "packets_received", type: "u64" },
  { name: "flows", type: "u64" },
  { name: "peers", type: "u64" },
  { name: "first_ns", type: "timestamp" },
  { name: "last_ns", type: "timestamp" },
  { name: "label", type: "text", nullable: true },
  { name: "names", type: "text", nullable: true },
];
/** Names beyond these say little and would fill the cell. */
const NAMES_MAX = 4;

class Host {
  sent = [0, 0];
  received = [0, 0];
  flows = 0;
  peers = new Set<string>();
  names = new Set<string>();
  first: bigint | null = null;
  last: bigint | null = null;

  see(first: Cell, last: Cell): void {
    if (first !== null && (this.first === null || BigInt(first) < this.first)) {
      this.first = BigInt(first);
    }
    if (last !== null && (this.last === null || BigInt(last) > this.last)) {
      this.last = BigInt(last);
    }
  }

  row(address: string, label: Cell): Row {
    const names = [...this.names].slice(0, NAMES_MAX).join(" ");
    return [
      address,
      this.sent[0]!,
      this.received[0]!,
      this.sent[1]!,
      this.received[1]!,
      this.flows,
      this.peers.size,
      this.first?.toString() ?? null,
      this.last?.toString() ?? null,
      label,
      names === "" ? null : names,
    ];
  }
}

type Reader = (row: Row, name: string) => Cell;

function readerOf(info: TableInfo): Reader {
  const indexes = new Map(info.columns.map((column, i) => [column.name, i]));
  return (row, name) => row[indexes.get(name) ?? -1] ?? null;
}

function addEnd(hosts: Map<string, Host>, row: Row, read: Reader, end: "src" | "dst"): void {
  const other = end === "src" ? "dst" : "src";
  const address = read(row, `${end}_ip`);
  if (typeof address !== "string") return;
  let host = hosts.get(address);
  if (host === undefined) {
    host = new Host();
    hosts.set(address, host);
  }
  const number = (name: string): number => Number(read(row, name) ?? 0);
  host.sent = [host.sent[0]! + number(`${end}_bytes`), host.sent[1]! + number(`${end}_packets`)];
  host.received = [
    host.received[0]! + number(`${other}_bytes`),
    host.received[1]! + number(`${other}_packets`),
  ];
  host.flows += 1;
  host.peers.add(String(read(row, `${other}_ip`)));
  host.see(read(row, "first_ns"), read(row, "last_ns"));
  const name = end === "dst" ? (read(row, "server_name") ?? read(row, "resolved_name")) : null;
  if (typeof name === "string") host.names.add(name);
}

export function queryHosts(
  flows: MemoryTable,
  verdicts: MemoryTable | undefined,
  query: HostsQuery,
  sequence: number,
): Rows {
  const read = readerOf(flows.info);
  const hosts = new Map<string, Host>();
  for (const row of selected(flows, query)) {
    addEnd(hosts, row, read, "src");
    addEnd(hosts, row, read, "dst");
  }
  const labels = new Map<Cell, Cell>();
  if (verdicts !== undefined) {
    const verdict = readerOf(verdicts.info);
    for (const row of verdicts.rows) labels.set(verdict(row, "host"), verdict(row, "label"));
  }
  const rows = [...hosts].map(([address, host]) => host.row(address, labels.get(address) ?? null));
  const info: TableInfo = {
    name: "hosts",
    about: "",
    rows: rows.length,
    received: rows.length,
    evicted: 0,
    time: null,
    first: null,
    last: null,
    columns: COLUMNS,
  };
  const { sort, limit } = query;
  return queryRows({ info, rows }, { sort: sort ?? "-bytes", limit }, sequence);
}
