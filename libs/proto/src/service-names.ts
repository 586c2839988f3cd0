/**
 * Every service: a folder in apps, a user of NATS, an account in Kubernetes, an image. Files that are not TypeScript repeat this list;
 * tools/repo/test/services.test.ts compares them with it.
 */
export const serviceNames = [
  "watcher",
  "reservation-manager",
  "session-controller",
  "job-controller",
  "replication-farm",
  "provision-engine",
  "node-scaler",
  "gateway",
] as const;
