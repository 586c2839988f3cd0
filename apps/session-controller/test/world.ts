import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { CoreV1Api } from "@kubernetes/client-node";
import { makeClient, connectNats, type Client, type NatsBus } from "@muster/bus";
import { buckets, muster, ReservationService, SessionService, streams, subjects } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { startTestNats, buildProcessEnv, type TestNats, until, makePatientClient } from "@muster/testkit";
import { expect } from "vitest";

const APPS = fileURLToPath(new URL("../../", import.meta.url));

export type Controller = {
  readonly pid: number;
  /** Sends SIGKILL: the process stops without any message. */
  kill(): Promise<void>;
  /** Sends SIGTERM: sessions in progress are handed back. */
  stop(): Promise<void>;
};

/** The cluster of a world, whatever its pods are. */
export type TestCluster = AsyncDisposable & { readonly kubeconfig: string; readonly api: CoreV1Api };

/** A bus, a cluster, the watcher, the ledger, and as many controllers as a test starts. */
export type SessionWorld<Cluster extends TestCluster = TestCluster> = AsyncDisposable & {
  readonly nats: TestNats;
  readonly bus: NatsBus;
  readonly cluster: Cluster;
  readonly sessions: Client<typeof SessionService>;
  readonly ledger: Client<typeof ReservationService>;
  /** A watcher runs from the beginning. */
  readonly watcher: { kill(): Promise<void>; start(): Promise<void>; freeze(): void; thaw(): void };
  startController(env?: Readonly<Record<string, string>>): Promise<Controller>;
};

/** Starts everything but the controllers; disposing the world also disposes the cluster. */
export async function openSessionWorld<Cluster extends TestCluster>(
  cluster: Cluster,
  pools: Readonly<Record<string, number>>,
  watcherEnv: Readonly<Record<string, string>> = {},
  ledgerEnv: Readonly<Record<string, string>> = {},
): Promise<SessionWorld<Cluster>> {
  // Parts that were started before a failure end, too.
  await using starting = new AsyncDisposableStack();
  starting.use(cluster);
  const nats = starting.use(await startTestNats());
  let stack = starting;
  const start = async (app: string, more: Readonly<Record<string, string>>): Promise<ChildProcess> => {
    const child = await startApp(app, {
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      MUSTER_KUBECONFIG: cluster.kubeconfig,
      MUSTER_LOG_LEVEL: process.env["MUSTER_LOG_LEVEL"] ?? "error",
      ...more,
    });
    stack.defer(() => ended(child, "SIGKILL"));
    return child;
  };
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  let watcher = await start("watcher", watcherEnv);
  await start("reservation-manager", ledgerEnv);
  const sessions = makePatientClient(makeClient(bus, SessionService));
  const ledger = makePatientClient(makeClient(bus, ReservationService));
  /** Returns the ids of the live session controllers. */
  const replicas = async (): Promise<ReadonlySet<string>> => {
    const ids = new Set<string>();
    try {
      const answers = await bus.connection.requestMany(subjects.ping("session"), "", {
        strategy: "stall",
        maxWait: 1000,
      });
      for await (const answer of answers) ids.add(answer.json<{ readonly id: string }>().id);
    } catch {
      // Without a responder the request fails.
    }
    return ids;
  };
  const known = async (): Promise<boolean> => {
    const { pools: found } = await ledger.listPools({});
    return Object.entries(pools).every(([pool, count]) =>
      found.some(({ name, capacity }) => name === pool && capacity === count),
    );
  };
  await until("the ledger knows every machine", known);
  stack = starting.move();
  return {
    nats,
    bus,
    cluster,
    sessions,
    ledger,
    watcher: {
      kill: () => ended(watcher, "SIGKILL"),
      start: async () => {
        watcher = await start("watcher", watcherEnv);
      },
      freeze: () => void watcher.kill("SIGSTOP"),
      thaw: () => void watcher.kill("SIGCONT"),
    },
    startController: async (env = {}) => {
      const before = await replicas();
      const child = await start("session-controller", {
        SESSION_LOCK_TTL_MS: "900",
        SESSION_SWEEP_MS: "300",
        SESSION_KILL_AFTER_MS: "1000",
        SESSION_LOOK_AGAIN_MS: "100",
        // Scripted pods have no logs.
        SESSION_LOG_PATIENCE_MS: "100",
        SESSION_RESULT_PATIENCE_MS: "100",
        ...env,
      });
      // An earlier replica answers requests as well, so wait for a new id.
      const isNew = async (): Promise<boolean> => [...(await replicas())].some((id) => !before.has(id));
      await until("the new controller answers", isNew, { timeoutMs: 60_000 });
      await sessions.listSessions({ limit: 1 }, { timeoutMs: 50_000 });
      return {
        pid: child.pid ?? 0,
        kill: () => ended(child, "SIGKILL"),
        stop: () => ended(child, "SIGTERM"),
      };
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function startApp(app: string, env: Readonly<Record<string, string>>): Promise<ChildProcess> {
  const child = spawn(process.execPath, [`${APPS}${app}/src/main.ts`], {
    env: { ...buildProcessEnv(), ...env },
    stdio: ["ignore", "inherit", "inherit"],
  });
  await once(child, "spawn");
  return child;
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
}

type ComponentProperties = muster.session.v1.Component.$Properties;

const KIND = muster.session.v1.ComponentKind;

/** A component that runs this script; its pool is `drivers` or `workers`. */
export function makeScripted(
  name: string,
  kind: "driver" | "server" | "client",
  ...args: string[]
): ComponentProperties {
  const wire = {
    driver: KIND.COMPONENT_KIND_DRIVER,
    server: KIND.COMPONENT_KIND_SERVER,
    client: KIND.COMPONENT_KIND_CLIENT,
  };
  return { name, kind: wire[kind], pool: kind === "driver" ? "drivers" : "workers", image: "scripted", args };
}

/** A driver that acts by the words, with a server and a client that serve. */
export function makeTrio(...driver: string[]): ComponentProperties[] {
  return [
    makeScripted("driver", "driver", ...driver),
    makeScripted("server-0", "server", "serve"),
    makeScripted("client-0", "client", "serve"),
  ];
}

/** Submits a session under a request id of its name; does not wait for a controller that does not answer. */
export async function submitSession(
  world: SessionWorld,
  name: string,
  components: ComponentProperties[],
  more: muster.session.v1.SessionSpec.$Properties = {},
): Promise<void> {
  const spec = { components, ...more };
  await world.sessions.submitSession({ requestId: name, name, spec }, { timeoutMs: 30_000 });
}

/** Reads the stored record of the session, also while no controller runs. */
export async function readStoredRecord(world: SessionWorld, name: string): Promise<muster.session.v1.SessionRecord> {
  const codec = makeProtoCodec(muster.session.v1.SessionRecord);
  const records = await openBucket(world.bus.connection, { name: buckets.sessions, codec });
  const found = await records.get(name);
  if (found === undefined) throw new Error(`${name} is not stored`);
  return found.value;
}

/** Waits until the event is stored. */
export async function waitForEvent(world: SessionWorld, name: string, event: string): Promise<void> {
  const saw = async (): Promise<boolean> =>
    listEvents((await readStoredRecord(world, name)).session ?? {}).includes(event);
  await until(`${name} is at ${event}`, saw);
}

/** Returns the names of the published events from their stream, which has them even if the test is slow or the session has expired. */
export async function listPublishedEvents({ bus }: SessionWorld, name: string): Promise<string[]> {
  const found: string[] = [];
  const read = (from: number) => bus.readMessage(streams.events.name, subjects.sessionEventRecorded(name), from);
  for (let message = await read(1); message !== undefined; message = await read(message.sequence + 1)) {
    const { event } = muster.session.v1.SessionEventRecorded.decode(message.payload);
    found.push(...listEvents({ events: [event ?? {}] }));
  }
  return found;
}

/** The events of a session that ran, before its end. */
export const RAN = ["QUEUE", "ACCEPT", "PROVISION", "RUN"];

/** Names of the events so far. */
export function listEvents(session: muster.session.v1.Session.$Properties): string[] {
  return (session.events ?? []).map(({ kind }) => {
    const name = Object.entries(muster.session.v1.SessionEventKind).find(([, value]) => value === kind)?.[0] ?? "";
    return name.replace("SESSION_EVENT_KIND_", "");
  });
}

/** Follows the session by long polls, as users do, until it is finished. For tests in which every controller that answers stays alive. */
export async function followSession(world: SessionWorld, name: string): Promise<muster.session.v1.Session.$Properties> {
  let afterRevision = 0;
  for (;;) {
    const request = { name, afterRevision, waitMs: 25_000 };
    const { session } = await world.sessions.watchSession(request, { timeoutMs: 40_000 });
    if ((session?.finishedAtMs ?? 0) > 0) return session ?? {};
    afterRevision = session?.revision ?? 0;
  }
}

/** Polls the session until it is finished. */
export async function waitUntilFinished(
  world: SessionWorld,
  name: string,
): Promise<muster.session.v1.Session.$Properties> {
  return await until(
    `session ${name} is finished`,
    async () => {
      const { session } = await world.sessions.getSession({ name });
      return (session?.finishedAtMs ?? 0) > 0 ? (session ?? undefined) : undefined;
    },
    { everyMs: 50 },
  );
}

/** Expects no pod and no machine of the session. */
export async function expectNothingLeft(world: SessionWorld): Promise<void> {
  const { items } = await world.cluster.api.listNamespacedPod({ namespace: "default" });
  expect(items.map(({ metadata }) => metadata?.name)).toEqual([]);
  const { reservations } = await world.ledger.listReservations({});
  expect(reservations.map(({ owner }) => owner?.id)).toEqual([]);
}

/** As `expectNothingLeft`, after waiting for the sweep. */
export async function waitUntilNothingLeft(world: SessionWorld): Promise<void> {
  await until("nothing is left", async () => {
    await expectNothingLeft(world);
    return true;
  });
}
