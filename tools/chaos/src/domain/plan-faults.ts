import { type JobShape, countMembers } from "./plan-jobs.ts";
import { PHASES, type Phase, type SessionShape } from "./plan-session-shapes.ts";
import { type Random, makeRandom } from "./random.ts";

export const SERVICES = ["watcher", "reservation-manager", "session-controller", "job-controller"] as const;
export type Service = (typeof SERVICES)[number];

/** The start of a fault: a time after the start of the run, or after a session or job has reached a phase. */
export type Trigger =
  | { readonly kind: "time"; readonly atMs: number }
  | { readonly kind: "phase"; readonly work: string; readonly phase: Phase; readonly afterMs: number };

/** The machine to switch off: a named one, or the present machine of a pod. */
export type Victim = { readonly node: string } | { readonly work: string; readonly pod: string };

export type FaultAction =
  /** SIGKILL; the replica restarts after `awayMs`. */
  | { readonly kind: "kill"; readonly service: Service; readonly replica: number; readonly awayMs: number }
  /** SIGSTOP, and SIGCONT after `forMs`. */
  | { readonly kind: "freeze"; readonly service: Service; readonly replica: number; readonly forMs: number }
  | { readonly kind: "kill-all"; readonly service: Service; readonly awayMs: number }
  | { readonly kind: "freeze-all"; readonly service: Service; readonly forMs: number }
  | { readonly kind: "kill-nats"; readonly awayMs: number }
  | { readonly kind: "freeze-nats"; readonly forMs: number }
  /** Breaks all connections, and refuses new ones. */
  | { readonly kind: "api-away"; readonly awayMs: number }
  /** Kills the process of the API server, which restarts on its stored state. */
  | { readonly kind: "kill-api"; readonly awayMs: number }
  /** Answers this share of the requests with the code, without forwarding them. */
  | {
      readonly kind: "api-answers";
      readonly code: 409 | 429 | 500 | 503;
      readonly share: number;
      readonly forMs: number;
    }
  | { readonly kind: "api-delays"; readonly delayMs: number; readonly share: number; readonly forMs: number }
  /** Forwards requests, but drops their answers. */
  | { readonly kind: "api-loses-answers"; readonly share: number; readonly forMs: number }
  | { readonly kind: "api-drops-watches" }
  | { readonly kind: "api-expires-watches" }
  /** Deletes a pod of a job, like a user. */
  | { readonly kind: "delete-pod"; readonly work: string; readonly pod: string }
  /** The machine is off for `awayMs`; its pods are lost. */
  | { readonly kind: "kill-node"; readonly victim: Victim; readonly awayMs: number };

export type Fault = { readonly id: string; readonly trigger: Trigger; readonly action: FaultAction };

export type FaultPolicy = {
  readonly faults: number;
  /** Times of faults are drawn within this window. */
  readonly windowMs: number;
  readonly replicas: number;
  readonly pools: Readonly<Record<string, number>>;
  /** Longer than the TTL of a lock and the acknowledgement wait of a message. */
  readonly patienceMs: number;
};

export type PlannedWork = { readonly shapes: readonly SessionShape[]; readonly jobs: readonly JobShape[] };

/** Weights of the drawn faults. They are every second fault; the others hit a service at a phase of a session or job. */
const WEIGHTS = {
  kill: 3,
  freeze: 5,
  "kill-all": 4,
  "freeze-all": 2,
  "kill-nats": 5,
  "freeze-nats": 2,
  "api-away": 3,
  "kill-api": 2,
  "api-answers": 6,
  "api-delays": 3,
  "api-loses-answers": 4,
  "api-drops-watches": 3,
  "api-expires-watches": 3,
  "kill-node": 5,
  "delete-pod": 4,
} satisfies Readonly<Record<FaultAction["kind"], number>>;

/**
 * Plans the faults of one run, in the order of their ids. The same arguments give the same faults. Forty faults hit every service at every phase; without jobs
 * thirty do, and the job-controller is spared.
 */
export function planFaults(seed: number, planned: PlannedWork, policy: FaultPolicy): Fault[] {
  const random = makeRandom(seed, "faults");
  const pairs = random.shuffle(listServices(planned).flatMap((service) => PHASES.map((phase) => ({ service, phase }))));
  return Array.from({ length: policy.faults }, (_, index) => {
    const id = `f${String(index + 1).padStart(2, "0")}`;
    const pair = index % 2 === 0 ? pairs[(index / 2) % pairs.length] : undefined;
    if (pair === undefined) {
      const action = planAction(random, planned, policy);
      return { id, trigger: planTrigger(random, planned, policy, action), action };
    }
    const target = { service: pair.service, replica: random.integer(0, policy.replicas - 1) };
    const action: FaultAction = random.chance(0.7)
      ? { kind: "kill", ...target, awayMs: random.integer(0, 1500) }
      : { kind: "freeze", ...target, forMs: freezeMs(random, policy) };
    return { id, trigger: atPhase(random, drawWork(random, planned, pair.service), pair.phase), action };
  });
}

/** The services that have work to do. */
function listServices({ jobs }: PlannedWork): readonly [Service, ...Service[]] {
  return jobs.length > 0 ? SERVICES : ["watcher", "reservation-manager", "session-controller"];
}

function planAction(random: Random, planned: PlannedWork, policy: FaultPolicy): FaultAction {
  const kind = random.weighted(planned.jobs.length > 0 ? WEIGHTS : { ...WEIGHTS, "delete-pod": 0 });
  const service = random.pick(listServices(planned));
  const replica = random.integer(0, policy.replicas - 1);
  const forMs = random.integer(500, 4000);
  const awayMs = random.integer(500, 4000);
  const share = random.integer(2, 10) / 10;
  switch (kind) {
    case "kill":
      return { kind, service, replica, awayMs: random.integer(0, 3000) };
    case "freeze":
      return { kind, service, replica, forMs: freezeMs(random, policy) };
    case "kill-all":
      return { kind, service, awayMs };
    case "freeze-all":
      return { kind, service, forMs: freezeMs(random, policy) };
    case "kill-nats":
      return { kind, awayMs: random.integer(0, 5000) };
    case "freeze-nats":
      return { kind, forMs };
    case "api-away":
    case "kill-api":
      return { kind, awayMs };
    case "api-answers":
      return { kind, code: random.pick([409, 429, 500, 503] as const), share, forMs };
    case "api-delays":
      return { kind, delayMs: random.integer(50, 1500), share, forMs };
    case "api-loses-answers":
      return { kind, share, forMs };
    case "api-drops-watches":
    case "api-expires-watches":
      return { kind };
    case "delete-pod": {
      const { name, pods } = drawJob(random, planned);
      return { kind, work: name, pod: pods[random.integer(0, pods.length - 1)] ?? "" };
    }
    case "kill-node":
      return { kind, victim: planVictim(random, planned, policy), awayMs: random.integer(500, 5000) };
  }
}

function freezeMs(random: Random, { patienceMs }: FaultPolicy): number {
  return random.integer(Math.ceil(patienceMs * 0.5), patienceMs * 3);
}

function planVictim(random: Random, planned: PlannedWork, { pools }: FaultPolicy): Victim {
  const { name, pods } = drawAny(random, planned);
  const pod = pods[random.integer(0, pods.length - 1)];
  if (pod !== undefined && random.chance(0.7)) return { work: name, pod };
  const nodes = Object.entries(pools).flatMap(([pool, count]) =>
    Array.from({ length: count }, (_, index) => `${pool}-${index}`),
  );
  return { node: nodes[random.integer(0, nodes.length - 1)] ?? "" };
}

function planTrigger(random: Random, planned: PlannedWork, policy: FaultPolicy, action: FaultAction): Trigger {
  const victim =
    action.kind === "delete-pod"
      ? action
      : action.kind === "kill-node" && "work" in action.victim
        ? action.victim
        : undefined;
  if (victim !== undefined) {
    const phase = random.pick(["provisioning", "running", "running", "cleaning-up"] as const);
    return { kind: "phase", work: victim.work, phase, afterMs: random.integer(0, 300) };
  }
  if (random.chance(0.3)) {
    const service = "service" in action ? action.service : undefined;
    return atPhase(random, drawWork(random, planned, service), random.pick(PHASES));
  }
  return { kind: "time", atMs: random.integer(0, policy.windowMs) };
}

function atPhase(random: Random, work: Drawn, phase: Phase): Trigger {
  // Half of the faults begin immediately, the others later, to hit different moments of a write.
  return { kind: "phase", work: work.name, phase, afterMs: random.chance(0.5) ? 0 : random.integer(0, 400) };
}

/** A session or job that passes through all phases without faults, and its pods. */
type Drawn = { readonly name: string; readonly pods: readonly string[] };

/** Draws work of this service. */
function drawWork(random: Random, planned: PlannedWork, service: Service | undefined): Drawn {
  if (service === "job-controller") return drawJob(random, planned);
  if (service === "session-controller") return drawSession(random, planned);
  return drawAny(random, planned);
}

function drawAny(random: Random, planned: PlannedWork): Drawn {
  const { shapes, jobs } = planned;
  const isJob = jobs.length > 0 && random.integer(1, shapes.length + jobs.length) > shapes.length;
  return isJob ? drawJob(random, planned) : drawSession(random, planned);
}

function drawSession(random: Random, { shapes }: PlannedWork): Drawn {
  const complete = shapes.filter(({ intent, cancel }) => cancel === undefined && COMPLETE.has(intent));
  const { name = "", pods = [] } = complete[random.integer(0, complete.length - 1)] ?? {};
  return { name, pods: pods.map((pod) => pod.name) };
}

function drawJob(random: Random, { jobs }: PlannedWork): Drawn {
  const complete = jobs.filter(({ intent, userAction }) => userAction === undefined && intent !== "pool-too-small");
  const job = complete[random.integer(0, complete.length - 1)];
  return job === undefined ? { name: "", pods: [] } : { name: job.name, pods: countMembers(job) };
}

const COMPLETE: ReadonlySet<SessionShape["intent"]> = new Set(["good", "driver-fails", "time-limit"]);

/** Describes a fault on one line. */
export function describeFault({ id, trigger, action }: Fault): string {
  const when =
    trigger.kind === "time"
      ? `at ${seconds(trigger.atMs)}`
      : `${trigger.work} ${trigger.phase}${trigger.afterMs === 0 ? "" : ` + ${trigger.afterMs} ms`}`;
  return `${id}  ${when.padEnd(28)}  ${describeAction(action)}`;
}

export function describeAction(action: FaultAction): string {
  switch (action.kind) {
    case "kill":
      return `kill -9 ${action.service}-${action.replica}, away for ${seconds(action.awayMs)}`;
    case "freeze":
      return `SIGSTOP ${action.service}-${action.replica} for ${seconds(action.forMs)}`;
    case "kill-all":
      return `kill -9 every ${action.service}, away for ${seconds(action.awayMs)}`;
    case "freeze-all":
      return `SIGSTOP every ${action.service} for ${seconds(action.forMs)}`;
    case "kill-nats":
      return `kill -9 nats-server, away for ${seconds(action.awayMs)}`;
    case "freeze-nats":
      return `SIGSTOP nats-server for ${seconds(action.forMs)}`;
    case "api-away":
      return `API server away for ${seconds(action.awayMs)}`;
    case "kill-api":
      return `kill -9 API server, away for ${seconds(action.awayMs)}`;
    case "api-answers":
      return `API server answers ${action.code} to ${percent(action.share)} for ${seconds(action.forMs)}`;
    case "api-delays":
      return `API server is ${action.delayMs} ms late in ${percent(action.share)} for ${seconds(action.forMs)}`;
    case "api-loses-answers":
      return `API server loses ${percent(action.share)} of its answers for ${seconds(action.forMs)}`;
    case "api-drops-watches":
      return "API server drops every watch";
    case "api-expires-watches":
      return "API server answers every watch with 410";
    case "delete-pod":
      return `a user deletes ${action.work}-${action.pod}`;
    case "kill-node":
      return `${describeVictim(action.victim)} off for ${seconds(action.awayMs)}`;
  }
}

function describeVictim(victim: Victim): string {
  return "node" in victim ? `node ${victim.node}` : `the node of ${victim.work}-${victim.pod}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
