import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { useApp } from "../context.ts";
import { toSeconds } from "../format.ts";
import { formatRoute } from "../route.ts";
import { visible } from "../visible.ts";
import { colorName, dataOf, type Line, optionsOf } from "./chart-options.ts";

interface Properties {
  /** What is drawn, for those who do not see it. */
  label: string;
  times: string[];
  lines: Line[];
  kind?: "lines" | "stacked";
  height?: number;
  format(value: number | null): string;
  /** Whether dragging over the chart sets the time range of the page. */
  isRangeSetter?: boolean;
}

function nanoseconds(seconds: number): string {
  return String(BigInt(Math.round(seconds * 1e6)) * 1000n);
}

/** A single moment gets a second on either side: an axis needs a length. */
function framed(seconds: number[], lines: Line[]): [number[], Line[]] {
  const only = seconds[0];
  if (only === undefined || seconds.length > 1) return [seconds, lines];
  const padded = lines.map((line) => ({ ...line, values: [null, line.values[0] ?? null, null] }));
  return [[only - 1, only, only + 1], padded];
}

function summary({ label, lines, format }: Properties): string {
  const parts = lines.slice(0, 4).map((line) => {
    const values = line.values.filter((value) => value !== null);
    const last = values.at(-1) ?? null;
    const most = values.length === 0 ? null : values.reduce((a, b) => Math.max(a, b));
    return `${visible(line.name)}: last ${format(last)}, highest ${format(most)}`;
  });
  return `${label}. ${parts.join("; ")}`;
}

export function Chart(properties: Properties) {
  const { times, lines, kind = "lines", height = 190, format, isRangeSetter = false } = properties;
  const { zone, isDark, route } = useApp();
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const current = useRef(route);
  current.current = route;
  const [seconds, drawn] = framed(times.map(toSeconds), lines);
  const shape = JSON.stringify([lines.map((line) => [line.name, line.color]), kind, zone, isDark]);

  useEffect(() => {
    const element = frame.current!;
    const select = (from: number, to: number): void => {
      const { path, query } = current.current;
      const bounds = { from: nanoseconds(from), to: nanoseconds(to), range: undefined };
      window.location.hash = formatRoute(path, { ...query, ...bounds, page: undefined });
    };
    const style = {
      kind,
      zone,
      format,
      onCursor: setCursor,
      onSelect: isRangeSetter ? select : undefined,
    };
    const made = new uPlot(
      optionsOf(lines, style, Math.max(element.clientWidth, 120), height),
      dataOf(seconds, drawn, kind),
      element,
    );
    chart.current = made;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) made.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [shape, height]);

  useEffect(() => chart.current?.setData(dataOf(seconds, drawn, kind)), [times, lines]);

  return (
    <figure class="chart">
      <div ref={frame} class="chart-frame" role="img" aria-label={summary(properties)} />
      <Legend {...properties} cursor={cursor} />
    </figure>
  );
}

function Legend({ lines, format, cursor }: Properties & { cursor: number | null }) {
  const valueOf = (line: Line): number | null =>
    cursor === null
      ? (line.values.findLast((each) => each !== null) ?? null)
      : (line.values[cursor] ?? null);
  return (
    <ul class="legend">
      {lines.map((line, i) => (
        <li key={line.name}>
          <span
            class="swatch"
            aria-hidden="true"
            style={{ background: `var(${colorName(line, i)})` }}
          />
          <span class="cut" title={visible(line.name)}>
            {visible(line.name)}
          </span>
          <span class="number">{format(valueOf(line))}</span>
        </li>
      ))}
    </ul>
  );
}
