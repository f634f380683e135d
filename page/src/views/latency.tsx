import { useAnswer } from "../answer.ts";
import { hasColumn, tableOf, useApp } from "../context.ts";
import { formatCount, formatCountOf } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Listed, ListingSearch, useListing } from "../parts/listing.tsx";
import { Panel } from "../parts/panel.tsx";
import { Ranking } from "../parts/ranking.tsx";
import { hasSensors, SensorsNote, withSensor } from "../parts/sensor.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";
import { type Rec, recordsOf, sumOf, textOf } from "../source/records.ts";
import type { TableInfo } from "../source/source.ts";
import { quote } from "../source/tokens.ts";
import { L4s } from "./l4s.tsx";
import { latencyColumns, latencyHref, latencyKey, shapeOf } from "./latency-columns.tsx";
import { LatencyOverTime } from "./latency-time.tsx";

const ENDS: Record<string, string> = {
  source: "path to the source",
  destination: "path to the destination",
  server: "server",
  none: "no single end",
};

function SlowEnds() {
  const { source } = useApp();
  const place = usePlace();
  const answer = useAnswer<Rec[]>(`slow ends ${place.key}`, async (signal) => {
    const query = { by: "slow_end", sort: "-rows", ...place.bounds };
    return recordsOf(await source.groups("latency", query, signal));
  });
  return (
    <Panel title="Slow end" note="what takes more than half of the response time">
      <Shown answer={answer} lines={4}>
        {(groups) =>
          groups.length === 0 ? (
            <Empty title="No flows in this time range" />
          ) : (
            <Ranking
              label="Flows by slow end"
              list={groups.map((group) => {
                const end = textOf(group, "slow_end");
                return {
                  name: end === null ? "not measured" : (ENDS[end] ?? end),
                  href:
                    end === null
                      ? null
                      : place.here({ where: `slow_end == ${quote(end)}`, page: undefined }),
                  parts: [sumOf(group, "rows")],
                  text: formatCountOf(sumOf(group, "rows"), "flow"),
                };
              })}
            />
          )
        }
      </Shown>
    </Panel>
  );
}

function SharpChanges({ table }: { table: TableInfo }) {
  const { source } = useApp();
  const place = usePlace();
  const shape = shapeOf(table);
  const prefix = shape.prefix;
  const names = [
    "packets",
    "retransmissions",
    "late",
    "unmeasured",
    "held_acks",
    "sharp_changes",
    "sharp_prompt",
  ]
    .flatMap((name) => (shape.isByFlow ? [`src_${name}`, `dst_${name}`] : [`${prefix}${name}`]))
    .filter((name) => hasColumn(table, name));
  const answer = useAnswer<Rec | null>(`sharp ${place.key}`, async (signal) => {
    const by = shape.isByFlow ? "protocol" : "dst_ip";
    const query = { by, sum: names.join(","), limit: 10_000, ...place.bounds };
    const groups = recordsOf(await source.groups("latency", query, signal));
    if (groups.length === 0) return null;
    return Object.fromEntries(
      names.map((name) => [name, groups.reduce((sum, row) => sum + sumOf(row, `sum_${name}`), 0)]),
    );
  });
  const total = (sums: Rec, name: string): number =>
    shape.isByFlow ? sumOf(sums, `src_${name}`, `dst_${name}`) : sumOf(sums, name);
  return (
    <Panel title="Packets" note="with data, SYN or FIN, in this time range">
      <Shown answer={answer} lines={5}>
        {(sums) =>
          sums === null ? (
            <Empty title="No latency was measured in this time range" />
          ) : (
            <Ranking
              label="Packets by outcome"
              list={[
                ["Packets awaiting an answer", "packets"],
                ["Retransmitted", "retransmissions"],
                ["Without a latency", "unmeasured"],
                ["Delayed ACKs", "held_acks"],
                ["Sharp changes", "sharp_changes"],
                ["Sharp changes, prompt ACKs", "sharp_prompt"],
              ].map(([label, name]) => ({
                name: label!,
                href: null,
                parts: [total(sums, name!)],
                text: formatCount(total(sums, name!)),
              }))}
            />
          )
        }
      </Shown>
    </Panel>
  );
}

function Rows({ table }: { table: TableInfo }) {
  const place = usePlace();
  const isOfSensors = hasSensors(useApp().state, table.name);
  const shape = shapeOf(table);
  const { sort = `-${shape.prefix}rtt_p99_ns` } = place.query;
  const listing = useListing("latency", "latency", sort);
  const noun = shape.isByFlow ? "flows" : "destinations";
  return (
    <Panel title={shape.isByFlow ? "Latency per flow" : "Latency per destination"}>
      <ListingSearch
        listing={listing}
        label="Filter latencies"
        columns={table.columns}
        example={`${shape.prefix}rtt_p99_ns > 50ms and ${shape.prefix}rtt_count > 10`}
      />
      <Listed listing={listing} noun={noun} lines={12} empty={<Empty title={`No ${noun} match`} />}>
        {(rows) => (
          <Table
            caption={`Latency of ${noun}`}
            columns={withSensor(
              latencyColumns(shape, rows),
              isOfSensors,
              shape.isByFlow ? "dst" : "dst_ip",
            )}
            rows={rows}
            keyOf={latencyKey}
            hrefOf={(row) => latencyHref(place, row)}
            sorting={listing.sorting}
          />
        )}
      </Listed>
    </Panel>
  );
}

export function Latency() {
  const { state } = useApp();
  const table = tableOf(state, "latency");
  const l4s = tableOf(state, "l4s");
  return (
    <div class="view">
      {table === null && l4s === null && <NoTable name="latency" />}
      {table !== null && (
        <>
          <SensorsNote table="latency" />
          <LatencyOverTime table={table} />
          <div class="columns-2">
            {hasColumn(table, "slow_end") && <SlowEnds />}
            <SharpChanges table={table} />
          </div>
          <Rows table={table} />
        </>
      )}
      {l4s !== null && <L4s table={l4s} />}
    </div>
  );
}
