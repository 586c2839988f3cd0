import { connectService, consumeEvents, serve, type Handlers } from "@muster/bus";
import { muster, SessionService, streams, subjects } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { lead } from "@muster/store";
import { openDeps, type Deps } from "./adapters/deps.ts";
import { draftOf, sessionMessage } from "./adapters/messages.ts";
import type { Config } from "./config.ts";
import { executeMessage } from "./execute-message.ts";
import { cancel, explained, get, list, readLog, remove, submit, watch } from "./requests.ts";
import { sweepForever } from "./sweep.ts";

/** Replicas that use one name share the queue of sessions. */
const CONSUMER = "session-executors";
/** Per method; most of them are long polls, which cost little while they wait. */
const REQUESTS_AT_ONCE = 2048;
const SWEEP_LOCK_TTL_MS = 10_000;

/** Answers users, runs sessions, and sweeps, until the signal. Sessions in hand go to another replica at once. */
export async function run(context: ServiceContext<Config>): Promise<void> {
  const { config, logger, signal, instance } = context;
  await using bus = await connectService(context);
  await using deps = await openDeps(context, bus);
  await using _server = await serve(bus, SessionService, handlers(deps, config), {
    version: context.version,
    description: "Runs sessions: finite tests of several roles.",
    concurrency: REQUESTS_AT_ONCE,
    onDefect: (method, error) => {
      logger.error({ method, err: error }, "defect");
    },
  });
  await using _consumer = await consumeEvents(
    bus,
    {
      stream: streams.sessionCommands.name,
      durable: CONSUMER,
      subject: subjects.anyRunSession,
      maxInFlight: config.queue.inFlightMost,
      ackWaitMs: config.queue.ackWaitMs,
      area: "session",
      signal,
      onRetry: ({ subject, error, delayMs }) => {
        logger.warn({ subject, err: error, delayMs }, "session handed back after an error");
      },
    },
    muster.session.v1.RunSession,
    (message, delivery) => deps.metrics.inHand(() => executeMessage(deps.executor, config, message, delivery, signal)),
  );
  context.readyWhen("views", deps.staleness);
  await lead(
    bus.connection,
    { lock: "session-sweep", holder: instance, ttlMs: SWEEP_LOCK_TTL_MS, signal },
    (leadership) => sweepForever(deps.sweep, config.sweep, leadership.signal),
  );
}

function handlers(deps: Deps, config: Config): Handlers<typeof SessionService> {
  const { requests } = deps;
  const { defaults, limits, queue } = config;
  const submitPolicy = { defaults, limits, inFlightMost: queue.inFlightMost };
  return {
    submitSession: async ({ requestId, name, spec }) =>
      reply(await submit(requests, submitPolicy, { requestId, name, draft: draftOf(spec) })),
    getSession: async ({ name }) => reply(await explained(requests, await get(requests, name))),
    watchSession: async (request, { signal }) =>
      reply(await explained(requests, await watch(requests, request, signal))),
    listSessions: async ({ limit, continue: after }) => {
      const { sessions, next } = await list(requests, { limit, after });
      return { sessions: sessions.map(({ record, revision }) => sessionMessage(record, revision)), continue: next };
    },
    cancelSession: async ({ name }) => reply(await cancel(requests, name)),
    deleteSession: async ({ name, uid }) => reply(await remove(requests, { name, uid })),
    getLogs: async (request, { signal }) => {
      const { bytes, nextOffset, complete, truncated } = await readLog(requests, request, signal);
      return { chunk: bytes, nextOffset, complete, truncated };
    },
  };
}

function reply({ record, revision, waitingCode }: Awaited<ReturnType<typeof explained>>): {
  session: muster.session.v1.Session.$Properties;
} {
  return { session: sessionMessage(record, revision, waitingCode) };
}
