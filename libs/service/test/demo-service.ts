/** A service for tests: becomes ready after a configurable delay, and stops according to DEMO_STOP. */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { FaultError, throwFault } from "@muster/faults";
import { readEnv, retryStart, runService } from "../src/index.ts";

let runs = 0;

await runService({
  name: "demo",
  readConfig: (env) =>
    readEnv(env, (read) => ({
      stop: read.oneOf("DEMO_STOP", ["orderly", "hang", "fail", "away", "never-ready", "late", "late-part"], "orderly"),
      gate: read.optional("DEMO_GATE") ?? "",
      isWarned: read.flag("DEMO_WARNED", false),
      limit: read.integer("DEMO_LIMIT", { fallback: 1, min: 1, max: 9 }),
    })),
  run: async (context) => {
    const { config, signal, logger, natsReplicas, requestRate, readyWhen, alsoCheck } = context;
    runs += 1;
    if (config.stop === "late-part") {
      logger.info({}, "the first part is open");
      await retryStart(context, () =>
        existsSync(config.gate)
          ? Promise.resolve()
          : Promise.reject(new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 500 })),
      );
    }
    if (config.stop === "late" && !existsSync(config.gate)) {
      readyWhen("forgotten", () => "it is of an earlier run");
      const cause = new Error("JetStream has no leader");
      throwFault({ code: "unavailable", dependency: "nats", retryAfterMs: 500 }, { doing: `run ${runs}`, cause });
    }
    if (config.stop !== "never-ready") readyWhen("limit", () => (config.limit > 1 ? "limit is above 1" : undefined));
    alsoCheck("store", () => (config.isWarned ? { warning: "the store is away" } : undefined));
    logger.info({ token: "secret-token", limit: config.limit, natsReplicas, requestRate }, "running");
    if (config.stop === "fail") throw new Error("on purpose");
    await once(signal, "abort");
    if (config.stop === "away") throwFault({ code: "unavailable", dependency: "nats", retryAfterMs: 500 });
    if (config.stop === "hang") await new Promise(() => setInterval(() => undefined, 1000));
  },
});
