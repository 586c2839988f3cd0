export { findNatsServer } from "./find.ts";
export type { FindOptions, FoundNatsServer } from "./find.ts";
export type { Source, SourceContext } from "./source.ts";
export { spawnGuarded } from "./spawn-guarded.ts";
export { startNatsServer } from "./start.ts";
export type { NatsClusterOptions, NatsServer, NatsServerOptions } from "./start.ts";
