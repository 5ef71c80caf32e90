// The pages of the demo, of the lab and of a server in a real browser: light and dark, narrow and wide,
// without an error, nothing wider than the window, every picture with its numbers, and the numbers
// those that the program printed.
//
// usage: node tests/pages.mjs FOREBAY-DEMO FOREBAY-LAB FOREBAY
// Needs puppeteer-core in NODE_PATH, and chromium.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const puppeteer = createRequire(import.meta.url)("puppeteer-core");
const [demo, lab, forebay] = process.argv.slice(2).map((program) => resolve(program));
const folder = mkdtempSync(join(tmpdir(), "forebay-pages-"));
const scenario = new URL("../scenarios/rate-halves.toml", import.meta.url).pathname;

/// Runs a program that writes `page`, and returns the page and the numbers of its output.
function made(page, program, args) {
  const output = execFileSync(program, [...args, "--html", page], { cwd: folder, encoding: "utf8" });
  const printed = new Set(output.match(/[\d.]+/g));
  return { page, url: pathToFileURL(join(folder, page)).href, printed };
}

/// Starts a server, and returns it with its status page once that has pictures.
async function served() {
  const args = ["serve", "nbd", "disk.img", "--create", "64M", "--memory", "64M"];
  const server = spawn(forebay, [...args, "--socket", "nbd.sock", "--metrics", "127.0.0.1:0"], {
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let url;
  for await (const line of createInterface(server.stderr)) {
    url = line.match(/status page at (.*)/)?.[1];
    if (url) break;
  }
  // What it says later is not read, and must not stop it.
  server.stderr.resume();
  const text = async (path) => (await fetch(new URL(path, url))).text();
  for (let seconds = 0; seconds < 60 && !(await text("/")).includes("<svg"); seconds += 1) {
    await new Promise((later) => setTimeout(later, 1000));
  }
  return { server, page: "status", url, metrics: await text("/metrics") };
}

const status = await served();
const pages = [
  status,
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

/// The bytes in the cell next to the one that says `name`.
function bytesOf(name) {
  const cell = [...document.querySelectorAll("td")].find((cell) => cell.textContent === name);
  const [number, unit] = cell.nextElementSibling.textContent.split(" ");
  return number * 1024 ** ["B", "KiB", "MiB", "GiB"].indexOf(unit);
}

/// Checks the sizes of the status page against the metrics.
async function expectSizes(what, tab) {
  for (const [name, metric] of [
    ["Memory of the cache", "forebay_memory_bytes"],
    ["Dirty limit", "forebay_dirty_limit_bytes"],
  ]) {
    const bytes = Number(status.metrics.match(new RegExp(`^${metric} (\\d+)$`, "m"))[1]);
    const shown = await tab.evaluate(bytesOf, name);
    expect(`${what}: ${name}`, Math.abs(shown / bytes - 1) < 0.02, `${shown}, not ${bytes}`);
  }
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
  for (const { page, url, printed } of pages) {
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
        await tab.goto(url);
        const what = `${page}, ${scheme}, ${width} px`;
        expect(`${what}: console`, errors.length === 0, errors.join("; "));
        const found = await tab.evaluate(faults);
        expect(what, found.length === 0, found.join("; "));
        papers.add(await tab.evaluate(() => getComputedStyle(document.body).backgroundColor));
        if (process.env.PICTURES) {
          const path = join(process.env.PICTURES, `${page}-${scheme}-${width}.png`);
          await tab.screenshot({ path, fullPage: true });
        }
        if (printed) {
          const shown = await tab.evaluate(figures);
          const unknown = shown.filter((figure) => !printed.has(figure));
          expect(`${what}: figures`, shown.length > 0 && unknown.length === 0, unknown.join(" "));
        } else {
          await expectSizes(what, tab);
        }
        await tab.close();
      }
    }
    expect(`${page}: dark differs from light`, papers.size === 2, [...papers].join(" "));
  }
} finally {
  await browser.close();
  status.server.kill();
  await once(status.server, "exit");
  rmSync(folder, { recursive: true });
}
console.log(
  `test result: ${failed ? "FAILED" : "ok"}. ${passed} passed; ${failed} failed; 0 ignored`,
);
process.exitCode = failed ? 1 : 0;
