import { forEachSome } from "@muster/backoff";
import { planNodeClaims, type ClaimStep } from "../domain/plan-node-claims.ts";
import type { ScaledNode } from "../domain/node.ts";
import { planHeartbeat, type HeartbeatStep } from "../domain/plan-heartbeat.ts";
import { transitionBootFailures } from "../domain/transition-boot-failures.ts";
import { tolerateTaints } from "../domain/tolerate-taints.ts";
import { planStartupTaints } from "../domain/plan-startup-taints.ts";
import { listInstances } from "../instance-lists.ts";
import { runInRoundSpan, traceBoot } from "../node-trace.ts";
import { askMachines, type Scaler } from "../scaler.ts";

const MAX_WRITES_IN_FLIGHT = 32;

/** Observes the health of nodes and their holders, and records both. */
export async function runHeartbeatRound(scaler: Scaler): Promise<void> {
  const { memory, records, policies, cluster, term } = scaler;
  const listed = await askMachines(scaler, "heartbeat");
  const instances = await listInstances(scaler, "heartbeat", providersToAsk(scaler));
  const [nowMs, watched] = [scaler.now(), records.list()];
  const machines = listed && tolerateTaints(listed, watched, policies);
  const steps = planHeartbeat({
    nowMs,
    leadingSinceMs: memory.leadingSinceMs,
    term,
    nodes: watched,
    policies,
    instances,
    kubeNodes: cluster.nodes(),
    machines,
    booting: new Set(memory.booting.keys()),
  });
  recordBoots(scaler, await runInRoundSpan("heartbeat", steps, () => take(scaler, steps)), watched);
  await removeStartupTaints(scaler);
  if (machines === undefined) return;
  const nodes = records.list();
  const claims = planNodeClaims({ nowMs: scaler.now(), nodes, policies, machines, pods: cluster.pods() });
  recordBoots(scaler, await runInRoundSpan("heartbeat", claims, () => take(scaler, claims)), nodes);
  memory.hasObserved ||= cluster.nodes().known;
}

/** Records the boots that failed, and the boots whose nodes were used. */
function recordBoots(
  { memory, now }: Scaler,
  steps: readonly (HeartbeatStep | ClaimStep)[],
  nodes: readonly ScaledNode[],
): void {
  memory.bootFailures = transitionBootFailures(memory.bootFailures, { nodes, steps, nowMs: now() });
}

/**
 * Returns the providers to list. Only young instances and reclaimable ones change at any time. The scan lists all providers less often, and the next heartbeat
 * acts on a notice in such a list. A leader lists each provider once before it creates instances there.
 */
function providersToAsk({ memory, records, providers }: Scaler): ReadonlySet<string> {
  const unseen = [...providers.keys()].filter((name) => !memory.lists.has(name));
  const news = records
    .list()
    .filter(({ spec, status }) => status.phase === "Creating" || status.phase === "Created" || spec.spot);
  return new Set([...unseen, ...news.map(({ spec }) => spec.provider)]);
}

/** Makes nodes usable that were found ready in this round, or that an earlier round left tainted. */
async function removeStartupTaints({ records, cluster, isHeld, report }: Scaler): Promise<void> {
  const steps = planStartupTaints(records.list(), cluster.nodes());
  await runInRoundSpan("heartbeat", steps, () =>
    forEachSome(
      steps,
      MAX_WRITES_IN_FLIGHT,
      async (step) => {
        if (!isHeld()) return;
        report.planned("heartbeat", step);
        await cluster.removeStartupTaint(step.kubeNode);
      },
      ({ kubeNode }, error) => report.failed("heartbeat", `removing the startup taint of ${kubeNode}`, error),
    ),
  );
}

/** Writes the steps that can be written now. The next round plans the remaining steps again. */
async function take<Step extends HeartbeatStep | ClaimStep>(
  { records, report, now }: Scaler,
  steps: readonly Step[],
): Promise<readonly Step[]> {
  const written: Step[] = [];
  await forEachSome(
    steps,
    MAX_WRITES_IN_FLIGHT,
    async (step) => {
      const changed = await records.changeNode(step);
      if (changed === undefined) return;
      written.push(step);
      report.planned("heartbeat", step);
      if (step.because === "ready") traceBoot(changed, now());
    },
    ({ node, because }, error) => report.failed("heartbeat", `writing that ${node} is ${because}`, error),
  );
  return written;
}
