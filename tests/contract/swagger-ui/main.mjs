// Swagger UI lists every operation, and its "Try it out" reads the balance.

import { document, open, operations } from "./browser.mjs";

const WAIT = { timeout: 30_000 };

const html = `<!doctype html><link rel="stylesheet" href="swagger-ui.css"><div id="ui"></div>
<script src="swagger-ui-bundle.js"></script>
<script>
  const onComplete = () => { ui.preauthorizeApiKey("ApiKey", ${JSON.stringify(process.env.API_KEY)}); document.title = "ready"; };
  const ui = SwaggerUIBundle({ url: "inferstore.json", dom_id: "#ui", onComplete, validatorUrl: null });
</script>`;
const pages = {
  "index.html": html,
  "inferstore.json": JSON.stringify({ ...document, servers: [{ url: "/api/v1" }] }),
};

await open(pages, ".", async (page) => {
  await page.waitForFunction(() => document.title === "ready" && document.querySelector(".opblock"), WAIT);
  const idOf = (operation) => `operations-${operation.tags[0].replaceAll(" ", "_")}-${operation.operationId}`;
  const shown = await page.$$eval(".opblock", (blocks) => blocks.map((block) => block.id));
  const missing = operations.map(idOf).filter((id) => !shown.includes(id));

  const balance = `#${idOf(operations.find((operation) => operation.operationId === "getBalance"))}`;
  const click = async (selector) => (await page.waitForSelector(`${balance} ${selector}`, WAIT)).click();
  await click(".opblock-summary");
  await click(".try-out__btn");
  await click(".execute");
  const status = await page.waitForSelector(`${balance} .live-responses-table .response .response-col_status`, WAIT);
  const text = await status.evaluate((cell) => cell.innerText);
  return { missing, code: Number.parseInt(text, 10) };
});
