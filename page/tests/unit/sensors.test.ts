import assert from "node:assert/strict";
import { test } from "node:test";
import { isOfSeveral } from "../../src/parts/sensor.tsx";
import { firingOf } from "../../src/parts/alert-list.tsx";
import { carried, listingNames, withoutPages } from "../../src/route.ts";
import { bothOf, isSensor, OneSensorSource } from "../../src/source/one-sensor.ts";
import { ReportSource, type ReportData } from "../../src/source/report.ts";
import type { Column, Row } from "../../src/source/source.ts";
import { occurrenceOf, rowsOfSensor, sightingsOf } from "../../src/views/flow-sensors-data.ts";
import { newestLikeliest } from "../../src/views/queue-data.ts";
import { lostBetween, statesOf, totalsOf } from "../../src/views/sensors-data.ts";

const SECOND = 1_000_000_000n;
const at = (seconds: number, more = 0n): string => String(BigInt(seconds) * SECOND + more);

function now(sensor: string, silent_s: number, more: object = {}) {
  const counts = { packets_received: 100, packets_dropped: 10, rows: 7, rows_missing: 2 };
  return { sensor, time_ns: at(50), event: "now", silent_s, ...counts, rows_lost: 1, ...more };
}

function event(sensor: string, name: string, seconds: number, rows = 1) {
  return { sensor, event: name, max_time_ns: at(seconds), rows };
}

test("a sensor is silent from that event until it is back", () => {
  const states = statesOf(
    [now("c", 40), now("a", 1), now("b", 0)],
    [
      event("a", "silent", 10),
      event("a", "back", 20),
      event("a", "restarted", 21, 3),
      event("b", "heard", 1),
      event("c", "back", 5),
      event("c", "silent", 15, 2),
    ],
  );
  assert.deepEqual(
    states.map(({ name, isSilent, silentS, restarts, restartedNs }) => [
      name,
      isSilent,
      silentS,
      restarts,
      restartedNs,
    ]),
    [
      ["a", false, 1, 3, at(21)],
      ["b", false, 0, 0, null],
      ["c", true, 40, 0, null],
    ],
  );
});

test("the newest row of a sensor is its state, and missing metrics are not zero", () => {
  const none = { packets_received: null, packets_dropped: null, rows_lost: null };
  const [state] = statesOf(
    [now("a", 1, { time_ns: at(60), ...none }), now("a", 9, { time_ns: at(50) })],
    [],
  );
  assert.equal(state!.silentS, 1);
  assert.deepEqual([state!.received, state!.dropped, state!.lost], [null, null, null]);
});

test("totals add up what is known", () => {
  const states = statesOf(
    [now("a", 1), now("b", 1, { packets_received: null, packets_dropped: null })],
    [event("b", "silent", 1)],
  );
  assert.deepEqual(totalsOf(states), {
    silent: 1,
    received: 100,
    dropped: 10,
    missing: 4,
    lost: 2,
  });
});

test("packets lost between sensors are those that the one with the fewest lacks", () => {
  assert.deepEqual(lostBetween({ packets_max: 200, packets_min: 150 }), {
    packets: 50,
    share: 0.25,
  });
  assert.deepEqual(lostBetween({ packets_max: 0, packets_min: 0 }), { packets: 0, share: null });
});

const FLOW_COLUMNS = [
  "sensor",
  "community_id",
  "first_ns",
  "last_ns",
  "src_packets",
  "dst_packets",
  "src_bytes",
  "dst_bytes",
  "end_reason",
];
const row = (sensor: string, first: string, last: string, packets: number, end = "fin"): Row => [
  sensor,
  "1:a=",
  first,
  last,
  packets,
  1,
  packets * 100,
  60,
  end,
];
/** At one sensor the flow was cut in two; a later connection has the same Community ID. */
const GATHERED = {
  tables: {
    flows: {
      columns: FLOW_COLUMNS,
      rows: [
        row("out", at(100, 500n), at(104), 9),
        row("in", at(100), at(102), 6, "cut"),
        row("in", at(103), at(104), 4),
        row("in", at(500), at(501), 70),
      ],
    },
    classify: {
      columns: ["sensor", "community_id", "first_ns", "label"],
      rows: [
        ["in", "1:a=", at(100), "web"],
        ["out", "1:a=", at(100, 500n), "video"],
        ["in", "1:a=", at(500), "games"],
      ] as Row[],
    },
    alerts: { columns: ["first_ns", "name"], rows: [[at(9), "own rule"]] as Row[] },
    sensor_alerts: {
      columns: ["sensor", "first_ns", "name"],
      rows: [
        ["in", at(7), "rule of in"],
        ["out", at(7), "rule of out"],
      ] as Row[],
    },
  },
};

test("a flow is found at all sensors from the first packet at any of them", () => {
  const wanted = { first: BigInt(at(100)), last: BigInt(at(104)) };
  assert.deepEqual(occurrenceOf(GATHERED, at(100, 500n)), wanted);
  assert.deepEqual(occurrenceOf(GATHERED, at(100)), wanted);
  assert.deepEqual(occurrenceOf(GATHERED, undefined), wanted);
  assert.deepEqual(occurrenceOf(GATHERED, at(500)), {
    first: BigInt(at(500)),
    last: BigInt(at(501)),
  });
  assert.equal(occurrenceOf(GATHERED, at(300)), null);
  assert.equal(occurrenceOf({ tables: {} }, undefined), null);
});

test("rows of two sensors, and of two connections, are not mixed", () => {
  const span = occurrenceOf(GATHERED, at(100));
  const { tables } = rowsOfSensor(GATHERED, "in", span);
  assert.deepEqual(
    tables.flows!.rows.map((each) => each[4]),
    [6, 4],
  );
  assert.deepEqual(
    tables.classify!.rows.map((each) => each[3]),
    ["web"],
  );
  assert.deepEqual(
    tables.sensor_alerts!.rows.map((each) => each[2]),
    ["rule of in"],
  );
  assert.equal(tables.alerts!.rows.length, 1);
});

test("what each sensor saw, in the order of first packets, with the parts of a cut flow", () => {
  const list = sightingsOf(GATHERED, occurrenceOf(GATHERED, at(100)));
  assert.deepEqual(
    list.map(({ sensor, packets, bytes, first, last, end, verdict }) => ({
      sensor,
      packets,
      bytes,
      first,
      last,
      end,
      label: verdict?.label,
    })),
    [
      {
        sensor: "in",
        packets: 12,
        bytes: 1120,
        first: at(100),
        last: at(104),
        end: "fin",
        label: "web",
      },
      {
        sensor: "out",
        packets: 10,
        bytes: 960,
        first: at(100, 500n),
        last: at(104),
        end: "fin",
        label: "video",
      },
    ],
  );
  const later = sightingsOf(GATHERED, occurrenceOf(GATHERED, at(500)));
  assert.deepEqual(
    later.map(({ sensor, packets }) => [sensor, packets]),
    [["in", 71]],
  );
});

function report(): ReportData {
  const typed = (name: string): Column => ({
    name,
    type: /_ns$/.test(name) ? "timestamp" : /packets|bytes/.test(name) ? "u64" : "text",
  });
  const tables = {
    flows: {
      columns: [...FLOW_COLUMNS, "src_ip", "dst_ip"],
      rows: GATHERED.tables.flows.rows.map((each): Row => [...each, "10.0.0.1", "10.0.0.2"]),
    },
    sensors: {
      columns: ["sensor", "event"],
      rows: [
        ["in", "now"],
        ["out", "now"],
      ] as Row[],
    },
    alerts: { columns: ["name", "host"], rows: [["own rule", "10.0.0.1"]] as Row[] },
  };
  const infos = Object.entries(tables).map(([name, { columns, rows }]) => ({
    name,
    about: "",
    rows: rows.length,
    received: rows.length,
    evicted: 0,
    time: null,
    first: null,
    last: null,
    columns: columns.map(typed),
  }));
  const packets = { received: 0, dropped: 0, malformed: 0 };
  const state = {
    version: "",
    mode: "report" as const,
    inputs: [],
    is_over: true,
    started: "0",
    now: null,
    sequence: 1,
    packets,
    tables: infos,
    history: null,
  };
  return { state, tables, health: null, packetlog: null };
}

test("a chosen sensor leaves out the rows of others, and only where rows are of sensors", async () => {
  const source = new OneSensorSource(new ReportSource(report()), "in", (name) => name !== "alerts");
  const rows = await source.rows("flows", { where: "src_packets < 10 or src_packets == 9" });
  assert.deepEqual(
    rows.rows.map((each) => [each[0], each[4]]),
    [
      ["in", 6],
      ["in", 4],
    ],
  );
  const groups = await source.groups("flows", { by: "sensor" });
  assert.deepEqual(groups.rows, [["in", 3]]);
  const hosts = await source.hosts({ sort: "host" });
  assert.equal(hosts.rows[0]![hosts.columns.indexOf("flows")], 3);
  const host = await source.host("10.0.0.1", {});
  assert.equal(host.tables.flows!.rows.length, 3);
  assert.equal(host.tables.alerts!.rows.length, 1);
  assert.equal((await source.rows("sensors", {})).matched, 2);
  const flow = await source.flow("1:a=");
  assert.equal(flow.tables.flows!.rows.length, 4);
});

test("two filters are both fulfilled, whatever their operators", () => {
  assert.equal(bothOf(undefined, ""), undefined);
  assert.equal(bothOf("a or b", undefined), "a or b");
  assert.equal(
    bothOf("a or b", isSensor('the "roof"')),
    '(a or b) and (sensor == "the \\"roof\\"")',
  );
});

test("rows are of several sensors unless one is chosen or filtered by", () => {
  assert.ok(isOfSeveral(undefined, undefined));
  assert.ok(isOfSeveral(undefined, "server_name contains sensors"));
  assert.ok(!isOfSeveral("roof", undefined));
  assert.ok(!isOfSeveral(undefined, 'dst_port == 443 and sensor == "roof"'));
});

test("the sensor travels with the time range; each listing has its own parameters", () => {
  const query = { sensor: "roof", range: "1h", where: "x", seen_by: "roof", events_page: "2" };
  assert.deepEqual(carried(query), { range: "1h", from: undefined, to: undefined, sensor: "roof" });
  assert.deepEqual(listingNames(), { where: "where", sort: "sort", page: "page" });
  assert.equal(listingNames("events").page, "events_page");
  assert.deepEqual(withoutPages({ page: "2", events_page: "3", homepage: "x" }), { homepage: "x" });
});

test("an alert of one sensor does not end that of another", () => {
  const alert = (sensor: string, state: string) => ({
    name: "rule",
    table: "flows",
    sensor,
    state,
  });
  const firing = firingOf([alert("a", "resolved"), alert("b", "firing"), alert("a", "firing")]);
  assert.deepEqual(
    firing.map((each) => each.sensor),
    ["b"],
  );
});

test("likeliest controls of a flow are those of one sensor", () => {
  const likeliest = (sensor: string, text: string) => ({
    community_id: "1:a",
    sensor,
    likeliest: text,
  });
  assert.deepEqual(
    [...newestLikeliest([likeliest("in", "bbr 0.9"), likeliest("out", "reno 0.8")])],
    [
      ["1:a in", "bbr 0.9"],
      ["1:a out", "reno 0.8"],
    ],
  );
});
