import { type JobShape, membersOf } from "./plan-jobs.ts";
import { PHASES, type Phase, type Shape } from "./plan-shapes.ts";
import { type Random, randomFrom } from "./random.ts";

export const SERVICES = ["watcher", "reservation-manager", "session-controller", "job-controller"] as const;
export type Service = (typeof SERVICES)[number];

/** When a fault begins: some time after the start of the run, or after a session or job has reached a phase. */
export type Trigger =
  | { readonly when: "time"; readonly atMs: number }
  | { readonly when: "phase"; readonly work: string; readonly phase: Phase; readonly afterMs: number };

/** The machine that is switched off: a named one, or the one that a pod of a session or job is on at that time. */
export type Victim = { readonly node: string } | { readonly work: string; readonly pod: string };

export type Harm =
  /** kill -9; it is started again after so long. */
  | { readonly do: "kill"; readonly service: Service; readonly replica: number; readonly awayMs: number }
  /** SIGSTOP, and SIGCONT after so long. */
  | { readonly do: "freeze"; readonly service: Service; readonly replica: number; readonly forMs: number }
  | { readonly do: "kill-all"; readonly service: Service; readonly awayMs: number }
  | { readonly do: "freeze-all"; readonly service: Service; readonly forMs: number }
  | { readonly do: "kill-nats"; readonly awayMs: number }
  | { readonly do: "freeze-nats"; readonly forMs: number }
  /** Connections are broken, and new ones refused. */
  | { readonly do: "api-away"; readonly awayMs: number }
  /** The API server's process is killed; it comes back with what it had written. */
  | { readonly do: "kill-api"; readonly awayMs: number }
  /** This part of the requests is not passed on and answered so. */
  | { readonly do: "api-answers"; readonly code: 409 | 429 | 500 | 503; readonly share: number; readonly forMs: number }
  | { readonly do: "api-delays"; readonly delayMs: number; readonly share: number; readonly forMs: number }
  /** Requests are obeyed, and their answers lost. */
  | { readonly do: "api-loses-answers"; readonly share: number; readonly forMs: number }
  | { readonly do: "api-drops-watches" }
  | { readonly do: "api-expires-watches" }
  /** Somebody deletes a pod of a job. */
  | { readonly do: "delete-pod"; readonly work: string; readonly pod: string }
  /** The machine is off for so long; what ran on it is lost. */
  | { readonly do: "kill-node"; readonly victim: Victim; readonly awayMs: number };

export type Fault = { readonly id: string; readonly trigger: Trigger; readonly harm: Harm };

export type FaultPolicy = {
  readonly faults: number;
  /** Faults at a time are drawn within it. */
  readonly windowMs: number;
  readonly replicas: number;
  readonly pools: Readonly<Record<string, number>>;
  /** Longer than a lock lasts without its holder, and than a message stays with a silent replica. */
  readonly patienceMs: number;
};

/** What faults wait for, and hit. */
export type Works = { readonly shapes: readonly Shape[]; readonly jobs: readonly JobShape[] };

/** Every second fault hits a service at a phase of a session or job; the others are drawn from all kinds. */
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
} satisfies Readonly<Record<Harm["do"], number>>;

/**
 * The faults of one run, in the order of their ids. The same seed, works and policy give the same faults. With forty or more, every service is hit at every
 * phase; without jobs with thirty, and the job-controller is left alone.
 */
export function planFaults(seed: number, works: Works, policy: FaultPolicy): Fault[] {
  const random = randomFrom(seed, "faults");
  const pairs = random.shuffle(servicesOf(works).flatMap((service) => PHASES.map((phase) => ({ service, phase }))));
  return Array.from({ length: policy.faults }, (_, index) => {
    const id = `f${String(index + 1).padStart(2, "0")}`;
    const pair = index % 2 === 0 ? pairs[(index / 2) % pairs.length] : undefined;
    if (pair === undefined) {
      const harm = planHarm(random, works, policy);
      return { id, trigger: planTrigger(random, works, policy, harm), harm };
    }
    const target = { service: pair.service, replica: random.integer(0, policy.replicas - 1) };
    const harm: Harm = random.chance(0.7)
      ? { do: "kill", ...target, awayMs: random.integer(0, 1500) }
      : { do: "freeze", ...target, forMs: freezeMs(random, policy) };
    return { id, trigger: atPhase(random, drawFor(random, works, pair.service), pair.phase), harm };
  });
}

/** A service that has nothing to do is not worth a fault. */
function servicesOf({ jobs }: Works): readonly [Service, ...Service[]] {
  return jobs.length > 0 ? SERVICES : ["watcher", "reservation-manager", "session-controller"];
}

function planHarm(random: Random, works: Works, policy: FaultPolicy): Harm {
  const kind = random.weighted(works.jobs.length > 0 ? WEIGHTS : { ...WEIGHTS, "delete-pod": 0 });
  const service = random.pick(servicesOf(works));
  const replica = random.integer(0, policy.replicas - 1);
  const forMs = random.integer(500, 4000);
  const awayMs = random.integer(500, 4000);
  const share = random.integer(2, 10) / 10;
  switch (kind) {
    case "kill":
      return { do: kind, service, replica, awayMs: random.integer(0, 3000) };
    case "freeze":
      return { do: kind, service, replica, forMs: freezeMs(random, policy) };
    case "kill-all":
      return { do: kind, service, awayMs };
    case "freeze-all":
      return { do: kind, service, forMs: freezeMs(random, policy) };
    case "kill-nats":
      return { do: kind, awayMs: random.integer(0, 5000) };
    case "freeze-nats":
      return { do: kind, forMs };
    case "api-away":
    case "kill-api":
      return { do: kind, awayMs };
    case "api-answers":
      return { do: kind, code: random.pick([409, 429, 500, 503] as const), share, forMs };
    case "api-delays":
      return { do: kind, delayMs: random.integer(50, 1500), share, forMs };
    case "api-loses-answers":
      return { do: kind, share, forMs };
    case "api-drops-watches":
    case "api-expires-watches":
      return { do: kind };
    case "delete-pod": {
      const { name, pods } = drawJob(random, works);
      return { do: kind, work: name, pod: pods[random.integer(0, pods.length - 1)] ?? "" };
    }
    case "kill-node":
      return { do: kind, victim: planVictim(random, works, policy), awayMs: random.integer(500, 5000) };
  }
}

function freezeMs(random: Random, { patienceMs }: FaultPolicy): number {
  return random.integer(Math.ceil(patienceMs * 0.5), patienceMs * 3);
}

function planVictim(random: Random, works: Works, { pools }: FaultPolicy): Victim {
  const { name, pods } = drawAny(random, works);
  const pod = pods[random.integer(0, pods.length - 1)];
  if (pod !== undefined && random.chance(0.7)) return { work: name, pod };
  const nodes = Object.entries(pools).flatMap(([pool, count]) =>
    Array.from({ length: count }, (_, index) => `${pool}-${index}`),
  );
  return { node: nodes[random.integer(0, nodes.length - 1)] ?? "" };
}

function planTrigger(random: Random, works: Works, policy: FaultPolicy, harm: Harm): Trigger {
  const victim =
    harm.do === "delete-pod" ? harm : harm.do === "kill-node" && "work" in harm.victim ? harm.victim : undefined;
  if (victim !== undefined) {
    const phase = random.pick(["provisioning", "running", "running", "cleaning-up"] as const);
    return { when: "phase", work: victim.work, phase, afterMs: random.integer(0, 300) };
  }
  if (random.chance(0.3)) {
    const service = "service" in harm ? harm.service : undefined;
    return atPhase(random, drawFor(random, works, service), random.pick(PHASES));
  }
  return { when: "time", atMs: random.integer(0, policy.windowMs) };
}

function atPhase(random: Random, work: Drawn, phase: Phase): Trigger {
  // At once as often as a little later: what happens right after a write is not what happens in its middle.
  return { when: "phase", work: work.name, phase, afterMs: random.chance(0.5) ? 0 : random.integer(0, 400) };
}

/** A session or job that passes through all phases when nothing hits it, and its pods. */
type Drawn = { readonly name: string; readonly pods: readonly string[] };

/** One that this service works on. */
function drawFor(random: Random, works: Works, service: Service | undefined): Drawn {
  if (service === "job-controller") return drawJob(random, works);
  if (service === "session-controller") return drawSession(random, works);
  return drawAny(random, works);
}

function drawAny(random: Random, works: Works): Drawn {
  const { shapes, jobs } = works;
  const isJob = jobs.length > 0 && random.integer(1, shapes.length + jobs.length) > shapes.length;
  return isJob ? drawJob(random, works) : drawSession(random, works);
}

function drawSession(random: Random, { shapes }: Works): Drawn {
  const complete = shapes.filter(({ intent, cancel }) => cancel === undefined && COMPLETE.has(intent));
  const { name = "", pods = [] } = complete[random.integer(0, complete.length - 1)] ?? {};
  return { name, pods: pods.map((pod) => pod.name) };
}

function drawJob(random: Random, { jobs }: Works): Drawn {
  const complete = jobs.filter(({ intent, deed }) => deed === undefined && intent !== "pool-too-small");
  const job = complete[random.integer(0, complete.length - 1)];
  return job === undefined ? { name: "", pods: [] } : { name: job.name, pods: membersOf(job) };
}

const COMPLETE: ReadonlySet<Shape["intent"]> = new Set(["good", "driver-fails", "time-limit"]);

/** One line for people. */
export function describeFault({ id, trigger, harm }: Fault): string {
  const when =
    trigger.when === "time"
      ? `at ${seconds(trigger.atMs)}`
      : `${trigger.work} ${trigger.phase}${trigger.afterMs === 0 ? "" : ` + ${trigger.afterMs} ms`}`;
  return `${id}  ${when.padEnd(28)}  ${describeHarm(harm)}`;
}

export function describeHarm(harm: Harm): string {
  switch (harm.do) {
    case "kill":
      return `kill -9 ${harm.service}-${harm.replica}, away for ${seconds(harm.awayMs)}`;
    case "freeze":
      return `SIGSTOP ${harm.service}-${harm.replica} for ${seconds(harm.forMs)}`;
    case "kill-all":
      return `kill -9 every ${harm.service}, away for ${seconds(harm.awayMs)}`;
    case "freeze-all":
      return `SIGSTOP every ${harm.service} for ${seconds(harm.forMs)}`;
    case "kill-nats":
      return `kill -9 nats-server, away for ${seconds(harm.awayMs)}`;
    case "freeze-nats":
      return `SIGSTOP nats-server for ${seconds(harm.forMs)}`;
    case "api-away":
      return `API server away for ${seconds(harm.awayMs)}`;
    case "kill-api":
      return `kill -9 API server, away for ${seconds(harm.awayMs)}`;
    case "api-answers":
      return `API server answers ${harm.code} to ${percent(harm.share)} for ${seconds(harm.forMs)}`;
    case "api-delays":
      return `API server is ${harm.delayMs} ms late in ${percent(harm.share)} for ${seconds(harm.forMs)}`;
    case "api-loses-answers":
      return `API server loses ${percent(harm.share)} of its answers for ${seconds(harm.forMs)}`;
    case "api-drops-watches":
      return "API server drops every watch";
    case "api-expires-watches":
      return "API server says 410 on every watch";
    case "delete-pod":
      return `somebody deletes ${harm.work}-${harm.pod}`;
    case "kill-node":
      return `${"node" in harm.victim ? `node ${harm.victim.node}` : `the node of ${harm.victim.work}-${harm.victim.pod}`} off for ${seconds(harm.awayMs)}`;
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
