// Pictures of every view, to be looked at: node tests/shots.mjs FOLDER [VIEW...]

import { mkdirSync } from "node:fs";
import { fixture, launch, openReport } from "./browser.mjs";
import { VIEWS } from "./views.mjs";

const [folder = "shots", ...wanted] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await launch();
for (const [name, { report, hash }] of Object.entries(VIEWS)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  for (const [size, theme] of [
    ["laptop", "light"],
    ["laptop", "dark"],
    ["phone", "light"],
  ]) {
    const { page, show } = await openReport(browser, fixture(report), { size, theme });
    await show(hash);
    await page.screenshot({
      path: `${folder}/${name}-${size}-${theme}.png`,
      fullPage: size === "laptop",
    });
    await page.close();
  }
}
await browser.close();
