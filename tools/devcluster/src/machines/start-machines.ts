import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { throwFault } from "@muster/faults";
import { checkDnsLabel } from "@muster/names";
import { endLeftovers } from "../attach-nodes.ts";
import type { ControlAddress } from "../send-command.ts";
import { claimFor } from "../kubelet/claim-directory.ts";
import { NODES_MAX } from "../kubelet/pod-addresses.ts";
import type { MachineRule } from "./decide-launch.ts";
import { Fleet, type MachineImage } from "./fleet.ts";
import type { MachineType, MachineView, Range } from "./machine.ts";
import { type MachineControls, machineControls } from "./machine-controls.ts";
import { loadMachines, machineSaver } from "./machine-file.ts";
import type { MachineNodes } from "./machine-nodes.ts";
import { serveMachines } from "./serve-machines.ts";

export type MachinesOptions = {
  /** The directory of this cloud alone: its machines, its token, and the files of its kubelets. After a restart on it the machines continue. */
  readonly directory: string;
  /** How machines become nodes, see `kubeletNodes` and `simulatedMachineNodes`; the former keep theirs in `nodesOf(directory)`. */
  readonly nodes: MachineNodes;
  readonly types: readonly MachineType[];
  /** Default `zone-a`, `zone-b`. */
  readonly zones?: readonly string[];
  /** Default one, `image-1`. */
  readonly images?: readonly MachineImage[];
  /** More are answered as a lack of capacity; default 250, which is also the most that kubelets of one machine can be. */
  readonly machinesMax?: number;
  /** From the order until the kubelet starts; default 2000 for all. */
  readonly bootMs?: Range;
  /** From the order to end until it is gone, at least; default 500. */
  readonly endMs?: number;
  /** The seed of boot times and shares of faults; default 1. */
  readonly seed?: number;
  readonly faults?: readonly MachineRule[];
  /** Default 0: any that is free. */
  readonly port?: number;
  /** Name by which other machines reach it: then it listens on all addresses, and not on 127.0.0.1 alone. */
  readonly host?: string;
  readonly now?: () => number;
  /** Gets every failure; the cloud retries. */
  readonly onError?: (error: unknown, doing: string) => void;
};

/** A small cloud. Disposing shuts its nodes down; the machines continue after a restart on the same directory. */
export type Machines = AsyncDisposable &
  MachineControls & {
    readonly url: string;
    /** Has the bearer token, for its user alone. */
    readonly tokenFile: string;
    /** For commands of other processes, see `remoteMachineControls`. */
    readonly control: ControlAddress;
    readonly list: () => readonly MachineView[];
  };

const TICK_MS = 20;
const BOOT_MS = 2_000;
const END_MS = 500;

/** Where the kubelets of a cloud store the processes that run on them: `endLeftovers` ends those of a killed one. */
export function nodesOf(directory: string): string {
  return join(directory, "nodes");
}

/** Starts a cloud that makes nodes of a cluster on demand, and fails on request. Resolves when it answers; machines of an earlier life boot again. */
export async function startMachines(options: MachinesOptions): Promise<Machines> {
  const { directory, nodes, types, bootMs = { from: BOOT_MS, to: BOOT_MS }, onError = () => undefined } = options;
  checkOptions(options);
  const records = join(directory, "machines.json");
  const loaded = loadMachines(records);
  const fleet = new Fleet(loaded, {
    nodes,
    types,
    bootMs,
    onError,
    zones: options.zones ?? ["zone-a", "zone-b"],
    images: options.images ?? [{ id: "image-1", properties: {} }],
    machinesMax: options.machinesMax ?? NODES_MAX,
    endMs: options.endMs ?? END_MS,
    seed: options.seed ?? 1,
    rules: options.faults ?? [],
    now: options.now ?? Date.now,
  });
  await using started = new AsyncDisposableStack();
  const save = machineSaver(records, () => fleet.records());
  started.use(claimFor("cloud", directory));
  await save();
  // Machines that ended while the cloud did not run have left processes that no kubelet finds.
  await endLeftovers(nodesOf(directory));
  fleet.onChange(save);
  started.defer(async () => {
    await fleet.close();
    await save();
  });
  const tokenFile = join(directory, "token");
  const token = ownToken(tokenFile);
  const ticker = setInterval(() => fleet.tick(), TICK_MS);
  started.defer(() => clearInterval(ticker));
  const { host, port = 0 } = options;
  const server = started.use(await serveMachines(fleet, { token, port, ...(host === undefined ? {} : { host }) }));
  const all = started.move();
  return {
    ...machineControls((command) => Promise.resolve().then(() => fleet.command(command))),
    url: server.url,
    tokenFile,
    control: { url: server.url, token },
    list: () => fleet.list(undefined),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function checkOptions({ types, zones, machinesMax = NODES_MAX }: MachinesOptions): void {
  const wrong = (field: string, reason: string): never => throwFault({ code: "invalid_request", field, reason });
  const names = types.map(({ name }) => name);
  if (types.length === 0) wrong("types", "a cloud has at least one");
  if (new Set(names).size < names.length) wrong("types", "one is there twice");
  if (zones?.length === 0) wrong("zones", "a cloud has at least one");
  for (const name of [...names, ...(zones ?? [])]) {
    const problem = checkDnsLabel("types and zones", name);
    if (problem !== undefined) throwFault(problem);
  }
  if (!Number.isInteger(machinesMax) || machinesMax < 1)
    wrong("machinesMax", `${machinesMax} is no number of machines`);
}

/** The same token after every restart on a directory, so clients need not read it again. */
function ownToken(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    const token = randomBytes(24).toString("hex");
    writeFileSync(file, token, { mode: 0o600 });
    return token;
  }
}
