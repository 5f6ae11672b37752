/** Client of Inferstore, an inference and storage service. */

export * from "./client.js";
export { CallError, CostLimitExceeded, DeadlineReached, FileError, InferstoreError, InvalidArgument, InvalidInputs } from "./errors.js";
export { type CallContext, type Disposition, type History, ModelOffline, OutcomeUnknown, TaskCanceled, TaskFailed } from "./errors.js";
export type { UploadedFile } from "./files.js";
export type * from "./generated.js";
export type { FileInput } from "./inputs.js";
export type { Outcome } from "./tasks.js";
export type { ClientOptions, LimitOptions } from "./transport.js";
