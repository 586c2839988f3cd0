export { findNatsServer } from "./find.ts";
export { startNatsServer } from "./start.ts";
export type { NatsServer, NatsServerOptions } from "./start.ts";
