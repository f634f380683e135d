// A page of the rows of a table that a filter chooses: search box, rows in an order, other pages.

import type { ComponentChildren } from "preact";
import { type Answer, useAnswer } from "../answer.ts";
import { useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { type Rec, recordsOf } from "../source/records.ts";
import type { Column, Rows } from "../source/source.ts";
import { pageOf, Pager } from "./pager.tsx";
import { SearchBox } from "./search-box.tsx";
import { Shown } from "./states.tsx";
import type { Sorting } from "./table.tsx";

const PAGE_SIZE = 50;

export interface Listing {
  answer: Answer<Rows>;
  page: number;
  where: string | undefined;
  sorting: Sorting;
  filterBy(where: string | undefined): void;
}

/** Of the view's filter and page. Without a name nothing is asked. */
export function useListing(name: string | null, table: string, sort: string | undefined): Listing {
  const { source } = useApp();
  const place = usePlace();
  const { where } = place.query;
  const page = pageOf(place.query);
  const answer = useAnswer(name && `${name} ${place.key}`, (signal) =>
    source.rows(
      table,
      { where, sort, limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE, ...place.bounds },
      signal,
    ),
  );
  return {
    answer,
    page,
    where,
    sorting: { current: sort, change: (next) => place.go({ sort: next, page: undefined }) },
    filterBy: (next) => place.go({ where: next, page: undefined }),
  };
}

interface SearchProperties {
  listing: Listing;
  label: string;
  columns: readonly Column[];
  example: string;
}

export function ListingSearch({ listing, label, columns, example }: SearchProperties) {
  const value = listing.where ?? "";
  return <SearchBox {...{ label, value, columns, example }} apply={listing.filterBy} />;
}

interface ListedProperties {
  listing: Listing;
  noun: string;
  lines: number;
  /** Where no row matches. */
  empty: ComponentChildren;
  children: (rows: Rec[]) => ComponentChildren;
}

export function Listed({ listing, noun, lines, empty, children }: ListedProperties) {
  return (
    <Shown answer={listing.answer} lines={lines}>
      {(found) => (
        <>
          {found.rows.length === 0 ? empty : children(recordsOf(found))}
          <Pager
            page={listing.page}
            pageSize={PAGE_SIZE}
            matched={found.matched}
            searched={found.searched}
            noun={noun}
          />
        </>
      )}
    </Shown>
  );
}
