// The whole life of a caller in TypeScript, with the types of openapi-typescript and the client of
// openapi-fetch. The README in the folder above defines what it does and prints.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Task = components["schemas"]["TaskDetail"];
type Target = components["schemas"]["PresignedUpload"];
type Declaration = components["schemas"]["PresignRequest"];

/** The limit up to which a file is sent as a form. */
const FORM_LIMIT = 5_242_880;
const MAX_POLLS = 300;
const POLL_INTERVAL_MS = 300;
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
const mode = environment("MODE");
const id = environment("MODEL");
const clientWith = (key: string) => createClient<paths>({ baseUrl, headers: { "x-api-key": key } });
const client = clientWith(environment("API_KEY"));
const path = { id };

/** What a call returns, or an error that says which call failed and how. */
function opened<T>(name: string, result: { data?: T; error?: unknown; response: Response }): T {
  if (result.data === undefined) {
    throw new Error(`${name}: ${result.response.status} ${JSON.stringify(result.error)}`);
  }
  return result.data;
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
  const result = await client.POST("/api-key/storage/upload/create-presigned-url", { body });
  const target = opened("presign", result).data;
  const isPut = target.endpoint.includes("X-Amz-Algorithm");
  if (isPut !== bytes.length > FORM_LIMIT) throw new Error(`${bytes.length} bytes go to ${target.endpoint}`);
  const sent = await send(target, mime, bytes);
  if (!sent.ok) throw new Error(`upload: ${sent.status} ${await sent.text()}`);
  const back = await fetch(target.download_url);
  const isSame = Buffer.from(await back.arrayBuffer()).equals(bytes);
  if (!back.ok || !isSame) throw new Error(`download: ${back.status}`);
  return target.download_url;
}

async function ended(taskId: string): Promise<Task> {
  for (let poll = 0; poll < MAX_POLLS; poll += 1) {
    const result = await client.GET("/api-key/task/{id}/detail", { params: { path: { id: taskId } } });
    const task = opened("read the task", result).data;
    if (task.status === "success" || task.status === "failed" || task.status === "canceled") return task;
    await new Promise((next) => setTimeout(next, POLL_INTERVAL_MS));
  }
  throw new Error(`the task ${taskId} did not end`);
}

async function life(): Promise<object> {
  const refused = await clientWith("no-such-key").GET("/api-key/balance");
  const balance = opened("balance", await client.GET("/api-key/balance")).data;

  const search = { limit: 5, search: id.replaceAll("-", " "), sort: "trending" } as const;
  opened("search", await client.POST("/api-key/model/list", { body: search }));
  const model = opened("model", await client.GET("/api-key/model/{id}", { params: { path } })).data;
  const version = opened("schema", await client.GET("/api-key/model/{id}/versioning", { params: { path } })).data;
  opened("cost", await client.GET("/api-key/model/{id}/task/cost", { params: { path } }));
  opened("serving", await client.GET("/api-key/model/{id}/serving", { params: { path } }));

  const run = `${process.pid}-${Date.now()}`;
  const small = await upload(`typescript-${run}.png`, "image/png", new Uint8Array(PNG));
  const large = await upload(`typescript-${run}.mp4`, "video/mp4", new Uint8Array(FORM_LIMIT + 1).fill(7));

  const body = { input: small };
  const created = opened("create", await client.POST("/api-key/model/{id}/task", { params: { path }, body })).data;
  const task = await ended(created.data);
  const output = task.result?.result as { output?: string } | undefined;

  const query = { limit: 100, offset: 0 };
  const history = opened("history", await client.GET("/api-key/task/histories", { params: { query } })).data;

  const alias = { params: { path: { model_id: id } }, body };
  const second = opened("create by the second path", await client.POST("/model/{model_id}/task", alias)).data;
  // A node may have been faster than the cancel.
  await client.DELETE("/api-key/task/{id}/cancel", { params: { path: { id: second.data } } });
  const canceled = await ended(second.data);

  const pages = { path: { folder: FOLDER }, query: { page: 1, pageSize: 20, type: "image" } } as const;
  const listed = await client.GET("/api-key/storage/upload/{folder}", { params: pages });
  const statistics = await client.GET("/api-key/storage/upload/statistics");
  let deleted = 0;
  for (const url of [small, large]) {
    const result = await client.DELETE("/api-key/storage/store/url", { body: { url } });
    if (result.response.ok) deleted += 1;
  }
  return {
    refused: refused.response.status,
    balance: balance.balance ?? null,
    price: model.price ?? null,
    visibility: model.visibility ?? null,
    type: version.input_format?.["input"]?.type ?? null,
    status: task.status,
    output: output?.output ?? null,
    history: history.total ?? null,
    after_cancel: canceled.status,
    files: opened("list", listed).data.files?.length ?? null,
    total_files: opened("statistics", statistics).data.total_files ?? null,
    deleted,
  };
}

if (mode === "html502" || mode === "http429") {
  // openapi-fetch parses the body of a failure as JSON if it can.
  const { error, response } = await client.GET("/api-key/balance");
  console.log(JSON.stringify({ code: error === undefined ? null : response.status }));
} else {
  console.log(JSON.stringify(await life()));
}
