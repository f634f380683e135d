import { formatCount, formatDuration } from "../format.ts";
import { RangeMark, scaleOf } from "../parts/bar.tsx";
import { Panel } from "../parts/panel.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { numberOf, type Rec, textOf } from "../source/records.ts";

interface Direction {
  name: string;
  latency: Rec;
  /** Columns of the path: from the tap to this end and back. */
  path: "src" | "dst";
  /** Columns of the packets that this path answers: the other end sent them. */
  sender: "src" | "dst";
}

function directionsOf(latency: Rec): Direction[] {
  return [
    { name: "Tap to destination", latency, path: "dst", sender: "src" },
    { name: "Tap to source", latency, path: "src", sender: "dst" },
  ];
}

function duration(name: string, label: string): TableColumn<Direction> {
  return {
    name,
    label,
    isNumber: true,
    render: ({ latency, path }) => formatDuration(numberOf(latency, `${path}_${name}_ns`)),
  };
}

function count(name: string, label: string): TableColumn<Direction> {
  return {
    name,
    label,
    isNumber: true,
    render: ({ latency, sender }) => formatCount(numberOf(latency, `${sender}_${name}`)),
  };
}

function columnsOf(rows: Direction[]): TableColumn<Direction>[] {
  const rtt = ({ latency, path }: Direction, name: string): number | null =>
    numberOf(latency, `${path}_rtt_${name}_ns`);
  const scale = scaleOf(
    rows.map((row) => rtt(row, "min")),
    rows.map((row) => rtt(row, "max")),
  );
  return [
    { name: "name", label: "Path", render: (row) => row.name },
    {
      name: "mark",
      label: "RTT",
      about: "Minimum to maximum, median to P99; logarithmic scale",
      render: (row) => (
        <RangeMark
          low={rtt(row, "min")}
          middle={rtt(row, "p50")}
          high={rtt(row, "p99")}
          highest={rtt(row, "max")}
          scale={scale}
        />
      ),
    },
    duration("rtt_min", "Min"),
    duration("rtt_p50", "P50"),
    duration("rtt_p90", "P90"),
    duration("rtt_p99", "P99"),
    duration("rtt_max", "Max"),
    duration("jitter", "Jitter"),
    duration("queue_p99", "Queueing P99"),
    {
      name: "count",
      label: "Samples",
      isNumber: true,
      render: ({ latency, path }) => formatCount(numberOf(latency, `${path}_rtt_count`)),
    },
    count("retransmissions", "Retransmitted"),
    count("held_acks", "Delayed ACKs"),
    count("sharp_changes", "Sharp changes"),
    count("ce", "CE marks"),
  ];
}

/** Each path of a flow; a flow that was cut has several rows. */
export function FlowLatency({ rows }: { rows: Rec[] }) {
  const latency = rows.at(-1)!;
  const list = directionsOf(latency);
  const server = formatDuration(numberOf(latency, "server_p50_ns"));
  return (
    <Panel
      title="Latency"
      note={
        <>
          slow end: <Text value={textOf(latency, "slow_end")} none="not measured" /> · server,
          median: {server} · ECN echo:{" "}
          <Text value={textOf(latency, "ecn_echo")} none="handshake not seen" />
          {rows.length > 1 && ` · newest of ${rows.length} rows`}
        </>
      }
    >
      <Table
        caption="Latency of this flow"
        columns={columnsOf(list)}
        rows={list}
        keyOf={(row) => row.name}
      />
    </Panel>
  );
}
