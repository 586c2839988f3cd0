import { describe, expect, it } from "vitest";
import { DEFAULTS, buildJobManifest, buildReplicaManifest, buildTemplateManifest } from "../../test/manifests.ts";
import { buildPod, type PodManifest } from "./build-pod.ts";
import { buildService, groupServiceOwners } from "./build-service.ts";
import type { RestartPolicy } from "./job.ts";
import { JOB_KIND } from "./kind-job.ts";
import { MPIJOB_KIND } from "./kind-mpijob.ts";
import { TFJOB_KIND } from "./kind-tfjob.ts";
import type { Kind } from "./kind.ts";
import type { JobToBuild, MemberPolicy } from "./member-metadata.ts";

const POLICY: MemberPolicy = {
  defaults: DEFAULTS,
  installation: "muster-1",
  schedulingGates: [],
  keys: {
    labels: {
      managedBy: "managed-by",
      installation: "installation",
      ownerKind: "owner-kind",
      owner: "owner",
      ownerUid: "owner-uid",
      component: "component",
      attempt: "attempt",
      exclusive: "exclusive",
    },
    annotations: {
      mainContainer: "main-container",
      preemptedAt: "muster.dev/preempted-at",
      traceparent: "traceparent",
    },
  },
};

type Manifest = Readonly<Record<string, unknown>>;

function toBuild(kind: Kind, manifest: Manifest): JobToBuild {
  const result = kind.read(manifest, DEFAULTS);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return { kind, job: { namespace: "ml", name: "train", uid: "0a1b-2c3d" }, spec: result.spec };
}

type More = { readonly traceparent?: string; readonly policy?: Partial<MemberPolicy>; readonly isShared?: boolean };

function podOf(replica: Manifest, more: More = {}): PodManifest {
  const request = toBuild(
    JOB_KIND,
    buildJobManifest("train", { replicaSpecs: { worker: buildReplicaManifest(replica) } }),
  );
  const member = { type: "worker", index: 1 };
  return buildPod(
    { ...request, member, node: "node-7", isShared: more.isShared, attempt: 2, traceparent: more.traceparent ?? "" },
    { ...POLICY, ...more.policy },
  );
}

const affinityOf = (pod: PodManifest) => pod.spec["affinity"];
const required = "requiredDuringSchedulingIgnoredDuringExecution";
const machine = { key: "metadata.name", operator: "In", values: ["node-7"] };
const alone = {
  topologyKey: "kubernetes.io/hostname",
  labelSelector: { matchExpressions: [{ key: "exclusive", operator: "Exists" }] },
  namespaceSelector: {},
};

describe("the pod of a member", () => {
  it("has a constant name, and the labels by which services identify its owner, whatever its template contains", () => {
    const metadata = { labels: { team: "a", owner: "me" }, annotations: { note: "n", "main-container": "x" } };
    const pod = podOf({ template: { ...buildTemplateManifest(), metadata } });
    expect(pod.metadata).toEqual({
      name: "train-worker-1",
      namespace: "ml",
      labels: {
        team: "a",
        "muster.dev/group-name": "muster.dev",
        "muster.dev/job-name": "train",
        "muster.dev/replica-type": "worker",
        "muster.dev/replica-index": "1",
        "managed-by": "muster",
        installation: "muster-1",
        "owner-kind": "job",
        owner: "train-0a1b2c3d",
        "owner-uid": "0a1b-2c3d",
        component: "worker-1",
        attempt: "2",
        exclusive: "true",
      },
      annotations: { note: "n", "main-container": "main" },
      ownerReferences: [
        {
          apiVersion: "muster.dev/v1",
          kind: "Job",
          name: "train",
          uid: "0a1b-2c3d",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    });
  });

  it.each<[RestartPolicy, string]>([
    ["Always", "Always"],
    ["OnFailure", "OnFailure"],
    ["Never", "Never"],
    ["ExitCode", "Never"],
  ])("of a type with restart policy %s is restarted by the kubelet: %s", (restartPolicy, expected) => {
    const template = buildTemplateManifest({ restartPolicy: "Always" });
    expect(podOf({ restartPolicy, template }).spec["restartPolicy"]).toBe(expected);
  });

  it("is bound only by the granted node if its type accepts several pools", () => {
    const manifest = buildJobManifest("train", { replicaSpecs: { worker: buildReplicaManifest({ pool: "" }) } });
    const metadata = { name: "train", annotations: { "muster.dev/pool": "cpu, gpu" } };
    const request = toBuild(JOB_KIND, { ...manifest, metadata });
    const pod = buildPod(
      { ...request, member: { type: "worker", index: 1 }, node: "node-7", attempt: 2, traceparent: "" },
      POLICY,
    );
    expect(pod.spec["nodeSelector"]).toEqual({});
    expect(affinityOf(pod)).toMatchObject({
      nodeAffinity: { [required]: { nodeSelectorTerms: [{ matchFields: [machine] }] } },
    });
  });

  it("runs exclusively on the granted machine", () => {
    const pod = podOf({});
    expect(pod.spec["nodeSelector"]).toEqual({ pool: "cpu" });
    expect(affinityOf(pod)).toEqual({
      nodeAffinity: { [required]: { nodeSelectorTerms: [{ matchFields: [machine] }] } },
      podAntiAffinity: { [required]: [alone] },
    });
  });

  it("with a part of a machine is pinned to it, and kept apart from exclusive pods, which exclude it by its label", () => {
    const pod = podOf({}, { isShared: true });
    expect(pod.metadata.labels["exclusive"]).toBe("false");
    expect(pod.spec["nodeSelector"]).toEqual({ pool: "cpu" });
    const labelSelector = { matchExpressions: [{ key: "exclusive", operator: "In", values: ["true"] }] };
    expect(affinityOf(pod)).toEqual({
      nodeAffinity: { [required]: { nodeSelectorTerms: [{ matchFields: [machine] }] } },
      podAntiAffinity: { [required]: [{ ...alone, labelSelector }] },
    });
  });

  it.each([
    [true, true, true],
    [true, false, false],
    [false, true, false],
    [false, false, false],
  ])("may run beside another pod only if both share: %s, %s", (first, second, isAllowed) => {
    const pods = [podOf({}, { isShared: first }), podOf({}, { isShared: second })] as const;
    // Kubernetes applies the terms of both the new pod and the running one.
    const isExcluded = ([by, of]: readonly [PodManifest, PodManifest]): boolean => {
      const terms = affinityOf(by) as { podAntiAffinity: Record<string, (typeof alone)[]> };
      const { key, operator, ...more } = terms.podAntiAffinity[required]?.[0]?.labelSelector.matchExpressions[0] ?? {};
      const value = of.metadata.labels[key ?? ""];
      const { values = [] } = more as { values?: (string | undefined)[] };
      return operator === "Exists" ? value !== undefined : values.includes(value);
    };
    expect(!isExcluded(pods) && !isExcluded([pods[1], pods[0]])).toBe(isAllowed);
  });

  it("keeps the node affinity of its template, in each alternative", () => {
    const expression = (key: string) => ({ matchExpressions: [{ key, operator: "Exists" }] });
    const preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    const affinity = {
      nodeAffinity: { [required]: { nodeSelectorTerms: [expression("a"), expression("b")] }, [preferred]: [] },
      podAffinity: { [preferred]: [] },
      podAntiAffinity: { [required]: [{ topologyKey: "zone" }] },
    };
    const pod = podOf({ template: buildTemplateManifest({ affinity, nodeSelector: { disk: "ssd" } }) });
    expect(pod.spec["nodeSelector"]).toEqual({ disk: "ssd", pool: "cpu" });
    expect(affinityOf(pod)).toEqual({
      nodeAffinity: {
        [required]: {
          nodeSelectorTerms: [
            { ...expression("a"), matchFields: [machine] },
            { ...expression("b"), matchFields: [machine] },
          ],
        },
        [preferred]: [],
      },
      podAffinity: { [preferred]: [] },
      podAntiAffinity: { [required]: [{ topologyKey: "zone" }, alone] },
    });
  });

  it("is resolved under its own name in the service of the job", () => {
    const { hostname, subdomain } = podOf({ template: buildTemplateManifest({ hostname: "other" }) }).spec;
    expect({ hostname, subdomain }).toEqual({ hostname: "train-worker-1", subdomain: "train" });
  });

  it("gives precedence to the template's own variables, which may refer to ours", () => {
    const env = [
      { name: "MUSTER_JOB", value: "mine" },
      { name: "RANK", value: "$(MUSTER_REPLICA_INDEX)" },
    ];
    const containers = [{ name: "main", image: "i", env }];
    const built = podOf({ template: buildTemplateManifest({ containers }) }, { traceparent: "00-1-2-01" });
    const names = built.spec.containers[0]?.env?.map(({ name }) => name);
    expect(names).toEqual([
      "TRACEPARENT",
      "MUSTER_REPLICA_TYPE",
      "MUSTER_REPLICA_INDEX",
      "MUSTER_REPLICAS",
      "MUSTER_CLUSTER",
      "MUSTER_JOB",
      "RANK",
    ]);
    expect(built.metadata.annotations["traceparent"]).toBe("00-1-2-01");
  });

  it("opens the port of its type once", () => {
    const ports = (template: Manifest) => podOf({ port: 80, template }).spec.containers[0]?.ports;
    const own = [{ name: "http", containerPort: 80 }];
    expect(ports(buildTemplateManifest())).toEqual([{ name: "job-port", containerPort: 80, protocol: "TCP" }]);
    expect(ports(buildTemplateManifest({ containers: [{ name: "main", image: "i", ports: own }] }))).toEqual(own);
  });

  it("has the mark of its group, and the name of the scheduler that places the whole gang", () => {
    const request = toBuild(
      JOB_KIND,
      buildJobManifest("train", { replicaSpecs: { worker: buildReplicaManifest({}) } }),
    );
    const member = { type: "worker", index: 0 };
    const group = { scheduler: "gangs", settings: {} };
    const mark = { labels: { "group-label": "train" }, annotations: { "group-note": "train" } };
    const ungrouped = { ...request, member, node: "n", attempt: 0, traceparent: "" };
    const pod = buildPod({ ...ungrouped, spec: { ...request.spec, group }, mark }, POLICY);
    expect(pod.metadata.labels).toMatchObject({ "group-label": "train", component: "worker-0" });
    expect(pod.metadata.annotations).toMatchObject({ "group-note": "train" });
    expect(pod.spec["schedulerName"]).toBe("gangs");
    expect(buildPod(ungrouped, POLICY).spec).not.toHaveProperty("schedulerName");
  });

  it("has the configured scheduling gates", () => {
    const gated = podOf(
      { template: buildTemplateManifest({ schedulingGates: [{ name: "own" }] }) },
      { policy: { schedulingGates: ["g"] } },
    );
    expect(gated.spec["schedulingGates"]).toEqual([{ name: "own" }, { name: "g" }]);
    expect(podOf({}).spec).not.toHaveProperty("schedulingGates");
  });

  it("runs the command of its kind only if the template has none", () => {
    const worker = (more: Manifest) => ({
      replicas: 1,
      template: { spec: { containers: [{ name: "mpi", image: "i", ...more }] } },
    });
    const commandOf = (more: Manifest) => {
      const spec = { mpiReplicaSpecs: { Launcher: worker({}), Worker: worker(more) } };
      const request = toBuild(MPIJOB_KIND, { metadata: { name: "train" }, spec });
      const member = { type: "worker", index: 0 };
      const pod = buildPod({ ...request, member, node: "n", attempt: 0, traceparent: "" }, POLICY);
      const [container] = pod.spec.containers;
      return { command: container?.["command"], args: container?.["args"] };
    };
    expect(commandOf({})).toEqual({ command: ["sleep"], args: ["365d"] });
    expect(commandOf({ command: ["sshd"] })).toEqual({ command: ["sshd"], args: undefined });
    expect(commandOf({ args: ["-D"] })).toEqual({ command: undefined, args: ["-D"] });
  });
});

describe("the services of a job", () => {
  it("is one for all pods of a Job, with each port once", () => {
    const replicaSpecs = {
      a: buildReplicaManifest({ port: 80 }),
      b: buildReplicaManifest({ port: 80 }),
      c: buildReplicaManifest({ port: 81 }),
    };
    const request = toBuild(JOB_KIND, buildJobManifest("train", { replicaSpecs }));
    expect([...groupServiceOwners(request)]).toEqual([["train", "job"]]);
    const { metadata, spec } = buildService(request, "job", POLICY.keys);
    expect(metadata.name).toBe("train");
    expect(spec).toEqual({
      clusterIP: "None",
      publishNotReadyAddresses: true,
      selector: { "muster.dev/group-name": "muster.dev", "muster.dev/job-name": "train", "owner-uid": "0a1b-2c3d" },
      ports: [
        { name: "a", port: 80, protocol: "TCP" },
        { name: "c", port: 81, protocol: "TCP" },
      ],
    });
  });

  it("are one for each pod of Kubeflow's kinds, with all ports of its container", () => {
    const ports = [
      { name: "http", containerPort: 80 },
      { containerPort: 53, protocol: "UDP" },
    ];
    const containers = [{ name: "tensorflow", image: "i", ports }];
    const spec = { tfReplicaSpecs: { Worker: { replicas: 2, template: { spec: { containers } } } } };
    const request = toBuild(TFJOB_KIND, { metadata: { name: "train" }, spec });
    expect([...groupServiceOwners(request).keys()]).toEqual(["train-worker-0", "train-worker-1"]);
    const service = buildService(request, { type: "worker", index: 0 }, POLICY.keys);
    expect(service.metadata.labels).toMatchObject({
      component: "worker-0",
      "training.kubeflow.org/job-role": "master",
    });
    expect(service.spec.selector).toEqual({
      "training.kubeflow.org/operator-name": "tfjob-controller",
      "training.kubeflow.org/job-name": "train",
      "training.kubeflow.org/replica-type": "worker",
      "training.kubeflow.org/replica-index": "0",
      "owner-uid": "0a1b-2c3d",
    });
    expect(service.spec.ports).toEqual([
      { name: "tfjob-port", port: 2222, protocol: "TCP" },
      { name: "http", port: 80, protocol: "TCP" },
      { name: "port-53", port: 53, protocol: "UDP" },
    ]);
  });

  it("are none for a kind whose pods need no names", () => {
    const container = { template: { spec: { containers: [{ name: "mpi", image: "i" }] } } };
    const request = toBuild(MPIJOB_KIND, {
      metadata: { name: "train" },
      spec: { mpiReplicaSpecs: { Launcher: container } },
    });
    expect(groupServiceOwners(request).size).toBe(0);
  });
});
