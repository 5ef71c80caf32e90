// The pages of the demo and of the lab in a real browser: light and dark, narrow and wide, without an
// error, nothing wider than the window, every picture with its numbers, and the numbers those that
// the program printed.
//
// usage: node tests/pages.mjs FOREBAY-DEMO FOREBAY-LAB
// Needs puppeteer-core in NODE_PATH, and chromium.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const puppeteer = createRequire(import.meta.url)("puppeteer-core");
const [demo, lab] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "forebay-pages-"));
const scenario = new URL("../scenarios/rate-halves.toml", import.meta.url).pathname;

/// Runs a program that writes `page`, and returns the page and the numbers of its output.
function made(page, program, args) {
  const output = execFileSync(program, [...args, "--html", page], { cwd: folder, encoding: "utf8" });
  return { page, printed: new Set(output.match(/[\d.]+/g)) };
}

const pages = [
  made("demo.html", demo, ["--plain", "--seconds", "2"]),
  made("lab.html", lab, ["run", scenario]),
];

/// What is wrong with the page that a tab shows.
function faults() {
  const found = [];
  if (document.documentElement.scrollWidth > window.innerWidth) {
    found.push(`${document.documentElement.scrollWidth} px wide`);
  }
  const figures = [...document.querySelectorAll("figure")];
  if (figures.length === 0) found.push("no picture");
  for (const figure of figures) {
    const svg = figure.querySelector("svg");
    const name = svg.getAttribute("aria-label");
    const paper = svg.getBoundingClientRect();
    // A picture is 720 px wide, and its text 12 px high.
    if (paper.width < 540) found.push(`${name}: ${paper.width} px are too few to read it`);
    if (!figure.querySelector("details tbody tr")) found.push(`${name}: no numbers behind it`);
    const inside = [...svg.querySelectorAll("text")].every((text) => {
      const box = text.getBoundingClientRect();
      return box.left >= paper.left - 1 && box.right <= paper.right + 1;
    });
    if (!inside) found.push(`${name}: a text ends outside of it`);
  }
  return found;
}

/// The figures of the tables that stand by themselves.
function figures() {
  const cells = [...document.querySelectorAll("td.n")].filter((cell) => !cell.closest("details"));
  return cells.flatMap((cell) => cell.textContent.match(/[\d.]+/g) ?? []);
}

let failed = 0;
let passed = 0;
function expect(what, is, details) {
  if (is) return void (passed += 1);
  failed += 1;
  console.log(`FAILED: ${what}: ${details}`);
}

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
try {
  for (const { page, printed } of pages) {
    const papers = new Set();
    for (const scheme of ["light", "dark"]) {
      for (const width of [360, 1600]) {
        const tab = await browser.newPage();
        const errors = [];
        tab.on("console", (message) => errors.push(message.text()));
        tab.on("pageerror", (error) => errors.push(error.message));
        tab.on("requestfailed", (request) => errors.push(request.url()));
        await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        await tab.setViewport({ width, height: 900 });
        await tab.goto(pathToFileURL(join(folder, page)).href);
        const what = `${page}, ${scheme}, ${width} px`;
        expect(`${what}: console`, errors.length === 0, errors.join("; "));
        const found = await tab.evaluate(faults);
        expect(what, found.length === 0, found.join("; "));
        papers.add(await tab.evaluate(() => getComputedStyle(document.body).backgroundColor));
        if (process.env.PICTURES) {
          const path = join(process.env.PICTURES, `${page}-${scheme}-${width}.png`);
          await tab.screenshot({ path, fullPage: true });
        }
        const shown = await tab.evaluate(figures);
        const unknown = shown.filter((figure) => !printed.has(figure));
        expect(`${what}: figures`, shown.length > 0 && unknown.length === 0, unknown.join(" "));
        await tab.close();
      }
    }
    expect(`${page}: dark differs from light`, papers.size === 2, [...papers].join(" "));
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
console.log(
  `test result: ${failed ? "FAILED" : "ok"}. ${passed} passed; ${failed} failed; 0 ignored`,
);
process.exitCode = failed ? 1 : 0;
