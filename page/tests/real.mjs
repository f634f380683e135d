// Looks at a page that a real run serves: node real.mjs ADDRESS HASH TEXT [SIZE] [THEME]
//
// Prints lines of JSON: when the first content was painted and that the view is there; when TEXT was
// seen on it; what the console said. Ends when TEXT was seen, or after ten seconds.

import { launch, SIZES } from "./browser.mjs";

const [address, hash, text, size = "laptop", theme = "light"] = process.argv.slice(2);
const PATIENCE_MS = 10_000;
const say = (what) => console.log(JSON.stringify(what));

const browser = await launch();
try {
  const page = await browser.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.setViewport(SIZES[size]);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.goto(address + hash);
  await page.waitForSelector("main .view");
  const paint_ms = await page.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
  );
  say({ paint_ms });
  const seen_ms = await page
    .waitForFunction(
      (wanted) => document.body.innerText.includes(wanted) && Date.now(),
      { polling: 20, timeout: PATIENCE_MS },
      text,
    )
    .then((handle) => handle.jsonValue())
    .catch(() => null);
  const widest = await page.evaluate(() => document.documentElement.scrollWidth);
  say({ seen_ms, is_wide: widest > SIZES[size].width, complaints });
} finally {
  await browser.close();
}
