// The client of orval as the `Api` of the whole life. The zod schemas check every response.

import * as api from "./api";
import { CallError } from "./call";
import { run } from "./life";
import * as schemas from "./schemas";

await run({
  getBalanceCode: async (key) => {
    try {
      await api.getBalance({ headers: { "x-api-key": key } });
      return null;
    } catch (error) {
      return error instanceof CallError ? error.status : null;
    }
  },
  getBalance: async () => schemas.GetBalanceResponse.parse((await api.getBalance()).data).data,
  listModels: async (search) => schemas.ListModelsResponse.parse((await api.listModels(search)).data),
  getModel: async (id) => schemas.GetModelResponse.parse((await api.getModel(id)).data).data,
  getModelVersioning: async (id) =>
    schemas.GetModelVersioningResponse.parse((await api.getModelVersioning(id)).data).data,
  getModelCost: async (id) => schemas.GetModelCostResponse.parse((await api.getModelCost(id)).data),
  getModelServing: async (id) => schemas.GetModelServingResponse.parse((await api.getModelServing(id)).data),
  createPresignedUpload: async (declaration) =>
    schemas.CreatePresignedUploadResponse.parse((await api.createPresignedUpload(declaration)).data).data,
  createTask: async (id, input) => schemas.CreateTaskResponse.parse((await api.createTask(id, input)).data).data,
  createTaskAlias: async (id, input) =>
    schemas.CreateTaskAliasResponse.parse((await api.createTaskAlias(id, input)).data).data,
  getTask: async (id) => schemas.GetTaskResponse.parse((await api.getTask(id)).data).data,
  listTasks: async (query) => schemas.ListTasksResponse.parse((await api.listTasks(query)).data).data,
  cancelTask: async (id) => schemas.CancelTaskResponse.parse((await api.cancelTask(id)).data),
  listFiles: async (folder, query) =>
    schemas.ListFilesResponse.parse((await api.listFiles(folder, query)).data).data,
  getStorageStatistics: async () =>
    schemas.GetStorageStatisticsResponse.parse((await api.getStorageStatistics()).data).data,
  deleteFile: async (file) => schemas.DeleteFileResponse.parse((await api.deleteFile(file)).data),
});
