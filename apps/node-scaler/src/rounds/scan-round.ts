import { assertNever } from "@muster/faults";
import { planScan, type ScanStep } from "../domain/plan-scan.ts";
import { askMachines, forEachSome, listInstances, type Scaler } from "../scaler.ts";

const STEPS_AT_ONCE = 8;

/** Compares instances, records and Kubernetes nodes, and ends what belongs to nothing. Rejects when records may be missing: their instances would be nobody's. */
export async function scanRound(scaler: Scaler): Promise<void> {
  const { memory, records, cluster, policies } = scaler;
  await records.checkCurrent();
  const nodes = records.list();
  const before = new Set(nodes.map(({ name }) => name));
  const instances = await listInstances(scaler, "scan");
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
    suspects: memory.suspects,
  });
  memory.suspects = suspects;
  await forEachSome(
    steps,
    STEPS_AT_ONCE,
    async (step) => {
      scaler.tell.planned("scan", step);
      await take(scaler, step);
    },
    (step, error) => scaler.tell.failed("scan", `${step.do} because of ${step.because}`, error),
  );
}

async function take({ records, providers, cluster, signal, isHeld }: Scaler, step: ScanStep): Promise<void> {
  if (!isHeld()) return;
  switch (step.do) {
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
