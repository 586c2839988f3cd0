/**
 * Every service: a folder in apps, a user of NATS, an account in Kubernetes, an image. The list that others read; what is no TypeScript repeats it, and
 * tools/repo/test/services.test.ts holds them together.
 */
export const SERVICES = [
  "watcher",
  "reservation-manager",
  "session-controller",
  "job-controller",
  "replication-farm",
  "provision-engine",
  "node-scaler",
] as const;

export type ServiceName = (typeof SERVICES)[number];

/** Without whom nothing lacks where Muster makes no machines. */
export const OPTIONAL: ServiceName = "node-scaler";

/** What is there everywhere. */
export const STANDARD: readonly ServiceName[] = SERVICES.filter((name) => name !== OPTIONAL);
