/** Measures the log, the buckets, sessions of locks and disk writes beside bare NATS. Run: npx node libs/store/bench/main.ts [operations|sessions|sync] */
import { runBenches } from "@muster/testkit";

await runBenches({
  operations: () => import("./operations.ts"),
  sessions: () => import("./sessions.ts"),
  sync: () => import("./sync.ts"),
});
