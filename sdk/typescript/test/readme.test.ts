/** The blocks of the README compile and run as printed. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { PIXEL } from "./service.js";
import { Service } from "../src/testing.js";

const PACKAGE = resolve(import.meta.dirname, "../..");
const OPTIONS = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "--skipLibCheck"];

test("the blocks of the README compile and run as printed", async () => {
  const blocks = [...readFileSync(join(PACKAGE, "README.md"), "utf8").matchAll(/```ts\n(.*?)```/gs)].map(([, block]) => block!);
  assert.equal(blocks.length, 5);
  const folder = mkdtempSync(join(tmpdir(), "inferstore-readme-"));
  const service = await Service.start("--balance", "1000");
  try {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(PACKAGE, join(folder, "node_modules/inferstore"));
    symlinkSync(join(PACKAGE, "node_modules/@types"), join(folder, "node_modules/@types"));
    writeFileSync(join(folder, "photo.png"), PIXEL);
    blocks.forEach((block, number) => writeFileSync(join(folder, `${number}.mts`), block));
    const env = { ...process.env, INFERSTORE_BASE_URL: service.baseUrl, INFERSTORE_API_KEY: service.apiKey };
    const run = (program: string, ...options: string[]) => {
      const { status, stdout, stderr } = spawnSync(program, options, { cwd: folder, env, encoding: "utf8" });
      assert.equal(status, 0, stdout + stderr);
    };
    run(join(PACKAGE, "node_modules/.bin/tsc"), ...OPTIONS, ...blocks.map((_, number) => `${number}.mts`));
    blocks.forEach((_, number) => run("node", `${number}.mjs`));
  } finally {
    service.stop();
    rmSync(folder, { recursive: true });
  }
});
