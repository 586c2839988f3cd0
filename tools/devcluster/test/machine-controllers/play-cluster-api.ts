import { pause } from "@muster/backoff";
import type { KubeCalls, KubeObject, KubeResource } from "@muster/kube";
import { unlessGone } from "../../src/unless-gone.ts";

const API_VERSION = "cluster.x-k8s.io/v1beta2";

const DELETE_ANNOTATION = "cluster.x-k8s.io/delete-machine";
const EVERY_MS = 20;
/** Shared by all plays, so that no name of a machine is used twice. */
let made = 0;

/** The fields of a machine that Cluster API reads and writes. */
export type PlayedMachine = KubeObject & {
  readonly status?: { readonly phase?: string; readonly nodeRef?: { readonly name?: string } };
};
type PlayedDeployment = KubeObject & { readonly spec?: { readonly replicas?: number } };

export type ClusterApi = AsyncDisposable & {
  /** A machine becomes a node of this name; undefined: not yet. */
  join: (machine: PlayedMachine) => Promise<string | undefined>;
  /** Before the machine of this node goes. */
  leave: (nodeName: string) => Promise<void>;
  /** No machine is made above this number. */
  quota: number;
};

/** Plays the part of Cluster API: makes machines for replicas, gives them nodes, and ends marked ones first, then the newest. */
export function playClusterApi(calls: KubeCalls, namespace = "default"): ClusterApi {
  const deployments = { apiVersion: API_VERSION, plural: "machinedeployments", namespace };
  const machines = { ...deployments, plural: "machines" };
  const stop = new AbortController();
  const play: Omit<ClusterApi, keyof AsyncDisposable> = {
    join: (machine) => Promise.resolve(nameOf(machine)),
    leave: () => Promise.resolve(),
    quota: Infinity,
  };
  const scale = async (deployment: PlayedDeployment): Promise<void> => {
    const name = nameOf(deployment);
    const query = { labelSelector: `cluster.x-k8s.io/deployment-name=${name}` };
    const { items } = await calls.list<PlayedMachine>(machines, { query });
    const live = items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
    const missing = (deployment.spec?.replicas ?? 0) - live.length;
    for (let index = 0; index < missing && live.length + index < play.quota; index += 1) {
      made += 1;
      await calls.create(machines, buildMachine(name, `${name}-${String(made).padStart(5, "0")}`));
    }
    const surplus = live.toSorted(compareForDeletion).slice(0, Math.max(0, -missing));
    for (const machine of surplus) await calls.delete(machines, nameOf(machine));
    for (const machine of items) await unlessGone(reconcile(calls, machines, { play, machine }));
  };
  const playing = (async () => {
    while (!stop.signal.aborted) {
      const { items } = await calls.list<PlayedDeployment>(deployments);
      for (const deployment of items) await unlessGone(scale(deployment));
      await pause(EVERY_MS, stop.signal);
    }
  })();
  return Object.assign(play, {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await playing;
    },
  });
}

/** A MachineDeployment as an operator makes it for the scaler. */
export function buildMachineDeployment(name: string, more: object = {}): KubeObject & { readonly spec: object } {
  return {
    apiVersion: API_VERSION,
    kind: "MachineDeployment",
    metadata: { name },
    spec: {
      clusterName: "test",
      replicas: 0,
      deletion: { order: "Newest" },
      selector: { matchLabels: { deployment: name } },
      template: { metadata: { labels: { deployment: name } }, spec: buildMachineSpec() },
      ...more,
    },
  };
}

function buildMachine(deployment: string, name: string): KubeObject & { readonly spec: object } {
  return {
    apiVersion: API_VERSION,
    kind: "Machine",
    metadata: {
      name,
      labels: { "cluster.x-k8s.io/deployment-name": deployment },
      finalizers: ["machine.cluster.x-k8s.io"],
    },
    spec: buildMachineSpec(),
  };
}

function buildMachineSpec(): object {
  return {
    clusterName: "test",
    bootstrap: { dataSecretName: "bootstrap" },
    infrastructureRef: { apiGroup: "infrastructure.example.com", kind: "ExampleMachine", name: "example" },
  };
}

async function reconcile(
  calls: KubeCalls,
  machines: KubeResource,
  { play, machine }: { readonly play: Omit<ClusterApi, keyof AsyncDisposable>; readonly machine: PlayedMachine },
): Promise<void> {
  const name = nameOf(machine);
  const node = machine.status?.nodeRef?.name;
  if (machine.metadata?.deletionTimestamp !== undefined) {
    if (node !== undefined) await play.leave(node);
    await calls.patch(machines, name, { kind: "merge", body: { metadata: { finalizers: [] } } });
    return;
  }
  if (node !== undefined) return;
  const joined = await play.join(machine);
  if (joined === undefined) return;
  const body = { status: { phase: "Running", nodeRef: { name: joined } } };
  await calls.patch(machines, name, { kind: "merge", body }, { subresource: "status" });
}

function compareForDeletion(one: PlayedMachine, other: PlayedMachine): number {
  const [first, second] = [one, other].map(({ metadata }) => metadata?.annotations?.[DELETE_ANNOTATION] !== undefined);
  if (first !== second) return first === true ? -1 : 1;
  return nameOf(one) > nameOf(other) ? -1 : 1;
}

function nameOf(object: KubeObject): string {
  return object.metadata?.name ?? "";
}
