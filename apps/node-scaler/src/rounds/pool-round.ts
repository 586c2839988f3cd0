import { forEachSome, within } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import {
  buildComputedNodes,
  buildFreeMachines,
  listMachinesInParts,
  buildPauses,
  buildUnseen,
  countUnscaledZones,
  isInUse,
  type NodeUse,
} from "../domain/build-scaling-snapshot.ts";
import { computeScaling, type ScalingPlan, type StartStep } from "../domain/compute.ts";
import { observeMismatches } from "../domain/observe-mismatches.ts";
import { observeSizes } from "../domain/node-sizes.ts";
import type { ScaledNode } from "../domain/node.ts";
import { buildTermination } from "../domain/plan-heartbeat.ts";
import { tolerateTaints } from "../domain/tolerate-taints.ts";
import { dropExpired } from "../domain/unavailability.ts";
import { runInRoundSpan, runInStepSpan } from "../node-trace.ts";
import type { Scaler } from "../scaler.ts";
import { bootNode } from "./boot-node.ts";

/** Limits the concurrent writes to the store. */
const MAX_WRITES_IN_FLIGHT = 32;

/**
 * Observes demand and nodes, and creates nodes or marks them to end. Rejects while records, demand or machines are unknown. Does not plan before this leader's
 * first complete heartbeat. Boots continue after the round. Their records are written in the round, so that the next round counts them.
 */
export async function runPoolRound(scaler: Scaler): Promise<void> {
  const { memory, records, policies } = scaler;
  if (!memory.hasObserved) return;
  await records.checkCurrent();
  // Machines are read first. A grant between the two reads is then missing as a demand, and boots no node.
  const listed = await scaler.machines();
  const [demands, bootImages] = await Promise.all([scaler.demands(), findImages(scaler)]);
  const nodes = records.list();
  const kubeNodes = scaler.cluster.nodes();
  const machines = tolerateTaints(listed, nodes, policies);
  const use: NodeUse = { machines, pods: scaler.cluster.pods(), kubeNodes };
  const nowMs = scaler.now();
  memory.sizes = observeSizes(memory.sizes, { nodes, machines, kubeNodes });
  memory.unavailable = dropExpired(memory.unavailable, nowMs);
  const computed = buildComputedNodes(nodes, use, policies);
  const observed = { nodes: computed, demands, pools: policies, nowMs, forMs: scaler.unavailableMs };
  memory.mismatches = observeMismatches(memory.mismatches, observed);
  const plan = computeScaling({
    nodes: computed,
    mismatches: memory.mismatches,
    machines: buildFreeMachines(nodes, use, policies),
    parts: listMachinesInParts(nodes, use, policies),
    sizes: memory.sizes,
    unscaledZones: countUnscaledZones(use, policies),
    demands,
    pools: policies,
    unavailable: [
      ...memory.unavailable,
      ...buildPauses(memory.backoffs.values(), memory.bootFailures, nowMs),
      ...buildUnseen(policies, { listed: new Set(memory.lists.keys()), areNodesKnown: kubeNodes.known }, nowMs),
    ],
    bootImages,
    fixedSizeVolumes: new Set(
      [...scaler.providers.values()].filter((one) => one.fixedSizeVolumes).map(({ name }) => name),
    ),
    nowMs,
    seed: scaler.seed(),
    limits: scaler.limits,
  });
  memory.plan = plan;
  await scaler.publishPools(plan.poolScaling);
  await writeUpdates(scaler, plan, nodes, use);
  const steps = [
    ...plan.start.map(({ because }) => ({ kind: "start", because })),
    ...plan.stop.map(({ because }) => ({ kind: "stop", because: because.code })),
  ];
  const work = async (): Promise<void> => {
    await start(scaler, plan.start, nowMs);
    await markStops(scaler, plan, nodes, nowMs);
  };
  const attributes = { "muster.starts": plan.start.length, "muster.stops": plan.stop.length };
  await runInRoundSpan("pool", steps, work, attributes);
}

/** Whether the node is becoming Available; the heartbeat decides when it becomes Available. */
function isBeingReleased({ status }: ScaledNode): boolean {
  return status.phase === "Claimed" || status.phase === "Cleaning";
}

/** Returns the images by pool; a pool with an unknown image has no entry, and boots no node. */
async function findImages({ policies, bootImage, patienceMs, report }: Scaler): Promise<ReadonlyMap<string, string>> {
  const found = await Promise.all(
    [...policies.values()].map(async (policy): Promise<(readonly [string, string])[]> => {
      try {
        const asked = bootImage(policy);
        const operation = `finding the boot image of pool ${policy.name}`;
        const isThere = await within(patienceMs, asked);
        if (!isThere) throwFault({ code: "deadline_exceeded", operation, timeoutMs: patienceMs });
        return [[policy.name, await asked]];
      } catch (error) {
        report.failed("pool", `finding the boot image of pool ${policy.name}`, error);
        return [];
      }
    }),
  );
  return new Map(found.flat());
}

async function writeUpdates(
  { records, report }: Scaler,
  plan: ScalingPlan,
  nodes: readonly ScaledNode[],
  use: NodeUse,
): Promise<void> {
  const phases = new Map(nodes.flatMap((node) => (isBeingReleased(node) ? [] : [[node.name, node.status.phase]])));
  const inUse = nodes.filter((node) => isInUse(node, use));
  const updates = [...plan.updates, ...inUse.map(({ name }) => ({ name, boundTo: undefined, idleSinceMs: undefined }))];
  await forEachSome(
    updates,
    MAX_WRITES_IN_FLIGHT,
    async ({ name, ...status }) => {
      const expected = phases.get(name);
      if (expected !== undefined) await records.changeNode({ node: name, expected, status });
    },
    ({ name }, error) => report.failed("pool", `binding ${name}`, error),
  );
}

async function start(scaler: Scaler, steps: readonly StartStep[], nowMs: number): Promise<void> {
  const { memory, records, policies, report } = scaler;
  await forEachSome(
    steps,
    MAX_WRITES_IN_FLIGHT,
    async (step) => {
      const policy = policies.get(step.spec.pool);
      if (policy === undefined || !scaler.isHeld()) return;
      report.planned("pool", { kind: "start", node: step.name, because: step.because });
      const node = buildRecord(step, scaler.term, nowMs);
      const created = records.create(node);
      const boot = created
        .then(
          () => bootNode(scaler, node, policy),
          () => undefined,
        )
        .finally(() => memory.booting.delete(step.name));
      // The entry is set synchronously, because the heartbeat could otherwise treat the record as an abandoned boot.
      memory.booting.set(step.name, boot);
      await runInStepSpan("order node", step.name, step.because, () => created);
    },
    ({ name }, error) => report.failed("pool", `writing the record of ${name}`, error),
  );
}

function buildRecord({ name, spec, boundTo }: StartStep, term: number, nowMs: number): ScaledNode {
  return {
    name,
    spec,
    status: {
      phase: "Creating",
      phaseSinceMs: nowMs,
      createdAtMs: nowMs,
      instanceId: undefined,
      kubernetesNode: undefined,
      addresses: [],
      boundTo,
      claim: undefined,
      served: false,
      unhealthySinceMs: undefined,
      idleSinceMs: undefined,
      drainingSinceMs: undefined,
      term,
      trouble: undefined,
    },
  };
}

/** Only marks nodes: the reaper stops a marked node once it can no longer be granted. */
async function markStops(
  { records, policies, report }: Scaler,
  plan: ScalingPlan,
  nodes: readonly ScaledNode[],
  nowMs: number,
): Promise<void> {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  await forEachSome(
    plan.stop,
    MAX_WRITES_IN_FLIGHT,
    async ({ name, because }) => {
      const node = byName.get(name);
      if (node === undefined || isBeingReleased(node)) return;
      const terminate = buildTermination(because, node, policies, nowMs);
      const change = { node: name, expected: node.status.phase, spec: { terminate } };
      report.planned("pool", { kind: "mark", node: name, because: because.code });
      await runInStepSpan("mark node", name, because.code, async () => {
        await records.changeNode(change);
      });
    },
    ({ name }, error) => report.failed("pool", `marking ${name} to end`, error),
  );
}
