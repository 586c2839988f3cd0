import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { throwFault } from "@muster/faults";
import { checkDnsLabel } from "@muster/names";
import { endLeftovers } from "../attach-nodes.ts";
import type { ControlAddress } from "../send-command.ts";
import { claimForOwner } from "../kubelet/claim-directory.ts";
import { MAX_NODES } from "../kubelet/pod-addresses.ts";
import type { MachineRule } from "./decide-launch.ts";
import { Fleet, type MachineImage } from "./fleet.ts";
import type { MachineType, MachineView, Range } from "./machine.ts";
import { type MachineControls, makeMachineControls } from "./machine-controls.ts";
import { loadMachines, openMachineSaver } from "./machine-file.ts";
import type { MachineNodes } from "./machine-nodes.ts";
import { serveMachines } from "./serve-machines.ts";

export type MachinesOptions = {
  /** The directory for only this cloud: its machines, its token, and the files of its kubelets. Its machines continue after a restart. */
  readonly directory: string;
  /** Turns machines into nodes: `makeKubeletNodes`, with their files in `nodesOf(directory)`, or `makeSimulatedMachineNodes`. */
  readonly nodes: MachineNodes;
  readonly types: readonly MachineType[];
  /** Default `zone-a`, `zone-b`. */
  readonly zones?: readonly string[];
  /** Default `image-1`. */
  readonly images?: readonly MachineImage[];
  /** Orders of further machines lack capacity; default 250, which is also the maximum of kubelets on one computer. */
  readonly machinesMax?: number;
  /** Time from the order until the kubelet starts; default 2000. */
  readonly bootMs?: Range;
  /** Minimum time from the order to end to the removal of the machine; default 500. */
  readonly endMs?: number;
  /** The seed of boot times and shares of faults; default 1. */
  readonly seed?: number;
  readonly faults?: readonly MachineRule[];
  /** Default 0: any free port. */
  readonly port?: number;
  /** Name by which other computers reach it, on all addresses. Without it, the cloud listens only on 127.0.0.1. */
  readonly host?: string;
  readonly now?: () => number;
  /** Called with every failure; the cloud retries. */
  readonly onError?: (error: unknown, doing: string) => void;
};

/** A small cloud. Disposal shuts its nodes down; the machines continue after a restart on the same directory. */
export type Machines = AsyncDisposable &
  MachineControls & {
    readonly url: string;
    /** The file of the bearer token, readable only by its owner. */
    readonly tokenFile: string;
    /** The address for commands of other processes, see `makeRemoteMachineControls`. */
    readonly control: ControlAddress;
    readonly list: () => readonly MachineView[];
  };

const TICK_MS = 20;
const BOOT_MS = 2_000;
const END_MS = 500;

/** Returns the directory where the kubelets of a cloud record their processes, which `endLeftovers` ends after a kill. */
export function listNodes(directory: string): string {
  return join(directory, "nodes");
}

/** Starts a cloud that creates nodes on demand, and fails on request. Resolves when it answers; machines of an earlier process boot again. */
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
    machinesMax: options.machinesMax ?? MAX_NODES,
    endMs: options.endMs ?? END_MS,
    seed: options.seed ?? 1,
    rules: options.faults ?? [],
    now: options.now ?? Date.now,
  });
  await using started = new AsyncDisposableStack();
  const save = openMachineSaver(records, () => fleet.records());
  started.use(claimForOwner("cloud", directory));
  await save();
  // No kubelet finds the processes of machines that ended while the cloud did not run.
  await endLeftovers(listNodes(directory));
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
    ...makeMachineControls((command) => Promise.resolve().then(() => fleet.command(command))),
    url: server.url,
    tokenFile,
    control: { url: server.url, token },
    list: () => fleet.list(undefined),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function checkOptions({ types, zones, machinesMax = MAX_NODES }: MachinesOptions): void {
  const wrong = (field: string, reason: string): never => throwFault({ code: "invalid_request", field, reason });
  const names = types.map(({ name }) => name);
  if (types.length === 0) wrong("types", "a cloud has at least one");
  if (new Set(names).size < names.length) wrong("types", "a name appears twice");
  if (zones?.length === 0) wrong("zones", "a cloud has at least one");
  for (const name of [...names, ...(zones ?? [])]) {
    const problem = checkDnsLabel("types and zones", name);
    if (problem !== undefined) throwFault(problem);
  }
  if (!Number.isInteger(machinesMax) || machinesMax < 1)
    wrong("machinesMax", `${machinesMax} is no number of machines`);
}

/** Keeps the token of the directory, so that clients need not read it again after a restart. */
function ownToken(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    const token = randomBytes(24).toString("hex");
    writeFileSync(file, token, { mode: 0o600 });
    return token;
  }
}
