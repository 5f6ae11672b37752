// The whole life of a caller in TypeScript, with the types that openapi-typescript makes from the
// published document and the client of openapi-fetch: nothing of ours is in between. Needs BASE_URL,
// API_KEY and MODEL, a model with one input `input` that takes an image.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Task = components["schemas"]["Task"];
type Target = components["schemas"]["PresignedUpload"];
type Declaration = components["schemas"]["PresignRequest"];

/** The limit up to which a file is sent as a form. */
const FORM_LIMIT = 5_242_880;
const POLLS = 150;
const POLL_EVERY_MS = 2_000;
const FOLDER = "samples";

/** The smallest picture. */
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

function environment(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}; cargo xtask contract does`);
  return value;
}

const baseUrl = environment("BASE_URL");
const id = environment("MODEL");
const clientWith = (key: string) => createClient<paths>({ baseUrl, headers: { "x-api-key": key } });
const client = clientWith(environment("API_KEY"));
const path = { id };

function step(name: string, holds: boolean, found: unknown): void {
  if (!holds) throw new Error(`${name}: ${JSON.stringify(found)}`);
  console.log(`typescript: ${name}`);
}

/** What a call answers, or an error that says which call failed and how. */
function opened<T>(name: string, answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) {
    throw new Error(`${name}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

async function send(target: Target, mime: string, bytes: Uint8Array<ArrayBuffer>): Promise<Response> {
  const fields: Record<string, string> = JSON.parse(target.fields);
  if (target.endpoint.includes("X-Amz-Algorithm")) {
    const headers = { "content-type": fields["Content-Type"] ?? mime };
    return fetch(target.endpoint, { method: "PUT", headers, body: bytes });
  }
  const form = new FormData();
  for (const [field, value] of Object.entries(fields)) form.append(field, value);
  form.append("file", new Blob([bytes], { type: mime }));
  return fetch(target.endpoint, { method: "POST", body: form });
}

async function upload(name: string, mime: string, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const body: Declaration = { folder: FOLDER, name, mime, size: bytes.length };
  const answer = await client.POST("/api-key/storage/upload/create-presigned-url", { body });
  const target = opened("presign", answer).data;
  const isPut = target.endpoint.includes("X-Amz-Algorithm");
  step(`the target of ${bytes.length} bytes is of its tier`, isPut === bytes.length > FORM_LIMIT, body);
  const sent = await send(target, mime, bytes);
  step(`${bytes.length} bytes are taken`, sent.ok, sent.status);
  const back = await fetch(target.download_url);
  const same = Buffer.from(await back.arrayBuffer()).equals(bytes);
  step(`${bytes.length} bytes come back as they were`, back.ok && same, back.status);
  return target.download_url;
}

async function wait(taskId: string): Promise<Task> {
  for (let poll = 0; poll < POLLS; poll += 1) {
    const answer = await client.GET("/api-key/task/{id}/detail", { params: { path: { id: taskId } } });
    const task = opened("read the task", answer).data;
    if (task.status === "success" || task.status === "failed" || task.status === "canceled") return task;
    await new Promise((next) => setTimeout(next, POLL_EVERY_MS));
  }
  throw new Error(`the task ${taskId} did not end`);
}

const refused = await clientWith("nobody-has-this-key").GET("/api-key/balance");
step("a wrong key is refused", refused.response.status === 401 && refused.error?.status === "fail", refused.error);

const balance = opened("balance", await client.GET("/api-key/balance")).data;
step("the balance is a decimal string", /^-?\d+(\.\d+)?$/.test(balance.balance ?? ""), balance);

const search = { limit: 5, search: id.replaceAll("-", " "), sort: "trending" } as const;
const page = opened("search", await client.POST("/api-key/model/list", { body: search })).data;
step("the catalog can be searched", Array.isArray(page.records ?? []), page);
const model = opened("model", await client.GET("/api-key/model/{id}", { params: { path } })).data;
step("the model can be read", model.id === id, model);
const version = opened("schema", await client.GET("/api-key/model/{id}/versioning", { params: { path } })).data;
step("the model declares its inputs", version.input_format?.["input"] !== undefined, version);
const cost = opened("cost", await client.GET("/api-key/model/{id}/task/cost", { params: { path } })).data;
step("the cost of a run is a number", typeof cost.cost === "number", cost);
const serving = opened("serving", await client.GET("/api-key/model/{id}/serving", { params: { path } })).data;
step("it is told whether the model is served", typeof serving.serving === "boolean", serving);

const run = `${process.pid}-${Date.now()}`;
const small = await upload(`typescript-${run}.png`, "image/png", new Uint8Array(PNG));
const large = await upload(`typescript-${run}.mp4`, "video/mp4", new Uint8Array(FORM_LIMIT + 1).fill(7));

const body = { input: small };
const created = opened("create", await client.POST("/api-key/model/{id}/task", { params: { path }, body })).data;
const ended = await wait(created.data);
step("the task ends with a result", ended.status === "success" && ended.result?.result != null, ended);

const query = { limit: 100, offset: 0 };
const history = opened("history", await client.GET("/api-key/task/histories", { params: { query } })).data;
step("the history counts the task", (history.total ?? 0) >= 1, history);

const second = opened(
  "create by the second spelling",
  await client.POST("/model/{model_id}/task", { params: { path: { model_id: id } }, body }),
).data;
const secondPath = { id: second.data };
const cancel = await client.DELETE("/api-key/task/{id}/cancel", { params: { path: secondPath } });
const after = await wait(second.data);
// A node may have been faster than the cancel.
const isTold = cancel.response.ok ? after.status === "canceled" : after.status !== "canceled";
step("a cancel does what it says", isTold, { cancel: cancel.response.status, status: after.status });

const files = opened(
  "list",
  await client.GET("/api-key/storage/upload/{folder}", {
    params: { path: { folder: FOLDER }, query: { page: 1, pageSize: 20, type: "image" } },
  }),
).data;
step("the folder is listed", (files.files ?? []).length > 0, files);
const statistics = opened("statistics", await client.GET("/api-key/storage/upload/statistics")).data;
step("the files are counted", (statistics.total_files ?? 0) >= 2, statistics);

for (const url of [small, large]) {
  const deleted = opened("delete", await client.DELETE("/api-key/storage/store/url", { body: { url } }));
  step("a file is deleted", deleted.status === "success", deleted);
}
