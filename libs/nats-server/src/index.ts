export { findNatsServer } from "./find.ts";
export { spawnGuarded } from "./spawn-guarded.ts";
export { startNatsServer } from "./start.ts";
export type { NatsServer } from "./start.ts";
export { permissionsOf } from "./plan-permissions.ts";
export { keyVariable, makeNkey, NATS_USERS, publicKeyOf, renderUsers } from "./render-users.ts";
export type { NatsUserName } from "./rights.ts";
