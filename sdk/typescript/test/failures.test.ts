/** Responses that the document allows, failures of gateways, and secrets. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import { CallError, Client, type ClientOptions, DeadlineReached, FileError, InferstoreError, InvalidArgument, type LimitOptions } from "../src/index.js";
import { TRANSFER } from "../src/files.js";
import { retryAfterOf } from "../src/transport.js";
import { failure, INPUTS, MODEL, OUTPUT, PIXEL, withRetry } from "./service.js";
import { Service } from "../src/testing.js";

const HTML = { headers: { "content-type": "text/html" }, body: "<html><h1>502 Bad Gateway</h1></html>" };
let service: Service;
let client: Client;
before(async () => void (service = await Service.start("--balance", "1000")));
after(() => service.stop());
beforeEach(async () => {
  await service.reset();
  client = service.client();
});

test("a gateway does not end a wait", async () => {
  await service.script(MODEL, "succeed", { output: OUTPUT });
  const task = await client.createOnce(MODEL, INPUTS);
  for (const { effect, ...fields } of [
    { effect: "status", status: 502, ...HTML, times: 6 },
    { effect: "status", status: 500, times: 2 },
    { effect: "status", status: 302, headers: { location: "https://login.example/" }, times: 1 },
    { effect: "cut_body", bytes: 20, times: 1 },
    { effect: "hang_up", times: 1 },
    { effect: "set_field", field: "/data/status", value: "migrating", times: 1 },
    { effect: "set_field", field: "/data/status", times: 1 },
    { effect: "set_field", field: "/data", value: { new: [1] }, times: 1 },
  ]) {
    await service.fault(effect, { operation: "getTask", ...fields });
  }
  assert.deepEqual((await client.wait(task, { deadlineMs: 120_000 })).output, OUTPUT);
});

test("reads are retried, and the error says what to try", async () => {
  await service.fault("status", { operation: "getBalance", status: 502, times: 4, ...HTML });
  assert.ok((await client.balance()).balance);
  await service.fault("status", { operation: "getBalance", status: 502, ...HTML });
  const error = await failure(client.balance());
  assert.ok(error instanceof CallError);
  assert.deepEqual([error.operation, error.status, error.attempts, error.isRetryable], ["getBalance", 502, 5, true]);
  assert.match(`${error.message} ${error.hint}`, /502 Bad Gateway.*try again later/);
});

test("Retry-After is waited for, unless it is too long", async () => {
  await service.fault("status", { operation: "getBalance", status: 429, retry_after: 1, times: 1 });
  const begun = performance.now();
  await client.balance();
  assert.ok(performance.now() - begun >= 1000);
  await service.fault("status", { operation: "getBalance", status: 503, retry_after: 61 });
  const error = await failure(client.balance());
  assert.ok(error instanceof CallError && error.context.retryAfter === 61);
  // By the clock of the service, not that of this machine.
  const date = "Wed, 21 Oct 2015 07:28:00 GMT";
  for (const [value, seconds] of [["Wed, 21 Oct 2015 07:28:30 GMT", 30], ["Wed, 21 Oct 2015 07:00:00 GMT", 0], ["soon", undefined]] as const) {
    assert.equal(retryAfterOf(new Headers({ date, "retry-after": value })), seconds);
  }
});

test("a delete is sent once", async () => {
  await service.fault("lose_response", { operation: "deleteFile", times: 1 });
  const { downloadUrl } = await client.upload(new File([PIXEL], "a.png"));
  const error = await failure(client.deleteFile(downloadUrl));
  assert.ok(error instanceof CallError && error.context.inDoubt && !error.isRetryable, inspect(error));
  assert.equal((await service.requests("deleteFile")).length, 1);
});

/** Responses of object storage to an upload target that has expired. */
const EXPIRED = [[403, ""], [400, "ExpiredToken"], [400, "RequestTimeTooSkewed"], [401, "AccessDenied"]].map(([status, code]) =>
  ({ effect: "status", status, body: `<Error><Code>${code}</Code></Error>` }));

test("an upload survives a store that fails", async () => {
  for (const content of [PIXEL, Buffer.alloc(5_242_881)]) {
    for (const { effect, ...fields } of [{ effect: "hang_up" }, { effect: "lose_response" }, { effect: "status", status: 503 }, ...EXPIRED]) {
      await service.fault(effect, { operation: content === PIXEL ? "postObject" : "putObject", times: 1, ...fields });
      const { downloadUrl } = await client.upload(new File([content], "a.png"), { deadlineMs: 60_000 });
      await service.fault("cut_body", { operation: "getObject", bytes: 10, times: 1 });
      assert.equal((await client.download(downloadUrl)).size, content.length);
    }
  }
  const { downloadUrl } = await client.upload(new File([PIXEL], "a.png"));
  assert.match(String(await failure(client.download(downloadUrl, { maxSize: 10 }))), /more than 10 bytes/);
  await client.deleteFile(downloadUrl);
  assert.ok((await failure(client.download(downloadUrl))) instanceof FileError);
});

const PAGES = [
  { headers: { "content-type": "text/html; charset=utf-8" }, body: "Sign in to the network." },
  { headers: { "content-type": "text/plain" }, body: `\n<!DOCTYPE HTML><title>Sign in</title>${" ".repeat(100_000)}` },
  { headers: { "content-type": "text/plain" }, body: "<html><h1>Sign in</h1></html>" },
];

test("a web page is no response of object storage", async () => {
  await withRetry({ maxBackoff: 10 }, async () => {
    for (const content of [PIXEL, Buffer.alloc(5_242_881)]) {
      for (const page of PAGES) {
        await service.fault("status", { operation: content === PIXEL ? "postObject" : "putObject", status: 200, times: 1, ...page });
        const { downloadUrl } = await client.upload(new File([content], "a.png"));
        await service.fault("status", { operation: "getObject", status: 200, times: 1, ...PAGES[0] });
        assert.equal((await client.download(downloadUrl)).size, content.length);
      }
    }
    const { downloadUrl } = await client.upload(new File([PIXEL], "a.png"));
    for (const operation of ["postObject", "getObject"]) await service.fault("status", { operation, status: 200, ...PAGES[0] });
    for (const work of [() => client.upload(new File([PIXEL], "a.png")), () => client.download(downloadUrl)]) {
      const error = await failure(work());
      assert.ok(error instanceof FileError && error.isRetryable && /a web page in place of object storage/.test(error.message), inspect(error));
    }
  });
  await scripted(() => [200, { "content-type": "text/html" }, "<html>"], async (origin) => {
    for (const path of ["a", "a.html?as=.png", "a.unknown"]) assert.equal(await (await client.download(`${origin}/${path}`)).text(), "<html>");
  });
});

test("a download with an encoding is refused", async () => {
  await scripted(() => [200, { "content-encoding": "gzip" }, gzipSync(PIXEL)], async (origin) => {
    const error = await failure(client.download(`${origin}/a.png`));
    assert.ok(error instanceof FileError && !error.isRetryable && /encoded as "gzip"/.test(error.message), inspect(error));
  });
});

test("an upload target is requested with the retries of one call", async () => {
  await service.fault("status", { operation: "createPresignedUpload", status: 503 });
  await withRetry({ maxBackoff: 20 }, async () => {
    const error = await failure(client.upload(new File([PIXEL], "a.png")));
    assert.ok(error instanceof CallError && error.attempts === 5, inspect(error));
  });
  assert.equal((await service.requests("createPresignedUpload")).length, 5);
});

test("a wait takes no retry from other calls", async () => {
  const task = await client.createOnce(MODEL, INPUTS);
  await service.fault("status", { operation: "getTask", status: 503 });
  await withRetry({ budget: 4, maxBackoff: 10 }, async () => {
    const client = service.client();
    assert.ok((await failure(client.wait(task, { deadlineMs: 1_000 }))) instanceof DeadlineReached);
    await service.fault("status", { operation: "getBalance", status: 503, times: 3 });
    assert.ok((await client.balance()).balance);
  });
});

test("a refused cancel is followed by a read", async () => {
  await service.script(MODEL, "succeed", { output: OUTPUT });
  const task = await client.createOnce(MODEL, INPUTS);
  await client.wait(task);
  // A gateway rejects every read until a cancel was sent.
  let isOver = false;
  const outage: typeof fetch = async (url, init) => {
    isOver ||= init?.method === "DELETE";
    return isOver || !String(url).endsWith("/detail") ? fetch(url, init) : new Response("", { status: 503 });
  };
  const limits = { deadlineMs: 3_000, cancelAtDeadline: true };
  assert.deepEqual((await service.client({ fetch: outage }).wait(task, limits)).output, OUTPUT);
  assert.equal((await service.requests("cancelTask")).length, 1);
  await service.fault("status", { operation: "getTask", status: 503 });
  assert.match(String(await failure(client.wait(task, limits))), /the state of the task is unknown/);
});

type Respond = (request: IncomingMessage, origin: string) => [number, Record<string, string>, string | Buffer] | undefined;

/** Runs work against a server that responds as it is told, or not at all. */
async function scripted(respond: Respond, work: (origin: string) => Promise<void>): Promise<void> {
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const [status, headers, body] = respond(request, origin) ?? [];
      if (status) response.writeHead(status, headers).end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    await work(origin);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const envelope = (data: string) => `{"status":"success","message":null,"new":{},"data":${data}}`;

test("null fields, new words, new fields and many digits are read", async () => {
  const digits = "128.507300000000000001";
  const replies: Record<string, string> = {
    "/balance": `{"balance":"${digits}","free_balance":null,"color":{"new":1}}`,
    "/model/list": '{"records":null,"total":null}',
    "/model/m": '{"id":"m","visibility":"secret","price":0.100000000000000000001}',
    "/model/m/task/cost": '{"cost":123456789012345678901}',
    "/task/t/detail": '{"task_id":"t","status":"success","result":{"result":{"score":0.5,"text":"123456789012345678901"},"error":null},"cost":1e-7}',
  };
  await scripted((request) => [201, {}, envelope(replies[request.url!.replace("/api/v1/api-key", "")]!)], async (origin) => {
    const client = new Client({ baseUrl: `${origin}/api/v1`, apiKey: "key" });
    assert.equal((await client.balance()).balance, digits);
    assert.deepEqual(await client.models(), { records: null, total: null });
    assert.equal((await client.model("m")).price, "0.100000000000000000001");
    assert.equal((await client.cost("m")).cost, "123456789012345678901");
    const outcome = await client.wait("t");
    assert.deepEqual([outcome.cost, outcome.output], ["0.0000001", { score: 0.5, text: "123456789012345678901" }]);
  });
});

test("no key reaches another host, and no secret reaches a text", async () => {
  const apiKey = "isk_secret-key-0123456789";
  const seen: IncomingMessage[] = [];
  const respond: Respond = (request, origin) => {
    seen.push(request);
    const elsewhere = origin.replace("127.0.0.1", "localhost");
    const url = request.url!;
    if (url.startsWith("/elsewhere")) return [200, {}, PIXEL];
    if (url.startsWith("/go") || url.endsWith("/balance")) return [302, { location: `${elsewhere}/elsewhere?X-Amz-Signature=s3cr3ts1gnature` }, ""];
    if (url.endsWith("create-presigned-url")) {
      const endpoint = `${origin}/bucket?X-Amz-Algorithm=a&X-Amz-Signature=s3cr3ts1gnature`;
      return [200, {}, envelope(JSON.stringify({ endpoint, download_url: "https://f.example/a", fields: '{"policy":"s3cr3tp0licy"}' }))];
    }
    if (url.endsWith("/keys")) return [200, {}, '{"status":1,"data":{"id":"1","key":"s3cr3tk3y-of-the-account'];
    if (url.startsWith("/bucket")) return [400, {}, `<Error><Code>Bad</Code><Message>s3cr3ts1gnature s3cr3tp0licy ${apiKey}</Message></Error>`];
    return [500, {}, JSON.stringify({ status: "fail", message: `\u001b[31m${apiKey}\n https://u:p@h.example/?sig=1` })];
  };
  await scripted(respond, async (origin) => {
    const client = new Client({ baseUrl: `${origin}/api/v1`, apiKey });
    assert.equal((await client.download(`${origin}/go`)).size, PIXEL.length);
    const texts = [inspect(client, { depth: 10, showHidden: true }), JSON.stringify(client)];
    const upload = () => client.upload(new File([PIXEL], "a"));
    for (const action of [upload, () => client.balance(), () => client.createKey("a"), () => client.model("m"), () => client.run("m", { a: 1 })]) {
      const error = await failure(action());
      assert.ok(error instanceof InferstoreError, inspect(error));
      texts.push(inspect(error, { depth: 10, showHidden: true }), error.message, error.hint);
    }
    for (const secret of [apiKey, "s3cr3ts1gnature", "s3cr3tp0licy", "u:p@", "sig=1", "\u001b", "s3cr3tk3y"]) {
      for (const text of texts) assert.ok(!text.includes(secret), text);
    }
    assert.ok(seen.every(({ headers }) => !headers.host!.startsWith("localhost") || !("x-api-key" in headers)));
  });
});

test("values that JSON cannot hold are refused before anything is uploaded", async () => {
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  const paths: string[] = [];
  await scripted((request) => (paths.push(request.url!), [200, {}, envelope('{"input_format":{}}')]), async (origin) => {
    const client = new Client({ baseUrl: `${origin}/api/v1`, apiKey: "key" });
    for (const value of [10n, circle, NaN, [Infinity]]) {
      const error = await failure(client.run("m", { picture: new File([PIXEL], "a.png"), value }));
      assert.ok(error instanceof InvalidArgument && /cannot be sent as JSON/.test(error.message), inspect(error));
    }
  });
  assert.deepEqual([...new Set(paths)], ["/api/v1/api-key/model/m/versioning"]);
});

test("a download without a byte ends, and is tried again; a slow one continues", async () => {
  const usual = { ...TRANSFER };
  TRANSFER.timeout = 300;
  try {
    const replies: Array<ReturnType<Respond>> = [undefined, [200, { "content-length": "9" }, "half"], [200, {}, "the whole"]];
    await scripted(() => replies.shift(), async (origin) => {
      const client = new Client({ baseUrl: `${origin}/api/v1`, apiKey: "key" });
      assert.equal(await (await client.download(`${origin}/file`)).text(), "the whole");
      const error = await failure(withRetry({ maxAttempts: 2 }, async () => void (await client.download(`${origin}/file`))));
      assert.ok(error instanceof FileError && error.isRetryable && /complete in time/.test(error.message), inspect(error));
    });
    const { downloadUrl } = await client.upload(new File([PIXEL], "a.png"));
    await service.fault("drip_body", { operation: "getObject", bytes: 1, pause_ms: 10 });
    assert.equal((await client.download(downloadUrl)).size, PIXEL.length);
    assert.equal((await service.requests("getObject")).length, 1);
  } finally {
    Object.assign(TRANSFER, usual);
  }
});

test("a garbage collection ends no time limit", async () => {
  setFlagsFromString("--expose-gc");
  const collector = setInterval(runInNewContext("gc") as () => void, 20);
  const half: Respond = (request) => (request.url === "/half" ? [200, { "content-length": "9" }, "half"] : undefined);
  try {
    await scripted(half, async (origin) => {
      const client = new Client({ baseUrl: `${origin}/api/v1`, apiKey: "key", timeoutMs: 300 });
      for (const call of [
        (limits: LimitOptions) => client.createOnce(MODEL, INPUTS, limits),
        (limits: LimitOptions) => client.download(`${origin}/half`, limits),
      ]) {
        const hangs = "it hangs";
        // A pause before another attempt may be longer than the time that is left: then the last failure is reported.
        const ended = await Promise.race([failure(call({ deadlineMs: 1_000 })), sleep(5_000, hangs)]);
        assert.ok(ended instanceof InferstoreError, inspect(ended));
        const abort = new AbortController();
        setTimeout(() => abort.abort("enough"), 500);
        assert.equal(await Promise.race([failure(call({ signal: abort.signal })), sleep(5_000, hangs)]), "enough");
      }
    });
  } finally {
    clearInterval(collector);
  }
});

test("a base URL that redirects is not followed, and the error says where to", async () => {
  const location = "https://www.h.example/api/v1/api-key/balance?sig=s3cr3t";
  await scripted(() => [301, { location }, "moved"], async (origin) => {
    const error = await failure(new Client({ baseUrl: `${origin}/api/v1`, apiKey: "key" }).balance());
    assert.ok(error instanceof CallError && error.status === 301 && !error.isRetryable, inspect(error));
    assert.match(error.message, /^getBalance failed with 301: the base URL redirects to https:\/\/www\.h\.example\/api\/v1$/);
    assert.match(error.hint, /base URL/);
  });
  // What `fetch` of a browser returns.
  const opaque = Object.defineProperties(Response.error(), { type: { value: "opaqueredirect" } });
  const error = await failure(new Client({ baseUrl: "https://h.example/api/v1", apiKey: "key", fetch: async () => opaque }).balance());
  assert.match(String(error), /getBalance failed: the base URL redirects$/);
});

test("the key is sent over plain http to this machine only", () => {
  for (const host of ["localhost", "a.localhost:1", "127.0.0.1", "127.1.2.3:80", "[::1]:3", "[::ffff:127.0.0.1]:4", "[::ffff:7f12:3]"]) {
    new Client({ baseUrl: `http://${host}/api/v1`, apiKey: "k" });
  }
  const others = ["h.example", "localhost.h.example", "127.0.0.1.h.example", "10.0.0.1", "[::2]", "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[::7f00:1]"];
  for (const host of others) {
    const baseUrl = `http://${host}/api/v1`;
    assert.throws(() => new Client({ baseUrl, apiKey: "k" }), { name: "InvalidArgument", message: /plain http.*allowInsecureHttp/ });
    new Client({ baseUrl, apiKey: "k", allowInsecureHttp: true });
  }
  for (const timeoutMs of [0, -1, NaN]) {
    assert.throws(() => new Client({ baseUrl: "https://h.example/api/v1", apiKey: "k", timeoutMs }), { name: "InvalidArgument", message: /timeoutMs/ });
  }
});

test("settings that cannot work are refused", () => {
  // Plain JavaScript may leave the key out.
  assert.throws(() => new Client({ baseUrl: "https://h/api/v1" } as ClientOptions), InvalidArgument);
  for (const [baseUrl, apiKey] of [
    ...["ftp://h/api/v1", "https://h/api/v1?a", "https://h/api/v1?", "https://h/api/v1#a", "https://:a@h/api/v1", "nothing"].map((url) => [url, "k"]),
    ...["se cret", ""].map((key) => ["https://h/api/v1", key]),
  ] as Array<[string, string]>) {
    assert.throws(() => new Client({ baseUrl, apiKey }), (error) => error instanceof InvalidArgument && !error.message.includes("se cret"));
  }
});

test("nothing listens there", async () => {
  const client = new Client({ baseUrl: "http://127.0.0.1:9/api/v1", apiKey: "k" });
  const error = await failure(client.balance());
  assert.ok(error instanceof CallError && error.kind === "transport", inspect(error));
  assert.match(String(await failure(client.run("m", {}, { deadlineMs: 0 }))), /this call created no task/);
});
