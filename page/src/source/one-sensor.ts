// A source without the rows of all sensors but one: views need not know which is chosen.

import { quote } from "./tokens.ts";
import type {
  Bounds,
  Found,
  Gathered,
  GroupsQuery,
  Health,
  HostsQuery,
  Listener,
  LogSearch,
  PacketLog,
  Part,
  Rows,
  RowsQuery,
  Series,
  SeriesQuery,
  Source,
  State,
} from "./source.ts";

/** Rows of a table that a host's answer has at most; a full part may lack rows of the sensor. */
const GATHERED_MAX = 1000;

/** The table of sensors itself is never restricted: it says how each stands. */
export const SENSORS = "sensors";

export function isSensor(name: string): string {
  return `sensor == ${quote(name)}`;
}

/** Both of two filters, of which any may be missing. */
export function bothOf(one: string | undefined, other: string | undefined): string | undefined {
  const given = [one, other].filter((each) => each !== undefined && each.trim() !== "");
  return given.length === 2 ? `(${given[0]}) and (${given[1]})` : given[0];
}

function onlyOf(part: Part, sensor: string): Part {
  const at = part.columns.indexOf("sensor");
  return at < 0 ? part : { ...part, rows: part.rows.filter((row) => row[at] === sensor) };
}

export class OneSensorSource implements Source {
  readonly kind: Source["kind"];

  /** Only tables that `has` names have a column of sensors. */
  constructor(
    private readonly source: Source,
    private readonly sensor: string,
    private readonly has: (table: string) => boolean,
  ) {
    this.kind = source.kind;
  }

  state(signal?: AbortSignal): Promise<State> {
    return this.source.state(signal);
  }

  rows(table: string, query: RowsQuery, signal?: AbortSignal): Promise<Rows> {
    return this.source.rows(table, this.restricted(table, query), signal);
  }

  groups(table: string, query: GroupsQuery, signal?: AbortSignal): Promise<Rows> {
    return this.source.groups(table, this.restricted(table, query), signal);
  }

  series(table: string, query: SeriesQuery, signal?: AbortSignal): Promise<Series> {
    return this.source.series(table, this.restricted(table, query), signal);
  }

  /** Of all sensors: the view of a flow compares them. */
  flow(communityId: string, firstNs?: string, signal?: AbortSignal): Promise<Gathered> {
    return this.source.flow(communityId, firstNs, signal);
  }

  hosts(query: HostsQuery, signal?: AbortSignal): Promise<Rows> {
    return this.source.hosts(this.restricted("flows", query), signal);
  }

  async host(address: string, bounds: Bounds, signal?: AbortSignal): Promise<Gathered> {
    const all = await this.source.host(address, bounds, signal);
    const parts = Object.entries(all.tables).map(async ([name, part]): Promise<[string, Part]> => {
      if (!this.has(name) || part.rows.length < GATHERED_MAX) {
        return [name, onlyOf(part, this.sensor)];
      }
      const where = `ip == ${quote(address)}`;
      return [name, await this.rows(name, { where, limit: GATHERED_MAX, ...bounds }, signal)];
    });
    return { tables: Object.fromEntries(await Promise.all(parts)) };
  }

  packetLog(signal?: AbortSignal): Promise<PacketLog | null> {
    return this.source.packetLog(signal);
  }

  searchLog(query: LogSearch, signal?: AbortSignal): Promise<Found> {
    return this.source.searchLog(query, signal);
  }

  pcapngAddress(query: LogSearch): string | null {
    return this.source.pcapngAddress(query);
  }

  health(signal?: AbortSignal): Promise<Health | null> {
    return this.source.health(signal);
  }

  listen(listener: Listener): () => void {
    return this.source.listen(listener);
  }

  private restricted<Q extends { where?: string | undefined }>(table: string, query: Q): Q {
    if (table === SENSORS || !this.has(table)) return query;
    return { ...query, where: bothOf(query.where, isSensor(this.sensor)) };
  }
}
