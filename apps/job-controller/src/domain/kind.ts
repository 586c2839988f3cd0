import type { Container, JobSpec, Member } from "./job.ts";

/** One thing that is wrong with what somebody wrote: where, and what would be right. */
export type Problem = { readonly field: string; readonly reason: string };

/** What is not in the manifest itself. */
export type KindDefaults = {
  /** For replica types that name no pool; undefined: naming one is required. */
  readonly pool: string | undefined;
  /** Label of nodes that names their pool; a template may choose its pool by a nodeSelector on it. */
  readonly poolLabel: string;
  /** Places the pods of jobs whose templates name no scheduler; undefined: the cluster's own does. */
  readonly scheduler: string | undefined;
  /** Domain of the cluster's services, such as `cluster.local`; undefined: names are left relative. */
  readonly clusterDomain: string | undefined;
  /** Of the containers that kinds put into pods by themselves; undefined: the pods go without. */
  readonly images: {
    /** Has `sh` and `nslookup`; waits for the name of the master. */
    readonly waitForMaster: string | undefined;
    /** Leaves a `kubectl` in the folder that TARGET_DIR names. */
    readonly kubectlDelivery: string | undefined;
  };
};

/** What the kinds need to know of a job that is not in its spec. */
export type JobIdentity = { readonly namespace: string; readonly name: string; readonly uid: string };

/** What a pod is told of its gang, beside what its template says. */
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
  /** What the main container runs if the template says nothing; undefined: what its image runs. */
  readonly commandDefault: readonly string[] | undefined;
};

/** Nothing is told. */
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

/** An object beside pods and services that a job of this kind needs, such as a ConfigMap; owned by the job, and made before its pods. */
export type CompanionObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly metadata: { readonly name: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
};

/** The labels by which the pods and services of one kind are found; no two kinds have one group value in common. */
export type KindLabels = {
  readonly groupNameLabelKey: string;
  readonly groupNameLabelValue: string;
  readonly jobNameLabelKey: string;
  readonly replicaTypeLabelKey: string;
  readonly replicaIndexLabelKey: string;
  /** `master` on the pod that speaks for the job, absent on all others. */
  readonly jobRoleLabelKey: string;
};

/** What became of a manifest. Either way `managedBy` is known, so that nothing is said about what belongs to others. */
export type ReadResult =
  | {
      readonly ok: true;
      readonly spec: JobSpec;
      /** What was understood, but not as its author may think. */
      readonly warnings: readonly Problem[];
    }
  | {
      readonly ok: false;
      readonly problems: readonly [Problem, ...Problem[]];
      readonly managedBy: string | undefined;
    };

/** One kind of custom resource that the controller runs; everything that differs between kinds, and nothing else. Pure. */
export type Kind = {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly labelKeys: KindLabels;
  /** Keys of `status.replicaStatuses`, which are written as in the spec: `Worker`, `PS`. */
  readonly statusKey: (type: string) => string;
  /** One headless service with the job's name that all pods are in, or one a pod with the pod's name. */
  readonly services: "one-a-job" | "one-a-pod";
  /** Its own label keys and values for a pod or service, beside Muster's. */
  readonly labels: (job: JobIdentity, member: Member, spec: JobSpec) => Readonly<Record<string, string>>;
  /** Reads a resource as it was written, fills in the kind's defaults, and says everything that is wrong with it at once. Never throws. */
  readonly read: (resource: unknown, defaults: KindDefaults) => ReadResult;
  readonly describeCluster: (
    job: JobIdentity,
    member: Member,
    spec: JobSpec,
    defaults: KindDefaults,
  ) => ClusterDescription;
  readonly companions: (job: JobIdentity, spec: JobSpec, defaults: KindDefaults) => readonly CompanionObject[];
};
