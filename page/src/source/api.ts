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
  Rows,
  RowsQuery,
  Series,
  SeriesQuery,
  Source,
  State,
  TableInfo,
} from "./source.ts";

const BASE = "api/v1";
const RETRY_MS = 3000;

function address(path: string, query: object): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === "" ? `${BASE}/${path}` : `${BASE}/${path}?${text}`;
}

async function messageOf(response: Response): Promise<string> {
  const plain = `HTTP ${response.status} from ${new URL(response.url).pathname}`;
  try {
    const body: unknown = await response.json();
    if (typeof body === "object" && body !== null && "error" in body) return String(body.error);
    return plain;
  } catch {
    return plain;
  }
}

async function get<T>(path: string, query: object, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(address(path, query), signal ? { signal } : {});
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("the Wirelens server does not answer; check that it still runs");
  }
  if (!response.ok) throw new Error(await messageOf(response));
  return (await response.json()) as T;
}

/** Answers over HTTP, from the process that serves the page. */
export class ApiSource implements Source {
  readonly kind = "api";
  /** The stream leaves columns out, as they do not change; they are added from here. */
  private columns = new Map<string, TableInfo["columns"]>();

  async state(signal?: AbortSignal): Promise<State> {
    const state = await get<State>("state", {}, signal);
    for (const table of state.tables) this.columns.set(table.name, table.columns);
    return state;
  }

  rows(table: string, query: RowsQuery, signal?: AbortSignal): Promise<Rows> {
    return get(`tables/${encodeURIComponent(table)}`, query, signal);
  }

  groups(table: string, query: GroupsQuery, signal?: AbortSignal): Promise<Rows> {
    return get(`tables/${encodeURIComponent(table)}/groups`, query, signal);
  }

  series(table: string, query: SeriesQuery, signal?: AbortSignal): Promise<Series> {
    return get(`tables/${encodeURIComponent(table)}/series`, query, signal);
  }

  flow(communityId: string, firstNs?: string, signal?: AbortSignal): Promise<Gathered> {
    return get(`flows/${encodeURIComponent(communityId)}`, { first_ns: firstNs }, signal);
  }

  hosts(query: HostsQuery, signal?: AbortSignal): Promise<Rows> {
    return get("hosts", query, signal);
  }

  host(host: string, bounds: Bounds, signal?: AbortSignal): Promise<Gathered> {
    return get(`hosts/${encodeURIComponent(host)}`, bounds, signal);
  }

  packetLog(signal?: AbortSignal): Promise<PacketLog | null> {
    return get("packetlog", {}, signal);
  }

  searchLog(query: LogSearch, signal?: AbortSignal): Promise<Found> {
    return get("packetlog/search", query, signal);
  }

  pcapngAddress(query: LogSearch): string {
    return address("packetlog/pcapng", query);
  }

  health(signal?: AbortSignal): Promise<Health> {
    return get("health", {}, signal);
  }

  listen(listener: Listener): () => void {
    let stream: EventSource;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const open = (): void => {
      stream = new EventSource(`${BASE}/stream`);
      stream.addEventListener("open", () => {
        // It may be another run, whose tables have other columns.
        this.columns.clear();
        listener.onConnection("open");
      });
      // A state that cannot be completed is followed by another one.
      stream.addEventListener("state", (event) => {
        this.receive(event.data, listener).catch(() => undefined);
      });
      stream.addEventListener("error", () => {
        listener.onConnection("lost");
        // The browser retries a lost connection, but gives up after an HTTP error.
        if (stream.readyState === EventSource.CLOSED) timer = setTimeout(open, RETRY_MS);
      });
    };
    open();
    return () => {
      clearTimeout(timer);
      stream.close();
    };
  }

  private async receive(data: string, listener: Listener): Promise<void> {
    const state = JSON.parse(data) as State;
    const isNew = state.tables.some((table) => !this.columns.has(table.name));
    if (isNew) {
      listener.onState(await this.state());
      return;
    }
    for (const table of state.tables) table.columns = this.columns.get(table.name) ?? [];
    listener.onState(state);
  }
}
