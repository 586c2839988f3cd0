import { once } from "node:events";
import { RequestRates } from "@muster/bus";
import { RESOURCES, buildRoutes } from "@muster/gateway-api";
import type { ServiceContext } from "@muster/service";
import { openAuditLog } from "./adapters/audit-log.ts";
import { openByteCalls, openCalls } from "./adapters/bus-call.ts";
import { observeUse } from "./adapters/metrics.ts";
import {
  byteCallsWhileConnected,
  callsWhileConnected,
  followNats,
  readsWhileConnected,
} from "./adapters/nats-status.ts";
import { openAdmission } from "./adapters/open-admission.ts";
import { lateNats } from "./adapters/open-nats.ts";
import { openOidcSignIn } from "./adapters/oidc-sign-in.ts";
import { openServer } from "./adapters/open-server.ts";
import { makeSealer, readSessionKeys } from "./adapters/sealer.ts";
import { openSessions } from "./adapters/sessions.ts";
import { openWatchFeeds } from "./adapters/watch-feeds.ts";
import { failedTokens } from "./api/failed-tokens.ts";
import { openSharedReads } from "./api/shared-reads.ts";
import { streamSlots } from "./api/stream-slots.ts";
import type { Config } from "./config.ts";

/** Maximum users with a separate rate; further users share one rate. */
const MAX_RATED_USERS = 10_000;

/** Limits of the answers that are reused while the replies of their services stay unchanged. */
const KEPT_READS = { maxAnswers: 1024, maxKept: 32 * 1024 * 1024 };

/** Serves the API until the signal. Listens before NATS answers, so that pages show that NATS is unavailable. */
export async function run(context: ServiceContext<Config>): Promise<void> {
  const { config, logger, signal } = context;
  const nats = followNats();
  await using late = lateNats(context, nats);
  await using admission = await openAdmission(context);
  const call = openCalls(late.bus, config.callTimeoutMs);
  const callBytes = openByteCalls(late.bus, config.callTimeoutMs);
  await using auditLog = openAuditLog(late.bus, logger);
  await using feeds = openWatchFeeds({
    call: readsWhileConnected(call, nats),
    pollMs: config.streams.pollMs,
    maxBytes: config.streams.maxWatchedBytes,
    lost: () => nats.lost,
    logger,
  });
  const slots = streamSlots(config.streams);
  using _use = observeUse({
    streams: () => slots.taken,
    lists: () => feeds.count,
    listBytes: () => feeds.bytes,
    lateOutcomes: () => auditLog.lateOutcomes,
  });
  await using server = await openServer({
    http: config.http,
    version: context.version,
    routes: buildRoutes(RESOURCES),
    call: callsWhileConnected(call, nats),
    nats,
    feeds,
    slots,
    streams: config.streams,
    admission,
    authorize: admission.authorize,
    sessions: openSessions(
      makeSealer(await readSessionKeys(config.console.sessionKeyFile)),
      config.console.maxSessionMs,
    ),
    signIn: config.oidc && (await openOidcSignIn(config.oidc)),
    consoleDirectory: config.console.directory,
    jaegerUrl: config.console.jaegerUrl,
    audit: auditLog.audit,
    reads: openSharedReads(byteCallsWhileConnected(callBytes, nats), KEPT_READS),
    keptRequests: late.keptRequests,
    rates: new RequestRates(config.rate, MAX_RATED_USERS),
    failedTokens: failedTokens(config.failedTokenRate, () => performance.now()),
    namespace: config.namespace,
    trouble: () => (signal.aborted ? "the gateway stops" : late.isOpen ? undefined : "the gateway waits for NATS"),
    logger,
  });
  logger.info({ url: server.url }, "listening");
  await late.open();
  // This check replaces the check of the connection, which would make all replicas unready together.
  context.readyWhen("nats", nats.check);
  logger.info({ url: server.url }, "serving the API");
  if (!signal.aborted) await once(signal, "abort");
}
