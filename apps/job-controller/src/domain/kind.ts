import type { Container, JobSpec, Member } from "./job.ts";

/** One error in a manifest: the field, and the valid form. */
export type Problem = { readonly field: string; readonly reason: string };

/** Settings of the controller that complete a manifest. */
export type KindDefaults = {
  /** The pool of replica types that name no pool; undefined if each type must name one. */
  readonly pool: string | undefined;
  /** The node label whose value is the pool; a template may choose its pool by a nodeSelector on it. */
  readonly poolLabel: string;
  /** The scheduler of jobs whose templates name none; undefined for the cluster's own. */
  readonly scheduler: string | undefined;
  /** The domain of the cluster's services, such as `cluster.local`; undefined if names stay relative. */
  readonly clusterDomain: string | undefined;
  /** The images of the containers that kinds add to pods; undefined if the pods have no such container. */
  readonly images: {
    /** The image has `sh` and `nslookup`; its container waits for the name of the master. */
    readonly waitForMaster: string | undefined;
    /** The image copies `kubectl` into the folder that TARGET_DIR names. */
    readonly kubectlDelivery: string | undefined;
  };
};

/** The metadata of a job that kinds need. */
export type JobIdentity = { readonly namespace: string; readonly name: string; readonly uid: string };

/** The description of the gang that a pod gets, in addition to its template. */
export type ClusterDescription = {
  /** Variables of the named containers, or of all if `containers` is undefined. A template's variable of the same name takes precedence. */
  readonly env: readonly EnvVariable[];
  readonly containers: readonly string[] | undefined;
  readonly initContainers: readonly Container[];
  readonly volumes: readonly Readonly<Record<string, unknown>>[];
  /** Mounts of the same containers. */
  readonly volumeMounts: readonly Readonly<Record<string, unknown>>[];
  /** Defaults for fields of the pod's spec that the template does not set. */
  readonly podDefaults: Readonly<Record<string, unknown>>;
  /** The command of the main container if the template has none; undefined for that of its image. */
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

/** An object beside pods and services that a job of this kind needs, such as a ConfigMap. The job owns it, and it exists before the pods. */
export type CompanionObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly metadata: { readonly name: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
};

/** The labels that select the pods and services of one kind; the group values of all kinds differ. */
export type KindLabels = {
  readonly groupNameLabelKey: string;
  readonly groupNameLabelValue: string;
  readonly jobNameLabelKey: string;
  readonly replicaTypeLabelKey: string;
  readonly replicaIndexLabelKey: string;
  /** `master` on the pod that represents the job; absent on all other pods. */
  readonly jobRoleLabelKey: string;
};

/** The result of reading a manifest. Both variants have `managedBy`, so that jobs of other controllers are not judged. */
export type ReadResult =
  | {
      readonly ok: true;
      readonly spec: JobSpec;
      /** Valid fields that may not have the effect that their author expects. */
      readonly warnings: readonly Problem[];
    }
  | {
      readonly ok: false;
      readonly problems: readonly [Problem, ...Problem[]];
      readonly managedBy: string | undefined;
    };

/** One kind of custom resource that the controller runs, with all differences between kinds. Pure. */
export type Kind = {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly labelKeys: KindLabels;
  /** Returns the key in `status.replicaStatuses`, spelled as in the spec: `Worker`, `PS`. */
  readonly statusKey: (type: string) => string;
  /** One headless service per job with the job's name, or one per pod with the pod's name. */
  readonly services: "one-a-job" | "one-a-pod";
  /** Returns the kind's own labels of a pod or service, in addition to Muster's. */
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
