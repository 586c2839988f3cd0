import { connectService, serveMethods, type Handlers } from "@muster/bus";
import { SessionService, type muster } from "@muster/proto";
import { holdLogger, type ServiceContext } from "@muster/service";
import { runWhileLeader } from "@muster/store";
import { openDeps, type Deps } from "./adapters/deps.ts";
import { toSessionDraft, toWireSession } from "./adapters/messages.ts";
import type { Config } from "./config.ts";
import { leadSessions } from "./lead-sessions.ts";
import {
  cancelSession,
  explainStoredSession,
  addWaitReason,
  getSession,
  listSessions,
  readSessionLog,
  removeSession,
  checkSession,
  submitSession,
  watchSession,
} from "./requests.ts";

/** Maximum requests per method. Most are long polls, which are cheap while they wait. */
const MAX_CONCURRENT_REQUESTS = 2048;

/** Answers users, and runs all sessions and sweeps while this replica leads, until the signal. */
export async function run(context: ServiceContext<Config>): Promise<void> {
  const { config, logger, signal, instance } = context;
  await using bus = await connectService(context);
  await using deps = await openDeps(context, bus);
  await using _server = await serveMethods(bus, SessionService, handlers(deps, config), {
    version: context.version,
    description: "Runs sessions: finite tests of several roles.",
    concurrency: MAX_CONCURRENT_REQUESTS,
    onDefect: (method, error) => {
      logger.error({ method, err: error }, "defect");
    },
  });
  context.readyWhen("views", deps.staleness);
  await runWhileLeader(
    bus.connection,
    {
      lock: "session-controller",
      holder: instance,
      ttlMs: config.lockTtlMs,
      signal,
      onChange: holdLogger(logger, "leadership of the sessions"),
      onProblem: (error) => logger.warn({ err: error }, "cannot acquire the free lock of the sessions"),
    },
    (leadership) => leadSessions(deps, config, { logger, leadership, stop: signal }),
  );
}

function handlers(deps: Deps, config: Config): Handlers<typeof SessionService> {
  const { requests } = deps;
  const { defaults, limits } = config;
  const policy = { defaults, limits, poolLabel: config.kube.poolLabel };
  return {
    submitSession: async ({ requestId, name, spec }) =>
      reply(await submitSession(requests, policy, { requestId, name, draft: toSessionDraft(spec) })),
    checkSession: async ({ name, spec }) =>
      reply(await checkSession(requests, policy, { name, draft: toSessionDraft(spec) })),
    getSession: async ({ name }) => reply(await addWaitReason(requests, await getSession(requests, name))),
    explainSession: async ({ name }) => ({ explanation: await explainStoredSession(requests, name) }),
    watchSession: async (request, { signal }) =>
      reply(await addWaitReason(requests, await watchSession(requests, request, signal))),
    listSessions: async ({ limit, continue: after }) => {
      const { sessions, next } = await listSessions(requests, { limit, after });
      return { sessions: sessions.map(({ record, revision }) => toWireSession(record, revision)), continue: next };
    },
    cancelSession: async ({ name }) => reply(await cancelSession(requests, name)),
    deleteSession: async ({ name, uid }) => reply(await removeSession(requests, { name, uid })),
    getLogs: async (request, { signal }) => {
      const { bytes, nextOffset, complete, truncated } = await readSessionLog(requests, request, signal);
      return { chunk: bytes, nextOffset, complete, truncated };
    },
  };
}

function reply({ record, revision, waitingCode }: Awaited<ReturnType<typeof addWaitReason>>): {
  session: muster.session.v1.Session.$Properties;
} {
  return { session: toWireSession(record, revision, waitingCode) };
}
