// What sends the requests of the generated client: it adds the base URL and the key.

const baseUrl = process.env["BASE_URL"] ?? "";
const key = process.env["API_KEY"] ?? "";

export class CallError extends Error {
  constructor(
    readonly status: number,
    body: string,
  ) {
    super(`${status}: ${body}`);
  }
}

export async function call<T>(path: string, init: RequestInit): Promise<T> {
  const headers = new Headers(init.headers);
  if (!headers.has("x-api-key")) headers.set("x-api-key", key);
  const response = await fetch(`${baseUrl}${path}`, { ...init, headers });
  const body = await response.text();
  if (!response.ok) throw new CallError(response.status, body);
  return { data: JSON.parse(body), status: response.status, headers: response.headers } as T;
}
