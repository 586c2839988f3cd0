import { setTimeout as sleep } from "node:timers/promises";
import { openDeadLetters } from "@muster/bus";
import type { KubeObject } from "@muster/kube";
import { streams, subjects, buckets } from "@muster/proto";
import { openBucket } from "@muster/store";
import { listLeftoverJobs, listLeftoverPods, listLeftoverServices } from "./domain/decide-leftovers.ts";
import type { LedgerFact, Leftovers, RunObservations, QueueSeen, SessionSeen } from "./domain/observed.ts";
import type { JobShape } from "./domain/plan-jobs.ts";
import { NAMESPACE } from "./job-observer.ts";
import { readLedgerEntry, readPublished, toPairs, toSessionSeen, type RequestedWork } from "./messages.ts";
import type { World } from "./world.ts";

const CALL_TIMEOUT_MS = 10_000;
const POLL_MS = 250;
/** A page of this many sessions stays well below the maximum message size. */
const PAGE_LIMIT = 50;

export type ExpectedWork = { readonly pools: Readonly<Record<string, number>>; readonly jobs: readonly JobShape[] };

/** Polls until all resources are gone or the time is over. */
export async function waitForCleanUp(
  world: World,
  { pools, jobs }: ExpectedWork,
  { limitMs, signal }: { readonly limitMs: number; readonly signal: AbortSignal },
): Promise<Leftovers> {
  const end = performance.now() + limitMs;
  for (;;) {
    const left = await listLeftovers(world, { pools, jobs }, signal);
    const isClean = [left.pods, left.jobs, left.objects, left.reservations, left.machines, left.queues].every(
      (each) => each === undefined || each.length === 0,
    );
    if (isClean || performance.now() > end) return left;
    await sleep(POLL_MS, undefined, { signal });
  }
}

async function listLeftovers(world: World, { pools, jobs }: ExpectedWork, signal: AbortSignal): Promise<Leftovers> {
  const { bus, ledger, pods } = world;
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal };
  const { reservations } = await ledger.listReservations({}, options);
  const seen = new Map((await ledger.listPools({}, options)).pools.map((pool) => [pool.name, pool]));
  const letters = await openDeadLetters(bus).list();
  return {
    pods: listLeftoverPods(pods.present(), jobs, world.jobs.exists),
    jobs: listLeftoverJobs(jobs, world.jobs.exists),
    objects: await listObjectsLeft(world, jobs, signal),
    reservations: reservations.map(({ owner, id }) => `${id} of ${owner?.id ?? ""}`),
    machines: Object.entries(pools).flatMap(([name, nodes]) => {
      const { available = 0, held = 0, unusable = 0 } = seen.get(name) ?? {};
      return available === nodes ? [] : [`${name}: ${available} of ${nodes} free, ${held} held, ${unusable} unusable`];
    }),
    deadLetters: letters.map(({ area, subject, reason }) => `${area} ${subject}: ${reason}`),
    queues: await listQueuesLeft(world, signal),
    locks: [],
  };
}

/** Lists the use and the waiting requests of queues in the ledger, and queue states that differ from it. */
async function listQueuesLeft({ ledger, queues: observer }: World, signal: AbortSignal): Promise<string[]> {
  const { queues } = await ledger.listQueues({}, { timeoutMs: CALL_TIMEOUT_MS, signal });
  const seen = new Map(observer.seen().map((queue) => [queue.name, queue]));
  const names = new Set([...seen.keys(), ...queues.map(({ queue }) => queue?.name ?? "")]);
  return [...names].flatMap((name) => {
    const state = queues.find(({ queue }) => queue?.name === name);
    const inLedger =
      state && describeQueue({ pending: state.pending, admitted: state.admitted, used: toPairs(state.used) });
    const status = seen.get(name);
    const inStatus = status && describeQueue(status);
    if (inLedger === NO_USE && inStatus === NO_USE) return [];
    return [`${name}: ${inLedger ?? "missing"} in the ledger, ${inStatus ?? "missing"} in its status`];
  });
}

type QueueNumbers = Pick<QueueSeen, "pending" | "admitted" | "used">;

function describeQueue({ pending, admitted, used }: QueueNumbers): string {
  return `${pending} pending, ${admitted} admitted, uses ${[...used].map(([pair, amount]) => `${amount} ${pair}`).join(", ")}`;
}

const NO_USE = describeQueue({ pending: 0, admitted: 0, used: new Map() });

/** Lists services and budgets that the job-controller has created. */
async function listObjectsLeft(
  { calls, jobs: observer }: World,
  jobs: readonly JobShape[],
  signal: AbortSignal,
): Promise<string[]> {
  const list = async (apiVersion: string, plural: string) => {
    const { items } = await calls.list<KubeObject>({ apiVersion, plural, namespace: NAMESPACE }, { signal });
    return items.flatMap(({ metadata }) => {
      const work = metadata?.ownerReferences?.find(({ kind }) => kind === "Job")?.name;
      return work === undefined ? [] : [{ name: metadata?.name ?? "", work }];
    });
  };
  const budgets = await list("policy/v1", "poddisruptionbudgets");
  return [
    ...listLeftoverServices(await list("v1", "services"), jobs, observer.exists),
    ...budgets.map(({ name }) => `budget ${name}`),
  ];
}

/**
 * Returns locks without a living holder. Waits until none is left or the time is over, because a lock is only released after its TTL.
 */
export async function listLocksLeft(
  { bus }: Pick<World, "bus">,
  { livingPids, limitMs }: { readonly livingPids: () => readonly number[]; readonly limitMs: number },
): Promise<string[]> {
  const codec = { encode: () => new Uint8Array(), decode: readHolder };
  const locks = await openBucket(bus.connection, { name: buckets.locks, codec });
  const end = performance.now() + limitMs;
  for (;;) {
    const pids = livingPids();
    const left = (await locks.list()).filter(({ value: holder }) => holder !== "" && !pids.includes(parsePid(holder)));
    if (left.length === 0 || performance.now() > end) return left.map(({ key, value }) => `${key} of ${value}`);
    await sleep(POLL_MS);
  }
}

/** The holder of a lock is `<service>-<host>-<pid>-<random>`. */
function parsePid(holder: string): number {
  return Number(holder.split("-").at(-2));
}

/** A released lock keeps its key, so that its tokens continue, and has no holder. */
function readHolder(bytes: Uint8Array): string {
  const { holder } = JSON.parse(new TextDecoder().decode(bytes)) as { holder: string };
  return holder;
}

export async function listSessions({ sessions }: World): Promise<Map<string, SessionSeen>> {
  const found = new Map<string, SessionSeen>();
  for (let from = ""; ;) {
    const page = await sessions.listSessions({ continue: from, limit: PAGE_LIMIT }, { timeoutMs: CALL_TIMEOUT_MS });
    for (const session of page.sessions) {
      const seen = toSessionSeen(session);
      found.set(seen.name, seen);
    }
    if (page.continue === "") return found;
    from = page.continue;
  }
}

/** The kinds of published events of each session. */
export async function readAllPublished({ bus }: World): Promise<RunObservations["published"]> {
  const found = new Map<string, Set<string>>();
  for await (const { payload } of readAll(bus, streams.events.name, subjects.anySessionEventRecorded)) {
    const { session, kind } = readPublished(payload);
    found.set(session, (found.get(session) ?? new Set()).add(kind));
  }
  return found;
}

export async function readLedger({ bus }: World): Promise<LedgerFact[]> {
  const owners = new Map<string, RequestedWork>();
  const facts: LedgerFact[] = [];
  for await (const { payload } of readAll(bus, streams.ledger.name, streams.ledger.subjects[0])) {
    facts.push(...readLedgerEntry(payload, owners));
  }
  return facts;
}

async function* readAll(
  bus: World["bus"],
  stream: string,
  subject: string,
): AsyncGenerator<{ readonly payload: Uint8Array }> {
  for (let from = 1; ;) {
    const message = await bus.readMessage(stream, subject, from);
    if (message === undefined) return;
    yield message;
    from = message.sequence + 1;
  }
}
