// Opens the published pages in a browser, and fails when they ask for anything outside of their
// folder, when their search finds nothing, or when an operation shows no example. The one argument
// says what to open, with which browser, and where to put the pictures.

import { createServer } from "node:http";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

const task = JSON.parse(process.argv[2]);
const puppeteer = createRequire(import.meta.url)(task.driver);

const FILE_TYPES = { ".html": "text/html", ".json": "application/json", ".md": "text/markdown" };
const WAIT = { timeout: 10_000 };

// A server of its own, as a static web server would be.
const server = createServer(async (request, response) => {
  const name = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
  try {
    const body = await readFile(path.join(task.folder, path.normalize(name)));
    response.writeHead(200, { "content-type": FILE_TYPES[path.extname(name)] ?? "text/plain" });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const site = `http://127.0.0.1:${server.address().port}`;

await mkdir(task.pictures, { recursive: true });
const browser = await puppeteer.launch({
  executablePath: task.browser,
  // A sandbox needs rights that containers do not give; the pages are our own.
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});

const outside = [];
const problems = [];

async function open(address) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1400, height: 1000 });
  page.on("request", (request) => {
    const inside = [site, folder, "data:", "blob:"].some((start) => request.url().startsWith(start));
    if (!inside) outside.push(`${address} asks for ${request.url()}`);
  });
  page.on("pageerror", (error) => problems.push(`${address}: ${error.message}`));
  // What the policy of the pages holds back would have been asked for.
  await page.exposeFunction("heldBack", (what) => outside.push(`${address} tries to ask for ${what}`));
  await page.evaluateOnNewDocument(() => {
    document.addEventListener("securitypolicyviolation", (event) => heldBack(event.blockedURI));
  });
  await page.goto(address, { waitUntil: "load" });
  return page;
}

const folder = `file://${task.folder}`;
const picture = (page, name) => page.screenshot({ path: path.join(task.pictures, `${name}.png`) });

async function waitFor(page, what, wanted) {
  try {
    await page.waitForFunction((wanted) => document.body.innerText.includes(wanted), WAIT, wanted);
  } catch {
    problems.push(`${page.url()}: ${what}`);
  }
}

// The page that leads to everything, the guides that it leads to, and that their links lead somewhere.
const seen = new Set(["index.html"]);
for (const name of seen) {
  const page = await open(`${site}/${name}`);
  await picture(page, name.replace(".html", ""));
  const links = await page.evaluate(() => [...document.links].map((link) => link.getAttribute("href")));
  for (const link of links.filter((link) => !link.startsWith("https://"))) {
    const target = new URL(link, `${site}/${name}`);
    const answer = await fetch(target);
    const anchor = decodeURIComponent(target.hash.slice(1));
    if (!answer.ok || (anchor && !(await answer.text()).includes(`id="${anchor}"`))) {
      problems.push(`${name} leads to ${link}, which is not there`);
    }
    const file = target.pathname.slice(1);
    if (file.endsWith(".html") && file !== "reference.html") seen.add(file);
  }
  await page.close();
}

// A filter leaves the rows with its word.
const changelog = await open(`${site}/changelog.html`);
await changelog.type("input[type=search]", "getTaskLogs");
const shown = await changelog.evaluate(() => [...document.querySelectorAll("main li")].filter((row) => !row.hidden).length);
if (shown === 0 || shown > 5) problems.push(`changelog.html shows ${shown} changes of one operation`);
await changelog.close();

// The pages, from a server and as a file.
const addresses = [`${site}/reference.html`, `${folder}/reference.html`];
for (const address of addresses) {
  const page = await open(address);
  await waitFor(page, "the pages do not open", "A run in four calls.");
  await picture(page, "reference");
  await page.keyboard.down("Control");
  await page.keyboard.press("k");
  await page.keyboard.up("Control");
  await page.waitForSelector("input[placeholder^='Search']", WAIT);
  await page.keyboard.type("cancel a queued");
  await waitFor(page, "the search finds no operation", "/api-key/task/{id}/cancel");
  await picture(page, "search");
  await page.close();
}

// Every operation: the call, and an answer. It is found as a reader finds it, in the menu.
const menu = await open(addresses[1]);
await waitFor(menu, "the pages do not open", "A run in four calls.");
for (const tag of task.tags) {
  await menu.evaluate((tag) => [...document.links].find((link) => link.innerText.trim() === tag)?.click(), tag);
  await waitFor(menu, `the tag ${tag} does not open`, "Operations");
}
for (const { id, summary, tag } of task.operations) {
  const href = await menu.evaluate(async (tag, summary) => {
    const find = (text) => [...document.links].find((link) => link.innerText.trim().startsWith(text));
    const operation = (text) => [...document.links].find((link) => link.innerText.split("\n")[0].trim() === text);
    for (let tries = 0; tries < 40 && !operation(summary); tries += 1) {
      if (tries % 10 === 0) find(tag)?.click();
      await new Promise((wait) => setTimeout(wait, 100));
    }
    return operation(summary)?.getAttribute("href");
  }, tag, summary);
  if (!href) {
    problems.push(`${id}: the menu has no "${summary}"`);
    continue;
  }
  const page = await open(`${addresses[1]}#${href}`);
  await waitFor(page, `${id} shows no call`, "curl ");
  await waitFor(page, `${id} shows no answer`, '"status": "success"');
  if (id === "createTask") await picture(page, "operation");
  await page.close();
}

await browser.close();
server.close();
const complaints = [...outside, ...problems];
if (complaints.length > 0) {
  console.error(complaints.join("\n"));
  process.exit(1);
}
console.log(
  `in Chromium: nothing is asked of the network, the search works, ` +
    `${task.operations.length} operations show an example; pictures in target/proof`,
);
