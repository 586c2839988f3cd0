export { readEnv } from "./env.ts";
export type { EnvReader } from "./env.ts";
export { holdLogger } from "./hold-logger.ts";
export type { Logger } from "./logger.ts";
export { retryStart, runService } from "./run-service.ts";
export type { ReadyCheck } from "./status-server.ts";
export type { ServiceContext } from "./run-service.ts";
export { reportForeignObjects } from "./report-foreign-objects.ts";
