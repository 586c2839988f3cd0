import type { V1Pod } from "@kubernetes/client-node";
import type { KubeCalls } from "@muster/kube";
import type { NodeFacts } from "../kubelet/build-node.ts";
import { makeContainerEventRecorder } from "../kubelet/container-event-recorder.ts";
import type { FoundLog } from "../kubelet/kubelet-server.ts";
import { isMissingImage } from "../kubelet/missing-image.ts";
import { PodWorker } from "../kubelet/pod-worker.ts";
import { makeNodeAddresses } from "./node-addresses.ts";
import { makeSimulatedPodApi } from "./simulated-pod-api.ts";
import {
  type SimulatedMachine,
  type SimulatedRuntime,
  makeSimulatedRuntime,
  tickMachine,
} from "./simulated-runtime.ts";

/** `frozen`: machine and kubelet hang. `dead`: the machine is off, and its containers are lost. */
export type NodeState = "alive" | "frozen" | "dead";

export type SimulatedNodeDeps = {
  readonly calls: KubeCalls;
  readonly now: () => number;
  /** From the shared cache. */
  readonly pod: (key: string) => V1Pod | undefined;
  readonly onError: (error: unknown, doing: string) => void;
  readonly stopped: AbortSignal;
};

/** One simulated machine with its kubelet: the workers of its pods, and whether they may act. */
export class SimulatedNode {
  readonly facts: NodeFacts;
  readonly #deps: SimulatedNodeDeps;
  readonly #nodeIndex: number;
  #state: NodeState = "alive";
  #workers = new Map<string, PodWorker>();
  readonly #runtimes = new Map<string, SimulatedRuntime>();
  #machine: SimulatedMachine = { runs: new Set() };
  #addresses: ReturnType<typeof makeNodeAddresses>;

  constructor(facts: NodeFacts, nodeIndex: number, deps: SimulatedNodeDeps) {
    this.facts = facts;
    this.#nodeIndex = nodeIndex;
    this.#deps = deps;
    this.#addresses = makeNodeAddresses(nodeIndex);
  }

  state(): NodeState {
    return this.#state;
  }

  podCount(): number {
    return this.#workers.size;
  }

  /** Handles a change of a pod on this node, or its deletion if `after` is undefined. A machine that is off handles it when it starts. */
  changed(before: V1Pod | undefined, after: V1Pod | undefined): void {
    if (this.#state === "dead") return;
    if (after !== undefined) this.#ensureWorker(after);
    for (const pod of [before, after]) this.#workers.get(pod?.metadata?.uid ?? "")?.poke();
  }

  tick(nowMs: number): void {
    if (this.#state !== "alive" || this.#workers.size === 0) return;
    tickMachine(this.#machine, nowMs);
    for (const worker of this.#workers.values()) worker.tick(nowMs);
  }

  findLog(pod: V1Pod, container: string, previous: boolean): FoundLog {
    const worker = this.#workers.get(pod.metadata?.uid ?? "");
    if (worker !== undefined) return worker.findLog(container, previous);
    return { found: false, status: 404, message: `pod "${pod.metadata?.name ?? ""}" is not on this node` };
  }

  /** Ends the running containers of a pod. Returns whether one ran. */
  finish(pod: V1Pod, exitCode: number): boolean {
    return this.#runtimes.get(pod.metadata?.uid ?? "")?.finish(exitCode) ?? false;
  }

  freeze(): void {
    if (this.#state === "alive") this.#state = "frozen";
  }

  /** Continues, with the steps that were due meanwhile. */
  thaw(): void {
    if (this.#state !== "frozen") return;
    this.#state = "alive";
    for (const worker of this.#workers.values()) worker.poke();
  }

  /** Resolves when the last request in flight has ended. */
  async kill(): Promise<void> {
    this.#state = "dead";
    const workers = [...this.#workers.values()];
    this.#workers = new Map();
    this.#runtimes.clear();
    this.#machine = { runs: new Set() };
    this.#addresses = makeNodeAddresses(this.#nodeIndex);
    await Promise.all(workers.map((worker) => worker.abandon()));
  }

  /** Starts a machine that is off, with its present pods, whose containers ended with it. */
  boot(pods: readonly V1Pod[]): void {
    this.#state = "alive";
    for (const pod of pods) this.#ensureWorker(pod);
  }

  #ensureWorker(pod: V1Pod): void {
    const { name = "", namespace = "", uid = "" } = pod.metadata ?? {};
    if (this.#workers.has(uid)) return;
    const { calls, now, onError, stopped } = this.#deps;
    const workers = this.#workers;
    const record = makeContainerEventRecorder(
      calls,
      { name, namespace, uid },
      { nodeName: this.facts.name, now, onError, stopped },
    );
    const runtime = makeSimulatedRuntime(this.#machine, now);
    const runtimes = this.#runtimes;
    const worker = new PodWorker(pod, {
      ...makeSimulatedPodApi(calls, { name, namespace, uid }),
      runtime,
      now,
      pod: () => {
        const cached = this.#deps.pod(`${namespace}/${name}`);
        return cached?.metadata?.uid === uid ? cached : undefined;
      },
      isFrozen: () => this.#state !== "alive",
      addresses: this.#addresses,
      isImageMissing: isMissingImage,
      // Events of success would cost three more writes for each pod.
      record: (news) => {
        if (news.type === "Warning") record(news);
      },
      onError,
      onDone: () => {
        workers.delete(uid);
        if (runtimes.get(uid) === runtime) runtimes.delete(uid);
      },
    });
    workers.set(uid, worker);
    runtimes.set(uid, runtime);
  }
}
