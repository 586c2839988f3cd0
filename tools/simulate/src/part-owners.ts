import { setTimeout as sleep } from "node:timers/promises";
import type { V1Pod } from "@kubernetes/client-node";
import { makeClient } from "@muster/bus";
import { DRIVERS, WORKERS } from "@muster/chaos/plan-shapes";
import type { Random } from "@muster/chaos/random";
import { describeFault, findFault, isRetryable } from "@muster/faults";
import { labels, muster, ReservationService } from "@muster/proto";
import { parseAmounts } from "@muster/resources";
import { NAMESPACE, RACK, type Quantities } from "./cluster.ts";
import { isOver } from "./kubelets.ts";
import { makeSimBus } from "./sim-bus.ts";
import type { Process } from "./task-queue.ts";
import type { World } from "./world.ts";

/** The work of one owner that requests parts of machines, with times in milliseconds after the start. */
export type PartPlan = {
  readonly id: string;
  readonly submitAtMs: number;
  readonly priority: number;
  /** A need without requests is a whole machine. */
  readonly needs: readonly { readonly component: string; readonly pool: string; readonly requests?: Quantities }[];
  readonly runMs: number;
  /** Whether all of its machines must be in one rack. */
  readonly inOneRack: boolean;
  /** Releases the reservation before its pods are removed. */
  readonly releasesEarly: boolean;
};

/** The progress of the owners of parts. */
export type PartOwners = {
  readonly plans: readonly PartPlan[];
  /** Ids of the owners whose work is over. */
  readonly done: Set<string>;
  /** Ids of the owners that have begun to end their pods or their reservation. */
  readonly ending: Set<string>;
};

export const PART_KIND = "job";
export const GPU = "nvidia.com/gpu";
const RETRY_MS = 400;
const POLL_MS = 250;
const CALL_TIMEOUT_MS = 5000;

export function drawParts(random: Random, count: number, windowMs: number): PartPlan[] {
  return Array.from({ length: count }, (_, index) => {
    const needs = Array.from({ length: random.integer(1, 4) }, (_none, at) => ({
      component: `worker-${at}`,
      pool: random.chance(0.15) ? DRIVERS : WORKERS,
      requests: drawRequests(random, random.chance(0.15)),
    }));
    const hasMachine = random.chance(0.2);
    const mayShareRack = !hasMachine && needs.length <= MAX_IN_RACK && needs.every(isPlainPart);
    return {
      id: `p${String(index + 1).padStart(3, "0")}`,
      submitAtMs: random.integer(0, windowMs),
      priority: random.chance(0.1) ? random.integer(1, 3) : 0,
      needs: hasMachine ? [...needs, { component: "machine", pool: WORKERS }] : needs,
      runMs: random.integer(100, 20_000),
      releasesEarly: !hasMachine && random.chance(0.2),
      inOneRack: mayShareRack && random.chance(0.5),
    };
  }).map((plan) => ({ ...plan, needs: plan.needs.map((need) => withoutGpuOfDrivers(need)) }));
}

/** Parts that fit into each rack of workers, also while some of its nodes are off. */
const MAX_IN_RACK = 2;

function isPlainPart({ pool, requests }: PartPlan["needs"][number]): boolean {
  return pool === WORKERS && requests !== undefined && requests[GPU] === undefined;
}

export function drawRequests(random: Random, hasGpu: boolean): Quantities {
  return {
    cpu: `${random.integer(1, 10) * 250}m`,
    memory: `${random.integer(1, 12) * 256}Mi`,
    ...(hasGpu && { [GPU]: String(random.integer(1, 2)) }),
  };
}

/** Only workers have GPUs. */
function withoutGpuOfDrivers(need: PartPlan["needs"][number]): PartPlan["needs"][number] {
  if (need.pool !== DRIVERS || need.requests === undefined) return need;
  const { [GPU]: _gpu, ...requests } = need.requests;
  return { ...need, requests };
}

/** Runs the owners as one process without faults, which reserves over the bus like the controllers. */
export function startPartOwners(world: World, plans: readonly PartPlan[], gone: AbortSignal): PartOwners {
  const process: Process = { name: "part-owners", alive: true, frozenUntilMs: 0, clockOffsetMs: 0 };
  const owners: PartOwners = { plans, done: new Set(), ending: new Set() };
  world.time.as(process, () => {
    const service = makeClient(makeSimBus(world.bus, process, gone), ReservationService);
    void sweep({ world, service, owners, gone });
    for (const plan of plans) {
      runOwner({ world, service, owners, gone }, plan).catch((error: unknown) => {
        if (!gone.aborted)
          world.defects.push(`owner ${plan.id}: ${error instanceof Error ? error.message : String(error)}`);
      });
    }
  });
  return owners;
}

type OwnerDeps = {
  readonly world: World;
  readonly service: ReturnType<typeof makeClient<typeof ReservationService>>;
  readonly owners: PartOwners;
  readonly gone: AbortSignal;
};

async function runOwner(deps: OwnerDeps, plan: PartPlan): Promise<void> {
  const { world, owners } = deps;
  await sleep(plan.submitAtMs);
  let held = await placePods(deps, plan);
  // Between the grant and the pod a node may disappear, or get other pods.
  while (held.isLost) {
    owners.ending.add(plan.id);
    await endPods(deps, plan, held);
    owners.ending.delete(plan.id);
    held = await placePods(deps, plan);
  }
  await sleep(plan.runMs);
  owners.ending.add(plan.id);
  await endPods(deps, plan, held);
  owners.done.add(plan.id);
  world.trace.note("part-owners", `${plan.id} is done`);
}

type Held = { readonly reservationId: string; readonly pods: readonly V1Pod[] };

/** Time without room after which a member gets another machine, as for the controllers. */
const CROWDED_MS = 60_000;

/** Resolves when each pod is placed or gone, or when a waiting pod is lost: its node no longer exists, or has had no room for too long. */
async function placePods(deps: OwnerDeps, plan: PartPlan): Promise<Held & { readonly isLost: boolean }> {
  const { cluster } = deps.world;
  const { id: reservationId, machines } = await reserveUntilGranted(deps, plan);
  const placed = machines.map((machine) => ({ node: machine.node, pod: cluster.createPod(buildPod(plan, machine)) }));
  const pods = placed.map(({ pod }) => pod);
  const waits = ({ pod }: (typeof placed)[number]): boolean => {
    const now = cluster.pods.get(pod.metadata?.name ?? "");
    return !isGone(cluster, pod) && !isOver(now) && (now?.spec?.nodeName ?? "") === "";
  };
  const sinceMs = deps.world.time.nowMs;
  for (;;) {
    const waiting = placed.filter(waits);
    const isCrowded = deps.world.time.nowMs - sinceMs > CROWDED_MS;
    const isLost = waiting.some(({ node }) => isCrowded || !cluster.nodes.has(node));
    if (isLost || waiting.length === 0) return { reservationId, pods, isLost };
    await sleep(POLL_MS);
  }
}

async function endPods(deps: OwnerDeps, plan: PartPlan, { reservationId, pods }: Held): Promise<void> {
  const { cluster } = deps.world;
  const request = { requestId: `release-${reservationId}`, owner: buildOwner(plan), reservationId };
  const release = (): Promise<unknown> =>
    untilAnswered(deps, plan, (options) => deps.service.unreserve(request, options));
  for (const { metadata } of pods) cluster.deletePod(metadata?.name ?? "", metadata?.uid ?? "");
  if (plan.releasesEarly) await release();
  while (!pods.every((pod) => isGone(cluster, pod))) await sleep(POLL_MS);
  if (!plan.releasesEarly) await release();
}

function isGone(cluster: World["cluster"], { metadata }: V1Pod): boolean {
  return cluster.pods.get(metadata?.name ?? "")?.metadata?.uid !== metadata?.uid;
}

const SWEEP_MS = 5000;

/** Releases reservations of owners that are done: a delayed request may reserve again, as for the controllers. */
async function sweep({ world, service, owners, gone }: OwnerDeps): Promise<void> {
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: gone };
  while (!gone.aborted) {
    await sleep(SWEEP_MS);
    try {
      const { reservations } = await service.listReservations({ ownerKind: PART_KIND }, options);
      for (const { id: reservationId, owner } of reservations)
        if (owners.done.has(owner?.id ?? ""))
          await service.unreserve({ requestId: `sweep-${reservationId}`, owner, reservationId }, options);
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined) world.defects.push(`the sweep of parts: ${String(error)}`);
    }
  }
}

async function reserveUntilGranted(deps: OwnerDeps, plan: PartPlan): Promise<muster.reservation.v1.Reservation> {
  const needs = plan.needs.map(({ component, pool, requests }) => ({
    component,
    pool,
    ...(requests !== undefined && { shared: { requests: Object.fromEntries(parseAmounts(requests)) } }),
  }));
  const gang = { needs, ...(plan.inOneRack && { topology: RACK }) };
  const request = {
    requestId: `reserve-${plan.id}`,
    owner: buildOwner(plan),
    ...gang,
    wait: true,
    priority: plan.priority,
  };
  for (;;) {
    const { reservation } = await untilAnswered(deps, plan, (options) => deps.service.reserve(request, options));
    if (reservation?.state === muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED) return reservation;
    await sleep(RETRY_MS);
  }
}

async function untilAnswered<Reply>(
  { world, gone }: OwnerDeps,
  { id }: PartPlan,
  call: (options: { readonly timeoutMs: number; readonly signal: AbortSignal }) => Promise<Reply>,
): Promise<Reply> {
  for (;;) {
    try {
      return await call({ timeoutMs: CALL_TIMEOUT_MS, signal: gone });
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined || !isRetryable(fault)) throw error;
      world.trace.note("part-owners", `${id}: ${describeFault(fault)}`);
      await sleep(RETRY_MS);
    }
  }
}

function buildOwner({ id }: PartPlan): muster.common.v1.Owner.$Properties {
  return { kind: PART_KIND, id };
}

function buildPod({ id, needs }: PartPlan, { component, node }: muster.reservation.v1.Machine): V1Pod {
  const requests = needs.find((need) => need.component === component)?.requests;
  const terms = [{ matchFields: [{ key: "metadata.name", operator: "In", values: [node] }] }];
  return {
    metadata: {
      name: `${id}-${component}`,
      namespace: NAMESPACE,
      labels: {
        [labels.ownerKind]: PART_KIND,
        [labels.owner]: id,
        [labels.component]: component,
        [labels.exclusive]: String(requests === undefined),
      },
    },
    spec: {
      affinity: {
        nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } },
      },
      containers: [{ name: "main", ...(requests !== undefined && { resources: { requests: { ...requests } } }) }],
    },
  };
}
