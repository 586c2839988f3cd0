import { setTimeout as sleep } from "node:timers/promises";
import { makeClient } from "@muster/bus";
import { describeFault, findFault, isRetryable } from "@muster/faults";
import type { Owner } from "@muster/names";
import { ReservationService } from "@muster/proto";
import type { Random } from "@muster/chaos/random";
import { emptyLedger, evolveLedger, findReservation, type Ledger } from "@muster/reservation-manager/ledger";
import { getReservationId, type Reservation } from "@muster/reservation-manager/reservation";
import { makeSimBus } from "../sim-bus.ts";
import type { Process } from "../task-queue.ts";
import { countFault } from "../fault-risks.ts";
import type { World } from "../world.ts";
import type { WorkPlan } from "./draw-work.ts";
import type { Machines } from "./machines.ts";

/** The progress of the work of all teams. */
export type Owners = {
  readonly plans: readonly WorkPlan[];
  /** Outcomes of ended work, by owner. */
  readonly outcomes: ReadonlyMap<string, string>;
};

const RETRY_MS = 400;
const CALL_TIMEOUT_MS = 5000;
const MAX_START_MS = 500;
/** Bounds of the time between two deaths of the controller, and until the next one starts. */
const LIFE_MS = { min: 500, max: 20_000 };
const AWAY_MS = { min: 10, max: 5000 };
/** Answers that are final for requests that do not wait. */
const SHORT_NOW: readonly string[] = ["pool_availability", "limit_exceeded"];

/** One job, as the API server stores it, or one session. */
type Job = {
  readonly plan: WorkPlan;
  /** The time that its pods ran before they left. */
  ranMs: number;
  /** Start time of its pods; undefined: it has none. */
  startedAtMs: number | undefined;
  /** Time at which its controller accepted the preemption; undefined: it did not. */
  leavesSinceMs: number | undefined;
  /** Time of its end. */
  endedAtMs: number | undefined;
};

type OwnerDeps = {
  readonly world: World;
  readonly machines: Machines;
  readonly service: ReturnType<typeof makeClient<typeof ReservationService>>;
  readonly gone: AbortSignal;
  readonly outcomes: Map<string, string>;
  readonly log: FollowedLog;
};

export type OwnerOptions = {
  readonly machines: Machines;
  readonly plans: readonly WorkPlan[];
  readonly random: Random;
  /** The controller dies until then. */
  readonly untilMs: number;
  /** The end of the simulation. */
  readonly end: AbortSignal;
};

/**
 * Runs the controller of all owners, which sends requests over the bus. It reads decisions from the log without delay. It is killed repeatedly, and its
 * successor continues from the state of the API server and the log.
 */
export function startOwners(world: World, { machines, plans, random, untilMs, end }: OwnerOptions): Owners {
  const outcomes = new Map<string, string>();
  const jobs = plans.map((plan): Job => {
    return { plan, ranMs: 0, startedAtMs: undefined, leavesSinceMs: undefined, endedAtMs: undefined };
  });
  const log = followLog(world, plans);
  let count = 0;
  const start = (): void => {
    count += 1;
    const process: Process = { name: `owners-${count}`, alive: true, frozenUntilMs: 0, clockOffsetMs: 0 };
    const gone = new AbortController();
    end.addEventListener("abort", () => gone.abort(), { once: true });
    world.time.as(process, () => {
      const service = makeClient(makeSimBus(world.bus, process, gone.signal), ReservationService);
      const deps: OwnerDeps = { world, machines, service, gone: gone.signal, outcomes, log };
      for (const job of jobs)
        runJob(deps, job).catch((error: unknown) => {
          if (gone.signal.aborted) return;
          world.defects.push(`owner ${job.plan.id}: ${error instanceof Error ? error.message : String(error)}`);
        });
    });
    world.time.after(random.integer(LIFE_MS.min, LIFE_MS.max), undefined, () => {
      if (world.time.nowMs >= untilMs) return;
      countFault(world.weather, "controller killed");
      process.alive = false;
      world.time.as(undefined, () => gone.abort());
      world.time.after(random.integer(AWAY_MS.min, AWAY_MS.max), undefined, start);
    });
  };
  start();
  return { plans, outcomes };
}

function buildOwner({ kind, id }: WorkPlan): Owner {
  return { kind, id };
}

type FollowedLog = {
  readonly reservationOf: (plan: WorkPlan) => Reservation | undefined;
  /** Resolves with the next change of the owner's reservation, or after this time. */
  readonly changed: (id: string, ms: number) => Promise<void>;
};

function followLog({ ledger, time, defects }: World, plans: readonly WorkPlan[]): FollowedLog {
  const owners = new Map(plans.map((plan) => [plan.id, buildOwner(plan)]));
  let now: Ledger = emptyLedger;
  const waiting = new Map<string, Set<() => void>>();
  ledger.onEntry.push((events) => {
    const before = now;
    try {
      now = events.reduce(evolveLedger, before);
    } catch (error) {
      defects.push(`the log cannot be read: ${error instanceof Error ? error.message : String(error)}`);
      return;
    }
    for (const [id, wake] of waiting) {
      const owner = owners.get(id);
      if (owner === undefined || findReservation(before, owner) === findReservation(now, owner)) continue;
      waiting.delete(id);
      for (const each of wake) each();
    }
  });
  return {
    reservationOf: (plan) => findReservation(now, buildOwner(plan)),
    changed: (id, ms) => {
      const process = time.current();
      return new Promise((resolve) => {
        // A task of the process, which ends with it.
        const wake = (): void => void time.after(0, process, resolve);
        waiting.set(id, (waiting.get(id) ?? new Set()).add(wake));
        if (ms < Number.POSITIVE_INFINITY) time.after(ms, process, resolve);
      });
    },
  };
}

/** Does one step after another, each from the state of the API server and the log at that moment. */
async function runJob(deps: OwnerDeps, job: Job): Promise<void> {
  const { world, log } = deps;
  const { id, submitAfterMs } = job.plan;
  await sleep(world.startMs + submitAfterMs - world.time.nowMs);
  for (;;) {
    const reservation = log.reservationOf(job.plan);
    const waitMs = await (job.endedAtMs === undefined
      ? advance(deps, job, reservation)
      : tidyUp(deps, job, reservation));
    if (log.reservationOf(job.plan) === reservation) await log.changed(id, waitMs);
  }
}

/** Returns the milliseconds until the next step if nothing changes. */
async function advance(deps: OwnerDeps, job: Job, reservation: Reservation | undefined): Promise<number> {
  const { plan } = job;
  const nowMs = deps.world.time.nowMs;
  const cancelMs = deps.world.startMs + plan.submitAfterMs + (plan.cancelAfterMs ?? Number.POSITIVE_INFINITY) - nowMs;
  const isRunning = reservation?.grant !== undefined && reservation.grant.preemption === undefined;
  if (cancelMs <= 0 && !isRunning) return over(deps, job, "cancelled");
  if (reservation === undefined) {
    const refused = await reserve(deps, plan);
    return refused === undefined ? RETRY_MS : over(deps, job, refused);
  }
  const { grant } = reservation;
  if (grant === undefined) return cancelMs;
  const dueMs = job.startedAtMs === undefined ? undefined : job.startedAtMs + plan.runMs - job.ranMs - nowMs;
  if (dueMs !== undefined && dueMs <= 0) return over(deps, job, "done");
  if (grant.preemption !== undefined)
    return Math.min(await leaveMachines(deps, job, reservation), dueMs ?? cancelMs, cancelMs);
  if (dueMs !== undefined) return dueMs;
  await sleep(deps.world.random.integer(0, MAX_START_MS));
  // The reservation may have changed meanwhile.
  if (deps.log.reservationOf(plan) !== reservation) return 0;
  job.startedAtMs = deps.world.time.nowMs;
  deps.machines.startPods(reservation.owner, grant.machines);
  return plan.runMs - job.ranMs;
}

/** Accepts the preemption, ends the pods, and then waits in the queue again. */
async function leaveMachines(
  { world, machines, service, gone }: OwnerDeps,
  job: Job,
  reservation: Reservation,
): Promise<number> {
  const { plan } = job;
  const { atMs, deadlineMs, isAccepted } = reservation.grant?.preemption ?? {
    atMs: 0,
    deadlineMs: 0,
    isAccepted: false,
  };
  const nowMs = world.time.nowMs;
  const { owner, sequence } = reservation;
  const request = {
    requestId: `${sequence}-${reservation.revision ?? 0}`,
    owner,
    reservationId: getReservationId(sequence),
  };
  const calls = { world, gone };
  if (!isAccepted) {
    // Clocks of ledgers are ahead of or behind this one.
    if (atMs + plan.acceptAfterMs > nowMs) return atMs + plan.acceptAfterMs - nowMs;
    await untilAnswered(calls, { id: plan.id, wait: true }, (options) => service.acceptPreemption(request, options));
    return RETRY_MS;
  }
  job.leavesSinceMs ??= nowMs;
  const leftMs = Math.min(job.leavesSinceMs + plan.leaveMs, deadlineMs) - nowMs;
  if (leftMs > 0) return leftMs;
  // No node that is not ready ends pods.
  if (machines.machinesOf(owner).some(({ ready }) => !ready)) return RETRY_MS;
  if (job.startedAtMs !== undefined) job.ranMs += nowMs - job.startedAtMs;
  Object.assign(job, { startedAtMs: undefined, leavesSinceMs: undefined });
  machines.endPods(owner);
  await untilAnswered(calls, { id: plan.id, wait: true }, (options) => service.requeue(request, options));
  return RETRY_MS;
}

function over({ world, outcomes }: OwnerDeps, job: Job, outcome: string): number {
  job.endedAtMs = world.time.nowMs;
  outcomes.set(job.plan.id, outcome);
  return 0;
}

/** Releases every reservation of the owner in the log: a deposed leader may answer from its old ledger, and a delayed request may reserve again. */
async function tidyUp(deps: OwnerDeps, job: Job, reservation: Reservation | undefined): Promise<number> {
  const { world, machines, service } = deps;
  const { id, lingerMs } = job.plan;
  const owner = buildOwner(job.plan);
  const lingersMs = (job.endedAtMs ?? 0) + lingerMs - world.time.nowMs;
  if (lingersMs <= 0 && machines.machinesOf(owner).length > 0) machines.endPods(owner);
  if (reservation === undefined) return lingersMs > 0 ? lingersMs : Number.POSITIVE_INFINITY;
  const reservationId = getReservationId(reservation.sequence);
  const request = { requestId: `release-${reservationId}`, owner, reservationId };
  await untilAnswered(deps, { id, wait: true }, (options) => service.unreserve(request, options));
  return RETRY_MS;
}

/** Returns why the request was refused; undefined: it waits or is granted. */
async function reserve(deps: OwnerDeps, plan: WorkPlan): Promise<string | undefined> {
  const needs = plan.needs.map(({ component, pool, shared }) => {
    return { component, pool, ...(shared && { shared: { requests: Object.fromEntries(shared) } }) };
  });
  const { id, queue, wait, priority, notPreemptible, graceMs } = plan;
  const owner = buildOwner(plan);
  const how = { wait, priority, queue: queue ?? "", notPreemptible, graceMs };
  const request = { requestId: `reserve-${id}`, owner, needs, ...how };
  return untilAnswered(deps, plan, (options) => deps.service.reserve(request, options));
}

/** Repeats the call until it has an answer. Returns the code of a refusal. */
async function untilAnswered(
  { world, gone }: Pick<OwnerDeps, "world" | "gone">,
  { id, wait }: Pick<WorkPlan, "id" | "wait">,
  call: (options: { readonly timeoutMs: number; readonly signal: AbortSignal }) => Promise<unknown>,
): Promise<string | undefined> {
  for (;;) {
    try {
      await call({ timeoutMs: CALL_TIMEOUT_MS, signal: gone });
      return undefined;
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined) throw error;
      world.trace.note("owners", `${id}: ${describeFault(fault)}`);
      if (!isRetryable(fault) || (!wait && SHORT_NOW.includes(fault.code))) return fault.code;
      await sleep(RETRY_MS);
    }
  }
}
