import { connectService, serveMethods } from "@muster/bus";
import { buckets, FarmService } from "@muster/proto";
import { holdLogger, type ServiceContext } from "@muster/service";
import { withSessions } from "@muster/store";
import { openDeps } from "./adapters/deps.ts";
import { makeHandlers } from "./adapters/handlers.ts";
import type { Config } from "./config.ts";
import { buildFarmAttributes } from "./farm.ts";

/** Maximum per method. A waiting long poll costs little. */
const MAX_CONCURRENT_REQUESTS = 1024;

/** Answers users, and owns replica sets while its session lives, until stopped. */
export async function run(context: ServiceContext<Config>): Promise<void> {
  const { config, logger, signal, instance } = context;
  await using bus = await connectService(context);
  await using deps = await openDeps(context, bus);
  await using _served = await serveMethods(bus, FarmService, makeHandlers(deps.requests), {
    version: context.version,
    description: "Pods that are kept on chosen nodes",
    concurrency: MAX_CONCURRENT_REQUESTS,
    onDefect: (method, error) => logger.error({ method, err: error }, "a request failed inside the service"),
  });
  context.readyWhen("world", deps.staleness);
  await withSessions(
    bus.connection,
    {
      bucket: buckets.farmLocks,
      holder: instance,
      ttlMs: config.sessionTtlMs,
      about: buildFarmAttributes(config.rcSelector),
      signal,
      onChange: holdLogger(logger, "session of this farm"),
      onProblem: (error) => logger.warn({ err: error }, "the session of this farm cannot be created; it is retried"),
    },
    deps.farm.run,
  );
}
