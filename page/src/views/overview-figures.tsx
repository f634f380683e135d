// Key figures: of the last second while packets arrive, of the whole once they do not.

import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import {
  formatBitRate,
  formatBytes,
  formatCount,
  formatPacketRate,
  formatShare,
  spanNs,
} from "../format.ts";
import { usePlace } from "../navigate.ts";
import { type Figure, Figures } from "../parts/panel.tsx";
import { hasSensors } from "../parts/sensor.tsx";
import { firstOf } from "../range.ts";
import { numberOf, type Rec, recordsOf, sumOf } from "../source/records.ts";
import type { Source, State, TableInfo } from "../source/source.ts";

function losses({ packets }: State): Figure[] {
  const share = packets.received > 0 ? packets.dropped / packets.received : 0;
  return [
    {
      label: "Dropped",
      value: formatCount(packets.dropped),
      note: formatShare(share),
      ...(packets.dropped > 0 ? { tone: "warning" as const } : {}),
    },
    { label: "Malformed", value: formatCount(packets.malformed) },
  ];
}

/** Rows of sensors come some seconds late; before these all have. */
const LATE_NS = 10_000_000_000n;

/** The newest second that is complete. */
async function newestSecond(
  source: Source,
  state: State,
  to: string | undefined,
  signal: AbortSignal,
): Promise<Rec | null> {
  const query = { sort: "-start_ns", limit: 2, to };
  if (!hasSensors(state, "traffic")) {
    // The newest second is still filling.
    const rows = recordsOf(await source.rows("traffic", query, signal));
    return rows[1] ?? rows[0] ?? null;
  }
  const now = to ?? state.now;
  const from = now === null || !/^\d+$/.test(now) ? undefined : String(BigInt(now) - LATE_NS);
  // The sum of all sensors; some may not have sent the newest second.
  const sums = { by: "start_ns", sum: "bytes,packets", max: "period_ns", from, ...query };
  const groups = recordsOf(await source.groups("traffic", sums, signal));
  const group = groups[1] ?? groups[0];
  if (group === undefined) return null;
  const { sum_bytes: bytes, sum_packets: packets, max_period_ns: period_ns } = group;
  return { bytes: bytes ?? null, packets: packets ?? null, period_ns: period_ns ?? null };
}

function LiveFigures() {
  const { source, state } = useApp();
  const place = usePlace();
  const isOfSensors = hasSensors(state, "traffic");
  const answer = useAnswer<Rec | null>(`now ${place.key}`, (signal) =>
    newestSecond(source, state, place.bounds.to, signal),
  );
  const last = answer.data;
  const seconds = ((last && numberOf(last, "period_ns")) ?? 1e9) / 1e9;
  const rate = (name: string, factor: number): number | null =>
    last === null ? null : (sumOf(last, name) * factor) / seconds;
  return (
    <Figures
      list={[
        { label: "Bit rate", value: formatBitRate(rate("bytes", 8)) },
        { label: "Packet rate", value: formatPacketRate(rate("packets", 1)) },
        // Sensors publish flows when these have ended.
        ...(isOfSensors
          ? []
          : [{ label: "Active flows", value: formatCount(state.packets.open_flows) }]),
        { label: "Packets received", value: formatCount(state.packets.received) },
        ...losses(state),
      ]}
    />
  );
}

function WholeFigures({ table }: { table: TableInfo }) {
  const { source, state } = useApp();
  const place = usePlace();
  const isOfSeveral = hasSensors(state, table.name) && place.query.sensor === undefined;
  const answer = useAnswer<Rec | null>(`whole ${place.key}`, async (signal) => {
    const query = {
      by: "period_ns",
      sum: "bytes,packets,new_flows",
      max: "bytes",
      ...place.bounds,
    };
    return recordsOf(await source.groups("traffic", query, signal))[0] ?? null;
  });
  const sums = answer.data;
  const periodS = ((sums && numberOf(sums, "period_ns")) ?? 1e9) / 1e9;
  const from = place.bounds.from ?? firstOf(table);
  const spanS = (spanNs(from, place.bounds.to ?? table.last) ?? 0) / 1e9 + periodS;
  const bytes = sums && numberOf(sums, "sum_bytes");
  const peak = sums && numberOf(sums, "max_bytes");
  return (
    <Figures
      list={[
        { label: "Bytes", value: formatBytes(bytes) },
        { label: "Packets", value: formatCount(sums && numberOf(sums, "sum_packets")) },
        { label: "Flows", value: formatCount(sums && numberOf(sums, "sum_new_flows")) },
        { label: "Mean bit rate", value: formatBitRate(bytes && (bytes * 8) / spanS) },
        {
          label: "Highest bit rate",
          value: formatBitRate(peak && (peak * 8) / periodS),
          ...(isOfSeveral ? { note: "at one sensor" } : {}),
        },
        ...losses(state),
      ]}
    />
  );
}

export function KeyFigures() {
  const { state } = useApp();
  const table = tableOf(state, "traffic");
  if (table === null) return <Figures list={losses(state)} />;
  const isLive = state.mode === "live" && !state.is_over;
  return isLive ? <LiveFigures /> : <WholeFigures table={table} />;
}
