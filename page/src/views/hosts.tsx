import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import { formatBytes, formatCount } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Bar } from "../parts/bar.tsx";
import { Panel } from "../parts/panel.tsx";
import { SearchBox } from "../parts/search-box.tsx";
import { SensorsNote } from "../parts/sensor.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { type Rec, numberOf, recordsOf, sumOf, textOf } from "../source/records.ts";

const HOSTS_MAX = 200;

function columnsOf(max: number, hasDevices: boolean): TableColumn<Rec>[] {
  const columns: TableColumn<Rec>[] = [
    {
      name: "host",
      label: "Host",
      sort: "host",
      render: (row) => <Text value={textOf(row, "host")} />,
    },
    {
      name: "names",
      label: "Names",
      isWide: true,
      render: (row) => <Text value={textOf(row, "names")} />,
    },
    {
      name: "label",
      label: "Device",
      sort: "label",
      render: (row) => <Text value={textOf(row, "label")} />,
    },
    {
      name: "bytes",
      label: "Bytes",
      isNumber: true,
      sort: "bytes",
      about: "Sent and received",
      render: (row) => (
        <span class="with-bar">
          {formatBytes(sumOf(row, "bytes_sent", "bytes_received"))}
          <Bar parts={[sumOf(row, "bytes_sent"), sumOf(row, "bytes_received")]} max={max} />
        </span>
      ),
    },
    {
      name: "sent",
      label: "Sent",
      isNumber: true,
      sort: "bytes_sent",
      render: (row) => formatBytes(numberOf(row, "bytes_sent")),
    },
    {
      name: "received",
      label: "Received",
      isNumber: true,
      sort: "bytes_received",
      render: (row) => formatBytes(numberOf(row, "bytes_received")),
    },
    {
      name: "flows",
      label: "Flows",
      isNumber: true,
      sort: "flows",
      render: (row) => formatCount(numberOf(row, "flows")),
    },
    {
      name: "peers",
      label: "Peers",
      isNumber: true,
      sort: "peers",
      render: (row) => formatCount(numberOf(row, "peers")),
    },
    {
      name: "first",
      label: "First seen",
      sort: "first_ns",
      render: (row) => <Time ns={textOf(row, "first_ns")} />,
    },
    {
      name: "last",
      label: "Last seen",
      sort: "last_ns",
      render: (row) => <Time ns={textOf(row, "last_ns")} />,
    },
  ];
  return columns.filter((column) => hasDevices || column.name !== "label");
}

export function Hosts() {
  const { source, state } = useApp();
  const place = usePlace();
  const { where, sort = "-bytes" } = place.query;
  const flows = tableOf(state, "flows");
  const answer = useAnswer(flows && `hosts ${place.key}`, (signal) =>
    source.hosts({ where, sort, limit: HOSTS_MAX, ...place.bounds }, signal),
  );
  if (flows === null) return <NoTable name="flows" />;
  return (
    <div class="view">
      <SearchBox
        label="Filter hosts by their flows"
        value={where ?? ""}
        columns={flows.columns}
        example="dst_port == 443"
        apply={(next) => place.go({ where: next })}
      />
      <SensorsNote where={where} />
      <Panel
        title="Hosts"
        note={
          answer.data
            ? `${formatCount(answer.data.rows.length)} of ${formatCount(answer.data.matched)}`
            : ""
        }
      >
        <Shown answer={answer} lines={14}>
          {(found) => {
            const rows = recordsOf(found);
            const max = rows.reduce(
              (most, row) => Math.max(most, sumOf(row, "bytes_sent", "bytes_received")),
              0,
            );
            return rows.length === 0 ? (
              <Empty title="No host matches" />
            ) : (
              <Table
                caption="Hosts"
                columns={columnsOf(
                  max,
                  rows.some((row) => row.label !== null),
                )}
                rows={rows}
                keyOf={(row) => String(row.host)}
                hrefOf={(row) => place.to(["host", textOf(row, "host") ?? ""])}
                sorting={{ current: sort, change: (next) => place.go({ sort: next }) }}
              />
            );
          }}
        </Shown>
      </Panel>
    </div>
  );
}
