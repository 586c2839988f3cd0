import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats, consumeEvents, openDeadLetters, publishEvent, serveMethods, type NatsBus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { muster, ReservationService, SessionService, streams, subjects, WatchService } from "@muster/proto";
import { startTestNats, buildProcessEnv, type TestNats, until } from "@muster/testkit";
import { startGateway, type RunningGateway } from "./a-gateway.ts";
import { startCommand, type RunningCommand } from "./in-process.ts";

const Kind = muster.session.v1.SessionEventKind;
type WireSession = muster.session.v1.Session.$Properties;
type WireComponent = NonNullable<WireSession["components"]>[number];
type Phase = "QUEUE" | "ACCEPT" | "PROVISION" | "RUN" | "DONE" | "ERROR" | "CANCELLED";

/** The content of a log that is temporarily unavailable. */
export const AWAY = "away";

const MAIN = join(import.meta.dirname, "../src/main.ts");

type Options = { readonly env?: Record<string, string>; readonly input?: string };

/** A real NATS server, the three services in their simplest form (a session changes only when the test changes it), and the command. */
export type SessionWorld = AsyncDisposable & {
  /** Defined only if the command goes through the gateway. */
  readonly gateway: RunningGateway | undefined;
  readonly url: string;
  readonly token: string;
  readonly directory: string;
  /** Sessions by name, each in its newest state. */
  readonly sessions: ReadonlyMap<string, WireSession>;
  /** Names of sessions with a long poll. */
  readonly watched: ReadonlySet<string>;
  readonly logs: Map<string, string>;
  /** Counts the requests for a log that is AWAY. */
  readonly refusals: { count: number };
  /** Appends an event to a session, and changes its components. */
  move(
    name: string,
    phase: Phase,
    change?: Omit<WireSession, "components"> & { components?: WireComponent; why?: string; reason?: string },
  ): void;
  /** Publishes a notification that the session has a new event. */
  announce(name: string): void;
  /** Dead-letters an order for each name, and returns the ids of the letters. */
  deadLetter(names: readonly string[]): Promise<number[]>;
  file(name: string, text: string): Promise<string>;
  /** Runs the command in this process. */
  muster(args: readonly string[], options?: Options): RunningCommand;
  /** Runs the command in a separate process, for tests of signals, exit codes and startup. */
  process(args: readonly string[], options?: Options): RunningCommand;
  stopServices(): Promise<void>;
  readonly nats: Pick<TestNats, "kill" | "start">;
};

/** The transport of the command's calls. */
export type Way = "nats" | "gateway";

export async function startSessionWorld(
  way: Way = "nats",
  gatewayEnv: Readonly<Record<string, string>> = {},
): Promise<SessionWorld> {
  await using starting = new AsyncDisposableStack();
  const nats = starting.use(await startTestNats());
  const directory = await mkdtemp(join(tmpdir(), "muster-cli-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "session-world" }));
  const sessions = new Map<string, WireSession>();
  const watched = new Set<string>();
  const logs = new Map<string, string>();
  const refusals = { count: 0 };
  const services = new AsyncDisposableStack();
  starting.use(services);
  for (const service of await serveAll(bus, { sessions, watched, logs, refusals })) services.use(service);
  const gateway = way === "gateway" ? starting.use(await startGateway(nats, directory, gatewayEnv)) : undefined;
  const children = new Set<() => void>();
  starting.defer(() => {
    for (const end of children) end();
  });
  const all = starting.move();
  const access = {
    MUSTER_LOCAL_FILE: "/nonexistent",
    MUSTER_CONFIG: "/nonexistent",
    ...(gateway === undefined
      ? { MUSTER_NATS_URL: nats.url, MUSTER_NATS_TOKEN: nats.token }
      : { MUSTER_SERVER: gateway.url, MUSTER_TOKEN_FILE: gateway.tokenFile }),
  };

  return {
    url: nats.url,
    gateway,
    token: nats.token,
    directory,
    sessions,
    watched,
    logs,
    refusals,
    move: (name, phase, { components, why = "", reason = "", ...change } = {}) => {
      const session = sessions.get(name);
      if (session === undefined) throw new Error(`no session ${name}`);
      sessions.set(name, {
        ...session,
        ...change,
        revision: (session.revision ?? 0) + 1,
        events: [
          ...(session.events ?? []),
          { kind: Kind[`SESSION_EVENT_KIND_${phase}`], atMs: Date.now(), description: why, reason },
        ],
        components: (session.components ?? []).map((component) => ({ ...component, ...components })),
        finishedAtMs: ["DONE", "ERROR", "CANCELLED"].includes(phase) ? Date.now() : 0,
      });
    },
    announce: (name) => {
      const { SessionEventRecorded } = muster.session.v1;
      const payload = SessionEventRecorded.encode({ name }).finish();
      bus.signal(subjects.sessionEventRecorded(name), payload);
    },
    deadLetter: async (names) => {
      const { Order } = muster.provision.v1;
      await bus.ensureStream(streams.leaseOrders);
      const { name: stream } = streams.leaseOrders;
      const subject = subjects.ordersOfEngine("main");
      const consuming = { stream, durable: "refuser", subject, maxInFlight: 1, ackWaitMs: 9000 };
      {
        await using _refuser = await consumeEvents(bus, { ...consuming, area: "lease" }, Order, (_, { giveUp }) => {
          giveUp("no such lease");
          return Promise.resolve();
        });
        for (const name of names) {
          await publishEvent(bus, subjects.orderLease("main", name), Order, { id: name }, { messageId: name });
        }
        await until("all are given up", async () => (await openDeadLetters(bus).list()).length === names.length);
      }
      return (await openDeadLetters(bus).list()).map(({ id }) => id);
    },
    file: async (name, text) => {
      const path = join(directory, name);
      await writeFile(path, text);
      return path;
    },
    muster: (args, { env, input = "" } = {}) => startCommand(args, { env: { ...access, ...env }, input }),
    process: (args, { env, input = "" } = {}) => {
      const child = startProcess(args, { ...access, ...env }, input);
      children.add(child.kill);
      return child;
    },
    stopServices: () => services.disposeAsync(),
    nats,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function startProcess(
  args: readonly string[],
  env: Record<string, string>,
  input: string,
): RunningCommand & { readonly kill: () => void } {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...buildProcessEnv(), ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdin.end(input);
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    ended: once(child, "close").then(([code]: unknown[]) => ({
      code: typeof code === "number" ? code : null,
      stdout,
      stderr,
    })),
    interrupt: () => child.kill("SIGINT"),
    kill: () => child.kill("SIGKILL"),
  };
}

async function serveAll(
  bus: NatsBus,
  {
    sessions,
    watched,
    logs,
    refusals,
  }: Pick<SessionWorld, "logs" | "refusals"> & { sessions: Map<string, WireSession>; watched: Set<string> },
): Promise<AsyncDisposable[]> {
  const find = (name: string): WireSession =>
    sessions.get(name) ?? throwFault({ code: "not_found", kind: "session", id: name });
  const about = { version: "9.8.7", description: "for a test" };
  const reservation = {
    id: "r-1",
    owner: { kind: "session", id: "waiting" },
    needs: [{ component: "driver", pool: "drivers" }],
    state: muster.reservation.v1.ReservationState.RESERVATION_STATE_WAITING,
    createdAtMs: Date.now(),
    because: { code: "POOL_AVAILABILITY", pool: "drivers", requested: 2, available: 1, ahead: 3 },
  };
  const granted = {
    ...reservation,
    owner: { kind: "lease", id: "train" },
    state: muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED,
    machines: [{ component: "worker-0", pool: "drivers", node: "d-1" }],
    because: null,
  };
  const explanation = {
    reservation,
    code: "POOL_AVAILABILITY",
    message: "pool drivers has 1 machine free, 2 are needed",
    pools: [
      {
        pool: "drivers",
        requested: 2,
        available: 1,
        capacity: 2,
        held: 1,
        unusable: 2,
        unusableNodes: [
          { node: "d-3", reason: "NOT_READY" },
          { node: "d-4", reason: "FOREIGN_USE", foreign: { pods: 2, examples: ["web/shop", "web/till"] } },
        ],
        holders: [{ owner: { kind: "session", id: "busy" }, machines: 1, sinceMs: Date.now() - 60_000 }],
      },
    ],
    place: { ahead: 3, aheadByPriority: [{ priority: 5, requests: 3 }] },
  };
  return [
    await serveMethods(
      bus,
      SessionService,
      {
        submitSession: ({ name, spec }) => {
          if (sessions.has(name)) throwFault({ code: "already_exists", kind: "session", id: name });
          const session: WireSession = {
            name,
            uid: `uid-of-${name}`,
            revision: 1,
            spec: spec ?? {},
            createdAtMs: Date.now(),
            events: [{ kind: Kind.SESSION_EVENT_KIND_QUEUE, atMs: Date.now(), description: "submitted" }],
            components: (spec?.components ?? []).map(({ name: component, kind, pool }) => ({
              name: component,
              kind,
              pool,
              state: "PENDING",
            })),
          };
          sessions.set(name, session);
          return Promise.resolve({ session });
        },
        getSession: ({ name }) => Promise.resolve({ session: find(name) }),
        explainSession: ({ name }) => {
          const isOver = (find(name).finishedAtMs ?? 0) > 0;
          const { atMs: sinceMs = 0, description = "" } = find(name).events?.at(-1) ?? {};
          const over = { code: "FINISHED", message: `it is over: ${description}`, next: `muster logs ${name}` };
          const waits = { code: explanation.code, message: explanation.message, next: "mend the pool" };
          const explained = { kind: "session", name, phase: isOver ? "ERROR" : "QUEUE", sinceMs, isOver };
          return Promise.resolve({
            explanation: isOver
              ? { ...explained, reasons: [over] }
              : { ...explained, reasons: [waits], ...(name === "waiting" && { reservation: explanation }) },
          });
        },
        watchSession: async ({ name, afterRevision, waitMs }, { signal }) => {
          watched.add(name);
          const endMs = performance.now() + waitMs;
          await until(
            "the session changes, the wait is over, or the caller has gone",
            () => signal.aborted || find(name).revision !== afterRevision || performance.now() > endMs,
          );
          return { session: find(name) };
        },
        // A page contains one session, so that the CLI must request the next.
        listSessions: ({ continue: from }) => {
          const names = [...sessions.keys()].sort();
          const index = from === "" ? 0 : names.indexOf(from);
          const session = sessions.get(names[index] ?? "");
          return Promise.resolve({
            sessions: session === undefined ? [] : [session],
            continue: names[index + 1] ?? "",
          });
        },
        cancelSession: ({ name }) => {
          const session = { ...find(name), cancelRequested: true, revision: (find(name).revision ?? 0) + 1 };
          sessions.set(name, session);
          return Promise.resolve({ session });
        },
        checkSession: ({ name, spec }) => {
          if (sessions.has(name)) throwFault({ code: "already_exists", kind: "session", id: name });
          const { pool = "" } = spec?.components.find((each) => each.pool.startsWith("no-")) ?? {};
          if (pool !== "") throwFault({ code: "pool_unknown", pool, known: ["drivers", "workers"] });
          const waits = { waitingCode: "POOL_AVAILABILITY", waitingBecause: "pool workers has no machine free" };
          return Promise.resolve({ session: { name, spec: spec ?? {}, ...(name.startsWith("waits") && waits) } });
        },
        deleteSession: ({ name, uid }) => {
          const session = find(name);
          if (session.uid !== uid) return throwFault({ code: "not_found", kind: "session", id: name });
          sessions.delete(name);
          return Promise.resolve({ session });
        },
        // Chunks have seven bytes, so that they split characters and lines.
        getLogs: ({ name, component, container, offset }) => {
          const log = logs.get([name, component, ...(container === "" ? [] : [container])].join("/"));
          if (log === AWAY) {
            refusals.count += 1;
            return throwFault({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 100 });
          }
          if (log === undefined) return throwFault({ code: "not_found", kind: "log", id: `${name}/${component}` });
          const bytes = new TextEncoder().encode(log);
          const chunk = bytes.slice(offset, offset + 7);
          const nextOffset = offset + chunk.length;
          const finished = (find(name).finishedAtMs ?? 0) > 0;
          return Promise.resolve({ chunk, nextOffset, complete: finished && nextOffset === bytes.length });
        },
      },
      about,
    ),
    await serveMethods(
      bus,
      ReservationService,
      {
        reserve: () => throwFault({ code: "internal", operation: "reserve" }),
        checkReservation: () => throwFault({ code: "internal", operation: "checkReservation" }),
        unreserve: () => throwFault({ code: "internal", operation: "unreserve" }),
        acceptPreemption: () => throwFault({ code: "internal", operation: "acceptPreemption" }),
        requeue: () => throwFault({ code: "internal", operation: "requeue" }),
        limitConcurrency: () => throwFault({ code: "internal", operation: "limitConcurrency" }),
        listDemand: () => throwFault({ code: "internal", operation: "listDemand" }),
        listMachines: () => throwFault({ code: "internal", operation: "listMachines" }),
        listQueues: () => throwFault({ code: "internal", operation: "listQueues" }),
        listUsage: () => throwFault({ code: "internal", operation: "listUsage" }),
        getReservation: ({ owner }) =>
          owner?.id === "waiting"
            ? Promise.resolve({ reservation })
            : throwFault({ code: "not_found", kind: "reservation", id: owner?.id ?? "" }),
        explainReservation: ({ owner }) =>
          owner?.id === "waiting"
            ? Promise.resolve(explanation)
            : owner?.kind === "lease" && owner.id === "train"
              ? Promise.resolve({ reservation: granted })
              : throwFault({ code: "not_found", kind: "reservation", id: owner?.id ?? "" }),
        listReservations: () => Promise.resolve({ reservations: [reservation] }),
        listPools: () =>
          Promise.resolve({
            pools: [
              {
                name: "drivers",
                available: 1,
                capacity: 2,
                held: 1,
                unusable: 1,
                unusableByReason: [{ reason: "CORDONED", count: 1 }],
              },
              { name: "workers", capacity: 4, held: 4, waiting: 2 },
            ],
          }),
      },
      about,
    ),
    await serveMethods(
      bus,
      WatchService,
      { getStatus: () => Promise.resolve({ ageMs: 1200, synced: true, pods: 3, nodes: 6 }) },
      about,
    ),
  ];
}
