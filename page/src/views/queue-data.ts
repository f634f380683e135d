// What the queues view asks of `cca`, which has other columns with one tap than with two.

import type { Place } from "../navigate.ts";
import { chartBounds, stepMs, stepText } from "../range.ts";
import { numberOf, type Rec, recordsOf, sumOf, textOf } from "../source/records.ts";
import type { Series, Source, TableInfo } from "../source/source.ts";
import { endText } from "../parts/text.tsx";

/** Flows with a curve of their own; the others are drawn as one. */
const CURVES = 7;
const FLOWS_MAX = 100;

export interface Taps {
  hasQueue: boolean;
  /** Bytes in the queue, or in flight. */
  level: string;
  levelMax: string;
  /** Bytes that left, by which the link is shared. */
  sent: string;
}

export function tapsOf(table: TableInfo): Taps {
  const hasQueue = table.columns.some((column) => column.name === "cbiq_bytes");
  return hasQueue
    ? { hasQueue, level: "cbiq_bytes", levelMax: "cbiq_max_bytes", sent: "egress_bytes" }
    : { hasQueue, level: "flight_bytes", levelMax: "flight_max_bytes", sent: "sent_bytes" };
}

export interface QueueFlow {
  id: string;
  /** Null where rows are of one run. */
  sensor: string | null;
  name: string;
  control: string | null;
  /** Why no congestion control is named. */
  unnamed: string | null;
  /** The most probable controls of its newest period, with a single tap. */
  likeliest: string | null;
  confidence: number | null;
  bytes: number;
  share: number;
  level: number | null;
  levelMax: number | null;
  drops: number | null;
  rttS: number | null;
  /** How much that is above the least of the flow. */
  rttInflationS: number | null;
}

export interface Control {
  name: string;
  bytes: number;
  share: number;
  flows: number;
}

export interface QueueAnswer {
  flows: QueueFlow[];
  controls: Control[];
  series: Series;
}

const ENDS = ["src_ip", "src_port", "dst_ip", "dst_port"];

/** What one sensor says of a flow is not what another says. */
function flowKey(row: Rec): string {
  const [id, sensor] = [textOf(row, "community_id") ?? "", textOf(row, "sensor")];
  return sensor === null ? id : `${id} ${sensor}`;
}

/** The control that most periods of a flow name; and if none does, the reason that most give. */
function mostNamed(groups: Rec[]): Map<string, Rec> {
  const best = new Map<string, Rec>();
  for (const group of groups) {
    const id = flowKey(group);
    const before = best.get(id);
    const isNamed = textOf(group, "control") !== null;
    const wasNamed = before !== undefined && textOf(before, "control") !== null;
    const isMore = sumOf(group, "rows") > (before ? sumOf(before, "rows") : 0);
    if (before === undefined || (isNamed && !wasNamed) || (isNamed === wasNamed && isMore)) {
      best.set(id, group);
    }
  }
  return best;
}

/** Of each flow what its newest period says; rows come newest first. */
export function newestLikeliest(rows: Rec[]): Map<string, string> {
  const newest = new Map<string, string>();
  for (const row of rows) {
    const id = flowKey(row);
    const likeliest = textOf(row, "likeliest");
    if (likeliest !== null && !newest.has(id)) newest.set(id, likeliest);
  }
  return newest;
}

interface Said {
  verdict: Rec | undefined;
  likeliest: string | undefined;
}

function flowOf(group: Rec, { verdict, likeliest }: Said, taps: Taps, total: number): QueueFlow {
  const source = endText(textOf(group, "src_ip"), numberOf(group, "src_port"));
  const destination = endText(textOf(group, "dst_ip"), numberOf(group, "dst_port"));
  const bytes = sumOf(group, `sum_${taps.sent}`);
  return {
    id: textOf(group, "community_id") ?? "",
    sensor: textOf(group, "sensor"),
    name: `${source} → ${destination}`,
    control: verdict ? textOf(verdict, "control") : null,
    unnamed: verdict ? textOf(verdict, "unnamed") : null,
    likeliest: likeliest ?? null,
    confidence: verdict ? numberOf(verdict, "mean_confidence") : null,
    bytes,
    share: total > 0 ? bytes / total : 0,
    level: numberOf(group, `mean_${taps.level}`),
    levelMax: numberOf(group, `max_${taps.levelMax}`),
    drops: numberOf(group, "sum_drops"),
    rttS: numberOf(group, "mean_rtt_s"),
    rttInflationS: numberOf(group, "mean_rtt_inflation_s"),
  };
}

function controlsOf(flows: QueueFlow[]): Control[] {
  const sums = new Map<string, Control>();
  for (const flow of flows) {
    const name = flow.control ?? "not identified";
    const sum = sums.get(name) ?? { name, bytes: 0, share: 0, flows: 0 };
    sum.bytes += flow.bytes;
    sum.share += flow.share;
    sum.flows += 1;
    sums.set(name, sum);
  }
  return [...sums.values()].sort((a, b) => b.bytes - a.bytes);
}

/** The sum of the periods of a step becomes their mean, also for flows that are drawn as one. */
function meanOfPeriods(series: Series, periodNs: number): Series {
  const factor = periodNs / series.step_ns;
  return {
    ...series,
    series: series.series.map(({ name, values }) => ({
      name,
      values: values.map((value) => (value === null ? null : value * factor)),
    })),
  };
}

export async function askQueue(
  source: Source,
  table: TableInfo,
  place: Place,
  signal: AbortSignal,
): Promise<QueueAnswer> {
  const taps = tapsOf(table);
  const { bounds } = place;
  const ofSensor = table.columns.some((column) => column.name === "sensor") ? ["sensor"] : [];
  const drawn = chartBounds(table, bounds);
  const one = await source.rows("cca", { columns: "period_ns", limit: 1 }, signal);
  const periodNs = Number(one.rows[0]?.[0] ?? 1e9);
  const step = stepText(stepMs(table, drawn, periodNs / 1e6));
  const means = taps.hasQueue ? taps.level : `${taps.level},rtt_s,rtt_inflation_s`;
  const [groups, verdicts, newest, series] = await Promise.all([
    source.groups(
      "cca",
      {
        by: ["community_id", ...ENDS, ...ofSensor].join(","),
        sum: `${taps.sent},drops`,
        mean: means,
        max: taps.levelMax,
        sort: `-sum_${taps.sent}`,
        limit: FLOWS_MAX,
        ...bounds,
      },
      signal,
    ),
    source.groups(
      "cca",
      {
        by: ["community_id,control,unnamed", ...ofSensor].join(","),
        mean: "confidence",
        limit: FLOWS_MAX * 4,
        ...bounds,
      },
      signal,
    ),
    !table.columns.some((column) => column.name === "likeliest")
      ? null
      : source.rows(
          "cca",
          {
            columns: ["community_id,likeliest", ...ofSensor].join(","),
            sort: "-start_ns",
            limit: FLOWS_MAX * 4,
            ...bounds,
          },
          signal,
        ),
    source.series(
      "cca",
      { value: taps.level, aggregate: "sum", by: "community_id", series: CURVES, step, ...drawn },
      signal,
    ),
  ]);
  const best = mostNamed(recordsOf(verdicts));
  const likeliest = newestLikeliest(newest ? recordsOf(newest) : []);
  const records = recordsOf(groups);
  const total = records.reduce((sum, group) => sum + sumOf(group, `sum_${taps.sent}`), 0);
  const flows = records.map((group) => {
    const id = flowKey(group);
    const said = { verdict: best.get(id), likeliest: likeliest.get(id) };
    return flowOf(group, said, taps, total);
  });
  return { flows, controls: controlsOf(flows), series: meanOfPeriods(series, periodNs) };
}
