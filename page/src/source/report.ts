import { fieldOf } from "./fields.ts";
import { queryHosts } from "./hosts.ts";
import { type MemoryTable, queryGroups, queryRows, selected } from "./query.ts";
import { querySeries } from "./series.ts";
import { quote } from "./tokens.ts";
import type {
  Bounds,
  Found,
  Gathered,
  GroupsQuery,
  Health,
  HostsQuery,
  Listener,
  PacketLog,
  Part,
  Rows,
  RowsQuery,
  Series,
  SeriesQuery,
  Source,
  State,
} from "./source.ts";

/** The content of `<script id="wirelens-report">`. */
export interface ReportData {
  state: State;
  tables: Record<string, Part>;
  health: Health | null;
  packetlog: PacketLog | null;
}

const OF_A_FLOW = [
  "flows",
  "classify",
  "cca",
  "latency",
  "l4s",
  "alerts",
  "joined",
  "sensor_alerts",
];
const OF_A_HOST = ["flows", "classify", "hosts_verdicts", "latency", "alerts", "sensor_alerts"];
/** What a page can show of one host or flow; the server has the same limit. */
const GATHERED_MAX = 1000;

/** Answers from the data inside a report, without a server. */
export class ReportSource implements Source {
  readonly kind = "report";
  private readonly shown: State;
  private readonly tables = new Map<string, MemoryTable>();

  constructor(private readonly data: ReportData) {
    for (const info of data.state.tables) {
      const rows = data.tables[info.name]?.rows ?? [];
      // The state is of the run; what did not fit is as far away here as what it evicted.
      const evicted = info.evicted + Math.max(0, info.rows - rows.length);
      this.tables.set(info.name, { info: { ...info, rows: rows.length, evicted }, rows });
    }
    const tables = [...this.tables.values()].map(({ info }) => info);
    this.shown = { ...data.state, tables };
  }

  async state(): Promise<State> {
    return this.shown;
  }

  async rows(table: string, query: RowsQuery): Promise<Rows> {
    return queryRows(this.table(table), query, this.data.state.sequence);
  }

  async groups(table: string, query: GroupsQuery): Promise<Rows> {
    return queryGroups(this.table(table), query, this.data.state.sequence);
  }

  async series(table: string, query: SeriesQuery): Promise<Series> {
    return querySeries(this.table(table), query);
  }

  async flow(communityId: string, firstNs?: string): Promise<Gathered> {
    const gathered = this.gather(OF_A_FLOW, "community_id", communityId);
    const flows = gathered.tables.flows;
    if (firstNs !== undefined && flows !== undefined) {
      const at = flows.columns.indexOf("first_ns");
      flows.rows = flows.rows.filter((row) => row[at] === firstNs);
    }
    return gathered;
  }

  async hosts(query: HostsQuery): Promise<Rows> {
    const verdicts = this.tables.get("hosts_verdicts");
    return queryHosts(this.table("flows"), verdicts, query, this.data.state.sequence);
  }

  async host(address: string, bounds: Bounds): Promise<Gathered> {
    return this.gather(OF_A_HOST, "ip", address, bounds);
  }

  async packetLog(): Promise<PacketLog | null> {
    return this.data.packetlog;
  }

  async searchLog(): Promise<Found> {
    throw new Error(
      "a report holds no packets; search the packet log with wirelens packetlog query",
    );
  }

  pcapngAddress(): null {
    return null;
  }

  async health(): Promise<Health | null> {
    return this.data.health;
  }

  listen(listener: Listener): () => void {
    listener.onConnection("open");
    return () => {};
  }

  private table(name: string): MemoryTable {
    const table = this.tables.get(name);
    if (table === undefined) throw new Error(`this report has no table ${name}`);
    return table;
  }

  private gather(names: string[], name: string, value: string, bounds: Bounds = {}): Gathered {
    const tables: Record<string, Part> = {};
    for (const each of names) {
      const table = this.tables.get(each);
      if (table === undefined || fieldOf(name, table.info.columns) === null) continue;
      const columns = table.info.columns.map((column) => column.name);
      const where = `${name} == ${quote(value)}`;
      tables[each] = {
        columns,
        rows: selected(table, { where, ...bounds }).slice(0, GATHERED_MAX),
      };
    }
    return { tables };
  }
}
