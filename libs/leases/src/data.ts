export { findKubernetesSize } from "./kubernetes-sizes.ts";
export { buildDataSchema, LEASE_DATA } from "./lease-data.ts";
export type { LeaseData, LeaseType } from "./lease-data.ts";
export { MAX_DATA_BYTES, readData } from "./read-data.ts";
export type { DataProblem } from "./read-data.ts";
