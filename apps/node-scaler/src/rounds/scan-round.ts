import { forEachSome, within } from "@muster/backoff";
import { assertNever } from "@muster/faults";
import { planScan, type ScanStep } from "../domain/plan-scan.ts";
import type { Instances } from "../domain/sightings.ts";
import { listInstances } from "../instance-lists.ts";
import { inRoundSpan } from "../node-trace.ts";
import { askMachines, type Scaler } from "../scaler.ts";

const MAX_STEPS_IN_FLIGHT = 8;

/** Compares instances, records and Kubernetes nodes, and ends orphans. Rejects while records may be missing: their instances would look like orphans. */
export async function scanRound(scaler: Scaler): Promise<void> {
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
  });
  memory.suspects = suspects;
  const failed = ({ kind: doing, because }: ScanStep, error: unknown): void =>
    scaler.report.failed("scan", `${doing} because of ${because}`, error);
  const takeSteps = (): Promise<unknown> =>
    forEachSome(
      steps,
      MAX_STEPS_IN_FLIGHT,
      async (step) => {
        scaler.report.planned("scan", step);
        const taking = take(scaler, step)
          .catch((error: unknown) => failed(step, error))
          .finally(() => memory.scanning.delete(taking));
        memory.scanning.add(taking);
        await within(scaler.patienceMs, taking);
      },
      failed,
    );
  await inRoundSpan("scan", steps, takeSteps);
}

/** A finding has to be confirmed by two lists: a provider without a new list since the latest scan is silent in this one. */
function withoutSeen({ all, silent, askedAtMs }: Instances, scanned: ReadonlyMap<string, number>): Instances {
  const seen = new Set([...askedAtMs].filter(([name, atMs]) => scanned.get(name) === atMs).map(([name]) => name));
  return { all: all.filter(({ provider }) => !seen.has(provider)), silent: new Set([...silent, ...seen]), askedAtMs };
}

async function take({ records, providers, cluster, signal, isHeld }: Scaler, step: ScanStep): Promise<void> {
  if (!isHeld()) return;
  switch (step.kind) {
    case "change":
      await records.changeNode(step);
      return;
    case "stop-orphan": {
      const { instanceId, nodeName } = step;
      await providers.get(step.provider)?.stop({ instanceId, nodeName }, signal);
      return;
    }
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
