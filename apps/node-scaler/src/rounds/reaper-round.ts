import { forEachSome, within } from "@muster/backoff";
import { assertNever } from "@muster/faults";
import type { NodeTrouble, ScaledNode } from "../domain/node.ts";
import { planStopRetry, planReap, type ReapStep } from "../domain/plan-reap.ts";
import { runInNodeSpan, runInRoundSpan } from "../node-trace.ts";
import { listInstances } from "../instance-lists.ts";
import { askMachines, describeFailure, type Scaler } from "../scaler.ts";

const MAX_NODES_IN_FLIGHT = 16;

/** Advances nodes that must end by one step. */
export async function runReaperRound(scaler: Scaler): Promise<void> {
  const { memory, records, cluster } = scaler;
  const ending = records
    .list()
    .filter(
      ({ spec, status }) =>
        spec.terminate !== undefined || status.phase === "Terminating" || status.phase === "Terminated",
    )
    .filter(({ name }) => !memory.ending.has(name));
  for (const name of memory.stops.keys()) if (records.get(name) === undefined) memory.stops.delete(name);
  if (ending.length === 0) return;
  const machines = await askMachines(scaler, "reaper");
  const instances = await listInstances(scaler, "reaper");
  const steps = planReap({
    nowMs: scaler.now(),
    nodes: ending,
    instances,
    kubeNodes: cluster.nodes(),
    machines,
    pods: cluster.pods(),
    stops: memory.stops,
    booting: new Set(memory.booting.keys()),
  });
  await recordMissingProviders(scaler, ending);
  const byNode = [...Map.groupBy(steps, ({ node }) => node)];
  const takeSteps = (): Promise<unknown> =>
    forEachSome(
      byNode,
      MAX_NODES_IN_FLIGHT,
      async ([node, ofNode]) => {
        const ending = takeAll(scaler, ofNode)
          .catch((error: unknown) => scaler.report.failed("reaper", `ending ${node}`, error))
          .finally(() => memory.ending.delete(node));
        memory.ending.set(node, ending);
        // A slow provider delays this node, and no other.
        await within(scaler.patienceMs, ending);
      },
      ([node], error) => scaler.report.failed("reaper", `ending ${node}`, error),
    );
  await runInRoundSpan("reaper", steps, takeSteps);
}

/** Notes the reason in the record, because a node without its provider never ends. */
async function recordMissingProviders(
  { providers, records, report }: Scaler,
  ending: readonly ScaledNode[],
): Promise<void> {
  const left = ending.filter(({ spec, status }) => status.phase === "Terminating" && !providers.has(spec.provider));
  await forEachSome(
    left,
    MAX_NODES_IN_FLIGHT,
    async ({ name, spec: { provider } }) => {
      const message = `provider ${provider} is no longer in the file of pools, and may still have the instance`;
      const trouble: NodeTrouble = { code: "PROVIDER_MISSING", message };
      await records.changeNode({ node: name, expected: "Terminating", status: { trouble } });
    },
    ({ name }, error) => report.failed("reaper", `recording why ${name} does not end`, error),
  );
}

async function takeAll(scaler: Scaler, steps: readonly ReapStep[]): Promise<void> {
  // The stall is also noted without a pod left to evict, because its cause may be gone.
  const draining = steps.find((step) => step.kind === "evict" || step.kind === "wait");
  const stays: string[] = [];
  for (const step of steps) {
    scaler.report.planned("reaper", step);
    if (!scaler.isHeld()) return;
    if (step.kind === "evict") stays.push(...(await evict(scaler, step)));
    else if (step.kind !== "look-for-pods") await act(scaler, step);
    else if ((await scaler.cluster.podsOn(step.kubeNode)).length > 0) return;
  }
  if (draining !== undefined) await recordStall(scaler, draining.node, stays);
}

/** Notes the reason in the record while a drain does not proceed. */
async function recordStall({ records, report }: Scaler, node: string, stays: readonly string[]): Promise<void> {
  const record = records.get(node);
  if (record === undefined) return;
  const { phase, trouble: before } = record.status;
  const [first] = stays;
  const more = stays.length > 1 ? `, and ${stays.length - 1} more pods stay` : "";
  const message = first === undefined ? undefined : `the drain stalls: ${first}${more}`;
  // Another trouble stays when the drain proceeds.
  if (message === undefined && before?.code !== "DRAIN_STALLS") return;
  if (message === before?.message) return;
  if (message !== undefined) report.failed("reaper", `draining ${node}`, new Error(message));
  const trouble: NodeTrouble | undefined = message === undefined ? undefined : { code: "DRAIN_STALLS", message };
  await records.changeNode({ node, expected: phase, status: { trouble } });
}

async function act(
  scaler: Scaler,
  step: Exclude<ReapStep, { readonly kind: "look-for-pods" | "evict" }>,
): Promise<void> {
  const { records, cluster } = scaler;
  switch (step.kind) {
    case "change":
      await records.changeNode(step);
      return;
    case "cordon":
      return cluster.cordon(step.kubeNode, step.because);
    case "uncordon":
      return cluster.uncordon(step.kubeNode);
    case "stop":
      return stop(scaler, step);
    case "delete-kube-node":
      return cluster.deleteNode({ name: step.kubeNode, uid: step.uid });
    case "purge":
      return records.purge(step.node);
    case "wait":
      return;
    default:
      return assertNever(step);
  }
}

/** Evicts a pod, and returns it with the reason if it stays. Never rejects, so that one failed eviction does not prevent others on its node. */
async function evict(
  { cluster, report }: Scaler,
  { node, namespace, pod, uid }: Extract<ReapStep, { readonly kind: "evict" }>,
): Promise<string[]> {
  try {
    const because = await cluster.evict({ namespace, name: pod, uid });
    return because === undefined ? [] : [`pod ${namespace}/${pod} is not evicted: ${because}`];
  } catch (error) {
    report.failed("reaper", `evicting ${namespace}/${pod} from ${node}`, error);
    return [`pod ${namespace}/${pod} is not evicted: ${describeFailure(error).message}`];
  }
}

type StopStep = Extract<ReapStep, { readonly kind: "stop" }>;

async function stop(
  { memory, providers, records, signal, now }: Scaler,
  { node, provider, instanceId, because }: StopStep,
): Promise<void> {
  const remember = (answer: { readonly accepted: boolean; readonly retryAfterMs: number }): void => {
    memory.stops.set(node, planStopRetry(memory.stops.get(node), answer, now()));
  };
  const attributes = { "muster.instance": instanceId, "muster.because": because };
  try {
    await runInNodeSpan("stop node", node, attributes, async () => {
      await providers.get(provider)?.stop({ instanceId, nodeName: node }, signal);
    });
    remember({ accepted: true, retryAfterMs: 0 });
  } catch (error) {
    const { message, retryAfterMs } = describeFailure(error);
    remember({ accepted: false, retryAfterMs });
    await records.changeNode({ node, expected: "Terminating", status: { trouble: { code: "STOP_FAILED", message } } });
    throw error;
  }
}
