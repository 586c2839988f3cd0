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
  type SessionKey,
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
  const { poolLabel, namespace } = config.kube;
  const policy = { defaults, limits, poolLabel };
  const toWire = (...of: Parameters<typeof toWireSession>): muster.session.v1.Session.$Properties => ({
    ...toWireSession(...of),
    namespace: of[0].elsewhere?.namespace ?? namespace,
  });
  const reply = ({ record, revision, waitingCode }: Awaited<ReturnType<typeof addWaitReason>>) => ({
    session: toWire(record, revision, waitingCode),
  });
  return {
    submitSession: async ({ requestId, spec, ...of }) =>
      reply(await submitSession(requests, policy, { requestId, ...keyOf(of), draft: toSessionDraft(spec) })),
    checkSession: async ({ spec, ...of }) =>
      reply(await checkSession(requests, policy, { ...keyOf(of), draft: toSessionDraft(spec) })),
    getSession: async (of) => reply(await addWaitReason(requests, await getSession(requests, keyOf(of)))),
    explainSession: async (of) => ({ explanation: await explainStoredSession(requests, keyOf(of)) }),
    watchSession: async (request, { signal }) =>
      reply(await addWaitReason(requests, await watchSession(requests, { ...request, ...keyOf(request) }, signal))),
    listSessions: async ({ limit, continue: after, elsewhere }) => {
      const scope = elsewhere && { namespace: elsewhere.namespace, allNamespaces: elsewhere.namespace === "" };
      const { sessions, next } = await listSessions(requests, { limit, after, ...scope });
      return {
        sessions: sessions.map(({ record, revision }) => toWire(record, revision)),
        continue: next,
        ofScope: true,
      };
    },
    cancelSession: async (of) => reply(await cancelSession(requests, keyOf(of))),
    deleteSession: async ({ uid, ...of }) => reply(await removeSession(requests, { ...keyOf(of), uid })),
    getLogs: async (request, { signal }) => {
      const { bytes, nextOffset, complete, truncated } = await readSessionLog(
        requests,
        { ...request, ...keyOf(request) },
        signal,
      );
      return { chunk: bytes, nextOffset, complete, truncated };
    },
  };
}

function keyOf({ name, elsewhere }: { name: string; elsewhere: muster.session.v1.SessionKey | undefined }): SessionKey {
  return elsewhere === undefined ? { name } : { name: elsewhere.name, namespace: elsewhere.namespace };
}
