export { findNatsServer } from "./find.ts";
export { spawnGuarded } from "./spawn-guarded.ts";
export { startNatsServer } from "./start.ts";
export type { NatsServer } from "./start.ts";
export { buildPermissions } from "./plan-permissions.ts";
export { buildKeyVariable, makeNkey, NATS_USERS, getPublicKey, renderUsers } from "./render-users.ts";
export type { NatsUserName } from "./rights.ts";
