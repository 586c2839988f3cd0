import { isDeepStrictEqual } from "node:util";
import { throwFault } from "@muster/faults";
import { drawShare } from "../faults/decide-fault.ts";
import {
  type AnswerVerdict,
  type CallFacts,
  decideAnswer,
  decideLaunch,
  type LaunchVerdict,
  type MachineRule,
  type MachineRuleState,
} from "./decide-launch.ts";
import {
  buildEnding,
  buildJoined,
  buildView,
  type Machine,
  type MachineOrder,
  type MachineStep,
  type MachineType,
  type MachineView,
  planFleetMachines,
  type Range,
} from "./machine.ts";
import type { MachineRecords } from "./machine-file.ts";
import type { JoinedNode, MachineNodes } from "./machine-nodes.ts";
import { type MachineCommand, type MachineCounters, MAX_RULES } from "./read-machines.ts";

export type MachineImage = {
  readonly id: string;
  readonly createdAtMs?: number;
  readonly properties: Readonly<Record<string, string>>;
};

export type FleetOptions = {
  readonly types: readonly MachineType[];
  readonly zones: readonly string[];
  readonly images: readonly MachineImage[];
  readonly machinesMax: number;
  readonly bootMs: Range;
  /** Time from the order to end to the removal of the machine. */
  readonly endMs: number;
  readonly seed: number;
  readonly rules: readonly MachineRule[];
  readonly nodes: MachineNodes;
  readonly now: () => number;
  readonly onError: (error: unknown, doing: string) => void;
};

export type Refusal = {
  readonly kind: "refused";
  readonly code: "conflict" | "no-capacity" | "unsupported" | "invalid";
  readonly message: string;
  /** The requested zone: of a no-capacity, or of an invalid with an unknown zone. */
  readonly zone?: string;
};

export type LaunchResult = { readonly kind: "created" | "known"; readonly machine: MachineView };

/** Maximum number of remembered gone machines. */
const MAX_GONE_MACHINES = 1_000;
const RETRY_MS = 1_000;

/** The machines of one small cloud and its faults. Every command takes effect in memory immediately; `save` stores it. */
export class Fleet {
  readonly #options: FleetOptions;
  readonly #machines: Map<string, Machine>;
  readonly #joined = new Map<string, readonly JoinedNode[]>();
  /** Steps in progress, and how to abort them. */
  readonly #steps = new Map<string, { readonly done: Promise<void>; readonly stop: AbortController }>();
  readonly #retryAtMs = new Map<string, number>();
  #gone: readonly Machine[];
  #launched: number;
  #rules: readonly MachineRuleState[] = [];
  #calls = 0;
  #changed: () => Promise<void> = () => Promise.resolve();

  constructor(records: MachineRecords, options: FleetOptions) {
    this.#options = options;
    this.#launched = records.launched;
    this.#gone = records.gone;
    // The kubelets of these machines ended with the previous process, so the machines boot again immediately.
    this.#machines = new Map(
      records.machines.map((machine) => [
        machine.instanceId,
        machine.state === "running" && machine.nodes.length > 0 ? { ...machine, state: "pending" } : machine,
      ]),
    );
    this.command({ do: "inject", rules: options.rules });
  }

  onChange(save: () => Promise<void>): void {
    this.#changed = save;
  }

  records(): MachineRecords {
    return { launched: this.#launched, machines: [...this.#machines.values()], gone: this.#gone };
  }

  /** Decides the fault of a call of any kind. */
  answer(facts: CallFacts): AnswerVerdict {
    this.#calls += 1;
    const { rules, verdict } = decideAnswer(this.#rules, facts, this.#options.seed);
    this.#rules = rules;
    return verdict;
  }

  /** Resolves once the machine is in the file. */
  async launch(order: MachineOrder): Promise<LaunchResult | Refusal> {
    const { now } = this.#options;
    const known = [...this.#machines.values(), ...this.#gone].find(
      (machine) => machine.order.nodeName === order.nodeName && machine.order.owner === order.owner,
    );
    if (known !== undefined) {
      if (!isDeepStrictEqual(known.order, order)) {
        return refuse("conflict", `${order.nodeName} was asked for with other properties`);
      }
      await this.#changed();
      return { kind: "known", machine: this.find(known.instanceId) ?? buildView(known, now()) };
    }
    const type = this.#options.types.find(({ name }) => name === order.instanceType);
    const problem = type === undefined ? unknownType(order, this.#options.types) : this.#problem(order, type);
    if (problem !== undefined || type === undefined) return problem ?? refuse("unsupported", order.instanceType);
    const verdict = this.#decide(order);
    switch (verdict.kind) {
      case "unsupported":
        return refuse("unsupported", `${describeKind(order)} is not to be had here`);
      case "no-capacity": {
        const where = verdict.zone === undefined ? "" : ` in ${verdict.zone}`;
        const refusal = refuse("no-capacity", `there is no ${describeKind(order)}${where} now`);
        return { ...refusal, ...(verdict.zone === undefined ? {} : { zone: verdict.zone }) };
      }
      case "launch": {
        const machine = this.#make(order, type, verdict);
        this.#machines.set(machine.instanceId, machine);
        await this.#changed();
        return { kind: "created", machine: buildView(machine, now()) };
      }
    }
  }

  /** In the order of their creation. */
  list(owner: string | undefined): MachineView[] {
    const nowMs = this.#options.now();
    const all = [...this.#machines.values()].filter(({ order }) => owner === undefined || order.owner === owner);
    return all.map((machine) => buildView(machine, nowMs));
  }

  /** Includes gone machines as long as they are remembered. */
  find(instanceId: string): MachineView | undefined {
    const nowMs = this.#options.now();
    const machine = this.#machines.get(instanceId);
    if (machine !== undefined) return buildView(machine, nowMs);
    const gone = this.#gone.find((each) => each.instanceId === instanceId);
    return gone === undefined ? undefined : { ...buildView(gone, nowMs), state: "gone", addresses: [] };
  }

  /** Resolves once the order is in the file; the machine ends later. Undefined: no such machine ever existed. */
  async end(instanceId: string): Promise<MachineView | undefined> {
    const machine = this.#machines.get(instanceId);
    if (machine !== undefined) {
      const ending = buildEnding(machine, this.#options.now() + this.#options.endMs);
      this.#machines.set(instanceId, ending);
      if (ending.state === "stopping") this.#steps.get(instanceId)?.stop.abort();
      await this.#changed();
    }
    return this.find(instanceId);
  }

  images(properties: Readonly<Record<string, string>>): MachineImage[] {
    const wanted = Object.entries(properties);
    return this.#options.images.filter((image) => wanted.every(([key, value]) => image.properties[key] === value));
  }

  types(): readonly MachineType[] {
    return this.#options.types;
  }

  /** Changes nothing if it throws invalid_request, not_found or limit_exceeded. */
  command(command: MachineCommand): MachineCounters {
    switch (command.do) {
      case "inject":
        this.#inject(command.rules);
        break;
      case "remove":
        this.#rules = this.#rules.filter(({ rule }) => command.ids !== undefined && !command.ids.includes(rule.id));
        break;
      case "lose-spot": {
        const { nodeName } = command;
        if (!this.#named(nodeName).order.spot)
          throwFault({
            code: "invalid_request",
            field: "nodeName",
            reason: `${nodeName} is an on-demand machine: only spot is lost`,
          });
        const noticeAtMs = this.#options.now();
        this.#change(nodeName, { loss: { noticeAtMs, atMs: noticeAtMs + command.noticeMs } });
        break;
      }
      case "vanish":
        this.#change(command.nodeName, { vanishesAtMs: this.#options.now() });
        break;
      case "count":
        break;
    }
    return {
      calls: this.#calls,
      launched: this.#launched,
      gone: this.#launched - this.#machines.size,
      rules: this.#rules.map(({ rule, matched, injected }) => ({ id: rule.id, matched, injected })),
    };
  }

  /** Starts the due steps without waiting for them; a failed step is retried. */
  tick(): void {
    const nowMs = this.#options.now();
    const idle = [...this.#machines.values()].filter(
      ({ instanceId }) => !this.#steps.has(instanceId) && nowMs >= (this.#retryAtMs.get(instanceId) ?? 0),
    );
    for (const step of planFleetMachines(idle, nowMs)) {
      const stop = new AbortController();
      const done = this.#execute(step, stop.signal)
        .catch((error: unknown) => {
          if (stop.signal.aborted) return;
          this.#retryAtMs.set(step.instanceId, this.#options.now() + RETRY_MS);
          this.#options.onError(error, `${step.do} of machine ${step.instanceId}, since ${step.because}`);
        })
        .finally(() => this.#steps.delete(step.instanceId));
      this.#steps.set(step.instanceId, { done, stop });
    }
  }

  /** Shuts every node down; the records stay unchanged. */
  async close(): Promise<void> {
    const steps = [...this.#steps.values()];
    for (const { stop } of steps) stop.abort();
    await Promise.all(steps.map(({ done }) => done));
    await Promise.all([...this.#joined.values()].flat().map((node) => node.leave()));
    this.#joined.clear();
  }

  async #execute(step: MachineStep, signal: AbortSignal): Promise<void> {
    const { instanceId } = step;
    const machine = this.#machines.get(instanceId);
    if (machine === undefined) return;
    switch (step.do) {
      case "join": {
        await this.#join(machine, step.as, signal);
        const latest = this.#machines.get(instanceId) ?? machine;
        this.#machines.set(instanceId, buildJoined(latest, this.#options.now()));
        break;
      }
      case "fail":
        this.#machines.set(instanceId, { ...machine, state: "running" });
        break;
      case "end":
      case "die": {
        const nodes = this.#joined.get(instanceId) ?? [];
        await Promise.all(nodes.map((node) => (step.do === "end" ? node.leave() : node.die())));
        this.#joined.delete(instanceId);
        this.#retryAtMs.delete(instanceId);
        this.#machines.delete(instanceId);
        this.#gone = [...this.#gone, machine].slice(-MAX_GONE_MACHINES);
      }
    }
    await this.#changed();
  }

  async #join(machine: Machine, names: readonly string[], signal: AbortSignal): Promise<void> {
    const { order, zone, nodeIndex } = machine;
    const type = this.#options.types.find(({ name }) => name === order.instanceType);
    if (type === undefined) throw new Error(`the cloud has no ${order.instanceType} any more`);
    const labels = {
      ...order.labels,
      "topology.kubernetes.io/zone": zone,
      "node.kubernetes.io/instance-type": type.name,
    };
    const capacity = buildCapacity(type);
    const { taints } = order;
    const results = await Promise.allSettled(
      names.map((name) => this.#options.nodes.join({ name, nodeIndex, labels, taints, capacity }, signal)),
    );
    const nodes = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    const failed = results.find((result) => result.status === "rejected");
    if (failed === undefined) this.#joined.set(machine.instanceId, nodes);
    else {
      await Promise.all(nodes.map((node) => node.leave()));
      throw failed.reason;
    }
  }

  #problem(order: MachineOrder, type: MachineType): Refusal | undefined {
    const { zones, machinesMax } = this.#options;
    if (order.spot && type.spot === false) return refuse("unsupported", `${type.name} is not to be had as spot`);
    if (order.gpus > (type.gpus ?? 0))
      return refuse("unsupported", `${type.name} has ${type.gpus ?? 0} GPUs, not ${order.gpus}`);
    if (order.zone !== undefined && !zones.includes(order.zone))
      return { ...refuse("invalid", `zone: ${order.zone} is none of ${zones.join(", ")}`), zone: order.zone };
    if (order.image !== "" && !this.#options.images.some(({ id }) => id === order.image))
      return refuse("invalid", `image: there is no ${order.image}`);
    if (this.#machines.size >= machinesMax)
      return refuse("no-capacity", `the cloud has its ${machinesMax} machines already`);
    return undefined;
  }

  #decide(order: MachineOrder): LaunchVerdict {
    const { nodeName, owner, instanceType, spot, zone } = order;
    const load = (each: string): number =>
      [...this.#machines.values()].filter((machine) => machine.zone === each).length;
    const free = [...this.#options.zones].sort((a, b) => load(a) - load(b) || (a < b ? -1 : 1));
    const facts: CallFacts = { call: "create", nodeName, owner, instanceType, spot, zone };
    const { seed } = this.#options;
    const { rules, verdict } = decideLaunch(this.#rules, facts, zone === undefined ? free : [zone], seed);
    this.#rules = rules;
    return verdict;
  }

  #make(order: MachineOrder, type: MachineType, launch: Extract<LaunchVerdict, { kind: "launch" }>): Machine {
    const { now, seed } = this.#options;
    const nowMs = now();
    const { from, to } = launch.bootMs ?? type.bootMs ?? this.#options.bootMs;
    const bootMs = from + Math.floor((to - from + 1) * drawShare(seed, `boot/${type.name}`, this.#launched));
    this.#launched += 1;
    const used = new Set([...this.#machines.values()].map(({ nodeIndex }) => nodeIndex));
    let nodeIndex = 0;
    while (used.has(nodeIndex)) nodeIndex += 1;
    return {
      instanceId: `i-${this.#launched.toString(16).padStart(8, "0")}`,
      order,
      image: order.image || (newest(this.#options.images)?.id ?? ""),
      zone: launch.zone,
      nodeIndex,
      state: "pending",
      createdAtMs: nowMs,
      bootsAtMs: nowMs + bootMs,
      faults: launch.faults,
      nodes: [],
      loss: undefined,
      vanishesAtMs: undefined,
      goneAtMs: undefined,
    };
  }

  #inject(rules: readonly MachineRule[]): void {
    const next = [...this.#rules, ...rules.map((rule) => ({ rule, matched: 0, injected: 0 }))];
    if (next.length > MAX_RULES)
      throwFault({ code: "limit_exceeded", what: "number of fault rules", limit: MAX_RULES, retryAfterMs: 0 });
    if (new Set(next.map(({ rule }) => rule.id)).size < next.length)
      throwFault({ code: "invalid_request", field: "id", reason: "a rule has it already" });
    this.#rules = next;
  }

  #named(nodeName: string): Machine {
    const machine = [...this.#machines.values()].find(({ order }) => order.nodeName === nodeName);
    return machine ?? throwFault({ code: "not_found", kind: "machine", id: nodeName });
  }

  #change(nodeName: string, change: Partial<Machine>): void {
    const machine = this.#named(nodeName);
    this.#machines.set(machine.instanceId, { ...machine, ...change });
    this.#changed().catch((error: unknown) => this.#options.onError(error, "keeping machines"));
  }
}

function buildCapacity(type: MachineType): Record<string, string> {
  const gpus = type.gpus ?? 0;
  return {
    cpu: type.cpu,
    memory: type.memory,
    pods: String(type.pods ?? 110),
    ...(gpus === 0 ? {} : { "nvidia.com/gpu": String(gpus) }),
  };
}

function newest(images: readonly MachineImage[]): MachineImage | undefined {
  return [...images].sort((a, b) => (a.createdAtMs ?? 0) - (b.createdAtMs ?? 0)).at(-1);
}

function unknownType(order: MachineOrder, types: readonly MachineType[]): Refusal {
  return refuse("unsupported", `${order.instanceType} is none of ${types.map(({ name }) => name).join(", ")}`);
}

function describeKind({ instanceType, spot }: MachineOrder): string {
  return `${spot ? "spot" : "on-demand"} machine of type ${instanceType}`;
}

function refuse(code: Refusal["code"], message: string): Refusal {
  return { kind: "refused", code, message };
}
