export { findNatsServer } from "./find-nats-server.ts";
export { spawnGuarded } from "./spawn-guarded.ts";
export { startNatsServer } from "./start-nats-server.ts";
export type { NatsServer } from "./start-nats-server.ts";
export { buildPermissions } from "./plan-permissions.ts";
export { buildKeyVariable, makeNkey, NATS_USERS, getPublicKey, renderUsers } from "./render-users.ts";
export type { NatsUserName } from "./rights.ts";
