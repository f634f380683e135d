import assert from "node:assert/strict";
import { test } from "node:test";
import { newestLikeliest } from "../../src/views/queue-data.ts";

test("of a flow's likeliest controls the newest that are known are shown", () => {
  const row = (community_id: string, likeliest: string | null) => ({ community_id, likeliest });
  const newestFirst = [
    row("1:a", null),
    row("1:b", "bbr 0.97, reno 0.02, cubic 0.01"),
    row("1:a", "cubic 0.62, bic 0.24, htcp 0.09"),
    row("1:a", "reno 0.50, cubic 0.30, bic 0.10"),
    row("1:c", null),
  ];
  const found = newestLikeliest(newestFirst);
  assert.deepEqual(
    [...found],
    [
      ["1:b", "bbr 0.97, reno 0.02, cubic 0.01"],
      ["1:a", "cubic 0.62, bic 0.24, htcp 0.09"],
    ],
  );
});
