import { useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { formatBytes, formatCount, formatDuration, spanNs } from "../format.ts";
import { numberOf, type Rec, sumOf, textOf } from "../source/records.ts";
import { Bar } from "./bar.tsx";
import { hasSensors, withSensor } from "./sensor.tsx";
import { type Sorting, Table, type TableColumn } from "./table.tsx";
import { endText, Text } from "./text.tsx";
import { Time } from "./time.tsx";

export function flowName(flow: Rec): string | null {
  return textOf(flow, "server_name") ?? textOf(flow, "resolved_name") ?? textOf(flow, "dns_query");
}

export function flowService(flow: Rec): string | null {
  return textOf(flow, "label") ?? textOf(flow, "app_protocol");
}

export function sourceOf(flow: Rec): string {
  return endText(textOf(flow, "src_ip"), numberOf(flow, "src_port"));
}

export function destinationOf(flow: Rec): string {
  return endText(textOf(flow, "dst_ip"), numberOf(flow, "dst_port"));
}

/** Which of the flows of a Community ID, and which of the sensors that saw it. */
export function flowQuery(row: Rec): Record<string, string | undefined> {
  return {
    first_ns: textOf(row, "first_ns") ?? undefined,
    seen_by: textOf(row, "sensor") ?? undefined,
  };
}

export function EndReason({ reason }: { reason: string | null }) {
  if (reason === "open") return <span class="tag tag-open">open</span>;
  return (
    <span class="tag">
      <Text value={reason} />
    </span>
  );
}

function columnsOf(max: number): TableColumn<Rec>[] {
  return [
    {
      name: "src",
      label: "Source",
      sort: "src_ip",
      render: (row) => <Text value={sourceOf(row)} />,
    },
    {
      name: "dst",
      label: "Destination",
      sort: "dst_ip",
      render: (row) => <Text value={destinationOf(row)} />,
    },
    {
      name: "protocol",
      label: "Protocol",
      sort: "protocol",
      render: (row) => <Text value={textOf(row, "protocol")} />,
    },
    { name: "service", label: "Service", render: (row) => <Text value={flowService(row)} /> },
    { name: "name", label: "Name", isWide: true, render: (row) => <Text value={flowName(row)} /> },
    {
      name: "first",
      label: "First packet",
      sort: "first_ns",
      render: (row) => <Time ns={textOf(row, "first_ns")} />,
    },
    {
      name: "duration",
      label: "Duration",
      isNumber: true,
      render: (row) => formatDuration(spanNs(textOf(row, "first_ns"), textOf(row, "last_ns"))),
    },
    {
      name: "packets",
      label: "Packets",
      isNumber: true,
      sort: "packets",
      render: (row) => formatCount(sumOf(row, "src_packets", "dst_packets")),
    },
    {
      name: "bytes",
      label: "Bytes",
      isNumber: true,
      sort: "bytes",
      about: "Both directions; the bar shows source and destination",
      render: (row) => (
        <span class="with-bar">
          {formatBytes(sumOf(row, "src_bytes", "dst_bytes"))}
          <Bar parts={[sumOf(row, "src_bytes"), sumOf(row, "dst_bytes")]} max={max} />
        </span>
      ),
    },
    {
      name: "end",
      label: "End",
      sort: "end_reason",
      render: (row) => <EndReason reason={textOf(row, "end_reason")} />,
    },
  ];
}

interface Properties {
  caption: string;
  flows: Rec[];
  sorting?: Sorting;
}

export function FlowTable({ caption, flows, sorting }: Properties) {
  const place = usePlace();
  const isOfSensors = hasSensors(useApp().state, "flows");
  const max = flows.reduce((most, row) => Math.max(most, sumOf(row, "src_bytes", "dst_bytes")), 0);
  return (
    <Table
      caption={caption}
      columns={withSensor(columnsOf(max), isOfSensors, "dst")}
      rows={flows}
      keyOf={(row) => `${row.community_id} ${row.first_ns} ${row.sensor ?? ""}`}
      hrefOf={(row) => {
        return place.to(["flow", textOf(row, "community_id") ?? ""], flowQuery(row));
      }}
      {...(sorting ? { sorting } : {})}
    />
  );
}
