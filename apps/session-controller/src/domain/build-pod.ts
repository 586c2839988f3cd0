import { EXCLUSIVE, buildGrantedAffinity, SHARED } from "@muster/resources";
import { MAIN_CONTAINER, type TemplateContainer } from "@muster/session-limits";
import { getTemplate } from "./component-need.ts";
import { getGivenName, getPodName, type Component, type ComponentKind, type Elsewhere } from "./session.ts";

/** Names from the contracts, by which services recognize each other's pods. */
type PodKeys = {
  readonly labels: Readonly<
    Record<
      "ownerKind" | "owner" | "ownerUid" | "component" | "componentKind" | "exclusive" | "managedBy" | "installation",
      string
    >
  >;
  readonly annotations: Readonly<Record<"mainContainer" | "traceparent", string>>;
  readonly schedulingGates: Readonly<Record<"unconfirmed", string>>;
};

export type PodPolicy = {
  readonly namespace: string;
  /** Id of this installation. */
  readonly installation: string;
  readonly keys: PodKeys;
  /** Node label with the name of the pool. */
  readonly poolLabel: string;
  /** Path of the file to which a driver may write its result, at most 4096 bytes. It becomes the termination message of the driver's container. */
  readonly resultFile: string;
  /** Image of components that have only a command. */
  readonly imageDefault: string;
};

/** Address of a worker for the driver. */
export type WorkerAddress = { readonly name: string; readonly kind: ComponentKind; readonly ip: string };

export type PodRequest = {
  readonly session: {
    readonly name: string;
    readonly elsewhere?: Elsewhere | undefined;
    readonly uid: string;
    /** 0: no limit. */
    readonly timeoutMs: number;
    readonly killAfterMs: number;
    readonly workerPort: number;
    readonly scenarioJson: string;
  };
  readonly component: Component;
  /** The pool of the node. */
  readonly pool: string;
  readonly node: string;
  readonly workers: readonly WorkerAddress[];
  readonly traceparent: string;
};

/** Time after the session's own time limit at which a pod that no executor deletes ends by itself. */
const SELF_DESTRUCT_MARGIN_MS = 120_000;

type EnvEntry =
  | { readonly name: string; readonly value: string }
  | { readonly name: string; readonly valueFrom: { readonly fieldRef: { readonly fieldPath: string } } };

/**
 * Builds the pod of one component. It runs on exactly the granted machine, without other pods of Muster unless the component is shared. It never restarts, and
 * ends by itself if no executor deletes it. Its name is derived from the session and the component, so two creations cannot result in two pods. Fields that
 * Muster sets take precedence over the component's template.
 */
export function buildPod(request: PodRequest, policy: PodPolicy) {
  const { session, component, pool, node, traceparent } = request;
  const { labels, annotations } = policy.keys;
  const template = getTemplate(component);
  const { containers: [main] = [], initContainers = [], ...given } = template.spec;
  return {
    apiVersion: "v1" as const,
    kind: "Pod" as const,
    metadata: {
      name: getPodName(session, component.name),
      namespace: session.elsewhere?.namespace ?? policy.namespace,
      labels: {
        ...template.metadata?.labels,
        [labels.managedBy]: "muster",
        [labels.installation]: policy.installation,
        [labels.ownerKind]: "session",
        [labels.owner]: session.name,
        [labels.ownerUid]: session.uid,
        [labels.component]: component.name,
        [labels.componentKind]: component.kind,
        [labels.exclusive]: component.shared ? SHARED : EXCLUSIVE,
      },
      annotations: {
        ...template.metadata?.annotations,
        [annotations.mainContainer]: MAIN_CONTAINER,
        ...(traceparent === "" ? {} : { [annotations.traceparent]: traceparent }),
      },
    },
    spec: {
      ...given,
      // The gate keeps the pod unscheduled until its creator confirms it: a stopped process may create the pod after the session is over.
      schedulingGates: [{ name: policy.keys.schedulingGates.unconfirmed }],
      restartPolicy: "Never",
      terminationGracePeriodSeconds: seconds(session.killAfterMs),
      ...buildDeadline(session),
      automountServiceAccountToken: false,
      nodeSelector: { ...given.nodeSelector, [policy.poolLabel]: pool },
      affinity: buildGrantedAffinity(given.affinity, {
        node,
        exclusiveKey: labels.exclusive,
        isShared: component.shared,
      }),
      ...(initContainers.length > 0 && { initContainers: initContainers.map(withoutEscalation) }),
      containers: [buildContainer(request, policy, main)],
    },
  };
}

function withoutEscalation<Container extends Pick<TemplateContainer, "securityContext">>(container: Container) {
  return { ...container, securityContext: { ...container.securityContext, allowPrivilegeEscalation: false } };
}

/** Omits the deadline if the session has no time limit. */
function buildDeadline({ timeoutMs, killAfterMs }: PodRequest["session"]) {
  return timeoutMs === 0 ? {} : { activeDeadlineSeconds: seconds(timeoutMs + killAfterMs + SELF_DESTRUCT_MARGIN_MS) };
}

function buildContainer(request: PodRequest, policy: PodPolicy, given: TemplateContainer | undefined) {
  const { component, session } = request;
  const port = component.readyPort;
  return {
    ...given,
    name: MAIN_CONTAINER,
    image: component.image === "" ? policy.imageDefault : component.image,
    ...(component.command.length === 0 ? {} : { command: [...component.command] }),
    ...(component.args.length === 0 ? {} : { args: [...component.args] }),
    ...(component.workingDir === "" ? {} : { workingDir: component.workingDir }),
    // The controller's variables come first, so that a component's own variables may refer to them, for example as `$(POD_IP)`.
    env: [...buildEnv(request, policy), ...(given?.env ?? [])],
    ...(component.kind === "driver" ? { terminationMessagePath: policy.resultFile } : {}),
    ports: [{ name: "driver-port", containerPort: session.workerPort, protocol: "TCP" }],
    ...(port === 0 ? {} : { readinessProbe: { tcpSocket: { port }, periodSeconds: 1, timeoutSeconds: 1 } }),
    ...withoutEscalation({ securityContext: given?.securityContext ?? {} }),
  };
}

function buildEnv({ session, component, workers, traceparent }: PodRequest, { resultFile }: PodPolicy): EnvEntry[] {
  const name = getPodName(session, component.name);
  const common: EnvEntry[] = [
    { name: "POD_NAME", value: name },
    { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
    { name: "MUSTER_SESSION", value: getGivenName(session) },
    { name: "MUSTER_COMPONENT", value: component.name },
    { name: "POD_TIMEOUT", value: String(seconds(session.timeoutMs)) },
    { name: "KILL_AFTER", value: String(seconds(session.killAfterMs)) },
    ...(traceparent === "" ? [] : [{ name: "TRACEPARENT", value: traceparent }]),
  ];
  const role: EnvEntry[] =
    component.kind === "driver"
      ? [...driverEnv(workers, session), { name: "MUSTER_RESULT_FILE", value: resultFile }]
      : [
          { name: "WORKER_KIND", value: component.kind },
          { name: "DRIVER_PORT", value: String(session.workerPort) },
        ];
  return [...common, ...role, ...component.env.map(({ name, value }) => ({ name, value }))];
}

function driverEnv(workers: readonly WorkerAddress[], session: PodRequest["session"]): EnvEntry[] {
  const { workerPort, scenarioJson } = session;
  const addresses = workers.map(({ name, kind, ip }) => ({
    name,
    kind,
    address: formatHostPort(ip, workerPort),
    ip,
    port: workerPort,
  }));
  return [
    { name: "QPS_WORKERS", value: addresses.map(({ address }) => address).join(",") },
    { name: "MUSTER_WORKERS", value: JSON.stringify(addresses) },
    { name: "SCENARIO_JSON", value: literal(scenarioJson) },
  ];
}

/** Adds brackets to IPv6 addresses, which contain colons. */
export function formatHostPort(ip: string, port: number): string {
  return ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`;
}

/** Escapes the text for Kubernetes, which expands `$(NAME)` and `$$` in values: a doubled `$` restores the original text. */
function literal(text: string): string {
  return text.replaceAll(/\$(?=[$(])/g, "$$$$");
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
