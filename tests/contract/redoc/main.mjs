// The page of Redocly lists every operation in its menu, below the tag.

import { open, operations } from "./browser.mjs";

const WAIT = { timeout: 30_000 };

await open({}, ".", async (page) => {
  const isListed = (text) => [...document.links].some((link) => link.innerText.split("\n")[0].trim() === text);
  const missing = [];
  for (const { tags, summary } of operations) {
    await page.waitForFunction(isListed, WAIT, tags[0]);
    if (!(await page.evaluate(isListed, summary))) {
      await page.evaluate((tag) => [...document.links].find((link) => link.innerText.trim() === tag).click(), tags[0]);
    }
    await page.waitForFunction(isListed, WAIT, summary).catch(() => missing.push(summary));
  }
  return { missing };
});
