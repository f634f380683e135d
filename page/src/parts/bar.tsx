// Small drawings inside table cells. Their numbers are always beside them as text.

/** A share of the largest row; two parts where both directions count. */
export function Bar({ parts, max }: { parts: number[]; max: number }) {
  return (
    <span class="bar" aria-hidden="true">
      {parts.map((part, i) => (
        <span
          key={i}
          class={`bar-part bar-part-${i + 1}`}
          style={{ width: `${max > 0 ? Math.min(100, (part / max) * 100) : 0}%` }}
        />
      ))}
    </span>
  );
}

/** Confidence, queue share: a number from 0 to 1 with its text. */
export function Meter({ share, text }: { share: number | null; text: string }) {
  return (
    <span class="meter">
      <span class="number">{text}</span>
      {share !== null && <Bar parts={[share]} max={1} />}
    </span>
  );
}

/** Place of a value on a logarithmic line, from 0 to 100. */
export type Scale = (nanoseconds: number) => number;

/** One line for all rows of a table, from the least to the largest. */
export function scaleOf(lows: (number | null)[], highs: (number | null)[]): Scale {
  const known = (list: (number | null)[]): number[] =>
    list.filter((value): value is number => value !== null && value > 0);
  const low = Math.log10(known(lows).reduce((a, b) => Math.min(a, b), Infinity));
  const high = Math.log10(known(highs).reduce((a, b) => Math.max(a, b), 1));
  const width = Math.max(high - low, 0.1);
  return (value) =>
    Math.max(0, Math.min(100, ((Math.log10(Math.max(value, 1)) - low) / width) * 100));
}

interface RangeProperties {
  low: number | null;
  middle: number | null;
  high: number | null;
  highest: number | null;
  scale: Scale;
}

/** Minimum to maximum as a line, median to P99 as a box. */
export function RangeMark({ low, middle, high, highest, scale: at }: RangeProperties) {
  if (low === null || middle === null) return <span class="none">–</span>;
  const [from, to] = [at(low), at(highest ?? high ?? middle)];
  const [boxFrom, boxTo] = [at(middle), at(high ?? middle)];
  return (
    <svg class="range-mark" viewBox="0 0 104 12" aria-hidden="true">
      <line class="range-axis" x1="2" x2="102" y1="6" y2="6" />
      <line class="range-line" x1={2 + from} x2={2 + to} y1="6" y2="6" />
      <rect
        class="range-box"
        x={2 + boxFrom}
        y="3"
        height="6"
        width={Math.max(boxTo - boxFrom, 1)}
      />
      <line class="range-middle" x1={2 + boxFrom} x2={2 + boxFrom} y1="1" y2="11" />
    </svg>
  );
}
