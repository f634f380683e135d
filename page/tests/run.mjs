// Bundles the TypeScript tests, as Node 20 does not read types, and runs all tests.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

const root = new URL("../", import.meta.url).pathname;
const out = mkdtempSync(`${root}node_modules/.tests-`);
const units = readdirSync(`${root}tests/unit`).map((name) => `${root}tests/unit/${name}`);
await build({
  entryPoints: units,
  outdir: out,
  bundle: true,
  platform: "node",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
});
const browser = readdirSync(`${root}tests`)
  .filter((name) => name.endsWith(".test.mjs"))
  .map((name) => `${root}tests/${name}`);
const files = [...readdirSync(out).map((name) => `${out}/${name}`), ...browser];
const run = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit", cwd: root });
rmSync(out, { recursive: true });
process.exitCode = run.status ?? 1;
