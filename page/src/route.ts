// Addresses of views, after `#` so that they work in a report opened from a file as well:
// #/flows?where=dst_port%20%3D%3D%20443&sort=-bytes&range=15m

export interface Route {
  /** The view, then what it is of: `["flow", "1:abc="]`. */
  path: string[];
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#?\/?/, "");
  const mark = text.indexOf("?");
  const path = (mark < 0 ? text : text.slice(0, mark)).split("/").filter((part) => part !== "");
  const query: Record<string, string> = {};
  if (mark >= 0) {
    for (const [name, value] of new URLSearchParams(text.slice(mark + 1))) query[name] = value;
  }
  return { path: path.length === 0 ? ["overview"] : path.map(decoded), query };
}

/** Percent signs that someone typed by hand stay as they are. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function formatRoute(
  path: string[],
  query: Record<string, string | undefined> = {},
): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") parameters.set(name, value);
  }
  const text = parameters.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

/** The time range and the sensor travel to every view; filters, sorting and pages belong to one. */
export function carried(query: Record<string, string>): Record<string, string | undefined> {
  return { range: query.range, from: query.from, to: query.to, sensor: query.sensor };
}

/** Names of parameters of a listing; where a view has several, each of the others has its own. */
export function listingNames(part?: string): { where: string; sort: string; page: string } {
  const prefix = part === undefined ? "" : `${part}_`;
  return { where: `${prefix}where`, sort: `${prefix}sort`, page: `${prefix}page` };
}

/** Without the pages of all listings: other rows have other pages. */
export function withoutPages(query: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(query).filter(([name]) => !/(^|_)page$/.test(name)));
}
