// Tests of one column. A missing value passes no comparison, `!=` included: what is not there is
// neither equal nor different, as in Wireshark.

import { contains, parsePrefix, type Prefix } from "./address.ts";
import { type Field, holdsAddresses } from "./fields.ts";
import { parseNumber, parseTime } from "./literal.ts";
import { type Cell, type Column, type Row } from "./source.ts";
import { FilterError } from "./tokens.ts";

export type Test = (row: Row) => boolean;

export interface Value {
  text: string;
  isQuoted: boolean;
  at: number;
}

type CellTest = (cell: string | number) => boolean;

/** One column of several suffices; but `ip != x` needs all of them to differ. */
function over(field: Field, test: CellTest, needsAll: boolean): Test {
  const passes = (cell: Cell): boolean => cell !== null && test(cell);
  return (row) =>
    needsAll
      ? field.read.every((read) => passes(read(row)))
      : field.read.some((read) => passes(read(row)));
}

export function textSearch(text: string, columns: readonly Column[]): Test {
  const wanted = text.toLowerCase();
  const indexes = [...columns.keys()].filter((i) => columns[i]!.type === "text");
  return (row) =>
    indexes.some((index) => {
      const cell = row[index];
      return typeof cell === "string" && cell.toLowerCase().includes(wanted);
    });
}

export function comparison(field: Field, sign: string, value: Value): Test {
  if (sign === "contains") return over(field, containing(field, value), false);
  if (sign === "==") return over(field, equal(field, value), false);
  if (sign === "!=") {
    const same = equal(field, value);
    return over(field, (cell) => !same(cell), true);
  }
  return over(field, ordered(field, sign, value), false);
}

export function inSet(field: Field, values: Value[]): Test {
  const tests = values.map((value) => equal(field, value));
  return over(field, (cell) => tests.some((test) => test(cell)), false);
}

function isText(field: Field): boolean {
  return field.type === "text" || field.type === "bytes";
}

function containing(field: Field, value: Value): CellTest {
  if (!isText(field)) {
    throw new FilterError(
      `"${field.name}" is a number, and "contains" needs text; use ==, <, > or in`,
      value.at,
    );
  }
  const wanted = value.text.toLowerCase();
  return (cell) => String(cell).toLowerCase().includes(wanted);
}

function equal(field: Field, value: Value): CellTest {
  if (isText(field)) {
    const prefix = field.isAddress ? parsePrefix(value.text) : null;
    if (prefix !== null) return within(prefix);
    // No row has it: a slip such as 10.0.0.0/33 would look like traffic that is not there.
    if (holdsAddresses(field.name) && !value.isQuoted) {
      throw new FilterError(
        `"${value.text}" is not an address, and "${field.name}" is one; write 10.0.0.1 or a prefix such as 10.0.0.0/8`,
        value.at,
      );
    }
    return (cell) => cell === value.text;
  }
  if (field.type === "timestamp") {
    const time = timeOf(field, value);
    return (cell) => BigInt(cell) === time;
  }
  const wanted = numberOf(field, value);
  return (cell) => cell === wanted;
}

function within(prefix: Prefix): CellTest {
  return (cell) => {
    const address = parsePrefix(String(cell));
    return address !== null && contains(prefix, address);
  };
}

function ordered(field: Field, sign: string, value: Value): CellTest {
  if (isText(field)) {
    throw new FilterError(
      `"${field.name}" is text, and "${sign}" needs a number; use ==, !=, contains or in`,
      value.at,
    );
  }
  if (field.type === "timestamp") {
    const time = timeOf(field, value);
    return (cell) => holds(sign, BigInt(cell), time);
  }
  const wanted = numberOf(field, value);
  return (cell) => holds(sign, Number(cell), wanted);
}

function holds<T extends number | bigint>(sign: string, left: T, right: T): boolean {
  if (sign === "<") return left < right;
  if (sign === "<=") return left <= right;
  return sign === ">" ? left > right : left >= right;
}

function timeOf(field: Field, value: Value): bigint {
  const time = parseTime(value.text);
  if (time !== null) return time;
  throw new FilterError(
    `"${value.text}" is not a time, and "${field.name}" is one; write 2026-01-31T10:00:00Z`,
    value.at,
  );
}

function numberOf(field: Field, value: Value): number {
  const number = value.isQuoted ? null : parseNumber(value.text);
  if (number === null) {
    throw new FilterError(
      `"${value.text}" is not a number, and "${field.name}" is one; write 443, 10k or 5ms, without quotation marks`,
      value.at,
    );
  }
  if (!number.isDuration || field.name.endsWith("_ns")) return number.value;
  if (field.name.endsWith("_s")) return number.value / 1e9;
  throw new FilterError(
    `"${value.text}" is a duration, and "${field.name}" is not; write 5M for 5 million`,
    value.at,
  );
}
