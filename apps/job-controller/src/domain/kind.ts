import type { Container, JobSpec, Member } from "./job.ts";

/** One error in a manifest: the field, and what would be right. */
export type Problem = { readonly field: string; readonly reason: string };

/** Settings of the controller that complete a manifest. */
export type KindDefaults = {
  /** For replica types that name no pool; undefined: naming one is required. */
  readonly pool: string | undefined;
  /** Label of nodes that names their pool; a template may choose its pool by a nodeSelector on it. */
  readonly poolLabel: string;
  /** Places the pods of jobs whose templates name no scheduler; undefined: the cluster's own does. */
  readonly scheduler: string | undefined;
  /** Domain of the cluster's services, such as `cluster.local`; undefined: names are left relative. */
  readonly clusterDomain: string | undefined;
  /** The images of the containers that kinds add to pods; undefined: the pods have no such container. */
  readonly images: {
    /** Has `sh` and `nslookup`; waits for the name of the master. */
    readonly waitForMaster: string | undefined;
    /** Copies a `kubectl` into the folder that TARGET_DIR names. */
    readonly kubectlDelivery: string | undefined;
  };
};

/** The metadata of a job that kinds need. */
export type JobIdentity = { readonly namespace: string; readonly name: string; readonly uid: string };

/** The description of its gang that a pod gets, in addition to its template. */
export type ClusterDescription = {
  /** For the containers named, or for all when `containers` is undefined; a template's own variable of that name wins. */
  readonly env: readonly EnvVariable[];
  readonly containers: readonly string[] | undefined;
  readonly initContainers: readonly Container[];
  readonly volumes: readonly Readonly<Record<string, unknown>>[];
  /** For the containers above. */
  readonly volumeMounts: readonly Readonly<Record<string, unknown>>[];
  /** Fields of the pod's spec that the template may leave open. */
  readonly podDefaults: Readonly<Record<string, unknown>>;
  /** The command of the main container if the template has none; undefined: that of its image. */
  readonly commandDefault: readonly string[] | undefined;
};

/** An empty description. */
export const NO_DESCRIPTION: ClusterDescription = {
  env: [],
  containers: undefined,
  initContainers: [],
  volumes: [],
  volumeMounts: [],
  podDefaults: {},
  commandDefault: undefined,
};

export type EnvVariable = { readonly name: string; readonly value: string };

/** An object beside pods and services that a job of this kind needs, such as a ConfigMap; owned by the job, and created before its pods. */
export type CompanionObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly metadata: { readonly name: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
};

/** The labels by which the pods and services of one kind are found; the group values of all kinds differ. */
export type KindLabels = {
  readonly groupNameLabelKey: string;
  readonly groupNameLabelValue: string;
  readonly jobNameLabelKey: string;
  readonly replicaTypeLabelKey: string;
  readonly replicaIndexLabelKey: string;
  /** `master` on the pod that represents the job, absent on all others. */
  readonly jobRoleLabelKey: string;
};

/** The result of reading a manifest. `managedBy` is known in both cases, so that jobs of other controllers are not judged. */
export type ReadResult =
  | {
      readonly ok: true;
      readonly spec: JobSpec;
      /** Valid fields that may not mean what their author expects. */
      readonly warnings: readonly Problem[];
    }
  | {
      readonly ok: false;
      readonly problems: readonly [Problem, ...Problem[]];
      readonly managedBy: string | undefined;
    };

/** One kind of custom resource that the controller runs; it contains everything that differs between kinds. Pure. */
export type Kind = {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly labelKeys: KindLabels;
  /** Keys of `status.replicaStatuses`, spelled as in the spec: `Worker`, `PS`. */
  readonly statusKey: (type: string) => string;
  /** One headless service with the job's name for all pods, or one a pod with the pod's name. */
  readonly services: "one-a-job" | "one-a-pod";
  /** The kind's own labels of a pod or service, beside Muster's. */
  readonly labels: (job: JobIdentity, member: Member, spec: JobSpec) => Readonly<Record<string, string>>;
  /** Reads a resource, fills in the kind's defaults, and reports all problems together. Never throws. */
  readonly read: (resource: unknown, defaults: KindDefaults) => ReadResult;
  readonly describeCluster: (
    job: JobIdentity,
    member: Member,
    spec: JobSpec,
    defaults: KindDefaults,
  ) => ClusterDescription;
  readonly companions: (job: JobIdentity, spec: JobSpec, defaults: KindDefaults) => readonly CompanionObject[];
};
