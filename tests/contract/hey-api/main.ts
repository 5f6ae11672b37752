// The client of @hey-api/openapi-ts as the `Api` of the whole life.

import * as sdk from "./client";
import { client } from "./client/client.gen";
import { environment, run } from "./life";

client.setConfig({ baseUrl: environment("BASE_URL"), auth: environment("API_KEY") });

/** With this option a failure is thrown, and what is left is the data. */
const throwOnError = true;

await run({
  getBalanceCode: async (auth) => {
    const { error, response } = await sdk.getBalance({ auth });
    return error === undefined ? null : response.status;
  },
  getBalance: async () => (await sdk.getBalance({ throwOnError })).data.data,
  listModels: (body) => sdk.listModels({ body, throwOnError }),
  getModel: async (id) => (await sdk.getModel({ path: { id }, throwOnError })).data.data,
  getModelVersioning: async (id) => (await sdk.getModelVersioning({ path: { id }, throwOnError })).data.data,
  getModelCost: (id) => sdk.getModelCost({ path: { id }, throwOnError }),
  getModelServing: (id) => sdk.getModelServing({ path: { id }, throwOnError }),
  createPresignedUpload: async (body) => (await sdk.createPresignedUpload({ body, throwOnError })).data.data,
  createTask: async (id, body) => (await sdk.createTask({ path: { id }, body, throwOnError })).data.data,
  createTaskAlias: async (id, body) =>
    (await sdk.createTaskAlias({ path: { model_id: id }, body, throwOnError })).data.data,
  getTask: async (id) => (await sdk.getTask({ path: { id }, throwOnError })).data.data,
  listTasks: async (query) => (await sdk.listTasks({ query, throwOnError })).data.data,
  cancelTask: (id) => sdk.cancelTask({ path: { id }, throwOnError }),
  listFiles: async (folder, query) => (await sdk.listFiles({ path: { folder }, query, throwOnError })).data.data,
  getStorageStatistics: async () => (await sdk.getStorageStatistics({ throwOnError })).data.data,
  deleteFile: (body) => sdk.deleteFile({ body, throwOnError }),
});
