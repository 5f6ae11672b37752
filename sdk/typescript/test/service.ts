/** The local service with its controls. `INFERSTORE_COMMAND` names the command, else that of PATH. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Client, type ClientOptions } from "../src/index.js";

export const MODEL: string = "color-harmonization";
export const INPUTS = { input_image: "https://files.example/a.png", template: "v_shape", angle: 30 };
export const OUTPUT = { output_image: "https://files.example/o.png", output_hue: "https://files.example/h.png" };
export const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

interface Ready {
  base_url: string;
  api_key: string;
  controls_url: string;
  controls_token: string;
}

/** A running service, its faults and its journal. */
export class Service {
  private constructor(readonly ready: Ready, readonly stop: () => void) {}

  static async start(): Promise<Service> {
    const options = "serve --ephemeral --port 0 --storage-port 0 --controls-port 0 --ready-json --balance 1000".split(" ");
    const env = { ...process.env, INFERSTORE_LOG: "error" };
    const child = spawn(process.env["INFERSTORE_COMMAND"] ?? "inferstore", options, { env, stdio: ["ignore", "pipe", "inherit"] });
    for await (const line of createInterface(child.stdout)) return new Service(JSON.parse(line) as Ready, () => child.kill());
    throw new Error("the service prints no ready line");
  }

  async control(method: string, path: string, body?: unknown): Promise<unknown> {
    const headers = { authorization: `Bearer ${this.ready.controls_token}`, "content-type": "application/json" };
    const response = await fetch(this.ready.controls_url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    const text = await response.text();
    assert.ok(response.ok, text);
    return (JSON.parse(text) as { data?: unknown }).data;
  }

  reset(): Promise<unknown> {
    return this.control("POST", "/reset");
  }

  fault(operation: string, effect: string, fields: object = {}): Promise<unknown> {
    return this.control("POST", "/faults", { operation, effect, ...fields });
  }

  script(script: object, model = MODEL): Promise<unknown> {
    return this.control("PUT", `/models/${model}`, script);
  }

  async requests(operation: string): Promise<unknown[]> {
    return (await this.control("GET", `/journal?operation=${operation}`)) as unknown[];
  }

  client(options: Partial<ClientOptions> = {}): Client {
    return new Client({ baseUrl: this.ready.base_url, apiKey: this.ready.api_key, ...options });
  }

  /** The tasks by the picture that they were created with, read without faults. */
  async tasks(): Promise<Map<string, string[]>> {
    await this.control("DELETE", "/faults");
    const client = this.client();
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
}

/** The error that work ends with. */
export async function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then((value) => assert.fail(`it succeeded with ${JSON.stringify(value)}`), (error: unknown) => error);
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
