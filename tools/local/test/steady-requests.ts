import { setTimeout as sleep } from "node:timers/promises";
import { makeClient, connectNats, type NatsAccess, type NatsBus } from "@muster/bus";
import { type Fault, findFault, isRetryable } from "@muster/faults";
import {
  FarmService,
  JobService,
  LeaseService,
  muster,
  ReservationService,
  SessionService,
  subjects,
  WatchService,
} from "@muster/proto";
import { until } from "@muster/testkit";
import { expect } from "vitest";

const EVERY_MS = 500;
/** The timeout of the command line. */
const PATIENT = { timeoutMs: 15_000 };
const { ComponentKind } = muster.session.v1;
const { AllocationStrategy } = muster.farm.v1;
const IMAGE = "node:24-bookworm-slim";

/** One request, as its caller observes it. */
export type Request = {
  readonly to: string;
  readonly startMs: number;
  readonly endMs: number;
  /** The refusal; undefined if the request succeeded. */
  readonly refused?: { readonly fault: Fault | undefined; readonly message: string };
};

export type Seen = {
  readonly requests: readonly Request[];
  /** Periods in which NATS was unreachable. */
  readonly away: readonly { readonly fromMs: number; readonly toMs: number }[];
  /** Names of the acknowledged objects, by kind. */
  readonly acknowledged: Readonly<Record<Kind, readonly string[]>>;
};

type Kind = "sets" | "sessions";
type Taken = { readonly server: string; readonly driver: string };

type WriteOptions = Taken & {
  /** Prefix of the names, because ended sessions stay listed. */
  readonly prefix: string;
};

/** Sequential requests to every service until `end`. Disposal deletes the written objects. */
export type SteadyRequests = AsyncDisposable & {
  readonly end: () => Promise<Seen>;
  /** Names of the written objects that exist, by kind. */
  readonly existing: () => Promise<Readonly<Record<Kind, readonly string[]>>>;
};

/**
 * Sends reads that are answered immediately, and writes replica sets without replicas and sessions that wait because the pools are taken. Retryable refusals of
 * writes are retried.
 */
export async function startSteadyRequests(access: NatsAccess, options: WriteOptions): Promise<SteadyRequests> {
  const losses: number[] = [];
  const returns: number[] = [];
  const bus = await connectNats({
    ...access,
    name: "test",
    inboxPrefix: subjects.inbox("cli"),
    onStatus: (status) => {
      if (status === "disconnected") losses.push(Date.now());
      if (status === "reconnected") returns.push(Date.now());
    },
  });
  const requests: Request[] = [];
  const acknowledged: Record<Kind, string[]> = { sets: [], sessions: [] };
  const stop = new AbortController();
  const once = async (to: string, call: () => Promise<unknown>): Promise<Request> => {
    const startMs = Date.now();
    const refused = await call().then(
      () => undefined,
      (error: unknown) => ({ fault: findFault(error), message: String(error) }),
    );
    const request = { to, startMs, endMs: Date.now(), ...(refused && { refused }) };
    requests.push(request);
    await sleep(EVERY_MS);
    return request;
  };
  const read = async ([to, call]: readonly [string, () => Promise<unknown>]): Promise<void> => {
    while (!stop.signal.aborted) await once(to, call);
  };
  const writes = writesOf(bus, options);
  const write = async (kind: Kind): Promise<void> => {
    for (let number = 1; !stop.signal.aborted; number += 1) {
      const name = `${options.prefix}-${number}`;
      let request = await once(kind, () => writes[kind].write(name));
      while (isRetried(request)) request = await once(kind, () => writes[kind].write(name));
      if (request.refused === undefined) acknowledged[kind].push(name);
    }
  };
  const kinds = Object.keys(writes) as Kind[];
  const asking = Promise.all([...Object.entries(readsOf(bus)).map(read), ...kinds.map(write)]);
  const end = async (): Promise<Seen> => {
    stop.abort();
    await asking;
    const away = losses.map((fromMs, at) => ({ fromMs, toMs: returns[at] ?? Infinity }));
    return { requests, acknowledged, away };
  };
  return {
    end,
    existing: async () => ({ sets: await writes.sets.existing(), sessions: await writes.sessions.existing() }),
    [Symbol.asyncDispose]: async () => {
      await end();
      for (const kind of kinds) await writes[kind].remove(await writes[kind].existing());
      await bus[Symbol.asyncDispose]();
    },
  };
}

/** Expects that every acknowledged object exists exactly once. */
export function expectKept({ acknowledged }: Pick<Seen, "acknowledged">, existing: Seen["acknowledged"]): void {
  for (const kind of ["sets", "sessions"] as const) {
    expect(acknowledged[kind].length).toBeGreaterThan(10);
    expect([...existing[kind]].sort()).toEqual([...acknowledged[kind]].sort());
  }
}

function isRetried({ refused }: Request): boolean {
  return refused?.fault !== undefined && isRetryable(refused.fault);
}

function readsOf(bus: NatsBus): Readonly<Record<string, () => Promise<unknown>>> {
  const farms = makeClient(bus, FarmService);
  const jobs = makeClient(bus, JobService);
  const leases = makeClient(bus, LeaseService);
  const reservations = makeClient(bus, ReservationService);
  const sessions = makeClient(bus, SessionService);
  const watchers = makeClient(bus, WatchService);
  return {
    "replication-farm": () => farms.listReplicaSets({ limit: 1 }, PATIENT),
    "job-controller": () => jobs.listJobs({}, PATIENT),
    "provision-engine": () => leases.listLeases({}, PATIENT),
    "reservation-manager": () => reservations.listPools({}, PATIENT),
    "session-controller": () => sessions.listSessions({ limit: 1 }, PATIENT),
    watcher: () => watchers.getStatus({}, PATIENT),
  };
}

type Writes = {
  /** Idempotent. */
  readonly write: (name: string) => Promise<unknown>;
  readonly existing: () => Promise<readonly string[]>;
  readonly remove: (names: readonly string[]) => Promise<unknown>;
};

function writesOf(bus: NatsBus, { prefix, ...taken }: WriteOptions): Readonly<Record<Kind, Writes>> {
  const isOurs = (name: string | undefined): name is string => name?.startsWith(`${prefix}-`) === true;
  const farms = makeClient(bus, FarmService);
  const sessions = makeClient(bus, SessionService);
  const listed = async () => (await sessions.listSessions({}, PATIENT)).sessions;
  return {
    sets: {
      write: (name) => farms.applyReplicaSet({ requestId: name, name, spec: emptySet(name) }, PATIENT),
      existing: async () =>
        (await farms.listReplicaSets({}, PATIENT)).sets.map(({ record }) => record?.name).filter(isOurs),
      remove: (names) =>
        Promise.all(names.map((name) => farms.deleteReplicaSet({ requestId: `end-${name}`, name }, PATIENT))),
    },
    sessions: {
      write: (name) => sessions.submitSession({ requestId: name, name, spec: waitingSession(taken) }, PATIENT),
      existing: async () => (await listed()).map(({ name }) => name).filter(isOurs),
      remove: async (names) => {
        const requests = names.map((name) => ({ requestId: `end-${name}`, name }));
        await Promise.all(requests.map((request) => sessions.cancelSession(request, PATIENT)));
        await until("all sessions have ended", async () =>
          (await listed()).every(({ name, finishedAtMs }) => !isOurs(name) || finishedAtMs > 0),
        );
      },
    },
  };
}

function emptySet(name: string): muster.farm.v1.ReplicaSetSpec.$Properties {
  const templateJson = JSON.stringify({ spec: { containers: [{ name: "main", image: IMAGE }] } });
  const allocationStrategy = AllocationStrategy.ALLOCATION_STRATEGY_DYNAMIC;
  return { podId: name, templateJson, nodeSelector: "pool=workers", replicasDesired: 0, allocationStrategy };
}

function waitingSession({ server, driver }: Taken): muster.session.v1.SessionSpec.$Properties {
  const component = { image: IMAGE, command: ["node", "--version"] };
  return {
    components: [
      { ...component, name: "server", pool: server, kind: ComponentKind.COMPONENT_KIND_SERVER },
      { ...component, name: "driver", pool: driver, kind: ComponentKind.COMPONENT_KIND_DRIVER },
    ],
  };
}
