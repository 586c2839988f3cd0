import { forEachSome } from "@muster/backoff";
import { planClaims, type ClaimStep } from "../domain/plan-claims.ts";
import type { ScaledNode } from "../domain/node.ts";
import { planHeartbeat, type HeartbeatStep } from "../domain/plan-heartbeat.ts";
import { transitionBootFailures } from "../domain/transition-boot-failures.ts";
import { planOpenings } from "../domain/plan-openings.ts";
import { listInstances } from "../instance-lists.ts";
import { tellBoot } from "../node-trace.ts";
import { askMachines, type Scaler } from "../scaler.ts";

const WRITES_AT_ONCE = 32;

/** Looks at the health of nodes and at who holds them, and writes it down. */
export async function heartbeatRound(scaler: Scaler): Promise<void> {
  const { memory, records, policies, cluster, term } = scaler;
  const machines = await askMachines(scaler, "heartbeat");
  const instances = await listInstances(scaler, "heartbeat", providersToAsk(scaler));
  const [nowMs, watched] = [scaler.now(), records.list()];
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
  noteBoots(scaler, await take(scaler, steps), watched);
  await open(scaler);
  if (machines === undefined) return;
  const nodes = records.list();
  const claims = planClaims({ nowMs: scaler.now(), nodes, policies, machines, pods: cluster.pods() });
  noteBoots(scaler, await take(scaler, claims), nodes);
  memory.hasLooked ||= cluster.nodes().known;
}

/** Remembers which boots have come to nothing, and which to something. */
function noteBoots(
  { memory, now }: Scaler,
  steps: readonly (HeartbeatStep | ClaimStep)[],
  nodes: readonly ScaledNode[],
): void {
  memory.bootFailures = transitionBootFailures(memory.bootFailures, { nodes, steps, nowMs: now() });
}

/**
 * Only instances that are young or may be taken away have news at any time; the scan asks for all of them, less often, and a notice in its list is met by the next
 * heartbeat. A leader looks at each provider once before it makes
 * anything there.
 */
function providersToAsk({ memory, records, providers }: Scaler): ReadonlySet<string> {
  const unseen = [...providers.keys()].filter((name) => !memory.lists.has(name));
  const news = records
    .list()
    .filter(({ spec, status }) => status.phase === "Creating" || status.phase === "Created" || spec.spot);
  return new Set([...unseen, ...news.map(({ spec }) => spec.provider)]);
}

/** What was found ready in this round, or left closed by an earlier one, can be used from now on. */
async function open({ records, cluster, isHeld, tell }: Scaler): Promise<void> {
  await forEachSome(
    planOpenings(records.list(), cluster.nodes()),
    WRITES_AT_ONCE,
    async (step) => {
      if (!isHeld()) return;
      tell.planned("heartbeat", step);
      await cluster.open(step.kubeNode);
    },
    ({ kubeNode }, error) => tell.failed("heartbeat", `opening ${kubeNode}`, error),
  );
}

/** Which of the steps are written now. One that is not is planned again by the next round. */
async function take<Step extends HeartbeatStep | ClaimStep>(
  { records, tell, now }: Scaler,
  steps: readonly Step[],
): Promise<readonly Step[]> {
  const written: Step[] = [];
  await forEachSome(
    steps,
    WRITES_AT_ONCE,
    async (step) => {
      const changed = await records.changeNode(step);
      if (changed === undefined) return;
      written.push(step);
      tell.planned("heartbeat", step);
      if (step.because === "ready") tellBoot(changed, now());
    },
    ({ node, because }, error) => tell.failed("heartbeat", `writing that ${node} is ${because}`, error),
  );
  return written;
}
