import { setTimeout as sleep } from "node:timers/promises";
import type { RequestFault } from "@muster/devcluster";
import { kubeFault } from "@muster/kube";
import type { FaultSeen, Outage, PodDeletion } from "./domain/observed.ts";
import { describeHarm, type Fault, type Harm, type Service, type Victim } from "./domain/plan-faults.ts";
import { NAMESPACE } from "./job-observer.ts";
import type { Milestones } from "./milestones.ts";
import type { World } from "./world.ts";

/** What is needed to make a fault come true. */
export type Injection = {
  readonly world: World;
  readonly milestones: Milestones;
  /** On the monotonic clock: the start of the run. */
  readonly startedAtMs: number;
  /** Given when no more faults shall begin; those in force end in their time. */
  readonly calm: AbortSignal;
  readonly outages: Outage[];
  readonly podDeletions: PodDeletion[];
  readonly onChange: (seen: FaultSeen) => void;
};

const ATTEMPTS = 20;
const AGAIN_MS = 500;

/** Waits for the fault's moment, lets it happen, and takes it back when its time is over. */
export async function injectFault(injection: Injection, fault: Fault): Promise<FaultSeen> {
  const { onChange } = injection;
  const planned: FaultSeen = { id: fault.id, text: describeHarm(fault.harm), fromMs: undefined, toMs: undefined };
  if (!(await comes(injection, fault))) return planned;
  const begun = { ...planned, fromMs: Date.now() };
  onChange(begun);
  await harm(injection, fault.harm, fault.id);
  const over = { ...begun, toMs: Date.now() };
  onChange(over);
  return over;
}

async function comes({ milestones, startedAtMs, calm }: Injection, { trigger }: Fault): Promise<boolean> {
  try {
    if (trigger.when === "phase") {
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

async function harm(injection: Injection, what: Harm, id: string): Promise<void> {
  const { world } = injection;
  const { nats, faulty } = world;
  switch (what.do) {
    case "kill":
      return killReplicas(world, what.service, [what.replica], what.awayMs);
    case "kill-all":
      return killReplicas(world, what.service, undefined, what.awayMs);
    case "freeze":
      return freezeReplicas(world, what.service, [what.replica], what.forMs);
    case "freeze-all":
      return freezeReplicas(world, what.service, undefined, what.forMs);
    case "kill-nats":
      return nats.kill(what.awayMs);
    case "freeze-nats":
      return nats.freeze(what.forMs);
    case "api-away":
      await faulty.goAway(what.awayMs);
      return sleep(what.awayMs);
    case "kill-api": {
      if (world.api.kill !== undefined) return world.api.kill(what.awayMs);
      await faulty.goAway(what.awayMs);
      return sleep(what.awayMs);
    }
    case "api-answers":
      return withRule(world, id, what, { do: "answer", code: what.code });
    case "api-delays":
      return withRule(world, id, what, { do: "delay", ms: what.delayMs });
    case "api-loses-answers":
      return withRule(world, id, what, { do: "lose-answer" });
    case "api-drops-watches":
      await faulty.dropWatches();
      return;
    case "api-expires-watches":
      await faulty.expireWatches();
      return;
    case "delete-pod":
      return deletePod(injection, what);
    case "kill-node":
      return killNode(injection, what.victim, what.awayMs);
  }
}

function replicasOf(
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
  await Promise.all(replicasOf(world, service, places).map((replica) => replica.kill(awayMs)));
  await sleep(awayMs);
}

async function freezeReplicas(
  world: World,
  service: Service,
  places: readonly number[] | undefined,
  forMs: number,
): Promise<void> {
  // The process itself, so that a successor that was started meanwhile is not meant.
  const pids = replicasOf(world, service, places).map((replica) => replica.current().pid);
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
  // A watch that is open is not a request any more; a new one is, like every other.
  await faulty.inject({ id, match: {}, fault, share });
  try {
    await sleep(forMs);
  } finally {
    await faulty.remove(id);
  }
}

async function killNode({ world, outages }: Injection, victim: Victim, awayMs: number): Promise<void> {
  const node = "node" in victim ? victim.node : nodeOf(world, victim);
  if (node === undefined || outages.some((outage) => outage.node === node && outage.toMs === Infinity)) return;
  const outage = { node, fromMs: Date.now(), toMs: Number.POSITIVE_INFINITY };
  outages.push(outage);
  try {
    await world.nodes.kill(node);
    await sleep(awayMs);
    await insist(() => world.nodes.restart(node));
  } finally {
    outage.toMs = Date.now();
  }
}

/** One that is not there any more, or is somebody else by then, needs no deletion. */
async function deletePod(
  { world, podDeletions }: Injection,
  { work, pod }: { readonly work: string; readonly pod: string },
): Promise<void> {
  const found = world.pods.present().find((each) => each.work === work && each.component === pod);
  if (found === undefined) return;
  // Before it is done: the answer may come late.
  podDeletions.push({ work, pod, atMs: Date.now() });
  await insist(() =>
    world.calls
      .delete({ apiVersion: "v1", plural: "pods", namespace: NAMESPACE }, found.name, {
        preconditions: { uid: found.uid },
      })
      .catch((error: unknown) => {
        const code = kubeFault(error)?.code;
        if (code !== "not_found" && code !== "conflict") throw error;
      }),
  );
}

/** The API server may be away just then. */
async function insist(work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await work();
      return;
    } catch (error) {
      if (attempt >= ATTEMPTS) throw error;
      await sleep(AGAIN_MS);
    }
  }
}

/** The machine that was granted to the pod of a session, or on which that of a job is; undefined when it has none yet. */
function nodeOf({ records, pods }: World, victim: { readonly work: string; readonly pod: string }): string | undefined {
  const components = records.get(victim.work)?.value.session?.components ?? [];
  const node = components.find(({ name }) => name === victim.pod)?.node ?? "";
  if (node !== "") return node;
  return pods
    .present()
    .find(({ work, component, node: on }) => work === victim.work && component === victim.pod && on !== "")?.node;
}
