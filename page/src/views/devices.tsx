import { useAnswer } from "../answer.ts";
import { useApp } from "../context.ts";
import { formatCount } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Panel } from "../parts/panel.tsx";
import { hasSensors, withSensor } from "../parts/sensor.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { Confidence, Label } from "../parts/verdict-table.tsx";
import { numberOf, type Rec, recordsOf, textOf } from "../source/records.ts";

const HOSTS_MAX = 200;

const COLUMNS: TableColumn<Rec>[] = [
  { name: "host", label: "Host", render: (row) => <Text value={textOf(row, "host")} /> },
  { name: "label", label: "Device", render: (row) => <Label row={row} /> },
  {
    name: "confidence",
    label: "Confidence",
    isNumber: true,
    render: (row) => <Confidence row={row} />,
  },
  {
    name: "flow_count",
    label: "Flows",
    isNumber: true,
    render: (row) => formatCount(numberOf(row, "flow_count")),
  },
  {
    name: "first",
    label: "First seen",
    render: (row) => <Time ns={textOf(row, "first_ns")} hasDate />,
  },
  {
    name: "decided",
    label: "Decided at",
    render: (row) => <Time ns={textOf(row, "decided_ns")} hasDate />,
  },
];

function deviceKey(row: Rec): string {
  return `${row.host} ${row.sensor ?? ""}`;
}

/** A host has a row at each change of its label: the newest counts, of each sensor. */
function newestByHost(rows: Rec[]): Rec[] {
  const newest = new Map<string, Rec>();
  for (const row of rows) {
    const host = deviceKey(row);
    if (!newest.has(host)) newest.set(host, row);
  }
  return [...newest.values()];
}

export function DevicePanel({ table }: { table: string }) {
  const { source, state } = useApp();
  const place = usePlace();
  const answer = useAnswer(`devices ${table} ${place.key}`, async (signal) => {
    const query = { sort: "-decided_ns", limit: HOSTS_MAX, ...place.bounds };
    return newestByHost(recordsOf(await source.rows(table, query, signal)));
  });
  return (
    <Panel title="Devices" note="the newest verdict of each host">
      <Shown answer={answer} lines={8}>
        {(hosts) =>
          hosts.length === 0 ? (
            <Empty title="No verdicts in this time range" />
          ) : (
            <Table
              caption="Devices"
              columns={withSensor(COLUMNS, hasSensors(state, table), "host")}
              rows={hosts}
              keyOf={deviceKey}
              hrefOf={(row) => place.to(["host", textOf(row, "host") ?? ""])}
            />
          )
        }
      </Shown>
    </Panel>
  );
}
