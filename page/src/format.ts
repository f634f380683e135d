// Numbers and times as people read them: always with a unit, at most three digits that matter.

const SPACE = "\u00a0";
const NONE = "–";

export type Zone = "utc" | "local";
type Amount = number | null | undefined;

function threeDigits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return String(Math.round(value));
  return value.toFixed(size >= 10 ? 1 : 2);
}

function scaled(value: Amount, units: readonly string[]): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  let rest = value;
  let index = 0;
  while (Math.abs(rest) >= 999.5 && index < units.length - 1) {
    rest /= 1000;
    index += 1;
  }
  const isWhole = index === 0 && Number.isInteger(value);
  return `${isWhole ? value : threeDigits(rest)}${SPACE}${units[index]}`;
}

export function formatBytes(bytes: Amount): string {
  return scaled(bytes, ["B", "kB", "MB", "GB", "TB", "PB"]);
}

export function formatBitRate(bitsPerSecond: Amount): string {
  return scaled(bitsPerSecond, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
}

export function formatPacketRate(packetsPerSecond: Amount): string {
  return scaled(packetsPerSecond, ["pkt/s", "kpkt/s", "Mpkt/s", "Gpkt/s"]);
}

export function formatCount(count: Amount): string {
  if (count === null || count === undefined || !Number.isFinite(count)) return NONE;
  if (!Number.isInteger(count)) return threeDigits(count);
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `1 flow`, `2 flows`. */
export function formatCountOf(count: Amount, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function formatShare(share: Amount): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return NONE;
  const percent = share * 100;
  if (percent !== 0 && Math.abs(percent) < 0.1) return `<${SPACE}0.1${SPACE}%`;
  return `${percent.toFixed(1)}${SPACE}%`;
}

export function formatFraction(value: Amount): string {
  return value === null || value === undefined ? NONE : value.toFixed(3);
}

export function formatDuration(nanoseconds: Amount): string {
  if (nanoseconds === null || nanoseconds === undefined) return NONE;
  if (Math.abs(nanoseconds) < 999.5e9 && Math.abs(nanoseconds) < 60e9) {
    return scaled(nanoseconds, ["ns", "µs", "ms", "s"]);
  }
  const seconds = Math.round(nanoseconds / 1e9);
  const [days, hours] = [Math.floor(seconds / 86_400), Math.floor((seconds % 86_400) / 3600)];
  const minutes = Math.floor((seconds % 3600) / 60);
  const parts: [number, string][] = [
    [days, "d"],
    [hours, "h"],
    [minutes, "min"],
    [seconds % 60, "s"],
  ];
  const from = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(from, from + 2)
    .map(([count, unit]) => `${count}${SPACE}${unit}`)
    .join(" ");
}

/** Difference of two timestamps, in nanoseconds; exact up to 104 days. */
export function spanNs(first: string | null, last: string | null): number | null {
  return first === null || last === null ? null : Number(BigInt(last) - BigInt(first));
}

export function toSeconds(ns: string): number {
  return Number(BigInt(ns) / 1000n) / 1e6;
}

function pad(value: number, width = 2): string {
  return String(value).padStart(width, "0");
}

interface Moment {
  date: string;
  clock: string;
  nanoseconds: string;
}

function momentOf(ns: string, zone: Zone): Moment {
  const all = BigInt(ns);
  const rest = ((all % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const date = new Date(Number((all - rest) / 1_000_000n));
  const isUtc = zone === "utc";
  const year = isUtc ? date.getUTCFullYear() : date.getFullYear();
  const month = (isUtc ? date.getUTCMonth() : date.getMonth()) + 1;
  const day = isUtc ? date.getUTCDate() : date.getDate();
  const clock = isUtc
    ? [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    : [date.getHours(), date.getMinutes(), date.getSeconds()];
  return {
    date: `${pad(year, 4)}-${pad(month)}-${pad(day)}`,
    clock: clock.map((part) => pad(part)).join(":"),
    nanoseconds: rest.toString().padStart(9, "0"),
  };
}

/** `22:11:54.227`: for columns of tables, whose title has the whole. */
export function formatClock(ns: string | null | undefined, zone: Zone): string {
  if (ns === null || ns === undefined) return NONE;
  const { clock, nanoseconds } = momentOf(ns, zone);
  return `${clock}.${nanoseconds.slice(0, 3)}`;
}

/** `2026-11-21 22:11:54.227974796 UTC`. */
export function formatMoment(ns: string | null | undefined, zone: Zone): string {
  if (ns === null || ns === undefined) return NONE;
  const { date, clock, nanoseconds } = momentOf(ns, zone);
  return `${date} ${clock}.${nanoseconds} ${zone === "utc" ? "UTC" : "local"}`;
}

/** `2026-11-21 22:11:54`. */
export function formatSecond(ns: string | null | undefined, zone: Zone): string {
  if (ns === null || ns === undefined) return NONE;
  const { date, clock } = momentOf(ns, zone);
  return `${date} ${clock}`;
}

/** How long before `now`, such as `12 s ago`. */
export function formatAge(ns: string | null, now: string | null): string {
  const age = spanNs(ns, now);
  if (age === null) return NONE;
  if (age < 1e9) return "now";
  const seconds = Math.round(age / 1e9);
  return `${seconds < 60 ? `${seconds}${SPACE}s` : formatDuration(seconds * 1e9)} ago`;
}

const FLAGS = ["F", "S", "R", "P", "A", "U", "E", "C"];

/** TCP flags in the order of tcpdump, such as `FSPA`. */
export function formatTcpFlags(bits: Amount): string {
  if (bits === null || bits === undefined || bits === 0) return NONE;
  return FLAGS.filter((_, index) => (bits & (1 << index)) !== 0).join("");
}
