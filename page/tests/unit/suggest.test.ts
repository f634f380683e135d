import assert from "node:assert/strict";
import { test } from "node:test";
import { suggest } from "../../src/parts/suggest.ts";
import type { Column } from "../../src/source/source.ts";

const COLUMNS: Column[] = [
  { name: "src_ip", type: "text", about: "Source." },
  { name: "dst_ip", type: "text" },
  { name: "dst_port", type: "u16" },
];
const texts = (text: string): string[] =>
  suggest(text, text.length, COLUMNS).list.map((each) => each.text);

test("columns and aliases are suggested where a comparison begins", () => {
  assert.deepEqual(texts(""), ["ip", "port", "src_ip", "dst_ip", "dst_port"]);
  assert.deepEqual(texts("src"), ["src_ip"]);
  assert.deepEqual(texts("dst_port == 443 and po"), ["port", "dst_port"]);
});

test("operators fit the column", () => {
  assert.deepEqual(texts("dst_port "), ["==", "!=", ">", "<"]);
  assert.deepEqual(texts("src_ip c"), ["contains"]);
});

test("after a comparison comes and or or, and nothing inside of text", () => {
  assert.deepEqual(texts("dst_port == 443 "), ["and", "or"]);
  assert.deepEqual(texts('src_ip contains "a '), []);
});
