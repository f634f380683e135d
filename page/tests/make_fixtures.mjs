// Makes the reports in fixtures/ from captures that ship, by the program itself: no number in them
// is invented. Only for whoever changes what they hold: `npm run fixtures -- PROGRAM`.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { gzipSync } from "node:zlib";

const root = new URL("../../", import.meta.url).pathname;
const program = process.argv[2] ?? `${root}target/release/wirelens`;
const testdata = process.argv[3] ?? `${root}testdata`;
const out = new URL("fixtures/", import.meta.url).pathname;
const SECOND = 1_000_000_000n;

function wirelens(...words) {
  return execFileSync(program, words, { encoding: "utf8", maxBuffer: 1 << 28 });
}

/** 64-bit stamps do not fit numbers: they become text before they are parsed. */
function records(command, ...words) {
  const text = wirelens(command, "-q", ...words, "--format", "jsonl");
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) =>
      JSON.parse(
        line.replace(/"((?:first|last|start|decided|time|window_start)_ns)":(-?\d+)/g, '"$1":"$2"'),
      ),
    );
}

/** Names, types and meanings as the reference has them. */
function columnsOf(heading) {
  const lines = readFileSync(`${root}docs/reference/columns.md`, "utf8").split("\n");
  const start = lines.indexOf(`## ${heading}`);
  if (start < 0) throw new Error(`no heading ${heading}`);
  const types = {
    text: "text",
    "unsigned 64-bit": "u64",
    "unsigned 32-bit": "u32",
    "unsigned 16-bit": "u16",
    "signed 8-bit": "i8",
    "64-bit float": "f64",
    timestamp: "timestamp",
  };
  const columns = [];
  for (const line of lines.slice(start + 4)) {
    const match = /^\| `(\w+)` \| ([^|]+) \| (.+) \|$/.exec(line);
    if (match === null) break;
    const type = types[match[2].split(",")[0]];
    columns.push({ name: match[1], type, about: match[3], nullable: match[2].includes("missing") });
  }
  return columns;
}

function table(name, about, time, columns, rows) {
  const at = columns.findIndex((column) => column.name === time);
  const cells = rows.map((row) => columns.map((column) => row[column.name] ?? null));
  const stamps = cells
    .map((row) => row[at])
    .filter((stamp) => stamp != null)
    .map(BigInt)
    .sort(order);
  const info = {
    name,
    about,
    rows: cells.length,
    received: cells.length,
    evicted: 0,
    time: at < 0 ? null : time,
    first: stamps[0]?.toString() ?? null,
    last: stamps.at(-1)?.toString() ?? null,
    columns,
  };
  return { info, part: { columns: columns.map((column) => column.name), rows: cells } };
}

function order(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

const TRAFFIC = [
  ["start_ns", "timestamp", "Start of the period."],
  ["period_ns", "u64", "Its length, in nanoseconds."],
  ["packets", "u64", "Packets."],
  ["bytes", "u64", "Bytes on the wire."],
  ["tcp_bytes", "u64", "Of these, bytes of TCP."],
  ["udp_bytes", "u64", "Of these, bytes of UDP."],
  ["other_bytes", "u64", "Of these, bytes of other protocols."],
  ["new_flows", "u64", "Flows that began."],
  ["ended_flows", "u64", "Flows that ended."],
  ["dropped_packets", "u64", "Packets that the capture dropped."],
].map(([name, type, about]) => ({ name, type, about, nullable: false }));

/** Captures drop nothing: that column stays at zero. */
function traffic(capture, flows) {
  const seconds = new Map();
  const rowOf = (start) => {
    if (!seconds.has(start)) {
      seconds.set(start, Object.fromEntries(TRAFFIC.map(({ name }) => [name, 0])));
      Object.assign(seconds.get(start), { start_ns: String(start), period_ns: Number(SECOND) });
    }
    return seconds.get(start);
  };
  const top = records("top", "-r", capture, "--by", "protocol", "--window", "1s", "-n", "0");
  for (const { window_start_ns: start, protocol, packets, bytes } of top) {
    const row = rowOf(BigInt(start));
    row.packets += packets;
    row.bytes += bytes;
    row[`${["tcp", "udp"].includes(protocol) ? protocol : "other"}_bytes`] += bytes;
  }
  for (const flow of flows) {
    const [first, last] = [BigInt(flow.first_ns), BigInt(flow.last_ns)].map(
      (at) => at - (at % SECOND),
    );
    rowOf(first).new_flows += 1;
    rowOf(last).ended_flows += 1;
  }
  const rows = [...seconds.values()].sort((a, b) => order(BigInt(a.start_ns), BigInt(b.start_ns)));
  return table("traffic", "Packets and flows of each second", "start_ns", TRAFFIC, rows);
}

function flowsOf(capture) {
  const rows = records("flows", "-r", capture, "--read-names");
  const columns = columnsOf("`wirelens flows --read-names`");
  return { rows, table: table("flows", "Every flow", "last_ns", columns, rows) };
}

function healthOf(tables) {
  return {
    status: "ok",
    checks: [
      { name: "capture drops", status: "ok", seen: "0 packets", wanted: "none" },
      { name: "row drops", status: "ok", seen: "0 rows", wanted: "none" },
    ],
    uptime_s: 0,
    memory_bytes: 0,
    cpu_seconds: 0,
    tables: tables.map(({ info, part }) => ({
      name: info.name,
      rows: info.rows,
      evicted: 0,
      dropped: 0,
      bytes: JSON.stringify(part).length,
    })),
  };
}

function packetLogOf(capture) {
  const folder = mkdtempSync(`${tmpdir()}/wirelens-log-`);
  const model = `${root}models/packetlog`;
  wirelens("packetlog", "record", "-q", "-r", capture, "-o", `${folder}/log`, "--model", model);
  const lines = wirelens("packetlog", "stats", "--log", `${folder}/log`, "--format", "jsonl");
  const classes = lines
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  rmSync(folder, { recursive: true });
  const sum = (name) => classes.reduce((total, each) => total + each[name], 0);
  return {
    folder: "log",
    mode: "default",
    packets: {
      seen: sum("seen_packets"),
      kept: sum("kept_packets"),
      waiting: 0,
      passed_over: 0,
      lost: sum("lost_packets"),
    },
    bytes: { seen: sum("seen_bytes"), kept: sum("kept_bytes") },
    classes: classes.map((each) =>
      Object.fromEntries(
        [
          "class",
          "seen_packets",
          "seen_bytes",
          "kept_packets",
          "kept_bytes",
          "stored_packets",
          "lost_packets",
        ].map((name) => [name, each[name]]),
      ),
    ),
    events: [],
  };
}

function write(name, input, packets, tables, packetlog = null) {
  const last = tables[0].info.last;
  const state = {
    version: "0.1.0",
    mode: "report",
    inputs: [input],
    is_over: true,
    started: last,
    now: last,
    sequence: 1,
    packets: { received: packets, dropped: 0, malformed: 0, open_flows: 0 },
    tables: tables.map(({ info }) => info),
    history: null,
  };
  const parts = Object.fromEntries(tables.map(({ info, part }) => [info.name, part]));
  const report = JSON.stringify({ state, tables: parts, health: healthOf(tables), packetlog });
  writeFileSync(`${out}${name}.json.gz`, gzipSync(report, { level: 9 }));
  console.log(
    name,
    report.length,
    tables.map(({ info }) => `${info.name} ${info.rows}`).join(", "),
  );
}

function packetsOf(capture) {
  return records("info", "-r", capture)[0].packets;
}

mkdirSync(out, { recursive: true });
const demo = `${testdata}/demo.pcapng`;
const office = flowsOf(demo);
write(
  "office",
  "demo.pcapng",
  packetsOf(demo),
  [
    traffic(demo, office.rows),
    office.table,
    table(
      "classify",
      "The service of each flow",
      "decided_ns",
      columnsOf("`wirelens classify`"),
      records("classify", "-r", demo, "--model", `${root}models/services`),
    ),
    table(
      "latency",
      "RTT of each flow",
      "last_ns",
      columnsOf("`wirelens latency`"),
      records("latency", "-r", demo),
    ),
  ],
  packetLogOf(demo),
);

const before = `${testdata}/testbed/congestion/before.pcapng.gz`;
const after = `${testdata}/testbed/congestion/after.pcapng.gz`;
const queue = flowsOf(before);
const every = ["--every", "100ms", "--model", `${root}models/cca`];
write("queue", "before.pcapng.gz", packetsOf(before), [
  traffic(before, queue.rows),
  queue.table,
  table(
    "cca",
    "Flows in the queue",
    "start_ns",
    columnsOf("`wirelens cca`"),
    records("cca", "-r", before, "--egress", after, ...every),
  ),
]);

const sender = `${testdata}/l4s/sender.pcap.gz`;
const l4s = flowsOf(sender);
write("sender", "sender.pcap.gz", packetsOf(sender), [
  traffic(sender, l4s.rows),
  l4s.table,
  table(
    "cca",
    "Flows in flight",
    "start_ns",
    columnsOf("`wirelens cca, of one tap`"),
    records("cca", "-r", sender, "--every", "100ms"),
  ),
  table(
    "latency",
    "RTT by destination",
    "start_ns",
    columnsOf("`wirelens latency --by destination --every DURATION`"),
    records("latency", "-r", sender, "--by", "destination", "--every", "100ms"),
  ),
  table(
    "l4s",
    "L4S queue choice",
    "start_ns",
    columnsOf("`wirelens l4s`"),
    records(
      "l4s",
      "-r",
      sender,
      "--model",
      `${testdata}/l4s/model`,
      "--to",
      "0.0.0.0/0",
      "--every",
      "100ms",
    ),
  ),
]);
