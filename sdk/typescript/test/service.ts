/** What several tests need. */

import assert from "node:assert/strict";
import type { Service } from "../src/testing.js";
import { RETRY } from "../src/transport.js";

export const MODEL: string = "color-harmonization";
export const INPUTS = { input_image: "https://files.example/a.png", template: "v_shape", angle: 30 };
export const OUTPUT = { output_image: "https://files.example/o.png", output_hue: "https://files.example/h.png" };
export const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

/** The tasks by the picture that they were created with, read without faults. */
export async function tasksByPicture(service: Service): Promise<Map<string, string[]>> {
  await service.clearFaults();
  const client = service.client();
  const byPicture = new Map<string, string[]>();
  for (let offset = 0; ; ) {
    const records = (await client.tasks({ limit: 100, offset })).records ?? [];
    if (!records.length) return byPicture;
    offset += records.length;
    for (const { task_id: task } of records) {
      const image = String((await client.task(task)).input_data?.["input_image"]);
      byPicture.set(image, [...(byPicture.get(image) ?? []), task]);
    }
  }
}

/** The error that work ends with. */
export async function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then((value) => assert.fail(`it succeeded with ${JSON.stringify(value)}`), (error: unknown) => error);
}

/** Runs work with other settings of the retries. */
export async function withRetry(settings: Partial<typeof RETRY>, work: () => Promise<void>): Promise<void> {
  const usual = { ...RETRY };
  Object.assign(RETRY, settings);
  try {
    await work();
  } finally {
    Object.assign(RETRY, usual);
  }
}

/** A service that knows no idempotency keys. */
export const withoutKeys: typeof fetch = async (url, init) => {
  const headers = new Headers(init?.headers);
  headers.delete("idempotency-key");
  const response = await fetch(url, { ...init, headers });
  const kept = new Headers(response.headers);
  kept.delete("idempotency-key-retention");
  const changed = new Response([204, 304].includes(response.status) ? null : response.body, { status: response.status, headers: kept });
  return changed;
};
