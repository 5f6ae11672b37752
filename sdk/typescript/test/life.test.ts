/** The life of a caller, and what the types take and refuse. */

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { openAsBlob } from "node:fs";
import { appendFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { inspect } from "node:util";
import * as inferstore from "../src/index.js";
import { failure, INPUTS, MODEL, OUTPUT, PIXEL } from "./service.js";
import { Service } from "../src/testing.js";

let service: Service;
let client: inferstore.Client;
before(async () => void (service = await Service.start("--balance", "1000")));
after(() => service.stop());
beforeEach(async () => {
  await service.reset();
  client = service.client();
});

const picture = () => new File([PIXEL], "a.png");

test("a run uploads, waits, and its output can be downloaded", async () => {
  const inputs = { input_image: picture(), template: "v_shape", angle: 30 } as const;
  const outcome = await client.run("color-harmonization", inputs, { deadlineMs: 60_000, maxCost: "1" });
  assert.match(outcome.cost ?? "", /^[0-9.]+$/);
  assert.equal(outcome.storedInputs.length, 1);
  assert.ok((await client.download(outcome.output.output_image)).size > 0);
  assert.equal((await client.task(outcome.task)).input_data?.["angle"], "30");
});

test("both tiers store what was sent", async () => {
  const large = Buffer.alloc(5_242_881, "0123456789");
  for (const [file, content, mime] of [
    [picture(), PIXEL, "image/png"],
    [new File([PIXEL], 'a "quoted" é.png'), PIXEL, "image/png"],
    [new File([large], "b.mp4"), large, "video/mp4"],
  ] as const) {
    const stored = await client.upload(file, { deadlineMs: 60_000 });
    assert.deepEqual([stored.mime, stored.size], [mime, content.length]);
    assert.ok(Buffer.from(await (await client.download(stored.downloadUrl)).arrayBuffer()).equals(content));
    await client.deleteFile(stored.downloadUrl);
  }
  assert.deepEqual([(await service.requests("postObject")).length, (await service.requests("putObject")).length], [2, 1]);
});

test("the type of a file is the one given, that of its content, or that of its name", async () => {
  const tiff = Buffer.from("II*\0....");
  for (const [file, options, mime] of [
    [new File(["a"], "a.TIFF"), {}, "image/tiff"],
    [new File(["a"], "a.tif"), {}, "image/tiff"],
    [new File(["a"], "a.heic"), {}, "image/heic"],
    [new File(["a"], "a.avif"), {}, "image/avif"],
    [new File([tiff], "a"), {}, "image/tiff"],
    [new File(["MM\0*...."], "a"), {}, "image/tiff"],
    [new File([tiff], "a.png"), { mime: "image/x-adobe-dng" }, "image/x-adobe-dng"],
  ] as const) {
    assert.equal((await client.upload(file, options)).mime, mime);
  }
});

test("a file that has changed since it was opened is named", async () => {
  const folder = await mkdtemp(join(tmpdir(), "inferstore-changed-"));
  try {
    const path = join(folder, "a.png");
    await writeFile(path, PIXEL);
    const changed = new File([await openAsBlob(path)], "a.png");
    await appendFile(path, PIXEL);
    for (const call of [() => client.upload(changed), () => client.createOnce(MODEL, { ...INPUTS, input_image: changed })]) {
      const error = await failure(call());
      assert.ok(error instanceof inferstore.FileError && /^"a.png": it cannot be read: /.test(error.message), inspect(error));
    }
    assert.equal((await service.requests("createPresignedUpload")).length, 0);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a key that an account makes is shown to who asks for it", async () => {
  const service = await Service.start("--owners-manage-keys", "yes");
  try {
    const client = service.client();
    const made = await client.createKey("nightly", { daily_limit: "5" });
    assert.ok((await service.client({ apiKey: made.key }).balance()).balance);
    const texts = [inspect(made, { showHidden: true }), JSON.stringify(made), String(made)];
    assert.ok(texts.every((text) => !text.includes(made.key)) && texts[0]!.includes(made.id));
    const record = (await client.keys()).records?.find(({ id }) => id === made.id);
    assert.deepEqual([record?.name, record?.daily_limit, record?.is_current], ["nightly", "5", false]);
    const twice = await failure(client.createKey("nightly"));
    assert.ok(twice instanceof inferstore.CallError && twice.status === 409);
    await client.revokeKey(made.id);
    assert.match(String(await failure(service.client({ apiKey: made.key }).balance())), /401/);
  } finally {
    await service.stop();
  }
});

test("reads of the catalog", async () => {
  assert.equal(typeof (await client.balance()).balance, "string");
  assert.equal(typeof (await client.model(MODEL)).price, "string");
  assert.equal(typeof (await client.cost(MODEL)).cost, "string");
  assert.equal((await client.serving(MODEL)).serving, true);
  assert.deepEqual(Object.keys((await client.declaration(MODEL)).input_format ?? {}).sort(), ["angle", "input_image", "template"]);
  assert.deepEqual((await client.models({ search: "harmonization", limit: 1 })).records?.map(({ id }) => id), [MODEL]);
  assert.equal((await client.files("samples", { page: 1, pageSize: 3 })).total, 0);
  assert.equal((await client.statistics()).total_files, 0);
});

test("wrong inputs are refused before anything is uploaded", async () => {
  for (const [change, problem] of [
    [{ angle: 91 }, /a whole number from 1 to 90/],
    [{ angle: "30.5" }, /a whole number from 1 to 90/],
    [{ angle: true }, /a whole number/],
    [{ angle: NaN }, /a whole number/],
    [{ template: "v_shpe" }, /did you mean "v_shape"\?/],
    [{ input_image: "photo.jpg" }, /pass a File/],
    [{ input_imgae: "https://a.example/" }, /did you mean "input_image"\?/],
    [{ angle: null }, /required but not given/],
  ] as const) {
    await assert.rejects(client.run(MODEL, { ...INPUTS, input_image: picture(), ...change }), (error) => {
      assert.ok(error instanceof inferstore.InvalidInputs);
      assert.match(error.message, problem);
      return true;
    });
  }
  await assert.rejects(client.upload(new Blob([])), inferstore.FileError);
  for (const file of ["photo.png", PIXEL, undefined]) {
    const refused = await failure(client.upload(file as unknown as Blob));
    assert.ok(refused instanceof inferstore.InvalidArgument && /^file: expected a File or a Blob/.test(refused.message), inspect(refused));
  }
  // Plain JavaScript passes what the types forbid.
  const [keys, deadlines] = [[null, 17, "", "a b"], ["300", null, NaN, -1]];
  for (const options of [...keys.map((key) => ({ key })), ...deadlines.map((deadlineMs) => ({ deadlineMs }))]) {
    const refused = await failure(client.run(MODEL, { ...INPUTS, input_image: picture() }, options as object));
    assert.ok(refused instanceof inferstore.InvalidArgument && /^(key|deadlineMs): /.test(refused.message), `${inspect(options)} ${inspect(refused)}`);
  }
  await assert.rejects(client.run(MODEL, undefined as unknown as typeof INPUTS), inferstore.InvalidArgument);
  assert.equal((await service.requests("createPresignedUpload")).length, 0);
});

test("numbers are sent as the samples show them", async () => {
  for (const angle of [30, "30", "30.0", " 30 "]) {
    const task = await client.createOnce(MODEL, { ...INPUTS, angle });
    assert.equal((await client.task(task)).input_data?.["angle"], "30");
  }
});

test("a price above the limit, or a model that is not served, creates nothing", async () => {
  await assert.rejects(client.run(MODEL, INPUTS, { maxCost: "0.000001" }), inferstore.CostLimitExceeded);
  await assert.rejects(client.run(MODEL, INPUTS, { maxCost: "much" }), inferstore.InvalidArgument);
  await service.control("PUT", "/node", { up: false });
  await assert.rejects(client.run(MODEL, INPUTS, { requireServing: true }), inferstore.ModelOffline);
  assert.equal((await service.requests("createTask")).length, 0);
});

test("a failure before the create claims nothing of an earlier call with the key", async () => {
  const inputs = { ...INPUTS, input_image: picture() };
  const key = "invoice-17";
  await client.createOnce(MODEL, inputs, { key });
  await service.control("PUT", "/node", { up: false });
  await service.fault("status", { operation: "createPresignedUpload", status: 402 });
  for (const [type, changes] of [
    [inferstore.CostLimitExceeded, { maxCost: "0.000001" }],
    [inferstore.ModelOffline, { requireServing: true }],
    [inferstore.InvalidInputs, { angle: 91 }],
    [inferstore.DeadlineReached, { deadlineMs: 0 }],
    [inferstore.CallError, {}],
  ] as const) {
    const { angle = 30, ...options } = changes as { angle?: number };
    for (const own of [{}, { key }]) {
      const error = await failure(client.createOnce(MODEL, { ...inputs, angle }, { ...options, ...own }));
      assert.ok(error instanceof type, inspect(error));
      const end = "key" in own ? /; this call created no task, but an earlier one with the same key may have$/ : /; this call created no task$/;
      assert.match(error.hint, end);
      assert.doesNotMatch(`${error.message} ${error.hint}`, /no task was created/);
    }
  }
});

test("a deadline ends a run and can cancel its task", async () => {
  await service.script(MODEL, "stay_queued");
  for (const cancelAtDeadline of [false, true]) {
    const begun = performance.now();
    const error = await failure(client.run(MODEL, INPUTS, { deadlineMs: 1_500, cancelAtDeadline }));
    assert.ok(error instanceof inferstore.DeadlineReached && performance.now() - begun < 1_750, String(error));
    assert.equal((await client.task(error.task!)).status, cancelAtDeadline ? "canceled" : "in_queue");
  }
  const abort = new AbortController();
  setTimeout(() => abort.abort(new Error("enough")), 300);
  await assert.rejects(client.run(MODEL, INPUTS, { signal: abort.signal }), /enough/);
});

test("one signal serves many runs, without a warning", async () => {
  await service.script(MODEL, "stay_queued");
  const warnings: Error[] = [];
  const warned = (warning: Error) => void warnings.push(warning);
  process.on("warning", warned);
  const abort = new AbortController();
  setTimeout(() => abort.abort(new Error("enough")), 1_500);
  const runs = Array.from({ length: 30 }, () => failure(client.run(MODEL, INPUTS, { signal: abort.signal })));
  assert.deepEqual([...new Set((await Promise.all(runs)).map(String))], ["Error: enough"]);
  assert.ok(getEventListeners(abort.signal, "abort").length <= 1);
  process.off("warning", warned);
  assert.deepEqual(warnings, []);
  const none = { signal: null, deadlineMs: Infinity } as object;
  assert.ok(await client.createOnce(MODEL, INPUTS, none));
});

test("a failed and a canceled task say so", async () => {
  await service.script(MODEL, "fail", { message: "out of memory" });
  await assert.rejects(client.run(MODEL, INPUTS), /failed: out of memory/);
  await service.script(MODEL, "stay_queued");
  const task = await client.createOnce(MODEL, INPUTS);
  await client.cancel(task);
  await assert.rejects(client.wait(task), inferstore.TaskCanceled);
});

test("the error of a run has the URLs of the inputs that were stored, and no text shows them", async () => {
  const inputs = { ...INPUTS, input_image: picture() };
  const run = () => client.run(MODEL, inputs, { deadlineMs: 3_000, cancelAtDeadline: true });
  await service.script(MODEL, "fail", { message: "out of memory" });
  const failed = await failure(run());
  await service.script(MODEL, "stay_queued");
  const late = await failure(run());
  await service.fault("status", { operation: "createTask", status: 422 });
  const [refused, notCreated] = [await failure(run()), await failure(client.createOnce(MODEL, inputs))];
  await service.clearFaults();
  // The first two inputs have the same content, which is stored once; the third is refused.
  await service.fault("delay", { operation: "createPresignedUpload", delay_ms: 1, times: 1 });
  await service.fault("status", { operation: "createPresignedUpload", status: 402 });
  const third = new File([PIXEL, "a"], "b.png");
  const half = await failure(client.run("image-blending", { bg_img: picture(), obj_img: picture(), mask_img: third, method: "Mixed Gradient" }));
  for (const [error, type] of [
    [failed, inferstore.TaskFailed],
    [late, inferstore.DeadlineReached],
    [refused, inferstore.CallError],
    [notCreated, inferstore.CallError],
    [half, inferstore.CallError],
  ] as const) {
    assert.ok(error instanceof type && error.uploads.length === 1, inspect(error));
    const url = error.uploads[0]!;
    assert.ok([inspect(error, { showHidden: true }), JSON.stringify(error)].every((text) => !text.includes(url)), inspect(error));
    assert.equal((await client.download(url)).size, PIXEL.length);
    await client.deleteFile(url);
  }
  const none = await failure(client.run(MODEL, { ...inputs, angle: 91 }));
  assert.ok(none instanceof inferstore.InvalidInputs && !none.uploads.length);
});

test("the same key is the same task", async () => {
  const inputs = { ...INPUTS, input_image: picture() };
  const tasks = new Set<string>();
  for (let number = 0; number < 3; number++) tasks.add(await client.createOnce(MODEL, inputs, { key: "invoice-17" }));
  assert.equal(tasks.size, 1);
  await assert.rejects(client.createOnce(MODEL, { ...inputs, angle: 31 }, { key: "invoice-17" }), /409/);
});

test("types refuse what the document forbids", async () => {
  await service.script(MODEL, "succeed", { output: OUTPUT });
  const never = async () => {
    const file = picture();
    await client.run("color-harmonization", { input_image: file, template: "v_shape", angle: "30" });
    // @ts-expect-error a misspelt name
    await client.run("color-harmonization", { input_image: file, template: "v_shape", angel: 30 });
    // @ts-expect-error a missing input
    await client.run("color-harmonization", { input_image: file, template: "v_shape" });
    // @ts-expect-error no such word
    await client.run("color-harmonization", { input_image: file, template: "v_shpe", angle: 30 });
    // @ts-expect-error no number
    await client.run("color-harmonization", { input_image: file, template: "v_shape", angle: "much" });
    // @ts-expect-error no file
    await client.run("color-harmonization", { input_image: 3, template: "v_shape", angle: 30 });
    // @ts-expect-error no amount
    await client.run("color-extraction", { input: file }, { maxCost: 0.1 });
    // @ts-expect-error a misspelt output
    (await client.run("color-extraction", { input: file })).output.outptu;
    await client.run("my-model", { anything: 1 });
  };
  assert.equal(typeof never, "function");
  for (const internal of ["Redactor", "shown", "isTransient"]) assert.ok(!(internal in inferstore), internal);
});
