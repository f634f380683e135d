import uPlot from "uplot";
import type { Zone } from "../format.ts";

export interface Line {
  name: string;
  values: (number | null)[];
  /** Number of the categorical colour, or `grey` for what is not a category. */
  color?: number | "grey";
}

export interface ChartStyle {
  kind: "lines" | "stacked";
  zone: Zone;
  format(value: number | null): string;
  onSelect?: ((fromSeconds: number, toSeconds: number) => void) | undefined;
  onCursor(index: number | null): void;
}

export function colorName(line: Line, index: number): string {
  const color = line.color ?? index;
  return color === "grey" ? "--series-grey" : `--series-${color % 8}`;
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Steps of the time axis in seconds, each of which has an end that reads well. */
const INCREMENTS = [
  0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800,
  21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
];

/** `1.00 Mbit/s` as `1 Mbit/s`: labels of an axis are round. */
function short(text: string): string {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

function clockOf(seconds: number, increment: number, zone: Zone): string {
  const date = new Date(seconds * 1000);
  const isUtc = zone === "utc";
  if (increment >= 86_400) {
    const month = (isUtc ? date.getUTCMonth() : date.getMonth()) + 1;
    return `${pad(month)}-${pad(isUtc ? date.getUTCDate() : date.getDate())}`;
  }
  const hours = isUtc ? date.getUTCHours() : date.getHours();
  const minutes = isUtc ? date.getUTCMinutes() : date.getMinutes();
  const clock = `${pad(hours)}:${pad(minutes)}`;
  if (increment >= 60) return clock;
  const whole = `${clock}:${pad(date.getUTCSeconds())}`;
  if (increment >= 1) return whole;
  const digits = increment >= 0.1 ? 1 : increment >= 0.01 ? 2 : 3;
  return `${whole}.${String(date.getUTCMilliseconds()).padStart(3, "0").slice(0, digits)}`;
}

/** Sums from the first line on; the last is the whole. Missing counts as nothing. */
export function stacked(lines: Line[]): number[][] {
  const height = Array<number>(lines[0]?.values.length ?? 0).fill(0);
  return lines.map((line) => {
    line.values.forEach((value, i) => {
      height[i] = height[i]! + (value ?? 0);
    });
    return [...height];
  });
}

export function dataOf(
  seconds: number[],
  lines: Line[],
  kind: ChartStyle["kind"],
): uPlot.AlignedData {
  const values = kind === "stacked" ? stacked(lines) : lines.map((line) => line.values);
  return [seconds, ...values] as uPlot.AlignedData;
}

/** Values that no line leads to, which would not be seen. */
function pointsOf(values: ArrayLike<number | null | undefined>): number[] {
  const has = (at: number): boolean => typeof values[at] === "number";
  const isFew = values.length <= 3;
  return Array.from(values, (_, at) => at).filter(
    (at) => has(at) && (isFew || (!has(at - 1) && !has(at + 1))),
  );
}

function seriesOf(line: Line, index: number, kind: ChartStyle["kind"]): uPlot.Series {
  const color = css(colorName(line, index));
  const isStacked = kind === "stacked";
  return {
    label: line.name,
    stroke: color,
    width: isStacked ? 1 : 1.5,
    points: { show: !isStacked, size: 5, filter: (chart, at) => pointsOf(chart.data[at] ?? []) },
    // Hex colours of the style sheet, with transparency added.
    ...(isStacked ? { fill: `${color}cc` } : {}),
  };
}

function axesOf(style: ChartStyle): uPlot.Axis[] {
  const font = `11px ${css("--font")}`;
  const common = {
    stroke: css("--text-soft"),
    font,
    grid: { stroke: css("--grid"), width: 1 },
    ticks: { show: false },
  };
  return [
    {
      ...common,
      size: 26,
      space: 74,
      incrs: INCREMENTS,
      values: (_, splits, __, ___, increment) =>
        splits.map((each) => clockOf(each, increment, style.zone)),
    },
    {
      ...common,
      size: 78,
      space: 34,
      values: (_, splits) => splits.map((each) => short(style.format(each))),
    },
  ];
}

export function optionsOf(lines: Line[], style: ChartStyle, width: number, height: number) {
  const { onSelect } = style;
  const options: uPlot.Options = {
    width,
    height,
    padding: [8, 34, 0, 0],
    legend: { show: false },
    series: [{}, ...lines.map((line, i) => seriesOf(line, i, style.kind))],
    axes: axesOf(style),
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
    cursor: {
      y: false,
      drag: { x: onSelect !== undefined, y: false, setScale: false },
      points: { size: 6 },
    },
    hooks: {
      setCursor: [(chart) => style.onCursor(chart.cursor.idx ?? null)],
      setSelect: [
        (chart) => {
          if (chart.select.width < 8 || onSelect === undefined) return;
          const from = chart.posToVal(chart.select.left, "x");
          const to = chart.posToVal(chart.select.left + chart.select.width, "x");
          chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          onSelect(from, to);
        },
      ],
    },
    ...(style.zone === "utc"
      ? { tzDate: (stamp: number) => uPlot.tzDate(new Date(stamp * 1000), "Etc/UTC") }
      : {}),
  };
  if (style.kind === "stacked") {
    options.bands = lines.slice(1).map((_, i) => ({ series: [i + 2, i + 1] }));
  }
  return options;
}
