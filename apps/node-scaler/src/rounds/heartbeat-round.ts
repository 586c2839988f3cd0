import type { NodeChange } from "../domain/change-node.ts";
import { planClaims, type ClaimStep } from "../domain/plan-claims.ts";
import { planHeartbeat, type HeartbeatStep } from "../domain/plan-heartbeat.ts";
import { transitionBootFailures } from "../domain/transition-boot-failures.ts";
import { askMachines, forEachSome, listInstances, type Scaler } from "../scaler.ts";

const WRITES_AT_ONCE = 32;

/** Looks at the health of nodes and at who holds them, and writes it down. */
export async function heartbeatRound(scaler: Scaler): Promise<void> {
  const { memory, records, policies, cluster, term } = scaler;
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
    booting: new Set(memory.booting.keys()),
  });
  memory.bootFailures = transitionBootFailures(memory.bootFailures, { nodes: watched, steps, nowMs });
  await take(scaler, steps);
  const machines = await askMachines(scaler, "heartbeat");
  if (machines === undefined) return;
  const nodes = records.list();
  await take(scaler, planClaims({ nowMs: scaler.now(), nodes, policies, machines, pods: cluster.pods() }));
}

/** Only instances that are young or may be taken away have news; the scan looks at all of them, and less often. */
function providersToAsk({ records }: Scaler): ReadonlySet<string> {
  const news = records
    .list()
    .filter(({ spec, status }) => status.phase === "Creating" || status.phase === "Created" || spec.spot);
  return new Set(news.map(({ spec }) => spec.provider));
}

async function take({ records, tell }: Scaler, steps: readonly (HeartbeatStep | ClaimStep)[]): Promise<void> {
  await forEachSome<NodeChange & (HeartbeatStep | ClaimStep)>(
    steps,
    WRITES_AT_ONCE,
    async (step) => {
      if ((await records.changeNode(step)) !== undefined) tell.planned("heartbeat", step);
    },
    ({ node, because }, error) => tell.failed("heartbeat", `writing that ${node} is ${because}`, error),
  );
}
