// The types that openapi-typescript makes and the client openapi-fetch, for `cargo xtask bench peers`, as
// their users write it: a line on standard input is a piece of work, and a line on standard output tells
// how it went. Needs BASE_URL and API_KEY.

import { openAsBlob } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

/** What the service suggests for fast models. */
const POLL_EVERY_MS = 2_000;

const client = createClient<paths>({
  baseUrl: process.env["BASE_URL"] ?? "",
  headers: { "x-api-key": process.env["API_KEY"] ?? "" },
});

/** A gateway responds with text. */
function failed(error: components["schemas"]["Failure"] | string): Error {
  return new Error(typeof error === "string" ? error : error.message);
}

async function run(model: string, input: string): Promise<unknown> {
  const params = { path: { id: model } };
  const created = await client.POST("/api-key/model/{id}/task", { params, body: { input } });
  if (!created.data) throw failed(created.error);
  const id = created.data.data.data;
  for (;;) {
    const read = await client.GET("/api-key/task/{id}/detail", { params: { path: { id } } });
    if (!read.data) throw failed(read.error);
    const task = read.data.data;
    if (task.status === "success") return (task.result?.result as { output: string }).output;
    if (task.status === "failed" || task.status === "canceled") throw new Error(task.message ?? task.status);
    await new Promise((next) => setTimeout(next, POLL_EVERY_MS));
  }
}

async function upload(path: string): Promise<string> {
  const mime = "video/mp4";
  const file = await openAsBlob(path, { type: mime });
  const answer = await client.POST("/api-key/storage/upload/create-presigned-url", {
    body: { folder: "samples", name: basename(path), mime, size: file.size },
  });
  if (!answer.data) throw failed(answer.error);
  const target = answer.data.data;
  const fields: Record<string, string> = JSON.parse(target.fields);
  let sent: Response;
  if (target.endpoint.includes("X-Amz-Algorithm")) {
    const headers = { "content-type": fields["Content-Type"] ?? mime };
    sent = await fetch(target.endpoint, { method: "PUT", headers, body: file });
  } else {
    const form = new FormData();
    for (const [field, value] of Object.entries(fields)) form.append(field, value);
    form.append("file", file);
    sent = await fetch(target.endpoint, { method: "POST", body: form });
  }
  if (!sent.ok) throw new Error(`the upload was answered with ${sent.status}`);
  return target.download_url;
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [work, first = "", second = ""] = line.split(" ");
  try {
    console.log("ok", work === "run" ? await run(first, second) : await upload(first));
  } catch (error) {
    console.log("failed", String(error).replaceAll("\n", " "));
  }
}
