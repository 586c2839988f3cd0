import type { KubeConfig, V1CustomResourceDefinition, V1ObjectMeta, V1Pod, V1Service } from "@kubernetes/client-node";
import {
  claimantIndex,
  controllerOf,
  eventRecorder,
  informer,
  isDeleting,
  jobController,
  jobEvents,
  listWatch,
  runController,
  workQueue,
  type ControllerInterface,
  type GroupVersionKind,
  type Informer,
  type KubeCalls,
  type KubeObject,
} from "@muster/kube";

/** The least that can be called a job: so many workers, each with a service if there are ports. */
export type Gang = KubeObject & {
  readonly metadata: V1ObjectMeta & { readonly name: string; readonly namespace: string; readonly uid: string };
  readonly spec: { readonly replicas: number; readonly port?: number; readonly minAvailable?: number };
};

export const GANG = { group: "test.muster.dev", version: "v1", kind: "Gang" } as const;
export const GANGS = { apiVersion: "test.muster.dev/v1", plural: "gangs" } as const;
export const WORKER = "Worker";

export const GANG_LABELS = {
  groupNameLabelValue: "gangs",
  groupNameLabelKey: "test.muster.dev/operator",
  jobNameLabelKey: "test.muster.dev/job",
  replicaTypeLabelKey: "test.muster.dev/type",
  replicaIndexLabelKey: "test.muster.dev/index",
  jobRoleLabelKey: "test.muster.dev/role",
} as const;

const integer = { type: "integer" };

export const GANG_DEFINITION = definition("gangs", GANG, { replicas: integer, port: integer, minAvailable: integer });

/** The kind of the scheduler plugins, as far as it is used. */
export const POD_GROUP_DEFINITION = definition(
  "podgroups",
  { group: "scheduling.x-k8s.io", version: "v1alpha1", kind: "PodGroup" },
  { minMember: integer },
);

function definition(
  plural: string,
  { group, version, kind }: GroupVersionKind,
  properties: Record<string, { type: string }>,
): V1CustomResourceDefinition {
  const spec = { type: "object", properties };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec } } };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural, singular: kind.toLowerCase(), kind },
      versions: [{ name: version, served: true, storage: true, schema }],
    },
  };
}

export type GangOperator = AsyncDisposable & {
  /** `job reason`, in order. */
  readonly events: readonly string[];
  readonly errors: readonly unknown[];
};

export type GangOperatorOptions = {
  readonly config: KubeConfig;
  readonly calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete">;
  /** Failed passes come again after at most this; default 50 ms. */
  readonly retryMaxMs?: number;
};

/** Runs an operator for gangs in all namespaces, made of nothing but the parts of `libs/kube`. */
export function startGangOperator({ config, calls, retryMaxMs = 50 }: GangOperatorOptions): GangOperator {
  const stop = new AbortController();
  const errors: unknown[] = [];
  const events: string[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  const indexes = { claimant: claimantIndex(GANG_LABELS) };
  const follow = <Object extends KubeObject>(path: string) => ({
    source: listWatch<Object>(config, path),
    project: (object: Object) => object,
    onError,
  });
  const gangs: Informer<Gang> = informer(follow<Gang>("/apis/test.muster.dev/v1/gangs"));
  const pods = informer({ ...follow<V1Pod>("/api/v1/pods"), indexes });
  const services = informer({ ...follow<V1Service>("/api/v1/services"), indexes });
  const recorder = eventRecorder({ calls, component: "gang-operator", onError });
  const tell = jobEvents(recorder, GANG);
  const queue = workQueue({ limits: { mostMs: retryMaxMs } });

  const kind: ControllerInterface<Gang> = {
    ...GANG_LABELS,
    controllerName: "gang-operator",
    apiGroupVersionKind: GANG,
    plural: GANGS.plural,
    getJobFromInformerCache: (namespace, name) => gangs.get(`${namespace}/${name}`),
    getJobFromApi: (namespace, name) => calls.get<Gang>({ ...GANGS, namespace }, name),
  };
  const controller = jobController(
    kind,
    {
      calls,
      pods,
      services,
      jobs: () => gangs.list(),
      queue,
      recordEvent: (gang, type, reason, message) => {
        events.push(`${gang.metadata.name} ${reason}`);
        tell(gang, type, reason, message);
      },
    },
    // Longer than any test, so that nothing is found by chance.
    { reconcilerSyncLoopPeriodMs: 600_000, enableGangScheduling: true },
  );
  gangs.onChange(({ key, before, after }) => {
    if (before !== undefined && after === undefined) controller.forgetJob(before.metadata.uid);
    queue.add(key);
  });
  pods.onChange((change) => controller.changePod(change));
  services.onChange((change) => controller.changeService(change));

  const running = runController({
    name: "gang-operator",
    queue,
    reconcile: async (key, signal) => {
      const gang = gangs.get(key);
      if (gang === undefined || isDeleting(gang) || !controller.satisfiedExpectations(gang, [WORKER])) return undefined;
      await reconcileGang(controller, gang, signal);
      return undefined;
    },
    synced: [gangs.synced, pods.synced, services.synced],
    resync: controller.resync,
    stop: stop.signal,
    stopGraceMs: 5_000,
    onError,
  });
  return {
    events,
    errors,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await running;
      await recorder[Symbol.asyncDispose]();
      for (const cache of [gangs, pods, services]) await cache[Symbol.asyncDispose]();
    },
  };
}

/** One pass: claim, sort into slots, make what is missing, delete what is too much. Rejects when something is left to do that nobody will tell us of. */
async function reconcileGang(
  controller: ReturnType<typeof jobController<Gang>>,
  gang: Gang,
  signal: AbortSignal,
): Promise<void> {
  const { replicas, port, minAvailable } = gang.spec;
  const canAdopt = controller.recheckDeletionTimestamp(gang);
  const claimed = await controller.getPodsForJob(gang, canAdopt);
  const claimedServices = await controller.getServicesForJob(gang, canAdopt);
  const pods = controller.getPodSlices(controller.filterPodsForReplicaType(claimed.claimed, WORKER), replicas);
  const services = controller.getServiceSlices(
    controller.filterServicesForReplicaType(claimedServices.claimed, WORKER),
    port === undefined ? 0 : replicas,
  );
  const errors: unknown[] = [...claimed.errors, ...claimedServices.errors];
  if (minAvailable !== undefined) {
    await controller.syncPdb(gang, minAvailable, { canAdopt }).catch((error: unknown) => errors.push(error));
  }
  const template = { spec: { containers: [{ name: "main", image: "busybox" }], terminationGracePeriodSeconds: 0 } };
  const wantedPods = missing(pods.slots).map((index) => ({ index, isMaster: index === 0, template }));
  const wantedServices = missing(services.slots).map((index) => ({ index, ports: [{ port: port ?? 0 }] }));
  const reports = [
    await controller.createPods(gang, WORKER, wantedPods, signal),
    await controller.deletePods(gang, WORKER, membersOf(pods.surplus), signal),
    await controller.createServices(gang, WORKER, wantedServices, signal),
    await controller.deleteServices(gang, WORKER, membersOf(services.surplus), signal),
  ];
  for (const report of reports) errors.push(...report.refused);
  if (errors.length > 0) throw new AggregateError(errors, `reconciling ${gang.metadata.name}`);
}

function missing(slots: readonly unknown[]): number[] {
  return slots.flatMap((member, index) => (member === undefined ? [index] : []));
}

function membersOf<M>(surplus: readonly { readonly member: M }[]): M[] {
  return surplus.map(({ member }) => member);
}

/** Whether the gang manages the object. */
export function belongsTo(gang: Gang, object: KubeObject): boolean {
  return controllerOf(object)?.uid === gang.metadata.uid;
}
