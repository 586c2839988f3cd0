/** Requests and limits equal the counted resources. Without a limit of `ephemeral-storage` one pod could fill the disk of its node and evict others. */
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

/** Builds a pod for a container that a user has ordered: it gets no credentials of the cluster, and cannot gain privileges. */
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

/** The nodes on which lease pods may run: nodes in no pool, and nodes in some pools. */
export type LeaseNodes = {
  /** Node label with the name of the pool. */
  readonly poolLabel: string;
  readonly pools: readonly string[];
};

/** Keeps pods that the ledger does not count off the machines that it grants. */
function buildNodeAffinity({ poolLabel: key, pools }: LeaseNodes) {
  const inNone = { matchExpressions: [{ key, operator: "DoesNotExist" }] };
  const inSome = { matchExpressions: [{ key, operator: "In", values: [...pools] }] };
  const nodeSelectorTerms = pools.length === 0 ? [inNone] : [inNone, inSome];
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
}

/** Describes the nodes, with the setting that changes them. */
export function describeNodes({ poolLabel, pools }: LeaseNodes): string {
  const some = pools.length === 0 ? "" : ` or with ${poolLabel} = ${pools.join(", ")}`;
  return `it runs on nodes without the label "${poolLabel}"${some} (PROVISION_CONTAINER_POOLS)`;
}

const NOT_CREATED: ReadonlySet<string> = new Set(["CreateContainerConfigError", "CreateContainerError", "StartError"]);
/** A message of container runtimes: an image may have no command. */
const NO_COMMAND = /\bno command\b/;

/** A message of the scheduler: some nodes do not match the affinity. */
const NO_SUCH_NODE = /node affinity\/selector/;

type Trouble = { readonly reason?: string; readonly message?: string };

/** The part of a pod that explains why it does not run. */
type PodTrouble = {
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
 * Describes a start that no retry can fix, by the field of the order's data; undefined without one. A start that waits for a secret or a configuration also
 * fails with these reasons, but may succeed soon.
 */
export function describeUnstartable(
  pods: readonly PodTrouble[],
): { readonly field: string; readonly reason: string } | undefined {
  const hopeless = pods
    .flatMap(({ status }) => status?.containerStatuses ?? [])
    .flatMap(({ state, lastState }) => [state?.waiting, state?.terminated, lastState?.terminated])
    .some((each) => NOT_CREATED.has(each?.reason ?? "") && NO_COMMAND.test(each?.message ?? ""));
  if (!hopeless) return undefined;
  return { field: "entrypoint", reason: "is needed: neither the order nor the image has a command" };
}

/** Reasons of a start in progress. */
const STARTING: ReadonlySet<string | undefined> = new Set(["ContainerCreating", "PodInitializing"]);

/** Whether the pod will not become available soon: it is unschedulable, or an object that it needs is missing. */
export function isBlocked([pod]: readonly PodTrouble[]): boolean {
  const { conditions = [], containerStatuses = [] } = pod?.status ?? {};
  const isHeldUp = containerStatuses.some(({ state }) => state?.waiting && !STARTING.has(state.waiting.reason));
  return isHeldUp || conditions.some(({ type, status }) => type === "PodScheduled" && status === "False");
}

/** Explains why no pod is available yet; `nodes` describes the nodes on which the pod may run. */
export function describePods(pods: readonly PodTrouble[], nodes: string): string {
  const [pod] = pods;
  if (pod === undefined) return "no pod exists yet";
  const { phase, conditions = [], containerStatuses = [] } = pod.status ?? {};
  const unscheduled = conditions.find(({ type, status }) => type === "PodScheduled" && status === "False");
  const waiting = containerStatuses.map(({ state }) => state?.waiting).find((each) => each !== undefined);
  const isElsewhere = NO_SUCH_NODE.test(unscheduled?.message ?? "");
  const unplaced = isElsewhere ? `${unscheduled?.message ?? ""} ${nodes}` : unscheduled?.message;
  const words = waiting === undefined ? [unplaced] : [waiting.reason, waiting.message];
  const text = words.filter((word) => word !== undefined && word !== "").join(": ");
  return text === "" ? `its pod is ${phase ?? "Pending"}` : text;
}
