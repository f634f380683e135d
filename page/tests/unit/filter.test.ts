import assert from "node:assert/strict";
import { test } from "node:test";
import cases from "../../cases/filter.json";
import { compileFilter } from "../../src/source/filter.ts";
import type { Column, Row } from "../../src/source/source.ts";

interface Case {
  table: string;
  where: string;
  matches?: number[];
  error?: string;
}

const tables = cases.tables as unknown as Record<string, { columns: Column[]; rows: Row[] }>;

for (const { table, where, matches, error } of cases.cases as Case[]) {
  const { columns, rows } = tables[table]!;
  test(`filter of ${table}: ${where}`, () => {
    if (error !== undefined) {
      assert.throws(
        () => compileFilter(where, columns),
        (thrown: Error) => {
          assert.ok(thrown.message.includes(error), thrown.message);
          return thrown.name === "FilterError";
        },
      );
      return;
    }
    const passes = compileFilter(where, columns);
    assert.deepEqual(
      [...rows.keys()].filter((i) => passes(rows[i]!)),
      matches,
    );
  });
}

test("nesting without end is refused, not a stack overflow", () => {
  const where = `${"(".repeat(10_000)}tcp${")".repeat(10_000)}`;
  assert.throws(() => compileFilter(where, tables.flows!.columns), { name: "FilterError" });
});
