import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { SimulatedNodes } from "../simulated-kubelet/start-simulated-nodes.ts";
import type { NodeTaint } from "../kubelet/build-node.ts";
import { buildClusterAccess } from "../kubelet/cluster-access.ts";
import { type KubeletOptions, startKubelet } from "../kubelet/start-kubelet.ts";

export type MachineNode = {
  readonly name: string;
  readonly nodeIndex: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly NodeTaint[];
  readonly capacity: Readonly<Record<string, string>>;
};

/** A machine's kubelet. Its Node object stays, as in a cluster without a cloud controller: the scaler removes it. */
export type JoinedNode = {
  /** Ends its processes, and reports the node as not ready. */
  leave(): Promise<void>;
  /** Turns the machine off without a report. */
  die(): Promise<void>;
};

/** Turns machines into nodes of a cluster. */
export type MachineNodes = {
  /** Resolves when the node is ready; rejects if the signal aborts first. */
  join(node: MachineNode, signal: AbortSignal): Promise<JoinedNode>;
};

export type KubeletShared = Omit<
  KubeletOptions,
  "nodeName" | "directory" | "nodeIndex" | "labels" | "taints" | "capacity" | "signal" | "access"
> & {
  /** Authorizes readers of logs; default: client certificates of the cluster's client authority. */
  readonly access?: KubeletOptions["access"];
};

/** Creates nodes that run containers as processes, see `startKubelet`. Their files are below the directory, and are removed with them. */
export function makeKubeletNodes(directory: string, options: KubeletShared): MachineNodes {
  return {
    join: async ({ name, ...node }, signal) => {
      const own = join(directory, name);
      const access = options.access ?? (await buildClusterAccess(options.kubeconfig));
      const kubelet = await startKubelet({ ...options, ...node, access, nodeName: name, directory: own, signal });
      const cleaned = async (ending: PromiseLike<void>): Promise<void> => {
        await ending;
        await rm(own, { recursive: true, force: true });
      };
      return {
        leave: () => cleaned(kubelet[Symbol.asyncDispose]()),
        die: () => cleaned(kubelet.die()),
      };
    },
  };
}

/** Creates nodes that simulate their pods. */
export function makeSimulatedMachineNodes(simulation: Pick<SimulatedNodes, "add" | "retire" | "lose">): MachineNodes {
  return {
    join: async ({ name, labels, taints, capacity }, signal) => {
      signal.throwIfAborted();
      await simulation.add(name, { labels, taints, capacity });
      return { leave: () => simulation.retire(name), die: () => simulation.lose(name) };
    },
  };
}
