import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

export interface TableColumn<T> {
  name: string;
  label: string;
  render(row: T): ComponentChildren;
  isNumber?: boolean;
  /** Column names of the query, such as `bytes`; absent where it cannot be sorted by. */
  sort?: string;
  about?: string;
  /** Wide text that gives way first. */
  isWide?: boolean;
  /** Sentences, which are wrapped instead of cut. */
  isProse?: boolean;
}

export interface Sorting {
  /** As in a query: `-bytes`. */
  current: string | undefined;
  change(sort: string): void;
}

interface Properties<T> {
  caption: string;
  columns: TableColumn<T>[];
  rows: T[];
  keyOf(row: T): string;
  /** Where a row leads; the first cell is then its link. */
  hrefOf?: (row: T) => string | null;
  sorting?: Sorting;
  rowClass?: (row: T) => string | undefined;
}

type AriaSort = "ascending" | "descending" | "none";

function ariaSort(column: string | undefined, current: string | undefined): AriaSort | undefined {
  if (column === undefined) return undefined;
  const first = current?.split(",")[0];
  if (first === column) return "ascending";
  return first === `-${column}` ? "descending" : "none";
}

interface HeadProperties {
  column: TableColumn<never>;
  sorting: Sorting | undefined;
}

function Head({ column, sorting }: HeadProperties) {
  const state = sorting ? ariaSort(column.sort, sorting.current) : undefined;
  const name = column.isNumber ? "is-number" : undefined;
  if (sorting === undefined || column.sort === undefined) {
    return (
      <th scope="col" class={name} title={column.about}>
        {column.label}
      </th>
    );
  }
  const { sort } = column;
  const next = state === "descending" ? sort : `-${sort}`;
  return (
    <th scope="col" class={name} aria-sort={state} title={column.about}>
      <button type="button" class="sort" onClick={() => sorting.change(next)}>
        {column.label}
        <span class="sort-mark" aria-hidden="true">
          {state === "ascending" ? "▲" : state === "descending" ? "▼" : "↕"}
        </span>
      </button>
    </th>
  );
}

/** Rows that lead somewhere are one stop of the tab key; arrows move among them, Enter opens. */
function moveFocus(event: KeyboardEvent, body: HTMLElement | null): void {
  const links = [...(body?.querySelectorAll<HTMLAnchorElement>("a.row-link") ?? [])];
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  if (at < 0) return;
  const steps: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    Home: 0,
    End: links.length - 1,
    PageDown: at + 10,
    PageUp: at - 10,
  };
  const to = steps[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const link = links[Math.max(0, Math.min(links.length - 1, to))]!;
  for (const each of links) each.tabIndex = each === link ? 0 : -1;
  link.focus();
}

function openRow(event: MouseEvent): void {
  if ((event.target as HTMLElement).closest("a, button") !== null) return;
  if (window.getSelection()?.toString() !== "") return;
  (event.currentTarget as HTMLElement).querySelector<HTMLAnchorElement>("a.row-link")?.click();
}

export function Table<T>(properties: Properties<T>) {
  const { caption, columns, rows, keyOf, hrefOf, sorting, rowClass } = properties;
  const body = useRef<HTMLTableSectionElement>(null);
  const cell = (row: T, column: TableColumn<T>, at: number, isFirst: boolean) => {
    const name = [
      column.isNumber && "is-number",
      column.isWide && "is-wide",
      column.isProse && "is-prose",
    ]
      .filter(Boolean)
      .join(" ");
    const href = at === 0 && hrefOf ? hrefOf(row) : null;
    const content = column.render(row);
    const shown =
      href === null ? (
        content
      ) : (
        <a class="row-link" href={href} tabIndex={isFirst ? 0 : -1}>
          {content}
        </a>
      );
    return at === 0 ? (
      <th scope="row" class={name} key={column.name}>
        {shown}
      </th>
    ) : (
      <td class={name} key={column.name}>
        {shown}
      </td>
    );
  };
  return (
    <div class="table-frame" role="region" aria-label={caption} tabIndex={0}>
      <table onKeyDown={(event) => moveFocus(event, body.current)}>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.name} column={column as TableColumn<never>} sorting={sorting} />
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {rows.map((row, index) => (
            <tr
              key={keyOf(row)}
              class={[hrefOf?.(row) && "is-link", rowClass?.(row)].filter(Boolean).join(" ")}
              onClick={openRow}
            >
              {columns.map((column, at) => cell(row, column, at, index === 0))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
