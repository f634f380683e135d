// Columns of `latency`: by flow each direction has its own, by destination there is one.

import { formatCount, formatDuration } from "../format.ts";
import type { Place } from "../navigate.ts";
import { RangeMark, scaleOf } from "../parts/bar.tsx";
import { destinationOf, flowQuery, sourceOf } from "../parts/flow-table.tsx";
import type { TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { numberOf, type Rec, textOf } from "../source/records.ts";
import type { TableInfo } from "../source/source.ts";

export interface Shape {
  isByFlow: boolean;
  hasPeriods: boolean;
  /** `dst_` where columns are of directions: the path from the tap to the destination. */
  prefix: string;
}

export function shapeOf(table: TableInfo): Shape {
  const has = (name: string): boolean => table.columns.some((column) => column.name === name);
  const isByFlow = has("dst_rtt_p50_ns");
  return { isByFlow, hasPeriods: has("start_ns"), prefix: isByFlow ? "dst_" : "" };
}

function duration(name: string, label: string, about?: string): TableColumn<Rec> {
  return {
    name,
    label,
    sort: name,
    isNumber: true,
    ...(about ? { about } : {}),
    render: (row) => formatDuration(numberOf(row, name)),
  };
}

function count(name: string, label: string, about?: string): TableColumn<Rec> {
  return {
    name,
    label,
    sort: name,
    isNumber: true,
    ...(about ? { about } : {}),
    render: (row) => formatCount(numberOf(row, name)),
  };
}

function identity(shape: Shape): TableColumn<Rec>[] {
  if (!shape.isByFlow) {
    return [
      {
        name: "dst_ip",
        label: "Destination",
        sort: "dst_ip",
        render: (row) => <Text value={textOf(row, "dst_ip")} />,
      },
      ...(shape.hasPeriods
        ? [
            {
              name: "start_ns",
              label: "Period",
              sort: "start_ns",
              render: (row: Rec) => <Time ns={textOf(row, "start_ns")} />,
            },
          ]
        : []),
    ];
  }
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
  ];
}

export function latencyColumns(shape: Shape, rows: Rec[]): TableColumn<Rec>[] {
  const { prefix } = shape;
  const of = (row: Rec, name: string): number | null => numberOf(row, `${prefix}rtt_${name}_ns`);
  const scale = scaleOf(
    rows.map((row) => of(row, "min")),
    rows.map((row) => of(row, "max")),
  );
  return [
    ...identity(shape),
    {
      name: "mark",
      label: "RTT",
      about: "Minimum to maximum, median to P99; logarithmic scale",
      render: (row) => (
        <RangeMark
          low={of(row, "min")}
          middle={of(row, "p50")}
          high={of(row, "p99")}
          highest={of(row, "max")}
          scale={scale}
        />
      ),
    },
    duration(`${prefix}rtt_min_ns`, "Min"),
    duration(`${prefix}rtt_p50_ns`, "P50", "Median, within 0.8 %"),
    duration(`${prefix}rtt_p90_ns`, "P90"),
    duration(`${prefix}rtt_p99_ns`, "P99"),
    duration(`${prefix}rtt_max_ns`, "Max"),
    count(`${prefix}rtt_count`, "Samples", "RTT samples"),
    duration(`${prefix}jitter_ns`, "Jitter", "As RFC 3550 estimates it"),
    duration(`${prefix}queue_p99_ns`, "Queueing P99", "P99 above the minimum"),
    ...(shape.isByFlow
      ? [
          {
            name: "slow_end",
            label: "Slow end",
            sort: "slow_end",
            render: (row: Rec) => <Text value={textOf(row, "slow_end")} />,
          },
          duration("server_p50_ns", "Server P50", "Request to response, less the RTT"),
          count("src_retransmissions", "Retransmitted", "Packets from the source"),
          count("src_sharp_changes", "Sharp changes", "Of packets from the source"),
        ]
      : [count("retransmissions", "Retransmitted"), count("sharp_changes", "Sharp changes")]),
  ];
}

export function latencyKey(row: Rec): string {
  const [of, at] = [row.community_id ?? row.dst_ip, row.first_ns ?? row.start_ns ?? ""];
  return `${of} ${at} ${row.sensor ?? ""}`;
}

export function latencyHref(place: Place, row: Rec): string {
  const id = textOf(row, "community_id");
  if (id === null) return place.to(["host", textOf(row, "dst_ip") ?? ""]);
  return place.to(["flow", id], flowQuery(row));
}
