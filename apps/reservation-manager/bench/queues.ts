import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { makeClient, type NatsBus } from "@muster/bus";
import { buckets, muster, ReservationService, subjects } from "@muster/proto";
import { openBucket } from "@muster/store";
import { startTestNats, selectSize, until } from "@muster/testkit";
import { queueCodec } from "../src/adapters/queue-messages.ts";
import { connectUser, openNodeWriter, retryUntilAnswered, startManager, type Reservations } from "../test/managers.ts";
import { readCpuMs, readResidentMiB } from "./load.ts";
import { startBare } from "./bare.ts";

/** The data set of Kueue's own benchmark: the work of each class in each queue, with its times. */
const COHORTS = 5;
const QUEUES_PER_COHORT = 6;
const NOMINAL_CPU = 20_000;
const BORROWING_LIMIT_CPU = 100_000;
const CLASSES = [
  { name: "small", cpu: 1000, runMs: 200, count: selectSize(350, 7), everyMs: 100, priority: 50 },
  { name: "medium", cpu: 5000, runMs: 500, count: selectSize(100, 2), everyMs: 500, priority: 100 },
  { name: "large", cpu: 20_000, runMs: 1000, count: selectSize(50, 1), everyMs: 1200, priority: 200 },
] as const;
const NODES = 20;
/** Enough nodes for all work that runs concurrently. */
const MANY_NODES = selectSize(500, 50);
const NODE_CPU = 64_000;
const MAX_IN_FLIGHT = 256;

const POLL_MS = 2000;
const { RESERVATION_STATE_GRANTED: GRANTED } = muster.reservation.v1.ReservationState;

type Class = (typeof CLASSES)[number];
type Work = { readonly id: string; readonly queue: string; readonly class: Class; readonly dueMs: number };
type Outcome = { readonly totalMs: number; readonly waitsMs: ReadonlyMap<string, readonly number[]> };

/** Runs the data set twice: at Kueue's pace, where quota decides, and at the ledger's maximum rate, where no request waits. */
export async function benchQueues(): Promise<void> {
  const works = CLASSES.reduce((sum, { count }) => sum + count, 0) * COHORTS * QUEUES_PER_COHORT;
  console.log(`Kueue's benchmark set: ${COHORTS} cohorts of ${QUEUES_PER_COHORT} queues, ${works} pieces of work`);
  const bound = await measure({ nominalCpu: NOMINAL_CPU, isPaced: true });
  const free = await measure({ nominalCpu: works * NODE_CPU, isPaced: false });
  console.table([
    { run: "bound by quota, paced", ...bound },
    { run: "quota without limit, 1 ms each", ...free },
  ]);
}

async function measure({ nominalCpu, isPaced }: { readonly nominalCpu: number; readonly isPaced: boolean }) {
  await using server = await startTestNats();
  await using bus = await connectUser(server, "job-controller");
  await writeWorld(bus, nominalCpu, isPaced);
  await using manager = startManager(server, { RESERVATION_LOCK_TTL_MS: "10000" });
  const reservations = makeClient(bus, ReservationService);
  await until("the ledger has the queues", async () => {
    const { queues } = await retryUntilAnswered(() => reservations.listQueues({}));
    return queues.length === COHORTS * (QUEUES_PER_COHORT + 1);
  });
  await using bare = await startBare(server, 100);
  const bareBegin = performance.now();
  const bareRequests = selectSize(5000, 200);
  await inFlight(Array.from({ length: bareRequests }), () => bare.ask(new Uint8Array(100)));
  const barePerSecond = (bareRequests * 1000) / (performance.now() - bareBegin);
  const usedMs = readCpuMs(manager.pid);
  const works = plan();
  const { totalMs, waitsMs } = await run(bus, works, isPaced);
  const mean = (name: string): number => {
    const waits = waitsMs.get(name) ?? [];
    return Math.round(waits.reduce((sum, wait) => sum + wait, 0) / waits.length);
  };
  const perSecond = (works.length * 1000) / totalMs;
  return {
    s: Math.round(totalMs / 100) / 10,
    "admitted/s": Math.round(perSecond),
    "requests/s beside bare": Math.round((200 * perSecond) / barePerSecond) / 100,
    ...Object.fromEntries(CLASSES.map(({ name }) => [`mean wait of ${name} ms`, mean(name)])),
    "ledger ms of processor each": Math.round(((readCpuMs(manager.pid) - usedMs) * 1000) / works.length) / 1000,
    "ledger MiB": readResidentMiB(manager.pid),
  };
}

async function writeWorld(bus: NatsBus, nominalCpu: number, isPaced: boolean): Promise<void> {
  const nodes = await openNodeWriter(bus);
  for (let index = 0; index < (isPaced ? NODES : MANY_NODES); index += 1)
    await nodes.put(`node-${index}`, "pool", { allocatable: { cpu: NODE_CPU, pods: 110 } });
  const bucket = await openBucket(bus.connection, { name: buckets.queues, codec: queueCodec });
  const put = (queue: muster.reservation.v1.Queue.$Properties) =>
    bucket.create(queue.name ?? "", queueCodec.decode(muster.reservation.v1.Queue.encode(queue).finish()));
  for (let cohort = 0; cohort < COHORTS; cohort += 1) {
    await put({ name: `cohort-${cohort}`, weightMilli: 1000 });
    for (let index = 0; index < QUEUES_PER_COHORT; index += 1) {
      const limits = { nominal: nominalCpu, borrowingLimit: BORROWING_LIMIT_CPU };
      await put({
        ...{ name: queueName(cohort, index), parent: `cohort-${cohort}`, weightMilli: 1000 },
        quotas: [{ pool: "pool", resources: [{ resource: "cpu", ...limits }] }],
      });
    }
  }
}

function queueName(cohort: number, index: number): string {
  return `queue-${cohort}-${index}`;
}

function plan(): readonly Work[] {
  const works: Work[] = [];
  for (let cohort = 0; cohort < COHORTS; cohort += 1)
    for (let index = 0; index < QUEUES_PER_COHORT; index += 1)
      for (const each of CLASSES)
        for (let turn = 0; turn < each.count; turn += 1)
          works.push({
            id: `${each.name}-${cohort}-${index}-${turn}`,
            queue: queueName(cohort, index),
            class: each,
            dueMs: turn * each.everyMs,
          });
  return works.sort((a, b) => a.dueMs - b.dueMs);
}

/** Submits all work and releases each reservation after its run time; resolves after the last release. */
async function run(bus: NatsBus, works: readonly Work[], isPaced: boolean): Promise<Outcome> {
  const reservations = makeClient(bus, ReservationService);
  const waitsMs = new Map<string, number[]>(CLASSES.map(({ name }) => [name, []]));
  const submitted = new Map<string, { readonly work: Work; readonly atMs: number }>();
  const done = Promise.withResolvers<undefined>();
  let left = works.length;
  const granted = async (ownerId: string, reservationId: string): Promise<void> => {
    const known = submitted.get(ownerId);
    if (known === undefined || !submitted.delete(ownerId)) return;
    waitsMs.get(known.work.class.name)?.push(performance.now() - known.atMs);
    await sleep(isPaced ? known.work.class.runMs : 1);
    await retryUntilAnswered(() => reservations.unreserve({ owner: { kind: "job", id: ownerId }, reservationId }));
    left -= 1;
    if (left === 0) done.resolve(undefined);
  };
  const subscription = bus.connection.subscribe(subjects.anyReservationGranted, {
    callback: (_error, message) => {
      const { reservation } = muster.reservation.v1.ReservationGranted.decode(message.data);
      void granted(reservation?.owner?.id ?? "", reservation?.id ?? "").catch(done.reject);
    },
  });
  // Events are hints, and the announcer drops some under load: a poll finds grants whose event was dropped.
  const polling = setInterval(() => {
    void findGranted(reservations, granted).catch(done.reject);
  }, POLL_MS);
  const begin = performance.now();
  const submit = async (work: Work): Promise<void> => {
    if (isPaced) await sleep(Math.max(0, begin + work.dueMs - performance.now()));
    submitted.set(work.id, { work, atMs: performance.now() });
    const needs = [{ component: "c", pool: "pool", shared: { requests: { cpu: work.class.cpu } } }];
    const owner = { kind: "job", id: work.id };
    const request = { owner, needs, wait: true, queue: work.queue, priority: work.class.priority };
    const { reservation } = await retryUntilAnswered(() => reservations.reserve(request));
    if (reservation?.state === GRANTED) void granted(work.id, reservation.id).catch(done.reject);
  };
  if (isPaced) await Promise.all(works.map(submit));
  else await inFlight(works, submit);
  await done.promise;
  clearInterval(polling);
  subscription.unsubscribe();
  return { totalMs: performance.now() - begin, waitsMs };
}

async function findGranted(
  reservations: Reservations,
  granted: (ownerId: string, reservationId: string) => Promise<void>,
): Promise<void> {
  for (let after = ""; ;) {
    const page = await retryUntilAnswered(() => reservations.listReservations({ ownerKind: "job", continue: after }));
    for (const { id, owner, state } of page.reservations) if (state === GRANTED) void granted(owner?.id ?? "", id);
    after = page.continue;
    if (after === "") return;
  }
}

async function inFlight<Item>(items: readonly Item[], work: (item: Item) => Promise<unknown>): Promise<void> {
  const left = items.values();
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: MAX_IN_FLIGHT }, worker));
}
