// The whole life of a caller, for generated TypeScript clients that each provide an `Api`. The README in the
// folder above defines what it does and prints.

export interface Target {
  endpoint: string;
  download_url: string;
  fields: string;
}

export interface Declaration {
  folder: "samples";
  name: string;
  mime: string;
  size: number;
}

export interface Task {
  status?: string | null;
  result?: { result?: unknown } | null;
}

/** The operations, with the fields that are printed. A call that fails throws, but for `getBalanceCode`. */
export interface Api {
  /** The status code in the error of `getBalance`, or null when the client loses it. */
  getBalanceCode(key: string): Promise<number | null>;
  getBalance(): Promise<{ balance?: string | null }>;
  listModels(search: { limit: number; search: string; sort: "trending" }): Promise<unknown>;
  getModel(id: string): Promise<{ price?: number | null; visibility?: string | null }>;
  getModelVersioning(id: string): Promise<{ input_format?: Record<string, { type?: string | null }> | null }>;
  getModelCost(id: string): Promise<unknown>;
  getModelServing(id: string): Promise<unknown>;
  createPresignedUpload(declaration: Declaration): Promise<Target>;
  createTask(id: string, input: { input: string }): Promise<{ data: string }>;
  createTaskAlias(id: string, input: { input: string }): Promise<{ data: string }>;
  getTask(id: string): Promise<Task>;
  listTasks(query: { limit: number; offset: number }): Promise<{ total?: number | null }>;
  cancelTask(id: string): Promise<unknown>;
  listFiles(folder: string, query: { pageSize: number; type: "image" }): Promise<{ files?: unknown[] | null }>;
  getStorageStatistics(): Promise<{ total_files?: number | null }>;
  deleteFile(file: { url: string }): Promise<unknown>;
}

const FORM_LIMIT = 5_242_880;
const MAX_POLLS = 300;
const POLL_INTERVAL_MS = 300;

/** The smallest picture. */
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

export function environment(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}; cargo xtask contract does`);
  return value;
}

async function upload(api: Api, name: string, mime: string, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const target = await api.createPresignedUpload({ folder: "samples", name, mime, size: bytes.length });
  const fields: Record<string, string> = JSON.parse(target.fields);
  let init: RequestInit;
  if (target.endpoint.includes("X-Amz-Algorithm")) {
    init = { method: "PUT", headers: { "content-type": fields["Content-Type"] ?? mime }, body: bytes };
  } else {
    const form = new FormData();
    for (const [field, value] of Object.entries(fields)) form.append(field, value);
    form.append("file", new Blob([bytes], { type: mime }));
    init = { method: "POST", body: form };
  }
  const sent = await fetch(target.endpoint, init);
  if (!sent.ok) throw new Error(`upload: ${sent.status} ${await sent.text()}`);
  return target.download_url;
}

async function ended(api: Api, id: string): Promise<Task> {
  for (let poll = 0; poll < MAX_POLLS; poll += 1) {
    const task = await api.getTask(id);
    if (["success", "failed", "canceled"].includes(task.status ?? "")) return task;
    await new Promise((next) => setTimeout(next, POLL_INTERVAL_MS));
  }
  throw new Error(`the task ${id} did not end`);
}

async function life(api: Api): Promise<object> {
  const id = environment("MODEL");
  const refused = await api.getBalanceCode("no-such-key");
  const { balance } = await api.getBalance();
  await api.listModels({ limit: 5, search: id.replaceAll("-", " "), sort: "trending" });
  const model = await api.getModel(id);
  const version = await api.getModelVersioning(id);
  await api.getModelCost(id);
  await api.getModelServing(id);

  const run = `${process.pid}-${Date.now()}`;
  const small = await upload(api, `${run}.png`, "image/png", new Uint8Array(PNG));
  const large = await upload(api, `${run}.mp4`, "video/mp4", new Uint8Array(FORM_LIMIT + 1).fill(7));

  const task = await ended(api, (await api.createTask(id, { input: small })).data);
  const result = task.result?.result as { output?: string } | undefined;
  const history = await api.listTasks({ limit: 100, offset: 0 });
  const second = (await api.createTaskAlias(id, { input: small })).data;
  // A node may have been faster than the cancel.
  await api.cancelTask(second).catch(() => undefined);
  const canceled = await ended(api, second);

  const files = await api.listFiles("samples", { pageSize: 20, type: "image" });
  const statistics = await api.getStorageStatistics();
  const deletes = await Promise.allSettled([small, large].map((url) => api.deleteFile({ url })));
  return {
    refused,
    balance: balance ?? null,
    price: model.price ?? null,
    visibility: model.visibility ?? null,
    type: version.input_format?.["input"]?.type ?? null,
    status: task.status,
    output: result?.output ?? null,
    history: history.total ?? null,
    after_cancel: canceled.status,
    files: files.files?.length ?? null,
    total_files: statistics.total_files ?? null,
    deleted: deletes.filter((result) => result.status === "fulfilled").length,
  };
}

export async function run(api: Api): Promise<void> {
  const isFailure = ["html502", "http429"].includes(environment("MODE"));
  const seen = isFailure ? { code: await api.getBalanceCode(environment("API_KEY")) } : await life(api);
  console.log(JSON.stringify(seen));
}
