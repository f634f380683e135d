// What the views ask, and what answers: a server or the data inside a report.

/** Timestamps are decimal text: 64 bits of nanoseconds do not fit a JavaScript number. */
export type Cell = string | number | null;
export type Row = readonly Cell[];

export type ColumnType = "text" | "u64" | "u32" | "u16" | "i8" | "f64" | "timestamp" | "bytes";

export interface Column {
  name: string;
  type: ColumnType;
  about?: string;
  nullable?: boolean;
}

export interface TableInfo {
  name: string;
  about: string;
  rows: number;
  received: number;
  evicted: number;
  /** The column that time ranges apply to. */
  time: string | null;
  first: string | null;
  last: string | null;
  /** Time of the earliest row on disk, where rows are stored. */
  stored_first?: string | null;
  columns: Column[];
}

/** Rows on disk, of earlier hours and runs. */
export interface History {
  first: string;
  last: string;
  size_bytes: number;
  missed_rows: number;
  trouble: string | null;
}

export interface PacketCounts {
  received: number;
  dropped: number;
  malformed: number;
  open_flows?: number;
}

export interface State {
  version: string;
  mode: "live" | "captures" | "report";
  inputs: string[];
  /** Faults that the run simulates; absent in older reports. */
  drills?: string[];
  is_over: boolean;
  started: string;
  now: string | null;
  sequence: number;
  packets: PacketCounts;
  tables: TableInfo[];
  history: History | null;
}

/** Bounds of event time in decimal nanoseconds; `from` is inside, `to` is not. */
export interface Bounds {
  from?: string | undefined;
  to?: string | undefined;
}

export interface RowsQuery extends Bounds {
  where?: string | undefined;
  sort?: string | undefined;
  limit?: number | undefined;
  offset?: number | undefined;
  columns?: string | undefined;
}

export interface GroupsQuery extends Bounds {
  by: string;
  sum?: string | undefined;
  max?: string | undefined;
  min?: string | undefined;
  mean?: string | undefined;
  where?: string | undefined;
  sort?: string | undefined;
  limit?: number | undefined;
}

export type Aggregate = "sum" | "max" | "min" | "mean" | "count";

export interface SeriesQuery extends Bounds {
  value: string;
  aggregate: Aggregate;
  by?: string | undefined;
  series?: number | undefined;
  /** A whole number with a unit, such as `10s` or `100ms`. */
  step: string;
  where?: string | undefined;
}

export interface Rows {
  columns: string[];
  rows: Row[];
  matched: number;
  searched: number;
  sequence: number;
}

export interface Series {
  times: string[];
  step_ns: number;
  series: { name: string; values: (number | null)[] }[];
  matched: number;
  searched: number;
}

export interface Part {
  columns: string[];
  rows: Row[];
}

/** Everything that all applications report of one flow or host. */
export interface Gathered {
  tables: Record<string, Part>;
}

/** `where` is over flows: hosts that take part in one that matches. */
export interface HostsQuery extends Bounds {
  where?: string | undefined;
  sort?: string | undefined;
  limit?: number | undefined;
}

export interface LogClass {
  class: string;
  seen_packets: number;
  seen_bytes: number;
  kept_packets: number;
  kept_bytes: number;
  stored_packets: number;
  lost_packets: number;
}

export interface PacketLog {
  folder: string;
  mode: string;
  packets: { seen: number; kept: number; waiting: number; passed_over: number; lost: number };
  bytes: { seen: number; kept: number };
  classes: LogClass[];
  events: { time: string; text: string }[];
}

export interface LogSearch extends Bounds {
  host?: string | undefined;
  flow?: string | undefined;
  class?: string | undefined;
  limit?: number | undefined;
}

export interface Found {
  columns: string[];
  rows: Row[];
  matched: number;
  is_cut: boolean;
}

export interface Check {
  name: string;
  status: "ok" | "warning" | "error";
  seen: string;
  wanted: string;
}

export interface Health {
  status: "ok" | "degraded";
  checks: Check[];
  uptime_s: number;
  memory_bytes: number;
  memory_limit_bytes?: number | null;
  cpu_seconds: number;
  tables: { name: string; rows: number; evicted: number; dropped: number; bytes: number }[];
  lanes?: { name: string; packets: number; busy_share: number }[];
}

export type Connection = "connecting" | "open" | "lost";

export interface Listener {
  onState(state: State): void;
  onConnection(connection: Connection): void;
}

export interface Source {
  readonly kind: "api" | "report";
  state(signal?: AbortSignal): Promise<State>;
  rows(table: string, query: RowsQuery, signal?: AbortSignal): Promise<Rows>;
  groups(table: string, query: GroupsQuery, signal?: AbortSignal): Promise<Rows>;
  series(table: string, query: SeriesQuery, signal?: AbortSignal): Promise<Series>;
  flow(communityId: string, firstNs?: string, signal?: AbortSignal): Promise<Gathered>;
  hosts(query: HostsQuery, signal?: AbortSignal): Promise<Rows>;
  host(address: string, bounds: Bounds, signal?: AbortSignal): Promise<Gathered>;
  packetLog(signal?: AbortSignal): Promise<PacketLog | null>;
  searchLog(query: LogSearch, signal?: AbortSignal): Promise<Found>;
  /** Address of the download, or null where no packets can be had. */
  pcapngAddress(query: LogSearch): string | null;
  /** None in a report, which no process stands behind. */
  health(signal?: AbortSignal): Promise<Health | null>;
  /** Returns what ends the listening. */
  listen(listener: Listener): () => void;
}
