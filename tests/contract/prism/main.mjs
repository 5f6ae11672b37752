// The TypeScript program drives the service through Prism, which validates requests and responses. What the
// proxy of the other modes makes of a response is validated, too.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

const port = await freePort();
const options = ["--errors", "--host", "127.0.0.1", "--port", String(port)];
const prism = spawn("prism", ["proxy", "inferstore.yaml", process.env.BASE_URL, ...options], {
  stdio: ["ignore", "pipe", "inherit"],
});
await new Promise((listening, failed) => {
  let output = "";
  prism.stdout.on("data", (chunk) => {
    output += chunk;
    if (output.includes("is listening")) listening();
  });
  prism.on("exit", () => failed(new Error(output)));
});
const env = { ...process.env, BASE_URL: `http://127.0.0.1:${port}` };
const life = spawn("node", ["../typescript/life.mjs"], { env, stdio: "inherit" });
const [code] = await once(life, "exit");
prism.removeAllListeners("exit");
prism.kill();
process.exit(code);
