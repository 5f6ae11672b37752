/** A task is created at most once, wherever a create is hit: counted in the history of the service.
 * `INFERSTORE_CREATES` is the number of creates at each of the 31 places, 6 by default. */

import assert from "node:assert/strict";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { after, before, beforeEach, test } from "node:test";
import { inspect } from "node:util";
import { InferstoreError, OutcomeUnknown } from "../src/index.js";
import { failure, INPUTS, MODEL, OUTPUT, tasksByPicture, withoutKeys, withRetry } from "./service.js";
import { Service } from "../src/testing.js";

const CREATES = Number(process.env["INFERSTORE_CREATES"] ?? "6");
const SIDE_BY_SIDE = 10;
const JSON_BODY = { headers: { "content-type": "application/json" } };
const HALF = { ...JSON_BODY, body: '{"status":"success","message":"created","data":{"data":"3f' };
const PAGE = { headers: { "content-type": "text/html" }, body: "<html><h1>a gateway</h1></html>" };

/** A way in which a create goes wrong; `isThere`: whether there is a task then, undefined where there may be. */
interface Point {
  name: string;
  fault?: { effect: string; [field: string]: unknown };
  isThere: boolean | undefined;
}

const CABLE: Point[] = [
  { name: "before connecting", isThere: false },
  { name: "at accept", isThere: false },
  { name: "in the head of the request", isThere: false },
  { name: "in the body of the request", isThere: false },
  { name: "after the request", isThere: undefined },
  { name: "after the answer was sent", isThere: true },
  { name: "in the head of the answer", isThere: true },
  { name: "in the body of the answer", isThere: true },
];
const SERVICE: Point[] = [
  { name: "hung up on", fault: { effect: "hang_up" }, isThere: false },
  { name: "done, answer lost", fault: { effect: "lose_response" }, isThere: true },
  { name: "done, answer lost late", fault: { effect: "lose_response", delay_ms: 5 }, isThere: true },
  { name: "done, answer cut", fault: { effect: "cut_body", bytes: 20 }, isThere: true },
  { name: "done, half of a JSON", fault: { effect: "status", status: 200, after_commit: true, ...HALF }, isThere: true },
  { name: "not done, half of a JSON", fault: { effect: "status", status: 200, ...HALF }, isThere: false },
  { name: "not done, a 200 that says fail", fault: { effect: "status", status: 200, ...JSON_BODY, body: '{"status":"fail"}' }, isThere: false },
  { name: "not answered, not done", fault: { effect: "delay", delay_ms: 600_000 }, isThere: false },
  { name: "not answered, done", fault: { effect: "delay", delay_ms: 600_000, after_commit: true }, isThere: true },
  ...[408, 409, 429, 500, 502, 503, 504].flatMap((status): Point[] => {
    const more = status === 502 || status === 504 ? PAGE : status === 429 ? { retry_after: 0 } : {};
    const fault = { effect: "status", status, ...more };
    return [
      { name: `not done, answered with ${status}`, fault, isThere: false },
      { name: `done, answered with ${status}`, fault: { ...fault, after_commit: true }, isThere: true },
    ];
  }),
];
const HIDDEN = ["done, answered with 409", "done, answered with 429"];
const REFUSED = ["not done, a 200 that says fail", "not done, answered with 409", "before connecting", ...HIDDEN];

/** Forwards connections to the service; the first create breaks its exchange at the place. */
async function cable(port: number, place: string): Promise<{ port: number; close(): void }> {
  let isBroken = place === "";
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => undefined));
    if (place === "at accept" && !isBroken) {
      isBroken = true;
      socket.destroy();
      return;
    }
    const up = connect(port, "127.0.0.1").on("error", () => undefined);
    const end = () => (up.destroy(), socket.destroy());
    socket.on("close", () => up.destroy());
    up.on("close", () => socket.end());
    let request = Buffer.alloc(0);
    let answer = Buffer.alloc(0);
    let current = "";
    socket.on("data", (data: Buffer) => {
      request = Buffer.concat([request, data]);
      const split = request.indexOf("\r\n\r\n") + 4;
      const head = request.subarray(0, split).toString();
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (split < 4 || request.length < split + length) return;
      if (head.startsWith("POST") && /\/task /.test(head) && !isBroken) [isBroken, current] = [true, place];
      const cut = Math.random();
      const message = request;
      request = Buffer.alloc(0);
      if (current === "in the head of the request") up.end(message.subarray(0, Math.floor(cut * split)), end);
      else if (current === "in the body of the request") up.end(message.subarray(0, split + Math.floor(cut * length)), end);
      else if (current === "after the request") up.end(message, end);
      else up.write(message);
    });
    up.on("data", (data: Buffer) => {
      if (!current) return void socket.write(data);
      answer = Buffer.concat([answer, data]);
      const split = answer.indexOf("\r\n\r\n") + 4;
      const length = Number(/content-length: (\d+)/i.exec(answer.subarray(0, Math.max(split, 0)).toString())?.[1] ?? 0);
      if (split < 4 || answer.length < split + length) return;
      const cut = Math.random();
      if (current === "after the answer was sent") end();
      else socket.end(answer.subarray(0, Math.floor(current === "in the head of the answer" ? cut * split : split + cut * length)), end);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => (sockets.forEach((socket) => socket.destroy()), server.close());
  return { port: (server.address() as AddressInfo).port, close };
}

const picture = (number: number) => `https://files.example/${number}.png`;
let service: Service;
before(async () => void (service = await Service.start("--balance", "1000")));
after(() => service.stop());
beforeEach(() => service.reset());

async function create(number: number, { name, fault }: Point, knowsKeys: boolean): Promise<unknown> {
  const port = Number(new URL(service.baseUrl).port);
  const through = await cable(port, fault ? "" : name);
  const baseUrl = `http://127.0.0.1:${name === "before connecting" ? 9 : through.port}/api/v1`;
  const timeoutMs = name.startsWith("not answered") ? 1_000 : 30_000;
  const client = service.client({ baseUrl, timeoutMs, ...(!knowsKeys && { fetch: withoutKeys }) });
  try {
    return await client.createOnce(MODEL, { ...INPUTS, input_image: picture(number) });
  } catch (error) {
    return error;
  } finally {
    through.close();
  }
}

for (const knowsKeys of [true, false]) {
  for (const point of [...CABLE, ...SERVICE]) {
    test(`${point.name}, ${knowsKeys ? "with keys" : "without keys"}`, async () => {
      await service.script(MODEL, "stay_queued");
      const { effect, ...fields } = point.fault ?? { effect: "" };
      if (effect) await service.fault(effect, { operation: "createTask", ...fields, ...(knowsKeys ? { probability: 0.5 } : { times: CREATES }) });
      await service.fault("hang_up", { operation: "listTasks", times: Math.floor(CREATES / 3) });
      const results: unknown[] = [];
      const numbers = Array.from({ length: CREATES }, (_, number) => number);
      const worker = async () => {
        for (let number = numbers.shift(); number !== undefined; number = numbers.shift()) results[number] = await create(number, point, knowsKeys);
      };
      // Enough that half of the attempts may fail.
      await withRetry(knowsKeys ? { maxAttempts: 40, maxBackoff: 100 } : {}, async () => {
        await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
      });
      const sent = (await service.requests("createTask")).length;
      const stored = await tasksByPicture(service);
      results.forEach((result, number) => {
        const tasks = stored.get(picture(number)) ?? [];
        const place = `${point.name}: ${inspect(tasks)} ${inspect(result)}`;
        assert.ok(tasks.length <= 1, `created twice: ${place}`);
        if (typeof result === "string") assert.deepEqual(tasks, [result], place);
        else if (result instanceof OutcomeUnknown) assert.ok(point.isThere !== true || !tasks.length, place);
        else assert.ok(result instanceof InferstoreError && (!tasks.length || HIDDEN.includes(point.name)), place);
        if (knowsKeys && !REFUSED.includes(point.name)) assert.equal(typeof result, "string", place);
      });
      if (!knowsKeys) assert.ok(sent <= CREATES, `${point.name}: sent ${sent} times`);
    });
  }
}

test("a lost create is sent again until the deadline, without a retry of other calls", async () => {
  for (const fault of [{ effect: "lose_response" }, { effect: "set_field", field: "/data/data" }, { effect: "status", status: 503, after_commit: true, retry_after: 0 }]) {
    await service.reset();
    const { effect, ...fields } = fault;
    await service.fault(effect, { operation: "createTask", times: 12, ...fields });
    await withRetry({ budget: 0, maxBackoff: 20 }, async () => {
      const task = await service.client().createOnce(MODEL, INPUTS, { deadlineMs: 60_000 });
      assert.deepEqual([...(await tasksByPicture(service)).values()], [[task]]);
    });
    assert.equal((await service.requests("createTask")).length, 13);
  }
});

test("a create that stays unknown has the key that returns its task", async () => {
  const inputs = { ...INPUTS, input_image: new File(["a"], "a.png", { type: "image/png" }) };
  for (const limits of [{}, { deadlineMs: 500 }]) {
    for (const own of [{}, { key: "invoice-2026-17" }]) {
      await service.reset();
      await service.fault("lose_response", { operation: "createTask" });
      const client = service.client();
      await withRetry({ maxBackoff: 20 }, async () => {
        const unknown = await failure(client.createOnce(MODEL, inputs, { ...own, ...limits }));
        assert.ok(unknown instanceof OutcomeUnknown && unknown.key && unknown.key === (own.key ?? unknown.key), inspect(unknown));
        assert.match(unknown.hint, /^make the same call with this `key`: it returns the task/);
        // The same call has the key only if the caller chose it.
        assert.equal(unknown.isRetryable, own.key !== undefined);
        await service.clearFaults();
        const task = await client.createOnce(MODEL, inputs, { key: unknown.key });
        assert.deepEqual((await client.tasks()).records?.map(({ task_id: id }) => id), [task]);
      });
    }
  }
  await service.fault("hang_up", { operation: "createTask", times: 1 });
  const unknown = await failure(service.client({ fetch: withoutKeys }).createOnce(MODEL, INPUTS, { key: "a" }));
  assert.ok(unknown instanceof OutcomeUnknown && unknown.key === undefined && !unknown.isRetryable, inspect(unknown));
  assert.match(unknown.hint, /look for the task in the history/);
});

for (const clock of ["steady", "wall"]) {
  for (const limits of [{}, { deadlineMs: 1e9 }]) {
    for (const arrives of [true, false]) {
      test(`a create whose key is forgotten by now is not sent again: ${inspect({ clock, limits, arrives })}`, async ({ mock }) => {
        await service.script(MODEL, "stay_queued");
        const hours = 25 * 3_600_000;
        let isOver = false;
        // The machine is suspended when it has sent the create, or not.
        const suspended: typeof fetch = async (url, init) => {
          if (isOver || init?.method !== "POST") return fetch(url, init);
          isOver = true;
          if (arrives) await (await fetch(url, init)).text();
          await service.advance(hours / 1000);
          const now = clock === "wall" ? Date.now : performance.now.bind(performance);
          mock.method(clock === "wall" ? Date : performance, "now", () => now() + hours);
          throw new TypeError("the connection was lost");
        };
        const result = await service.client({ fetch: suspended, timeoutMs: 1e9 }).createOnce(MODEL, INPUTS, { key: "invoice-17", ...limits }).catch((error: unknown) => error);
        if (!arrives) {
          assert.ok(result instanceof OutcomeUnknown && result.key === undefined && !result.isRetryable, inspect(result));
          assert.match(`${result.message} ${result.hint}`, /shows no matching task.*billed too/);
        }
        assert.deepEqual([...(await tasksByPicture(service)).values()], arrives ? [[result]] : []);
        assert.equal((await service.requests("createTask")).length, Number(arrives));
      });
    }
  }
}

test("a task of this client is not taken for the lost one", async () => {
  await service.script(MODEL, "stay_queued");
  const client = service.client({ fetch: withoutKeys });
  const first = await client.createOnce(MODEL, INPUTS);
  await service.fault("lose_response", { operation: "createTask", times: 1 });
  assert.notEqual(first, await client.createOnce(MODEL, INPUTS));
  await service.fault("hang_up", { operation: "createTask", times: 1 });
  const unknown = await failure(client.createOnce(MODEL, INPUTS));
  assert.ok(unknown instanceof OutcomeUnknown && unknown.history === "complete" && !unknown.candidates.length, inspect(unknown));
  // It may still appear, so a later lost create adopts nothing.
  await service.fault("lose_response", { operation: "createTask", times: 1 });
  const later = await failure(client.createOnce(MODEL, INPUTS));
  assert.ok(later instanceof OutcomeUnknown && later.candidates.length === 1, inspect(later));
});

test("a lost task is found at the end of a long history, and costs one run", async () => {
  await service.script(MODEL, "succeed", { output: OUTPUT });
  for (let number = 0; number < 230; number++) await service.client().createOnce(MODEL, { ...INPUTS, angle: (number % 90) + 1 });
  await service.fault("lose_response", { operation: "createTask", times: 1 });
  const outcome = await service.client({ fetch: withoutKeys }).run(MODEL, { ...INPUTS, input_image: picture(7) }, { deadlineMs: 60_000 });
  assert.ok(outcome.isAdopted);
  assert.deepEqual((await tasksByPicture(service)).get(picture(7)), [outcome.task]);
});
