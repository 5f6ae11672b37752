export default {
  client: {
    input: "inferstore.yaml",
    output: { target: "api.ts", client: "fetch", override: { mutator: { path: "call.ts", name: "call" } } },
  },
  schemas: {
    input: "inferstore.yaml",
    output: { target: "schemas.ts", client: "zod" },
  },
};
