import type { NodeTaint } from "../kubelet/build-node.ts";

/** A client's order of a machine. */
export type MachineOrder = {
  /** Two orders of one owner with the same name are one machine. */
  readonly nodeName: string;
  /** A client sees only the machines of its own name. */
  readonly owner: string;
  readonly instanceType: string;
  /** Empty selects the newest. */
  readonly image: string;
  readonly spot: boolean;
  /** Undefined selects any zone with capacity. */
  readonly zone: string | undefined;
  readonly gpus: number;
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  /** Labels of the Kubernetes node. */
  readonly labels: Readonly<Record<string, string>>;
  /** Taints of the Kubernetes node at its creation. */
  readonly taints: readonly NodeTaint[];
};

/** An available size of machines. */
export type MachineType = {
  readonly name: string;
  /** Kubernetes quantities. */
  readonly cpu: string;
  readonly memory: string;
  /** Default 0. */
  readonly gpus?: number;
  /** Default 110. */
  readonly pods?: number;
  /** Whether it is also available as spot; default true. */
  readonly spot?: boolean;
  /** Default: the cloud's. */
  readonly bootMs?: Range;
};

export type Range = { readonly from: number; readonly to: number };

/** The loss of a machine at `atMs`, which its view shows from `noticeAtMs` on. */
export type Loss = { readonly atMs: number; readonly noticeAtMs: number };

/** The faults of a machine from its launch on. */
export type LaunchFaults = {
  /** The cloud's explanation why the node never joins, or an empty text. Undefined: the node joins. */
  readonly bootFailure: string | undefined;
  /** From the time of joining. */
  readonly spotLoss: { readonly afterMs: number; readonly noticeMs: number } | undefined;
  /** From the time of joining. */
  readonly vanishAfterMs: number | undefined;
  /** Number of orders to end it that are answered but not executed. */
  readonly ordersIgnored: number;
  /** The machine also joins under a second name. */
  readonly isTwin: boolean;
};

export type MachineState = "pending" | "running" | "stopping";

/** One machine with its planned faults and end, stored in a file. Every time is absolute. */
export type Machine = {
  readonly instanceId: string;
  readonly order: MachineOrder;
  readonly image: string;
  readonly zone: string;
  /** The index in its pods' addresses; no two present machines have the same. */
  readonly nodeIndex: number;
  readonly state: MachineState;
  readonly createdAtMs: number;
  readonly bootsAtMs: number;
  readonly faults: LaunchFaults;
  /** Names of the Kubernetes nodes that it has joined as. */
  readonly nodes: readonly string[];
  readonly loss: Loss | undefined;
  /** The time at which it disappears without notice. */
  readonly vanishesAtMs: number | undefined;
  /** The earliest time of the machine's removal; set by an order to end. */
  readonly goneAtMs: number | undefined;
};

export type MachineStep =
  | { readonly do: "join"; readonly instanceId: string; readonly as: readonly string[]; readonly because: string }
  /** The machine runs, but never becomes a node. */
  | { readonly do: "fail"; readonly instanceId: string; readonly because: string }
  /** Ends its processes first. */
  | { readonly do: "end"; readonly instanceId: string; readonly because: string }
  /** Without notice. */
  | { readonly do: "die"; readonly instanceId: string; readonly because: string };

/** Plans the steps that are due now, at most one for each machine. */
export function planFleetMachines(machines: Iterable<Machine>, nowMs: number): MachineStep[] {
  return [...machines].flatMap((machine) => planMachine(machine, nowMs) ?? []);
}

function planMachine(machine: Machine, nowMs: number): MachineStep | undefined {
  const { instanceId, faults } = machine;
  const isDue = (atMs: number | undefined): boolean => atMs !== undefined && nowMs >= atMs;
  if (isDue(machine.loss?.atMs)) return { do: "die", instanceId, because: "the spot machine is reclaimed" };
  if (isDue(machine.vanishesAtMs)) return { do: "die", instanceId, because: "its fault is to vanish" };
  if (machine.state === "stopping") {
    return isDue(machine.goneAtMs) ? { do: "end", instanceId, because: "its owner has ended it" } : undefined;
  }
  if (machine.state !== "pending" || !isDue(machine.bootsAtMs)) return undefined;
  if (faults.bootFailure !== undefined) return { do: "fail", instanceId, because: "its fault is a failed boot" };
  return { do: "join", instanceId, as: listNodeNames(machine), because: "it has booted" };
}

/** Returns the names of the nodes that a machine becomes. */
export function listNodeNames({ order, faults }: Machine): string[] {
  return faults.isTwin ? [order.nodeName, `${order.nodeName}-twin`] : [order.nodeName];
}

/** Builds the state after joining: the times of its faults start. A machine with an order to end still ends. */
export function buildJoined(machine: Machine, nowMs: number): Machine {
  const { spotLoss, vanishAfterMs } = machine.faults;
  const noticeAtMs = nowMs + (spotLoss?.afterMs ?? 0);
  const loss = spotLoss === undefined ? undefined : { noticeAtMs, atMs: noticeAtMs + spotLoss.noticeMs };
  return {
    ...machine,
    state: machine.state === "pending" ? "running" : machine.state,
    nodes: listNodeNames(machine),
    loss: machine.loss ?? loss,
    vanishesAtMs: machine.vanishesAtMs ?? (vanishAfterMs === undefined ? undefined : nowMs + vanishAfterMs),
  };
}

/** Builds the state after an order to end: unchanged for a zombie, and for a machine that already ends. */
export function buildEnding(machine: Machine, goneAtMs: number): Machine {
  const { faults } = machine;
  if (machine.state === "stopping") return machine;
  if (faults.ordersIgnored > 0) return { ...machine, faults: { ...faults, ordersIgnored: faults.ordersIgnored - 1 } };
  return { ...machine, state: "stopping", goneAtMs };
}

/** The view of a machine for its owner. */
export type MachineView = {
  readonly instanceId: string;
  readonly nodeName: string;
  readonly owner: string;
  readonly instanceType: string;
  readonly image: string;
  readonly spot: boolean;
  readonly zone: string;
  readonly state: MachineState | "gone";
  readonly createdAtMs: number;
  readonly addresses: readonly string[];
  /** The first node name; absent until it has joined. */
  readonly kubernetesNode?: string;
  readonly lostAtMs?: number;
  readonly failure?: string;
};

const ADDRESS = "127.0.0.1";

export function buildView(machine: Machine, nowMs: number): MachineView {
  const { instanceId, order, image, zone, state, createdAtMs, loss, faults } = machine;
  const [kubernetesNode] = machine.nodes;
  const failure = state === "pending" ? "" : (faults.bootFailure ?? "");
  return {
    instanceId,
    nodeName: order.nodeName,
    owner: order.owner,
    instanceType: order.instanceType,
    image,
    spot: order.spot,
    zone,
    state,
    createdAtMs,
    addresses: state === "pending" ? [] : [ADDRESS],
    ...(kubernetesNode === undefined ? {} : { kubernetesNode }),
    ...(loss === undefined || nowMs < loss.noticeAtMs ? {} : { lostAtMs: loss.atMs }),
    ...(failure === "" ? {} : { failure }),
  };
}
