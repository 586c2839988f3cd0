export { keepReplicas, replicasConfig, replicasRefused } from "./replicas.ts";
