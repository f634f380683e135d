// A page of the rows of a table that a filter chooses: search box, rows in an order, other pages.

import type { ComponentChildren } from "preact";
import { type Answer, useAnswer } from "../answer.ts";
import { useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { listingNames } from "../route.ts";
import { bothOf } from "../source/one-sensor.ts";
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
  toPage(page: number): string;
}

interface Choice {
  /** Which of several listings of a view. */
  part?: string;
  /** Rows that it is of, whatever the reader filters by. */
  only?: string;
}

/** Of the view's filter and page. Without a name nothing is asked. */
export function useListing(
  name: string | null,
  table: string,
  sort: string | undefined,
  { part, only }: Choice = {},
): Listing {
  const { source } = useApp();
  const place = usePlace();
  const names = listingNames(part);
  const where = place.query[names.where];
  const page = pageOf(place.query[names.page]);
  const answer = useAnswer(name && `${name} ${place.key}`, (signal) =>
    source.rows(
      table,
      {
        where: bothOf(where, only),
        sort,
        limit: PAGE_SIZE,
        offset: (page - 1) * PAGE_SIZE,
        ...place.bounds,
      },
      signal,
    ),
  );
  return {
    answer,
    page,
    where,
    sorting: {
      current: sort,
      change: (next) => place.go({ [names.sort]: next, [names.page]: undefined }),
    },
    filterBy: (next) => place.go({ [names.where]: next, [names.page]: undefined }),
    toPage: (next) => place.here({ [names.page]: next === 1 ? undefined : String(next) }),
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
            to={listing.toPage}
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
