export { rememberInbox, makeInbox } from "./inbox.ts";
export { keepReplicas, buildReplicasConfig, findReplicasRefusal } from "./replicas.ts";
