/**
 * An ephemeral service for tests of other programs, with controls that make it fail. It is the command `inferstore`, which
 * the package `@inferstore/bin` installs; `INFERSTORE_COMMAND` names another one. For Node.js.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import type { Socket } from "node:net";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "./client.js";
import type { ClientOptions } from "./transport.js";

const COMMAND_VARIABLE = "INFERSTORE_COMMAND";
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 15_000;
const HAS_SH = process.platform !== "win32";
const SERVE = ["serve", "--ephemeral", "--port=0", "--storage-port=0", "--controls-port=0", "--ready-json", "--no-console"];

interface Ready {
  base_url: string;
  api_key: string;
  data_dir: string;
  controls_url: string;
  controls_token: string;
}

/** A request that the service received: an entry of its log of requests. */
export interface ReceivedRequest {
  number: number;
  operation: string | null;
  method: string;
  path: string;
  status: number | null;
  fault: number | null;
  [field: string]: unknown;
}

/** A running service. `stop` stops it, and removes its data. */
export class Service {
  /** The root of the API, which ends in `/api/v1`. */
  readonly baseUrl: string;
  /** The key of the account `demo`. */
  readonly apiKey: string;
  /** The folder of the data, which the end of the service removes. */
  readonly dataFolder: string;
  /** Variables for a program that calls the service, and for one that controls it. */
  readonly environment: Record<string, string>;
  readonly #child: ChildProcess;
  readonly #kill: () => void;
  readonly #controlsUrl: string;
  readonly #token: string;

  private constructor(child: ChildProcess, stopGuard: () => void, ready: Ready) {
    this.#child = child;
    // A second signal would end the service at once, with its data left.
    this.#kill = () => void (stopGuard(), child.kill());
    // A service that a test forgets to stop does not keep the process of the tests alive.
    child.unref();
    for (const pipe of [child.stdout, child.stderr]) (pipe as Socket | null)?.unref();
    process.once("exit", this.#kill);
    this.#controlsUrl = ready.controls_url;
    this.#token = ready.controls_token;
    this.baseUrl = ready.base_url;
    this.apiKey = ready.api_key;
    this.dataFolder = ready.data_dir;
    this.environment = {
      INFERSTORE_BASE_URL: ready.base_url,
      INFERSTORE_API_KEY: ready.api_key,
      INFERSTORE_CONTROLS_URL: ready.controls_url,
      INFERSTORE_CONTROLS_TOKEN: ready.controls_token,
    };
  }

  /** Starts a service on free ports. `options` are those of `inferstore serve`, such as `--port=8787`. */
  static async start(...options: string[]): Promise<Service> {
    // Settings of the person who runs the tests, such as a first key, are not those of the test.
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith("INFERSTORE_"));
    const env = { ...Object.fromEntries(own), INFERSTORE_LOG: "error" };
    const program = command();
    const given = new Set(options.map(nameOf));
    const serve = [...SERVE.filter((option) => !given.has(nameOf(option))), ...options];
    // Ctrl-C of a terminal reaches the tests alone, and their end is that of the service.
    const child = spawn(program, serve, { env, stdio: ["ignore", "pipe", "pipe"], detached: HAS_SH });
    const stopGuard = endWithThisProcess(child);
    let log = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (log = (log + text).slice(-10_000)));
    const timeout = setTimeout(() => child.kill("SIGKILL"), START_TIMEOUT_MS);
    try {
      const ended = once(child, "close").then(() => undefined);
      const line = await Promise.race([once(createInterface(child.stdout), "line"), ended]);
      if (!line) throw new Error(`${program} serve did not start, exit code ${child.exitCode}: ${log.trim()}`);
      return new Service(child, stopGuard, readyOf(program, line[0] as string));
    } catch (error) {
      stopGuard();
      if (child.pid !== undefined) child.kill();
      const { code, syscall } = error as NodeJS.ErrnoException;
      if (!syscall?.startsWith("spawn")) throw error;
      if (process.env[COMMAND_VARIABLE]) throw new Error(`the command ${program} cannot be started: ${code}; ${COMMAND_VARIABLE} names it`, { cause: error });
      const hint = `put it in PATH, as the package @inferstore/bin does, or set ${COMMAND_VARIABLE} to the path of a built one, such as target/debug/inferstore`;
      throw new Error(`there is no command ${program}: ${hint}`, { cause: error });
    } finally {
      clearTimeout(timeout);
    }
  }

  /** Stops the service. A second call has no effect. */
  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    process.removeListener("exit", this.#kill);
    const ended = once(this.#child, "exit");
    this.#child.ref();
    this.#child.kill();
    const timeout = setTimeout(() => this.#child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timeout);
  }

  /** Returns a client of the service, with these options. */
  client(options: Partial<ClientOptions> = {}): Client {
    return new Client({ baseUrl: this.baseUrl, apiKey: this.apiKey, ...options });
  }

  /** Restores the state of the start: money, tasks, files, clock; without faults and scripts. */
  async reset(): Promise<void> {
    await this.control("POST", "/reset");
  }

  /** Adds a fault, such as `fault("lose_response", { operation: "createTask", times: 1 })`; returns its identifier. */
  async fault(effect: string, fields: Record<string, unknown> = {}): Promise<number> {
    const added = await this.control("POST", "/faults", { effect, ...fields });
    return (added as { id: number }).id;
  }

  /** Removes all faults. */
  async clearFaults(): Promise<void> {
    await this.control("DELETE", "/faults");
  }

  /** Sets the end of each task of a model, such as `script("haze-removal", "fail", { message: "out of memory" })`. */
  async script(model: string, then: string, fields: Record<string, unknown> = {}): Promise<void> {
    await this.control("PUT", `/models/${model}`, { then, ...fields });
  }

  /** Sets the clock of the service ahead. */
  async advance(seconds: number): Promise<void> {
    await this.control("POST", "/clock/advance", { seconds });
  }

  /** Returns the requests that the service received since the last reset, those of an operation or all. */
  async requests(operation?: string): Promise<ReceivedRequest[]> {
    const query = operation === undefined ? "" : `?operation=${operation}`;
    return (await this.control("GET", `/journal${query}`)) as ReceivedRequest[];
  }

  /** Sends any request of `docs/controls.md`, and returns `data` of its response. Throws when the service rejects it. */
  async control(method: string, path: string, body?: unknown): Promise<unknown> {
    const headers = { authorization: `Bearer ${this.#token}`, "content-type": "application/json" };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(this.#controlsUrl + path, { method, headers, ...sent });
    const text = await response.text();
    const received = JSON.parse(text) as { data?: unknown; message?: string };
    if (!response.ok) throw new Error(`${method} ${path} is rejected: ${received.message ?? text}`);
    return received.data;
  }
}

/** A fixture for `test.extend` of vitest and Playwright: a service of its own for each test that names it. */
export async function serviceFixture({}: object, use: (service: Service) => Promise<void>): Promise<void> {
  const service = await Service.start();
  try {
    await use(service);
  } finally {
    await service.stop();
  }
}

/** Starts a shell that ends the service when this process ends, also by a signal: its standard input is closed then.
 * Returns what stops the shell. Without one, as on Windows, only a usual end of this process is that of the service. */
function endWithThisProcess(child: ChildProcess): () => void {
  if (!HAS_SH || child.pid === undefined) return () => undefined;
  const guard = spawn("sh", ["-c", 'read -r _; kill "$0"', String(child.pid)], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  guard.on("error", () => undefined).unref();
  (guard.stdin as Socket | null)?.on("error", () => undefined).unref();
  // Node.js sends a signal for a process that did not start to the whole group of this one.
  const stop = () => void (guard.pid !== undefined && guard.kill("SIGKILL"));
  child.once("exit", stop);
  return stop;
}

const nameOf = (option: string): string => option.split("=")[0]!;

/** What the first line of a service says. */
function readyOf(program: string, line: string): Ready {
  try {
    return JSON.parse(line) as Ready;
  } catch {
    throw new Error(`${program} serve printed something else than where it serves: ${line.slice(0, 200)}`);
  }
}

/** The command that `INFERSTORE_COMMAND` names, that of the package `@inferstore/bin`, or that of PATH. */
function command(): string {
  const named = process.env[COMMAND_VARIABLE];
  if (named) return named;
  // Test runners that are started directly have no `node_modules/.bin` in PATH.
  for (const from of [resolve("package.json"), import.meta.url]) {
    try {
      const program = join(dirname(createRequire(from).resolve("@inferstore/bin/package.json")), "bin/inferstore");
      if (existsSync(program)) return program;
    } catch {
      // The package is not installed there.
    }
  }
  return "inferstore";
}
