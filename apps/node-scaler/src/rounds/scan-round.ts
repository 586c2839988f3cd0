import { forEachSome, within } from "@muster/backoff";
import { assertNever } from "@muster/faults";
import { planStopRetry } from "../domain/plan-reap.ts";
import { buildOrphanKey, planScan, type ScanStep } from "../domain/plan-scan.ts";
import { buildInstanceKey, type Instances } from "../domain/sightings.ts";
import { listInstances } from "../instance-lists.ts";
import { runInRoundSpan } from "../node-trace.ts";
import { askMachines, describeFailure, type Scaler } from "../scaler.ts";

const MAX_STEPS_IN_FLIGHT = 8;

/**
 * Compares instances, records and Kubernetes nodes, and ends orphans. Rejects while records may be missing, because their instances would look like orphans.
 */
export async function runScanRound(scaler: Scaler): Promise<void> {
  const { memory, records, cluster, policies } = scaler;
  await records.checkCurrent();
  const nodes = records.list();
  const before = new Set(nodes.map(({ name }) => name));
  const listed = await listInstances(scaler, "scan");
  const instances = withoutSeen(listed, memory.scannedAtMs);
  memory.scannedAtMs = listed.askedAtMs;
  const newcomers = new Set([
    ...records.list().flatMap(({ name }) => (before.has(name) ? [] : name)),
    ...memory.booting.keys(),
  ]);
  const machines = await askMachines(scaler, "scan");
  const { steps, suspects } = planScan({
    nowMs: scaler.now(),
    nodes,
    newcomers,
    policies,
    instances,
    kubeNodes: cluster.nodes(),
    machines,
    pods: cluster.pods(),
    suspects: memory.suspects,
    stops: memory.orphanStops,
  });
  memory.suspects = suspects;
  for (const instance of memory.orphanStops.keys())
    if (!suspects.has(buildOrphanKey(instance))) memory.orphanStops.delete(instance);
  const failed = ({ kind: doing, because }: ScanStep, error: unknown): void =>
    scaler.report.failed("scan", `${doing} because of ${because}`, error);
  const takeSteps = (): Promise<unknown> =>
    forEachSome(
      steps,
      MAX_STEPS_IN_FLIGHT,
      async (step) => {
        const key = buildStepKey(step);
        // A slow provider gets one request, however many scans have the same finding.
        if (memory.scanning.has(key)) return;
        scaler.report.planned("scan", step);
        const taking = take(scaler, step)
          .catch((error: unknown) => failed(step, error))
          .finally(() => memory.scanning.delete(key));
        memory.scanning.set(key, taking);
        await within(scaler.patienceMs, taking);
      },
      failed,
    );
  await runInRoundSpan("scan", steps, takeSteps);
}

/** Marks providers as silent without a new list since the latest scan, because two lists must confirm a finding. */
function withoutSeen({ all, silent, askedAtMs }: Instances, scanned: ReadonlyMap<string, number>): Instances {
  const seen = new Set([...askedAtMs].filter(([name, atMs]) => scanned.get(name) === atMs).map(([name]) => name));
  return { all: all.filter(({ provider }) => !seen.has(provider)), silent: new Set([...silent, ...seen]), askedAtMs };
}

function buildStepKey(step: ScanStep): string {
  switch (step.kind) {
    case "change":
      return `${step.kind} ${step.node}`;
    case "stop-orphan":
      return `${step.kind} ${buildInstanceKey(step)}`;
    case "cordon":
    case "delete-kube-node":
      return `${step.kind} ${step.kubeNode}`;
    case "wait":
      return `${step.kind} ${step.instanceId}`;
    default:
      return assertNever(step);
  }
}

async function take(scaler: Scaler, step: ScanStep): Promise<void> {
  const { records, cluster, isHeld } = scaler;
  if (!isHeld()) return;
  switch (step.kind) {
    case "change":
      await records.changeNode(step);
      return;
    case "stop-orphan":
      return stopOrphan(scaler, step);
    case "cordon":
      return cluster.cordon(step.kubeNode, step.because);
    case "delete-kube-node":
      return cluster.deleteNode({ name: step.kubeNode, uid: step.uid });
    case "wait":
      return;
    default:
      return assertNever(step);
  }
}

async function stopOrphan(
  { memory, providers, signal, now }: Scaler,
  step: Extract<ScanStep, { readonly kind: "stop-orphan" }>,
): Promise<void> {
  const { instanceId, nodeName } = step;
  const key = buildInstanceKey(step);
  const remember = (answer: { readonly accepted: boolean; readonly retryAfterMs: number }): void => {
    memory.orphanStops.set(key, planStopRetry(memory.orphanStops.get(key), answer, now()));
  };
  try {
    await providers.get(step.provider)?.stop({ instanceId, nodeName }, signal);
    remember({ accepted: true, retryAfterMs: 0 });
  } catch (error) {
    remember({ accepted: false, retryAfterMs: describeFailure(error).retryAfterMs });
    throw error;
  }
}
