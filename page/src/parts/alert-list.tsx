import { type Answer, useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { SENSORS } from "../source/one-sensor.ts";
import { type Rec, recordsOf, textOf } from "../source/records.ts";
import type { Source } from "../source/source.ts";
import { useHasPackets } from "./packets-link.tsx";
import { withSensor } from "./sensor.tsx";
import { Table, type TableColumn } from "./table.tsx";
import { Text } from "./text.tsx";
import { Time } from "./time.tsx";

/** Alerts of the rules of sensors; those of this run are in `alerts`. */
export const SENSOR_ALERTS = "sensor_alerts";
/** Alerts beyond these are counted by the alerts view, not by the badge. */
const FIRING_MAX = 500;

function identityOf(alert: Rec): string {
  return JSON.stringify(
    ["name", "table", "community_id", "host", "labels", "sensor"].map((each) => alert[each]),
  );
}

/** Of alerts, newest first: those whose newest row fires. */
export function firingOf(alerts: Rec[]): Rec[] {
  const newest = new Map<string, Rec>();
  for (const alert of alerts) {
    const identity = identityOf(alert);
    if (!newest.has(identity)) newest.set(identity, alert);
  }
  return [...newest.values()].filter((alert) => alert.state === "firing");
}

export function useFiring(): Answer<Rec[]> {
  const { source, state } = useApp();
  const tables = ["alerts", SENSOR_ALERTS].filter((name) => tableOf(state, name) !== null);
  return useAnswer(`firing ${tables}`, async (signal) => {
    const query = { sort: "-time_ns", limit: FIRING_MAX };
    const found = await Promise.all(tables.map((name) => source.rows(name, query, signal)));
    return found.flatMap((rows) => firingOf(recordsOf(rows)));
  });
}

export function Severity({ name }: { name: string | null }) {
  const known = ["critical", "error", "warning", "info"].includes(name ?? "") ? name : "info";
  return (
    <span class={`severity severity-${known}`}>
      <Text value={name} none="info" />
    </span>
  );
}

export function alertHref(place: ReturnType<typeof usePlace>, alert: Rec): string | null {
  const flow = textOf(alert, "community_id");
  if (flow) return place.to(["flow", flow], { seen_by: textOf(alert, "sensor") ?? undefined });
  const host = textOf(alert, "host");
  if (host) return place.to(["host", host]);
  return textOf(alert, "table") === SENSORS ? place.to([SENSORS]) : null;
}

const COLUMNS: TableColumn<Rec>[] = [
  { name: "name", label: "Alert", render: (row) => <Text value={textOf(row, "name")} /> },
  { name: "time_ns", label: "Time", render: (row) => <Time ns={textOf(row, "time_ns")} hasDate /> },
  {
    name: "severity",
    label: "Severity",
    render: (row) => <Severity name={textOf(row, "severity")} />,
  },
  { name: "state", label: "State", render: (row) => <Text value={textOf(row, "state")} /> },
  {
    name: "text",
    label: "Value",
    isProse: true,
    render: (row) => <Text value={textOf(row, "text")} />,
  },
  {
    name: "about",
    label: "Host or flow",
    render: (row) => <Text value={textOf(row, "host") ?? textOf(row, "community_id")} />,
  },
];

/** The packets of an alert's flow, else of its host, in one click. */
function packetsColumn(source: Source): TableColumn<Rec> {
  return {
    name: "packets",
    label: "Packets",
    render: (row) => {
      const flow = textOf(row, "community_id");
      const host = textOf(row, "host");
      const search = flow ? { flow } : host ? { host } : null;
      const address = search && source.pcapngAddress(search);
      if (!address) return null;
      const what = flow ? "flow" : "host";
      return (
        <a href={address} download aria-label={`Packets of this ${what} as pcapng`}>
          pcapng
        </a>
      );
    },
  };
}

export function AlertTable({ caption, alerts }: { caption: string; alerts: Rec[] }) {
  const { source } = useApp();
  const place = usePlace();
  const isOfSensors = alerts.some((alert) => "sensor" in alert);
  const shown = withSensor(COLUMNS, isOfSensors, "name");
  const columns = useHasPackets() ? [...shown, packetsColumn(source)] : shown;
  return (
    <Table
      caption={caption}
      columns={columns}
      rows={alerts}
      keyOf={(row) => `${row.time_ns} ${identityOf(row)}`}
      hrefOf={(row) => alertHref(place, row)}
    />
  );
}
