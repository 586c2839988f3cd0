import { JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import {
  buildGangId,
  findPlaceSet,
  type BatchJob,
  type BatchPod,
  type BatchSnapshot,
} from "../src/domain/batch/batch-job.ts";
import { planBatchJob, type BatchStep } from "../src/domain/batch/plan-batch-job.ts";
import { NO_PROGRESS, type StartProgress } from "../src/domain/batch/start-progress.ts";
import type { UnitSeen } from "../src/domain/snapshot.ts";

const NODES = ["n1", "n2", "n3", "n4", "n5", "n6"];
const PAUSE_MS = 20;
const PAUSES = { restartBackoffMs: PAUSE_MS, maxRestartBackoffMs: PAUSE_MS };
const POLICY = { replacementWaitMs: 10, refusedRetryMs: 10, maxRecheckMs: 1000, ...PAUSES };
const SHARE = { cpu: 100 };
const NEED = { pool: "workers", shared: SHARE };
const PARALLELISM = 2;

type Waiting = Extract<UnitSeen, { readonly sinceMs: number }>;
type Pod = { -readonly [Key in keyof BatchPod]: BatchPod[Key] };

/** The number of completions of the Jobs with one template. */
type Row = { readonly name: string; readonly completions: number };

/** Work of Kubernetes with its controllers, a scheduler and the ledger in memory. An operation throws if it breaks a guarantee. */
export class PlannedBatchWorld {
  #nowMs = 0;
  #made = 0;
  #job = { suspended: false, stopped: false, started: false, gated: false, queue: "team-a" };
  /** The state of a JobSet's Jobs, which follow the JobSet with a delay. */
  #children = { suspended: false, gated: false };
  readonly #kind: BatchKind;
  readonly #rows: readonly Row[];
  readonly #succeeded = new Map<string, number>();
  readonly #lost = new Set<string>();
  #pods: Pod[] = [];
  readonly #units = new Map<string, UnitSeen>();
  readonly #readyTimeoutMs: number | undefined;
  #start: StartProgress = NO_PROGRESS;
  /** The last admission; `isReady` once the controller has recorded that all pods were ready. */
  #admitted = { atMs: 0, isReady: false };
  #timeouts = 0;

  constructor(kind: BatchKind, rows: readonly Row[], readyTimeoutMs?: number) {
    this.#kind = kind;
    this.#rows = rows;
    this.#readyTimeoutMs = readyTimeoutMs;
    if (kind !== QUEUED_POD) return;
    this.#create("pod", true);
    this.#job.gated = true;
  }

  /** A deleted pod counts as finished, because it never runs again. */
  get isFinished(): boolean {
    if (this.#kind === QUEUED_POD) return this.#pods.every(({ finished }) => finished);
    return this.#rows.every(({ name, completions }) => this.#succeededOf(name) >= completions);
  }

  get isEmpty(): boolean {
    return this.#units.size === 0;
  }

  /** Counts the suspensions because the work was not ready in time. */
  get timeouts(): number {
    return this.#timeouts;
  }

  /** Plans, and carries out the first `count` steps: the controller dies there. Returns the number of planned steps. */
  pass(count: number): number {
    if (this.#kind === QUEUED_POD && this.#pods.length === 0) return this.#sweep();
    const { steps } = planBatchJob(this.snapshot(), POLICY);
    for (const step of steps.slice(0, count)) this.#take(step);
    return steps.length;
  }

  /** Applies one event of Kubernetes, users or machines. */
  happen(event: string, pick: number): void {
    this.#nowMs += 5;
    const alive = this.#pods.filter(({ finished }) => !finished);
    const pod = alive[pick % Math.max(1, alive.length)];
    switch (event) {
      case "control":
        this.#control();
        return;
      case "grant":
        this.#grant();
        return;
      case "schedule":
        if (pod !== undefined) this.#schedule(pod);
        return;
      case "succeed":
        if (pod?.scheduled === true && !pod.deleting && !this.#lost.has(pod.place ?? "")) {
          Object.assign(pod, { finished: true, ready: true });
          this.#succeeded.set(pod.set, this.#succeededOf(pod.set) + 1);
        }
        return;
      case "ready":
        if (pod?.scheduled === true) pod.ready = true;
        return;
      case "unready":
        if (pod !== undefined) pod.ready = false;
        return;
      case "wait":
        this.#nowMs += 50 * pick;
        return;
      case "fail":
        if (pod?.scheduled === true) Object.assign(pod, { finished: true, ready: false });
        return;
      case "lose":
        this.#lost.add(NODES[pick % NODES.length] ?? "");
        return;
      case "return":
        this.#lost.clear();
        return;
      case "preempt":
        this.#preempt(pick);
        return;
      case "unlabel":
        this.#job.queue = "";
        return;
    }
  }

  snapshot(): BatchSnapshot {
    const [pod] = this.#pods;
    const ofPod = this.#kind === QUEUED_POD && { suspended: pod?.gated === true, deleting: pod?.deleting === true };
    const job: BatchJob = {
      ...this.#job,
      kind: this.#kind,
      namespace: "team-a",
      name: "train",
      uid: "0a1b2c3d-4e5f-6789-abcd-ef0123456789",
      deleting: false,
      finished: this.isFinished,
      sets: this.#rows.map(({ name, completions }, index) => {
        const left = completions - this.#succeededOf(name);
        return { name, first: index * PARALLELISM, pods: Math.max(0, Math.min(PARALLELISM, left)), need: NEED };
      }),
      topology: undefined,
      graceMs: 0,
      start: this.#start,
      ...ofPod,
    };
    const units = [...this.#units.values()];
    const queue = { kind: "queue", name: "team-a" } as const;
    const nodesLost = [...this.#lost];
    const nodesReady = NODES.filter((node) => !this.#lost.has(node));
    const isGranted = this.#units.get(buildGangId(job))?.state === "granted";
    const readyTimeoutMs = isGranted ? this.#readyTimeoutMs : undefined;
    const known = { nowMs: this.#nowMs, job, pods: this.#pods, units, readyTimeoutMs };
    return { ...known, queue, priority: 0, nodesLost, nodesReady };
  }

  #succeededOf(set: string): number {
    return this.#succeeded.get(set) ?? 0;
  }

  /** Acts as Kubernetes' own controllers: a suspended or finished Job has no pods, any other as many as it may. */
  #control(): void {
    this.#pods = this.#pods.filter(({ deleting, finished }) => !deleting && (!finished || this.#kind === QUEUED_POD));
    if (this.#kind === QUEUED_POD) return;
    const { suspended, gated } = this.#kind === JOB_SET ? this.#controlChildren() : this.#job;
    for (const { name, pods } of this.snapshot().job.sets) {
      const wanted = suspended ? 0 : pods;
      const own = this.#pods.filter(({ set }) => set === name);
      for (const pod of own.slice(wanted)) pod.deleting = true;
      for (let missing = wanted - own.length; missing > 0; missing -= 1) this.#create(name, gated);
    }
    if (this.#kind === JOB_SET) return;
    if (!suspended) this.#job.started = true;
    this.#job.stopped = suspended && this.#pods.length === 0;
  }

  /** The controller of JobSets reports a suspension after its Jobs are suspended, with or without pods. It adds gates when it resumes them. */
  #controlChildren(): { readonly suspended: boolean; readonly gated: boolean } {
    const { suspended, gated } = this.#job;
    const isGated = this.#children.gated || (!suspended && gated);
    this.#children = { suspended, gated: isGated };
    this.#job.stopped = suspended;
    return this.#children;
  }

  #create(set: string, gated: boolean): void {
    const name = `p${(this.#made += 1)}`;
    const fresh = { component: "", place: undefined, scheduled: false, deleting: false, finished: false, ready: false };
    this.#pods.push({ name, uid: name, set, createdMs: this.#made, gated, ...fresh });
  }

  /** Sweeps, because a deleted pod has no key for passes any more. */
  #sweep(): number {
    const left = this.#units.size;
    this.#units.clear();
    return left;
  }

  #preempt(pick: number): void {
    const granted = [...this.#units.values()].filter((unit) => unit.state === "granted");
    const unit = granted[pick % Math.max(1, granted.length)];
    if (unit === undefined || unit.preemption !== undefined) return;
    const beneficiary = { kind: "job", id: "other" };
    const deadlineMs = this.#nowMs + pick;
    const preemption = { beneficiary, queue: "team-b", reason: "RECLAIM", deadlineMs, accepted: false };
    this.#units.set(unit.id, { ...unit, preemption });
  }

  #grant(): void {
    for (const unit of this.#units.values()) {
      if (unit.state !== "waiting") continue;
      const free = NODES.filter((node) => !this.#lost.has(node) && !this.#held().includes(node));
      if (free.length < unit.components.length) continue;
      const nodes = new Map(unit.components.map((component, index) => [component, free[index] ?? ""]));
      const shares = new Map(unit.components.map((component) => [component, SHARE]));
      this.#units.set(unit.id, { id: unit.id, state: "granted", nodes, shares, queue: "team-a" });
    }
  }

  #held(): readonly string[] {
    return [...this.#units.values()].flatMap((unit) => (unit.state === "granted" ? [...unit.nodes.values()] : []));
  }

  #schedule(pod: Pod): void {
    if (pod.gated || pod.scheduled || pod.deleting) return;
    const place = pod.place ?? "foreign";
    if (this.#lost.has(place)) return;
    // Without a queue, the ledger does not count the pod as use of a grant.
    const isOurs = pod.component !== "" && this.#job.queue !== "";
    if (isOurs && findPlaceSet(pod.component) !== pod.set)
      throw new Error(`${pod.name} of ${pod.set} is scheduled in the place ${pod.component}`);
    if (isOurs && !this.#held().includes(place))
      throw new Error(`${pod.name} is scheduled on ${place}, which is not granted`);
    const others = this.#pods.filter(({ scheduled, finished }) => scheduled && !finished);
    if (isOurs && others.some(({ component }) => component === pod.component))
      throw new Error(`${pod.name} is scheduled in the place ${pod.component} of another pod`);
    pod.place = place;
    pod.scheduled = true;
  }

  #take(step: BatchStep): void {
    const pod = "uid" in step ? this.#pods.find(({ uid }) => uid === step.uid) : undefined;
    switch (step.kind) {
      case "suspend":
        if (step.late !== undefined) this.#expectLate(step.late.start);
        if (this.#kind === QUEUED_POD) this.#pods.forEach((each) => (each.deleting = true));
        Object.assign(this.#job, { suspended: true, stopped: false });
        return;
      case "resume":
        Object.assign(this.#job, { suspended: false, stopped: false });
        this.#admit(step.start);
        return;
      case "record-start":
        this.#start = step.start;
        if (step.because === "ready") this.#admitted.isReady = true;
        return;
      case "reset-start":
        this.#job.started = false;
        return;
      case "gate":
      case "ungate":
        if (!this.#job.stopped || this.#job.started) throw new Error("the template cannot be changed now");
        this.#job.gated = step.kind === "gate";
        return;
      case "reserve":
        this.#reserve(step.unit);
        return;
      case "release":
        this.#release(step);
        return;
      case "place-pod":
        if (step.start !== undefined) this.#admit(step.start);
        if (pod !== undefined) Object.assign(pod, { component: step.component, place: step.node, gated: false });
        return;
      case "open-pod":
        if (pod !== undefined) pod.gated = false;
        return;
      case "delete-pod":
        if (pod !== undefined) pod.deleting = true;
        return;
      case "force-pod":
        if (pod !== undefined && (!pod.deleting || this.#lost.has(pod.place ?? "")))
          throw new Error(`${pod.name} is forced, although its node does not answer or it has not been deleted`);
        this.#pods = this.#pods.filter((each) => each !== pod);
        return;
      case "accept-preemption":
      case "requeue":
        this.#leave(step);
        return;
    }
  }

  #admit(start: StartProgress): void {
    this.#start = start;
    this.#admitted = { atMs: this.#nowMs, isReady: false };
  }

  #expectLate(start: StartProgress): void {
    const { atMs, isReady } = this.#admitted;
    if (isReady) throw new Error("work that was ready is suspended because it is not ready");
    if (this.#nowMs - atMs < (this.#readyTimeoutMs ?? Infinity)) throw new Error("work is suspended before its time");
    this.#start = start;
    this.#timeouts += 1;
  }

  #leave({ kind, unitId }: Extract<BatchStep, { kind: "accept-preemption" | "requeue" }>): void {
    const unit = this.#units.get(unitId);
    if (unit?.state !== "granted" || unit.preemption === undefined)
      throw new Error(`${kind} is planned for ${unitId}, which is not preempted`);
    if (kind === "accept-preemption") {
      this.#units.set(unitId, { ...unit, preemption: { ...unit.preemption, accepted: true } });
      return;
    }
    if (!unit.preemption.accepted) throw new Error(`${unitId} is requeued before its preemption was accepted`);
    this.#expectIdle(unitId, unit.nodes);
    const { nodes, shares, queue } = unit;
    const because = { code: "WAITING_FOR_MACHINES", text: "" };
    const known = { components: [...nodes.keys()], because, sinceMs: this.#nowMs, isRequeued: true };
    this.#units.set(unitId, {
      id: unitId,
      state: "waiting",
      ...known,
      ...(shares && { shares }),
      ...(queue && { queue }),
    });
  }

  #expectIdle(unitId: string, nodes: ReadonlyMap<string, string>): void {
    const running = this.#pods.filter(({ finished, component }) => !finished && nodes.has(component));
    if (running.length > 0)
      throw new Error(`${unitId} is released while ${running.map(({ name }) => name).join()} may run`);
  }

  #reserve({ id, needs, queue }: Extract<BatchStep, { kind: "reserve" }>["unit"]): void {
    if (this.#units.has(id)) throw new Error(`${id} is requested twice`);
    const { readyTimeouts, lastReadyTimeoutMs = 0 } = this.#start;
    if (this.#job.suspended && readyTimeouts > 0 && this.#nowMs < lastReadyTimeoutMs + PAUSE_MS)
      throw new Error(`${id} is requested in the pause after a timeout`);
    const components = needs.map(({ component }) => component);
    const shares = new Map(components.map((component) => [component, SHARE]));
    const because = { code: "WAITING_FOR_MACHINES", text: "" };
    const known = { shares, because, sinceMs: this.#nowMs, ...(queue !== undefined && { queue }) };
    const unit: Waiting = { id, state: "waiting", components, ...known };
    this.#units.set(id, unit);
  }

  #release({ unitId, because }: Extract<BatchStep, { kind: "release" }>): void {
    const unit = this.#units.get(unitId);
    if (unit?.state === "granted" && because !== "label-removed") this.#expectIdle(unitId, unit.nodes);
    this.#units.delete(unitId);
  }
}
