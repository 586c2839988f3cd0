import { setTimeout as sleep } from "node:timers/promises";
import { deadLetters } from "@muster/bus";
import type { KubeObject } from "@muster/kube";
import { streams, subjects, buckets } from "@muster/proto";
import { openBucket } from "@muster/store";
import { jobsToGo, podsToGo, servicesToGo } from "./domain/decide-leftovers.ts";
import type { LedgerFact, Left, Observed, SessionSeen } from "./domain/observed.ts";
import type { JobShape } from "./domain/plan-jobs.ts";
import { NAMESPACE } from "./job-observer.ts";
import { readLedgerEntry, readPublished, toSessionSeen } from "./messages.ts";
import type { World } from "./world.ts";

const CALL_TIMEOUT_MS = 10_000;
const LOOK_EVERY_MS = 250;
/** A reply of so many sessions stays well below what a message may have. */
const PAGE = 50;

/** What there was, and so may be left. */
export type Expected = { readonly pools: Readonly<Record<string, number>>; readonly jobs: readonly JobShape[] };

/** Looks until nothing is left, or until the time is over. */
export async function awaitNothingLeft(
  world: World,
  { pools, jobs }: Expected,
  { limitMs, signal }: { readonly limitMs: number; readonly signal: AbortSignal },
): Promise<Left> {
  const end = performance.now() + limitMs;
  for (;;) {
    const left = await whatIsLeft(world, { pools, jobs }, signal);
    const isClean = [left.pods, left.jobs, left.objects, left.reservations, left.machines].every(
      (each) => each.length === 0,
    );
    if (isClean || performance.now() > end) return left;
    await sleep(LOOK_EVERY_MS, undefined, { signal });
  }
}

async function whatIsLeft(world: World, { pools, jobs }: Expected, signal: AbortSignal): Promise<Left> {
  const { bus, ledger, pods } = world;
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal };
  const { reservations } = await ledger.listReservations({}, options);
  const seen = new Map((await ledger.listPools({}, options)).pools.map((pool) => [pool.name, pool]));
  const letters = await deadLetters(bus).list();
  return {
    pods: podsToGo(pods.present(), jobs, world.jobs.isThere),
    jobs: jobsToGo(jobs, world.jobs.isThere),
    objects: await objectsLeft(world, jobs, signal),
    reservations: reservations.map(({ owner, id }) => `${id} of ${owner?.id ?? ""}`),
    machines: Object.entries(pools).flatMap(([name, nodes]) => {
      const { available = 0, held = 0, unusable = 0 } = seen.get(name) ?? {};
      return available === nodes ? [] : [`${name}: ${available} of ${nodes} free, ${held} held, ${unusable} unusable`];
    }),
    deadLetters: letters.map(({ area, subject, reason }) => `${area} ${subject}: ${reason}`),
    locks: [],
  };
}

/** Services and budgets that the job-controller has made. */
async function objectsLeft(
  { calls, jobs: there }: World,
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
    ...servicesToGo(await list("v1", "services"), jobs, there.isThere),
    ...budgets.map(({ name }) => `budget ${name}`),
  ];
}

/**
 * Locks that nobody can have: before the services are stopped those of processes that are gone, afterwards all. The holder's silence has to be noticed first, so this waits
 * until none is left or the time is over.
 */
export async function locksLeft(
  { bus }: Pick<World, "bus">,
  { livingPids, limitMs }: { readonly livingPids: () => readonly number[]; readonly limitMs: number },
): Promise<string[]> {
  const codec = { encode: () => new Uint8Array(), decode: readHolder };
  const locks = await openBucket(bus.connection, { name: buckets.locks, codec });
  const end = performance.now() + limitMs;
  for (;;) {
    const pids = livingPids();
    const left = (await locks.list()).filter(({ value: holder }) => holder !== "" && !pids.includes(pidOf(holder)));
    if (left.length === 0 || performance.now() > end) return left.map(({ key, value }) => `${key} of ${value}`);
    await sleep(LOOK_EVERY_MS);
  }
}

/** Services name themselves `<service>-<host>-<process>-<random>`. */
function pidOf(holder: string): number {
  return Number(holder.split("-").at(-2));
}

/** A lock that was given up keeps its place, so that its tokens go on, and has no holder. */
function readHolder(bytes: Uint8Array): string {
  const { holder } = JSON.parse(new TextDecoder().decode(bytes)) as { holder: string };
  return holder;
}

export async function listSessions({ sessions }: World): Promise<Map<string, SessionSeen>> {
  const found = new Map<string, SessionSeen>();
  for (let from = ""; ;) {
    const page = await sessions.listSessions({ continue: from, limit: PAGE }, { timeoutMs: CALL_TIMEOUT_MS });
    for (const session of page.sessions) {
      const seen = toSessionSeen(session);
      found.set(seen.name, seen);
    }
    if (page.continue === "") return found;
    from = page.continue;
  }
}

/** Which kinds of events were published of each session. */
export async function readAllPublished({ bus }: World): Promise<Observed["published"]> {
  const found = new Map<string, Set<string>>();
  for await (const { payload } of readAll(bus, streams.events.name, subjects.anySessionEventRecorded)) {
    const { session, kind } = readPublished(payload);
    found.set(session, (found.get(session) ?? new Set()).add(kind));
  }
  return found;
}

export async function readLedger({ bus }: World): Promise<LedgerFact[]> {
  const owners = new Map<string, string>();
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
