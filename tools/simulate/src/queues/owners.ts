import { setTimeout as sleep } from "node:timers/promises";
import { client } from "@muster/bus";
import { describeFault, faultOf, isRetryable } from "@muster/faults";
import { ReservationService } from "@muster/proto";
import { idOf, type Machine } from "@muster/reservation-manager/reservation";
import { simBus } from "../sim-bus.ts";
import type { Process } from "../task-queue.ts";
import type { World } from "../world.ts";
import type { WorkPlan } from "./draw-work.ts";
import type { Machines } from "./machines.ts";

/** The progress of the work of all teams. */
export type Owners = {
  readonly plans: readonly WorkPlan[];
  /** By owner whose work is over: how it ended. */
  readonly outcomes: ReadonlyMap<string, string>;
};

export const OWNER_KIND = "job";
const RETRY_MS = 400;
const CALL_TIMEOUT_MS = 5000;
const MAX_START_MS = 500;
/** Answers that are final for requests that do not wait. */
const SHORT_NOW: readonly string[] = ["pool_availability", "limit_exceeded"];

type Grant = { readonly sequence: number; readonly machines: readonly Machine[] };

type OwnerDeps = {
  readonly world: World;
  readonly machines: Machines;
  readonly service: ReturnType<typeof client<typeof ReservationService>>;
  readonly gone: AbortSignal;
  readonly outcomes: Map<string, string>;
  /** Sequences that the log has now, by owner. */
  readonly reservations: ReadonlyMap<string, ReadonlySet<number>>;
  /** Resolves with the first grant of the owner. */
  readonly grantOf: (id: string) => Promise<Grant>;
};

/** Runs the owners as one process without faults, which requests over the bus like the controllers. They learn of grants from the log, without delay. */
export function startOwners(world: World, machines: Machines, plans: readonly WorkPlan[], gone: AbortSignal): Owners {
  const process: Process = { name: "owners", alive: true, frozenUntilMs: 0, clockOffsetMs: 0 };
  const outcomes = new Map<string, string>();
  const grants = new Map(plans.map(({ id }) => [id, Promise.withResolvers<Grant>()]));
  const grantOf = (id: string): Promise<Grant> => grants.get(id)?.promise ?? new Promise(() => undefined);
  world.time.as(process, () => {
    const service = client(simBus(world.bus, process, gone), ReservationService);
    const attempt = (id: string, work: () => Promise<void>): void => {
      work().catch((error: unknown) => {
        if (!gone.aborted) world.defects.push(`owner ${id}: ${error instanceof Error ? error.message : String(error)}`);
      });
    };
    const reservations = followLog(world, {
      granted: (id, grant) => grants.get(id)?.resolve(grant),
      // A request that was delayed reserves again for work that is over.
      requested: (id) => {
        const plan = plans.find((each) => each.id === id);
        if (plan !== undefined && outcomes.has(id)) world.time.as(process, () => attempt(id, () => end(deps, plan)));
      },
    });
    const deps: OwnerDeps = { world, machines, service, gone, outcomes, grantOf, reservations };
    for (const plan of plans) attempt(plan.id, () => runOwner(deps, plan));
  });
  return { plans, outcomes };
}

type LogListener = {
  readonly requested: (id: string) => void;
  readonly granted: (id: string, grant: Grant) => void;
};

/** Returns the sequences of the reservations that the log has now, by owner. */
function followLog({ ledger }: World, { requested, granted }: LogListener): Map<string, Set<number>> {
  const owners = new Map<number, string>();
  const reservations = new Map<string, Set<number>>();
  ledger.onEntry.push((events) => {
    for (const event of events) {
      if (event.kind === "requested") {
        const { sequence, owner } = event.reservation;
        owners.set(sequence, owner.id);
        reservations.set(owner.id, (reservations.get(owner.id) ?? new Set()).add(sequence));
        requested(owner.id);
      }
      if (event.kind === "granted") granted(owners.get(event.sequence) ?? "", event);
      if (event.kind === "released") reservations.get(owners.get(event.sequence) ?? "")?.delete(event.sequence);
    }
  });
  return reservations;
}

async function runOwner(deps: OwnerDeps, plan: WorkPlan): Promise<void> {
  const { world, machines, outcomes, grantOf } = deps;
  const { id, cancelAfterMs } = plan;
  await sleep(plan.submitAfterMs);
  const refused = await reserve(deps, plan);
  const waiting: Promise<Grant | undefined>[] = [grantOf(id)];
  if (cancelAfterMs !== undefined) waiting.push(sleep(cancelAfterMs).then(() => undefined));
  const grant = refused === undefined ? await Promise.race(waiting) : undefined;
  if (grant === undefined) {
    outcomes.set(id, refused ?? "cancelled");
    await end(deps, plan);
    return;
  }
  const owner = { kind: OWNER_KIND, id };
  await sleep(world.random.integer(0, MAX_START_MS));
  machines.startPods(owner, grant.machines);
  await sleep(plan.runMs);
  if (plan.lingerMs === 0) machines.endPods(owner);
  outcomes.set(id, "done");
  await end(deps, plan);
  await sleep(plan.lingerMs);
  machines.endPods(owner);
}

/** Releases until the log has no reservation of the owner: a deposed leader may answer from its old ledger. Controllers sweep for that. */
async function end(deps: OwnerDeps, { id }: WorkPlan): Promise<void> {
  const left = (): readonly number[] => [...(deps.reservations.get(id) ?? [])];
  while (left().length > 0) {
    for (const sequence of left()) {
      const reservationId = idOf(sequence);
      const request = { requestId: `release-${reservationId}`, owner: { kind: OWNER_KIND, id }, reservationId };
      await untilAnswered(deps, { id, wait: true }, (options) => deps.service.unreserve(request, options));
    }
    await sleep(RETRY_MS);
  }
}

/** Returns why the request was refused; undefined: it waits or is granted. */
async function reserve(deps: OwnerDeps, plan: WorkPlan): Promise<string | undefined> {
  const needs = plan.needs.map(({ component, pool, shared }) => {
    return { component, pool, ...(shared && { shared: { requests: Object.fromEntries(shared) } }) };
  });
  const { id, queue, wait, priority } = plan;
  const owner = { kind: OWNER_KIND, id };
  const request = { requestId: `reserve-${id}`, owner, needs, wait, priority, queue: queue ?? "" };
  return untilAnswered(deps, plan, (options) => deps.service.reserve(request, options));
}

/** Repeats the call until it has an answer. Returns the code of a refusal. */
async function untilAnswered(
  { world, gone }: OwnerDeps,
  { id, wait }: Pick<WorkPlan, "id" | "wait">,
  call: (options: { readonly timeoutMs: number; readonly signal: AbortSignal }) => Promise<unknown>,
): Promise<string | undefined> {
  for (;;) {
    try {
      await call({ timeoutMs: CALL_TIMEOUT_MS, signal: gone });
      return undefined;
    } catch (error) {
      const fault = faultOf(error);
      if (fault === undefined) throw error;
      world.trace.note("owners", `${id}: ${describeFault(fault)}`);
      if (!isRetryable(fault) || (!wait && SHORT_NOW.includes(fault.code))) return fault.code;
      await sleep(RETRY_MS);
    }
  }
}
