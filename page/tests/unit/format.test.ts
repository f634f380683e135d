import assert from "node:assert/strict";
import { test } from "node:test";
import {
  formatAge,
  formatBitRate,
  formatBytes,
  formatClock,
  formatCount,
  formatDuration,
  formatMoment,
  formatShare,
  formatTcpFlags,
  spanNs,
} from "../../src/format.ts";
import { visible } from "../../src/visible.ts";

const plain = (text: string): string => text.replaceAll("\u00a0", " ");

test("bytes have three digits and a unit", () => {
  assert.equal(plain(formatBytes(0)), "0 B");
  assert.equal(plain(formatBytes(999)), "999 B");
  assert.equal(plain(formatBytes(1000)), "1.00 kB");
  assert.equal(plain(formatBytes(999_949)), "1.00 MB");
  assert.equal(plain(formatBytes(12_345_678)), "12.3 MB");
  assert.equal(formatBytes(null), "–");
});

test("rates are bits per second", () => {
  assert.equal(plain(formatBitRate(3_260_000)), "3.26 Mbit/s");
});

test("counts are grouped", () => {
  assert.equal(formatCount(1_234_567), "1,234,567");
  assert.equal(formatCount(12), "12");
  assert.equal(formatCount(1.23456), "1.23");
});

test("durations go from nanoseconds to days", () => {
  assert.equal(plain(formatDuration(812)), "812 ns");
  assert.equal(plain(formatDuration(20_309_451)), "20.3 ms");
  assert.equal(plain(formatDuration(59.9e9)), "59.9 s");
  assert.equal(plain(formatDuration(125e9)), "2 min 5 s");
  assert.equal(plain(formatDuration(90_061e9)), "1 d 1 h");
});

test("a small share is not shown as none", () => {
  assert.equal(plain(formatShare(0)), "0.0 %");
  assert.equal(plain(formatShare(0.0001)), "< 0.1 %");
  assert.equal(plain(formatShare(0.157)), "15.7 %");
});

test("times keep nanoseconds, also before 1970", () => {
  assert.equal(formatMoment("1795299114227974796", "utc"), "2026-11-21 22:11:54.227974796 UTC");
  assert.equal(formatClock("1795299114227974796", "utc"), "22:11:54.227");
  assert.equal(formatMoment("-1", "utc"), "1969-12-31 23:59:59.999999999 UTC");
  assert.equal(formatMoment(null, "utc"), "–");
});

test("spans are exact to the nanosecond", () => {
  assert.equal(spanNs("1795299114227974796", "1795299114227974797"), 1);
  assert.equal(plain(formatAge("1000000000", "13000000000")), "12 s ago");
});

test("TCP flags read as in tcpdump", () => {
  assert.equal(formatTcpFlags(27), "FSPA");
  assert.equal(formatTcpFlags(0), "–");
});

test("characters that change how text reads are shown", () => {
  assert.equal(visible("a\u001b[31mb"), "a␛[31mb");
  assert.equal(visible("gnp\u202egpj"), "gnp\\u202egpj");
  assert.equal(visible("\u007f\u200b\ufeff"), "␡\\u200b\\ufeff");
  assert.equal(visible("\u{e0041}"), "\\u{e0041}");
  assert.equal(visible("\ud800"), "\\ud800");
  assert.equal(visible("<img src=x>"), "<img src=x>");
  assert.equal(visible("größe 名前 😀"), "größe 名前 😀");
});
