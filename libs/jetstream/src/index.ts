export { keepInbox, newInbox } from "./inbox.ts";
export { keepReplicas, replicasConfig, replicasRefused } from "./replicas.ts";
