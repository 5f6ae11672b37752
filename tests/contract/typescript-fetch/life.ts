// Drives the service with the typescript-fetch client of openapi-generator. See ../README.md for the
// environment and the output.

import {
  AccountApi,
  ColorExtractionInputToJSON,
  Configuration,
  ModelSort,
  ModelsApi,
  ResponseError,
  StorageApi,
  TasksApi,
  UploadFolder,
} from "./client";
import type { PresignedUpload, TaskDetail } from "./client";

const LARGE_FILE_SIZE = 5_242_881;
const POLL_INTERVAL_MS = 300;
const MAX_POLLS = 200;
const TERMINAL = ["success", "failed", "canceled"];
const SMALL_PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

const { BASE_URL = "", API_KEY = "", MODEL = "", MODE = "" } = process.env;
const configuration = (apiKey: string) => new Configuration({ basePath: BASE_URL, apiKey });
const account = new AccountApi(configuration(API_KEY));
const models = new ModelsApi(configuration(API_KEY));
const tasks = new TasksApi(configuration(API_KEY));
const storage = new StorageApi(configuration(API_KEY));

/** Returns the status code in the error of a call, or null when the call succeeds. */
async function statusCodeOfFailure(call: Promise<unknown>): Promise<number | null> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ResponseError) return error.response.status;
    throw error;
  }
  return null;
}

/** Step 2 of an upload. It is not part of the API and must not carry the API key. */
async function send(target: PresignedUpload, name: string, mime: string, content: Uint8Array<ArrayBuffer>) {
  const fields: Record<string, string> = JSON.parse(target.fields);
  let request: RequestInit;
  if (target.endpoint.includes("X-Amz-Algorithm")) {
    request = { method: "PUT", headers: { "content-type": fields["Content-Type"] ?? mime }, body: content };
  } else {
    const form = new FormData();
    for (const [field, value] of Object.entries(fields)) form.append(field, value);
    form.append("file", new Blob([content], { type: mime }), name);
    request = { method: "POST", body: form };
  }
  const response = await fetch(target.endpoint, request);
  if (!response.ok) throw new Error(`step 2: ${response.status} ${await response.text()}`);
}

async function upload(name: string, mime: string, content: Uint8Array<ArrayBuffer>): Promise<string> {
  const presignRequest = { folder: UploadFolder.Samples, mime, name, size: content.length };
  const target = (await storage.createPresignedUpload({ presignRequest })).data;
  await send(target, name, mime, content);
  return target.downloadUrl;
}

async function wait(id: string): Promise<TaskDetail> {
  for (let poll = 0; poll < MAX_POLLS; poll += 1) {
    const task = (await tasks.getTask({ id })).data;
    if (TERMINAL.includes(task.status ?? "")) return task;
    await new Promise((next) => setTimeout(next, POLL_INTERVAL_MS));
  }
  throw new Error(`the task ${id} has no terminal status`);
}

async function main(): Promise<Record<string, unknown>> {
  if (MODE === "html502" || MODE === "http429") {
    return { code: await statusCodeOfFailure(account.getBalance()) };
  }

  const refused = await statusCodeOfFailure(new AccountApi(configuration("wrong-key")).getBalance());
  const balance = (await account.getBalance()).data;
  await models.listModels({ modelListRequest: { search: "color", sort: ModelSort.Trending, limit: 5 } });
  const detail = (await models.getModel({ id: MODEL })).data;
  const version = (await models.getModelVersioning({ id: MODEL })).data;
  await models.getModelCost({ id: MODEL });
  await models.getModelServing({ id: MODEL });

  const run = `typescript-fetch-${process.pid}-${Date.now()}`;
  const small = await upload(`${run}.png`, "image/png", new Uint8Array(SMALL_PNG));
  const large = await upload(`${run}.mp4`, "video/mp4", new Uint8Array(LARGE_FILE_SIZE));

  // The body is sent as it is: a typed input is converted to the names on the wire.
  const requestBody = ColorExtractionInputToJSON({ input: small });
  const created = (await tasks.createTask({ id: MODEL, requestBody })).data.data;
  const task = await wait(created);
  const history = (await tasks.listTasks({ limit: 100, offset: 0 })).data;
  const second = (await tasks.createTaskAlias({ modelId: MODEL, requestBody })).data.data;
  // A node may have been faster than the cancel.
  await statusCodeOfFailure(tasks.cancelTask({ id: second }));
  const canceled = await wait(second);

  const listing = (await storage.listFiles({ folder: "samples", page: 1, pageSize: 20 })).data;
  const statistics = (await storage.getStorageStatistics()).data;
  let deleted = 0;
  for (const url of [small, large]) {
    await storage.deleteFile({ fileUrl: { url } });
    deleted += 1;
  }

  return {
    refused,
    balance: balance.balance ?? null,
    price: detail.price ?? null,
    visibility: detail.visibility ?? null,
    type: version.inputFormat?.["input"]?.type ?? null,
    status: task.status,
    output: task.result?.result?.output ?? null,
    history: history.total ?? null,
    after_cancel: canceled.status,
    files: listing.files?.length ?? null,
    total_files: statistics.totalFiles ?? null,
    deleted,
  };
}

main().then((report) => console.log(JSON.stringify(report)));
