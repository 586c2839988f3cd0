import { once } from "node:events";
import { connectService } from "@muster/bus";
import type { ServiceContext } from "@muster/service";
import { openCalls } from "./adapters/bus-call.ts";
import { openServer } from "./adapters/open-server.ts";
import { localAuthenticator, openTokenFile } from "./adapters/token-file.ts";
import { RESOURCES } from "./api/resources.ts";
import { routesOf } from "./api/route.ts";
import type { Config } from "./config.ts";

/** Serves the API until the signal. */
export async function run(context: ServiceContext<Config>): Promise<void> {
  const { config, logger, signal } = context;
  let trouble: string | undefined;
  await using bus = await connectService(context, (status) => {
    if (status === "disconnected") trouble = "NATS is away";
    if (status === "reconnected") trouble = undefined;
  });
  await using server = await openServer({
    http: config.http,
    routes: routesOf(RESOURCES),
    call: openCalls(bus, config.callTimeoutMs),
    authenticate: localAuthenticator(await openTokenFile(config.tokenFile)),
    trouble: () => trouble,
    logger,
  });
  context.readyWhen("api", () => trouble);
  logger.info({ url: server.url }, "serving the API");
  if (!signal.aborted) await once(signal, "abort");
}
