// A page in headless Chromium, served from memory and from a folder of packages. A GET below /api/v1 goes to
// the service, so that the page and the API have one origin: the service sends no CORS headers. Nothing else is loaded.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import puppeteer from "puppeteer-core";

const TYPES = { ".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".json": "application/json" };

export const document = JSON.parse(await readFile("inferstore.json", "utf8"));

/** Every operation of the document. */
export const operations = Object.values(document.paths).flatMap((item) =>
  ["get", "put", "post", "patch", "delete"].flatMap((method) => item[method] ?? []),
);

async function respond(request, response, pages, folder) {
  const { pathname } = new URL(request.url, "http://localhost");
  if (pathname.startsWith("/api/v1/")) {
    const headers = { "x-api-key": request.headers["x-api-key"] ?? "" };
    const upstream = await fetch(`${process.env.BASE_URL}${request.url.slice("/api/v1".length)}`, { headers });
    response.writeHead(upstream.status, { "content-type": upstream.headers.get("content-type") ?? "text/plain" });
    return response.end(Buffer.from(await upstream.arrayBuffer()));
  }
  const name = path.normalize(pathname).slice(1);
  const body = pages[name] ?? (await readFile(path.join(folder, name)));
  response.writeHead(200, { "content-type": `${TYPES[path.extname(name)] ?? "text/plain"}; charset=utf-8` });
  return response.end(body);
}

/** Opens index.html of `pages` and gives the page to `visit`; prints what it returns. */
export async function open(pages, folder, visit) {
  const server = createServer((request, response) => {
    respond(request, response, pages, folder).catch(() => response.writeHead(404).end());
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM,
    // A sandbox needs rights that containers do not give; the pages are our own.
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  try {
    const page = await browser.newPage();
    const origin = `http://127.0.0.1:${server.address().port}/`;
    await page.setRequestInterception(true);
    page.on("request", (request) => {
      const isOwn = request.url().startsWith(origin) || /^(blob|data):/.test(request.url());
      return isOwn ? request.continue() : request.abort();
    });
    await page.goto(`${origin}index.html`, { waitUntil: "load" });
    console.log(JSON.stringify(await visit(page)));
  } finally {
    await browser.close();
    server.close();
  }
}
