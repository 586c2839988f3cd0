/** Exactly what is counted, no more and no less. Without a limit of `ephemeral-storage` one pod could fill the disk of its node, and have others evicted. */
export type PodResources = {
  readonly cpu: string;
  readonly memory: string;
  readonly "ephemeral-storage": string;
};

type PodParts<Container, Volume> = {
  readonly container: Container & { readonly name: string; readonly image: string };
  readonly resources: PodResources;
  readonly volumes: readonly Volume[];
  readonly nodes: LeaseNodes;
};

/** The pod of one container that somebody else has ordered: it has nothing of the cluster's own, and cannot gain rights. */
export function buildPod<Container, Volume>({ container, resources, volumes, nodes }: PodParts<Container, Volume>) {
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    affinity: buildNodeAffinity(nodes),
    securityContext: { seccompProfile: { type: "RuntimeDefault" } },
    containers: [
      {
        ...container,
        resources: { requests: resources, limits: resources },
        securityContext: { allowPrivilegeEscalation: false },
      },
    ],
    volumes,
  };
}

/** The nodes on which pods of leases may run: those that are in no pool, and those of some pools. */
export type LeaseNodes = {
  /** Label of nodes that names their pool. */
  readonly poolLabel: string;
  readonly pools: readonly string[];
};

/** Keeps pods that the ledger does not count off machines that it grants. */
export function buildNodeAffinity({ poolLabel: key, pools }: LeaseNodes) {
  const inNone = { matchExpressions: [{ key, operator: "DoesNotExist" }] };
  const inSome = { matchExpressions: [{ key, operator: "In", values: [...pools] }] };
  const nodeSelectorTerms = pools.length === 0 ? [inNone] : [inNone, inSome];
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
}

/** The same for people, with the setting that changes it. */
export function describeNodes({ poolLabel, pools }: LeaseNodes): string {
  const some = pools.length === 0 ? "" : ` or with ${poolLabel} = ${pools.join(", ")}`;
  return `it runs on nodes without the label "${poolLabel}"${some} (PROVISION_CONTAINER_POOLS)`;
}

const NOT_CREATED: ReadonlySet<string> = new Set(["CreateContainerConfigError", "CreateContainerError", "StartError"]);
/** In the words of container runtimes: an image may lack a command, or is never looked at. */
const NO_COMMAND = /\bno command\b/;

/** In the words of the scheduler: some nodes are not those on which the pod may run. */
const NO_SUCH_NODE = /node affinity\/selector/;

type Trouble = { readonly reason?: string; readonly message?: string };

/** The part of a pod that explains why it does not run. */
export type PodTrouble = {
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message?: string }[];
    readonly containerStatuses?: readonly {
      readonly state?: { readonly waiting?: Trouble; readonly terminated?: Trouble };
      readonly lastState?: { readonly terminated?: Trouble };
    }[];
  };
};

/**
 * What no further attempt can mend, by the names of an order's data; undefined: there is nothing of that kind. A start that waits for a secret or a configuration also
 * fails to be prepared, and is no trouble of that kind: it may be there soon.
 */
export function describeUnstartable(
  pods: readonly PodTrouble[],
): { readonly field: string; readonly reason: string } | undefined {
  const hopeless = pods
    .flatMap(({ status }) => status?.containerStatuses ?? [])
    .flatMap(({ state, lastState }) => [state?.waiting, state?.terminated, lastState?.terminated])
    .some((each) => NOT_CREATED.has(each?.reason ?? "") && NO_COMMAND.test(each?.message ?? ""));
  if (!hopeless) return undefined;
  return { field: "entrypoint", reason: "is needed: nothing says what is to run, neither it nor the image" };
}

/** Of a start that goes on. */
const STARTING: ReadonlySet<string | undefined> = new Set(["ContainerCreating", "PodInitializing"]);

/** Whether no pod will be available in a moment: none has a place, or what it needs cannot be had. */
export function isBlocked([pod]: readonly PodTrouble[]): boolean {
  const { conditions = [], containerStatuses = [] } = pod?.status ?? {};
  const isHeldUp = containerStatuses.some(({ state }) => state?.waiting && !STARTING.has(state.waiting.reason));
  return isHeldUp || conditions.some(({ type, status }) => type === "PodScheduled" && status === "False");
}

/** Why no pod is available yet, for people; `nodes` describes those on which it may run. */
export function describePods(pods: readonly PodTrouble[], nodes: string): string {
  const [pod] = pods;
  if (pod === undefined) return "there is no pod yet";
  const { phase, conditions = [], containerStatuses = [] } = pod.status ?? {};
  const unscheduled = conditions.find(({ type, status }) => type === "PodScheduled" && status === "False");
  const waiting = containerStatuses.map(({ state }) => state?.waiting).find((each) => each !== undefined);
  const isElsewhere = NO_SUCH_NODE.test(unscheduled?.message ?? "");
  const unplaced = isElsewhere ? `${unscheduled?.message ?? ""} ${nodes}` : unscheduled?.message;
  const words = waiting === undefined ? [unplaced] : [waiting.reason, waiting.message];
  const text = words.filter((word) => word !== undefined && word !== "").join(": ");
  return text === "" ? `its pod is ${phase ?? "Pending"}` : text;
}
