import { formatCount } from "../format.ts";

interface Properties {
  page: number;
  /** The address of a page. */
  to(page: number): string;
  pageSize: number;
  matched: number;
  searched: number;
  noun: string;
}

/** Pages count from 1 in the address. */
export function pageOf(text: string | undefined): number {
  const page = Number(text ?? "1");
  return Number.isInteger(page) && page >= 1 ? page : 1;
}

export function Pager({ page, to: addressOf, pageSize, matched, searched, noun }: Properties) {
  const last = Math.max(1, Math.ceil(matched / pageSize));
  const from = matched === 0 ? 0 : (page - 1) * pageSize + 1;
  const link = (to: number, label: string) =>
    to < 1 || to > last ? (
      <span class="page-link" aria-disabled="true">
        {label}
      </span>
    ) : (
      <a class="page-link" href={addressOf(to)}>
        {label}
      </a>
    );
  const isFiltered = searched > matched;
  return (
    <nav class="pager" aria-label={`Pages of ${noun}`}>
      <p>
        <span class="number">
          {formatCount(from)}–{formatCount(Math.min(page * pageSize, matched))}
        </span>{" "}
        of <span class="number">{formatCount(matched)}</span> {noun}
        {isFiltered && <span class="note"> ({formatCount(searched)} searched)</span>}
      </p>
      {last > 1 && (
        <div>
          {link(page - 1, "Previous")}
          {link(page + 1, "Next")}
        </div>
      )}
    </nav>
  );
}
