import { setTimeout as sleep } from "node:timers/promises";
import type { RequestFault } from "@muster/devcluster";
import { unlessFault } from "@muster/kube";
import type { FaultSeen, Outage, PodDeletion } from "./domain/observed.ts";
import { describeAction, type Fault, type FaultAction, type Service, type Victim } from "./domain/plan-faults.ts";
import { NAMESPACE } from "./job-observer.ts";
import type { Milestones } from "./milestones.ts";
import type { World } from "./world.ts";

/** Dependencies of a fault injection. */
export type Injection = {
  readonly world: World;
  readonly milestones: Milestones;
  /** Start of the run on the monotonic clock. */
  readonly startedAtMs: number;
  /** Aborted when no more faults may begin. Faults in force end in time. */
  readonly calm: AbortSignal;
  readonly outages: Outage[];
  readonly podDeletions: PodDeletion[];
  readonly onChange: (seen: FaultSeen) => void;
};

const ATTEMPTS = 20;
const RETRY_MS = 500;

/** Waits for the trigger of the fault, applies its action, and reverts it when its time is over. */
export async function injectFault(injection: Injection, fault: Fault): Promise<FaultSeen> {
  const { onChange } = injection;
  const planned: FaultSeen = { id: fault.id, text: describeAction(fault.action), fromMs: undefined, toMs: undefined };
  if (!(await waitForTrigger(injection, fault))) return planned;
  const begun = { ...planned, fromMs: Date.now() };
  onChange(begun);
  await apply(injection, fault.action, fault.id);
  const over = { ...begun, toMs: Date.now() };
  onChange(over);
  return over;
}

async function waitForTrigger({ milestones, startedAtMs, calm }: Injection, { trigger }: Fault): Promise<boolean> {
  try {
    if (trigger.kind === "phase") {
      await milestones.reached(trigger.work, trigger.phase, calm);
      if (trigger.afterMs > 0) await sleep(trigger.afterMs, undefined, { signal: calm });
    } else {
      await sleep(Math.max(0, startedAtMs + trigger.atMs - performance.now()), undefined, { signal: calm });
    }
    return true;
  } catch (error) {
    if (calm.aborted) return false;
    throw error;
  }
}

async function apply(injection: Injection, action: FaultAction, id: string): Promise<void> {
  const { world } = injection;
  const { nats, faulty } = world;
  switch (action.kind) {
    case "kill":
      return killReplicas(world, action.service, [action.replica], action.awayMs);
    case "kill-all":
      return killReplicas(world, action.service, undefined, action.awayMs);
    case "freeze":
      return freezeReplicas(world, action.service, [action.replica], action.forMs);
    case "freeze-all":
      return freezeReplicas(world, action.service, undefined, action.forMs);
    case "kill-nats":
      return nats.kill(action.awayMs);
    case "freeze-nats":
      return nats.freeze(action.forMs);
    case "api-away":
      await faulty.goAway(action.awayMs);
      return sleep(action.awayMs);
    case "kill-api": {
      if (world.api.kill !== undefined) return world.api.kill(action.awayMs);
      await faulty.goAway(action.awayMs);
      return sleep(action.awayMs);
    }
    case "api-answers":
      return withRule(world, id, action, { do: "answer", code: action.code });
    case "api-delays":
      return withRule(world, id, action, { do: "delay", ms: action.delayMs });
    case "api-loses-answers":
      return withRule(world, id, action, { do: "lose-answer" });
    case "api-drops-watches":
      await faulty.dropWatches();
      return;
    case "api-expires-watches":
      await faulty.expireWatches();
      return;
    case "delete-pod":
      return deletePod(injection, action);
    case "kill-node":
      return killNode(injection, action.victim, action.awayMs);
  }
}

function listReplicas(
  { stack }: World,
  service: Service,
  places: readonly number[] | undefined,
): World["stack"]["replicas"] {
  const all = stack.replicas.filter((replica) => replica.service === service);
  return places === undefined ? all : all.filter((_, place) => places.includes(place));
}

async function killReplicas(
  world: World,
  service: Service,
  places: readonly number[] | undefined,
  awayMs: number,
): Promise<void> {
  await Promise.all(listReplicas(world, service, places).map((replica) => replica.kill(awayMs)));
  await sleep(awayMs);
}

async function freezeReplicas(
  world: World,
  service: Service,
  places: readonly number[] | undefined,
  forMs: number,
): Promise<void> {
  // Uses the pid, so that a successor is neither resumed nor frozen.
  const pids = listReplicas(world, service, places).map((replica) => replica.current().pid);
  for (const pid of pids) signal(pid, "SIGSTOP");
  try {
    await sleep(forMs);
  } finally {
    for (const pid of pids) signal(pid, "SIGCONT");
  }
}

/** Another fault may have ended the process already. */
function signal(pid: number, name: "SIGSTOP" | "SIGCONT"): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

async function withRule(
  { faulty }: World,
  id: string,
  { share, forMs }: { readonly share: number; readonly forMs: number },
  fault: RequestFault,
): Promise<void> {
  // An open watch is not a request; a new watch is.
  await faulty.inject({ id, match: {}, fault, share });
  try {
    await sleep(forMs);
  } finally {
    await faulty.remove(id);
  }
}

async function killNode({ world, outages }: Injection, victim: Victim, awayMs: number): Promise<void> {
  const node = "node" in victim ? victim.node : findNode(world, victim);
  if (node === undefined || outages.some((outage) => outage.node === node && outage.toMs === Infinity)) return;
  const outage = { node, fromMs: Date.now(), toMs: Number.POSITIVE_INFINITY };
  outages.push(outage);
  try {
    await world.nodes.kill(node);
    await sleep(awayMs);
    await retry(() => world.nodes.restart(node));
  } finally {
    outage.toMs = Date.now();
  }
}

/** Deletes the pod. A pod that no longer exists or was replaced needs no deletion. */
async function deletePod(
  { world, podDeletions }: Injection,
  { work, pod }: { readonly work: string; readonly pod: string },
): Promise<void> {
  const found = world.pods.present().find((each) => each.work === work && each.component === pod);
  if (found === undefined) return;
  // Recorded before the call, because the answer may be late.
  podDeletions.push({ work, pod, atMs: Date.now() });
  const pods = { apiVersion: "v1", plural: "pods", namespace: NAMESPACE };
  const options = { preconditions: { uid: found.uid } };
  await retry(() => unlessFault(world.calls.delete(pods, found.name, options), "not_found", "conflict"));
}

/** Retries while the API server is unreachable. */
async function retry(work: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await work();
      return;
    } catch (error) {
      if (attempt >= ATTEMPTS) throw error;
      await sleep(RETRY_MS);
    }
  }
}

/** The machine of the pod, as granted to a session, or as placed for a job; undefined while it has none. */
function findNode(
  { records, pods }: World,
  victim: { readonly work: string; readonly pod: string },
): string | undefined {
  const components = records.get(victim.work)?.value.session?.components ?? [];
  const node = components.find(({ name }) => name === victim.pod)?.node ?? "";
  if (node !== "") return node;
  return pods
    .present()
    .find(({ work, component, node: on }) => work === victim.work && component === victim.pod && on !== "")?.node;
}
