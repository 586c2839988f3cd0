import type { NodeTaint } from "../kubelet/build-node.ts";

/** The order of a client. */
export type MachineOrder = {
  /** Two orders of one owner with the same name are one machine. */
  readonly nodeName: string;
  /** A client sees the machines of its own name only. */
  readonly owner: string;
  readonly instanceType: string;
  /** Empty: the newest. */
  readonly image: string;
  readonly spot: boolean;
  /** Undefined: wherever there is room. */
  readonly zone: string | undefined;
  readonly gpus: number;
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  /** For the Kubernetes node. */
  readonly labels: Readonly<Record<string, string>>;
  /** Taints of the Kubernetes node at its creation. */
  readonly taints: readonly NodeTaint[];
};

/** A size in which machines are to be had. */
export type MachineType = {
  readonly name: string;
  /** Kubernetes quantities. */
  readonly cpu: string;
  readonly memory: string;
  /** Default 0. */
  readonly gpus?: number;
  /** Default 110. */
  readonly pods?: number;
  /** Default true: it is to be had as spot, too. */
  readonly spot?: boolean;
  /** Default that of the cloud. */
  readonly bootMs?: Range;
};

export type Range = { readonly from: number; readonly to: number };

/** The machine is lost at `atMs`, and its view shows that from `noticeAtMs` on. */
export type Loss = { readonly atMs: number; readonly noticeAtMs: number };

/** The faults of a machine from its launch on. */
export type LaunchFaults = {
  /** The node never joins; the text is the cloud's explanation, empty: none. Undefined: it joins. */
  readonly bootFailure: string | undefined;
  /** Counted from joining. */
  readonly spotLoss: { readonly afterMs: number; readonly noticeMs: number } | undefined;
  /** Counted from joining. */
  readonly vanishAfterMs: number | undefined;
  /** So many orders to end it are answered and not obeyed. */
  readonly ordersIgnored: number;
  /** It joins under a second name as well. */
  readonly isTwin: boolean;
};

export type MachineState = "pending" | "running" | "stopping";

/** One machine, with all that is to become of it. Kept in a file; every time is absolute. */
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
  /** It disappears then, without notice. */
  readonly vanishesAtMs: number | undefined;
  /** Set by an order to end: the machine is listed until then at least. */
  readonly goneAtMs: number | undefined;
};

export type MachineStep =
  | { readonly do: "join"; readonly instanceId: string; readonly as: readonly string[]; readonly because: string }
  /** It is on, and never becomes a node. */
  | { readonly do: "fail"; readonly instanceId: string; readonly because: string }
  /** Ends what runs on it first. */
  | { readonly do: "end"; readonly instanceId: string; readonly because: string }
  /** Without notice. */
  | { readonly do: "die"; readonly instanceId: string; readonly because: string };

/** Plans the steps that are due now, at most one a machine. */
export function planFleetMachines(machines: Iterable<Machine>, nowMs: number): MachineStep[] {
  return [...machines].flatMap((machine) => planMachine(machine, nowMs) ?? []);
}

function planMachine(machine: Machine, nowMs: number): MachineStep | undefined {
  const { instanceId, faults } = machine;
  const isDue = (atMs: number | undefined): boolean => atMs !== undefined && nowMs >= atMs;
  if (isDue(machine.loss?.atMs)) return { do: "die", instanceId, because: "the spot machine was taken away" };
  if (isDue(machine.vanishesAtMs)) return { do: "die", instanceId, because: "it was to vanish" };
  if (machine.state === "stopping") {
    return isDue(machine.goneAtMs) ? { do: "end", instanceId, because: "its owner has ended it" } : undefined;
  }
  if (machine.state !== "pending" || !isDue(machine.bootsAtMs)) return undefined;
  if (faults.bootFailure !== undefined) return { do: "fail", instanceId, because: "its boot was to fail" };
  return { do: "join", instanceId, as: nodeNames(machine), because: "it has booted" };
}

/** The nodes that a machine becomes. */
export function nodeNames({ order, faults }: Machine): string[] {
  return faults.isTwin ? [order.nodeName, `${order.nodeName}-twin`] : [order.nodeName];
}

/** The machine after it has joined: its faults get their times. A machine with an order to end still ends. */
export function buildJoined(machine: Machine, nowMs: number): Machine {
  const { spotLoss, vanishAfterMs } = machine.faults;
  const noticeAtMs = nowMs + (spotLoss?.afterMs ?? 0);
  const loss = spotLoss === undefined ? undefined : { noticeAtMs, atMs: noticeAtMs + spotLoss.noticeMs };
  return {
    ...machine,
    state: machine.state === "pending" ? "running" : machine.state,
    nodes: nodeNames(machine),
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
  /** The first of them; absent until it has joined. */
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
