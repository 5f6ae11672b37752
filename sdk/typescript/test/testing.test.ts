/** `inferstore/testing`, as the tests of other programs use it. */

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, test } from "node:test";
import { TaskFailed } from "../src/index.js";
import { Service } from "../src/testing.js";
import { failure, PIXEL } from "./service.js";

const PACKAGE = resolve(import.meta.dirname, "../..");
// The page is beside a copy of this package too.
const PAGE = ["docs/testing.md", "../../docs/testing.md"].map((page) => join(PACKAGE, page)).find(existsSync)!;
const HEAD = 'import { Service } from "inferstore/testing";\nimport { test } from "node:test";\n';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "inferstore-testing-"))));
afterEach(() => rmSync(folder, { recursive: true }));

/** A project of somebody else, with this package and the test runner. */
function project(): void {
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(PACKAGE, join(folder, "node_modules/inferstore"));
  symlinkSync(join(PACKAGE, "node_modules/vitest"), join(folder, "node_modules/vitest"));
  writeFileSync(join(folder, "photo.png"), PIXEL);
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
}

function run(program: string, options: string[], env: Record<string, string> = {}) {
  return spawnSync(program, options, { cwd: folder, env: { ...process.env, ...env }, encoding: "utf8", timeout: 60_000 });
}

test("a test of vitest has a service of its own by naming it", () => {
  project();
  const [, text] = /```ts\n(.*?)```/s.exec(readFileSync(PAGE, "utf8")) ?? [];
  const next = 'test("the next test begins afresh", async ({ service }) => expect(await service.requests()).toEqual([]));\n';
  writeFileSync(join(folder, "user.test.ts"), text + next);
  // A setting of the person who runs the tests.
  const ran = run(join(PACKAGE, "node_modules/.bin/vitest"), ["run"], { INFERSTORE_FIRST_KEY: "a key of somebody else" });
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  assert.match(ran.stdout, /2 passed/);
});

test("a program is tested at a later time and with a model that fails", async () => {
  const service = await Service.start();
  try {
    await service.script("color-extraction", "fail", { message: "out of memory" });
    const failed = await failure(service.client().run("color-extraction", { input: "https://files.example/a.png" }));
    assert.ok(failed instanceof TaskFailed && failed.reason === "out of memory", String(failed));
    assert.match(failed.hint, /its program failed; the task is not billed/);
    const { time } = (await service.control("GET", "/")) as { time: string };
    await service.advance(86_400);
    assert.ok(((await service.control("GET", "/")) as { time: string }).time > time);
    await assert.rejects(service.fault("hang_up", { operation: "createTsk" }), /POST \/faults is rejected: .*createTsk/);
    await service.reset();
    assert.deepEqual(await service.requests(), []);
    assert.ok(existsSync(service.dataFolder));
  } finally {
    await service.stop();
  }
  assert.ok(!existsSync(service.dataFolder));
  await assert.rejects(fetch(service.baseUrl));
  await service.stop();
});

test("a service that is not stopped ends with the tests, and does not hold them up", async () => {
  project();
  const text = 'const service = await Service.start();\ntest("t", () => console.log("URL " + service.baseUrl));\n';
  writeFileSync(join(folder, "a.test.mjs"), HEAD + text);
  const ran = run("node", ["a.test.mjs"]);
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  await ends(/URL (\S+)/.exec(ran.stdout)?.[1] ?? "");
});

test("a service ends with the process that started it, however that ends", async () => {
  project();
  const text = "const service = await Service.start();\nconsole.log(service.baseUrl, service.dataFolder);\nsetInterval(() => {}, 1_000);\n";
  writeFileSync(join(folder, "a.mjs"), HEAD.split("\n")[0] + "\n" + text);
  for (const signal of ["SIGTERM", "SIGKILL", "SIGINT"] as const) {
    const program = spawn("node", ["a.mjs"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(createInterface(program.stdout), "line")) as [string];
    const [url = "", data = ""] = line.split(" ");
    assert.ok(existsSync(data));
    program.kill(signal);
    await ends(url, data);
  }
});

test("without a shell, a service ends with the usual end of its process", async () => {
  project();
  writeFileSync(join(folder, "a.mjs"), HEAD.split("\n")[0] + "\nconst service = await Service.start();\nconsole.log(service.baseUrl);\n");
  const command = process.env["INFERSTORE_COMMAND"] ?? spawnSync("sh", ["-c", "command -v inferstore"], { encoding: "utf8" }).stdout.trim();
  const env = { ...process.env, PATH: folder, INFERSTORE_COMMAND: command };
  // A process group of its own: Node.js sends a signal for a process that did not start to the whole group.
  const program = spawn(process.execPath, ["a.mjs"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"], detached: true });
  const closed = once(program, "close");
  const [url] = (await once(createInterface(program.stdout), "line")) as [string];
  assert.deepEqual(await closed, [0, null]);
  await ends(url);
});

/** Waits until a service has ended, which finishes what it does, and has removed its data. */
async function ends(url: string, data = ""): Promise<void> {
  for (let left = 200; left > 0; left -= 1) {
    if (await fetch(url).then(() => false, () => !existsSync(data))) return;
    await new Promise((wake) => setTimeout(wake, 50));
  }
  assert.fail(`the service at ${url} still runs, or ${data} is there`);
}

test("a service that does not start says why", async () => {
  await assert.rejects(Service.start("--no-such-option"), /exit code 2: [^]*--no-such-option/);
  project();
  writeFileSync(join(folder, "a.mjs"), HEAD.split("\n")[0] + "\nconsole.log(await Service.start().catch(String));\n");
  const missing = run(process.execPath, ["a.mjs"], { INFERSTORE_COMMAND: "", PATH: folder });
  assert.match(missing.stdout, /there is no command inferstore: .*@inferstore\/bin does, or set INFERSTORE_COMMAND to the path of a built one/);
  const bin = join(folder, "node_modules/@inferstore/bin");
  mkdirSync(join(bin, "bin"), { recursive: true });
  writeFileSync(join(bin, "package.json"), '{"name": "@inferstore/bin"}');
  writeFileSync(join(bin, "bin/inferstore"), "#!/bin/sh\necho it is the one of the package >&2\nexit 7\n");
  chmodSync(join(bin, "bin/inferstore"), 0o755);
  const found = run(process.execPath, ["a.mjs"], { INFERSTORE_COMMAND: "" });
  assert.match(found.stdout, /exit code 7: it is the one of the package/);
  const program = join(folder, "program");
  const named = run(process.execPath, ["a.mjs"], { INFERSTORE_COMMAND: program });
  assert.match(named.stdout, /the command .*program cannot be started: ENOENT; INFERSTORE_COMMAND names it/);
  writeFileSync(program, "#!/bin/sh\necho hello\nexec sleep 600\n");
  chmodSync(program, 0o755);
  const other = run(process.execPath, ["a.mjs"], { INFERSTORE_COMMAND: program });
  assert.match(other.stdout, /program serve printed something else than where it serves: hello/);
  assert.equal(other.status, 0, "the process of the tests ends");
  const service = await Service.start("--port=0", "--no-console");
  await service.stop();
});
