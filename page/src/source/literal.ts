// Values of filter expressions: 10k, 0x10, 5ms, 2026-11-21T22:11:54Z.

const MULTIPLES = new Map([
  ["k", 1e3],
  ["M", 1e6],
  ["G", 1e9],
  ["T", 1e12],
]);
const NANOSECONDS = new Map([
  ["ns", 1],
  ["us", 1e3],
  ["µs", 1e3],
  ["ms", 1e6],
  ["s", 1e9],
  ["m", 60e9],
  ["min", 60e9],
  ["h", 3600e9],
  ["d", 86_400e9],
]);

export interface Numeric {
  value: number;
  /** True where the value was written as a duration; it is in nanoseconds then. */
  isDuration: boolean;
}

export function parseNumber(text: string): Numeric | null {
  if (/^0x[0-9a-f]+$/i.test(text)) return { value: Number(text), isDuration: false };
  const match = /^(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)([a-zA-Zµ]*)$/.exec(text);
  if (match === null) return null;
  const value = Number(match[1]);
  const unit = match[2]!;
  if (unit === "") return { value, isDuration: false };
  const multiple = MULTIPLES.get(unit);
  if (multiple !== undefined) return { value: value * multiple, isDuration: false };
  const nanoseconds = NANOSECONDS.get(unit);
  return nanoseconds === undefined ? null : { value: value * nanoseconds, isDuration: true };
}

const RFC_3339 =
  /^(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?(Z|z|[+-]\d\d:\d\d)?$/;

/** Decimal nanoseconds or RFC 3339, UTC where no offset is given; null for anything else. */
export function parseTime(text: string): bigint | null {
  if (/^-?\d+$/.test(text)) return BigInt(text);
  const match = RFC_3339.exec(text);
  if (match === null) return null;
  const clock = match[2] ?? "00:00:00";
  const offset = (match[4] ?? "Z").toUpperCase();
  const milliseconds = Date.parse(
    `${match[1]}T${clock.length === 5 ? `${clock}:00` : clock}${offset}`,
  );
  if (Number.isNaN(milliseconds)) return null;
  return BigInt(milliseconds) * 1_000_000n + BigInt((match[3] ?? "").padEnd(9, "0"));
}
