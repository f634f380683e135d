// A report in Chromium, for tests that need a browser.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { gunzipSync } from "node:zlib";
import puppeteer from "puppeteer-core";

const root = new URL("../", import.meta.url);
export const PLACE = "<!--WIRELENS-REPORT-DATA-->";
export const SIZES = {
  laptop: { width: 1366, height: 768 },
  phone: { width: 360, height: 740, isMobile: true, hasTouch: true, deviceScaleFactor: 2 },
};

export function fixture(name) {
  return JSON.parse(gunzipSync(readFileSync(new URL(`tests/fixtures/${name}.json.gz`, root))));
}

/** As the server does it. */
export function reportHtml(data) {
  const template = readFileSync(new URL("dist/report.html", root), "utf8");
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  const element = `<script id="wirelens-report" type="application/json">${json}</script>`;
  return template.replace(PLACE, () => element);
}

export async function launch() {
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
}

/** Opens a report from a file and collects what the console says. */
export async function openReport(browser, data, { size = "laptop", theme = "light" } = {}) {
  const folder = mkdtempSync(`${tmpdir()}/wirelens-page-`);
  const file = `${folder}/report.html`;
  writeFileSync(file, reportHtml(data));
  const page = await browser.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) complaints.push(`request to ${request.url()}`);
  });
  page.on("close", () => rmSync(folder, { recursive: true, force: true }));
  await page.setViewport(SIZES[size]);
  await page.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: theme },
    { name: "prefers-reduced-motion", value: "reduce" },
  ]);
  await page.goto(`file://${file}`);
  await page.waitForSelector("main .view");
  const show = async (hash) => {
    await page.evaluate((to) => {
      window.location.hash = to;
    }, hash);
    await settled(page);
  };
  return { page, complaints, show };
}

/** Until nothing is loading and two frames were drawn. */
export async function settled(page) {
  await page.evaluate(
    () =>
      new Promise((done) => {
        requestAnimationFrame(() => requestAnimationFrame(done));
      }),
  );
  await page.waitForFunction(() => document.querySelector(".skeleton, [aria-busy=true]") === null);
  await page.evaluate(
    () =>
      new Promise((done) => {
        requestAnimationFrame(() => requestAnimationFrame(done));
      }),
  );
}
