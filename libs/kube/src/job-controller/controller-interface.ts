/** The custom resource behind the members. Whatever else its kind has is its operator's business. */
export type JobObject = {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly deletionTimestamp?: Date | string;
  };
};

export type GroupVersionKind = { readonly group: string; readonly version: string; readonly kind: string };

/** What an operator says about its kind of job; the rest of the machinery asks nothing more of it. */
export type ControllerInterface<Job extends JobObject> = {
  /** Source of the events. */
  readonly controllerName: string;
  readonly apiGroupVersionKind: GroupVersionKind;
  /** Of the resource, as in its path: `jobs`. */
  readonly plural: string;
  /** Value of the group label on everything that belongs to jobs of this kind. Two kinds with one value would claim each other's members. */
  readonly groupNameLabelValue: string;
  readonly groupNameLabelKey: string;
  readonly jobNameLabelKey: string;
  readonly replicaTypeLabelKey: string;
  readonly replicaIndexLabelKey: string;
  /** Marks the member that speaks for the job, with the value `master`. */
  readonly jobRoleLabelKey: string;
  /** Labels beyond those above, by which others (the watcher, a scheduler) recognise members. */
  readonly furtherLabels?: (member: {
    readonly job: Job;
    readonly replicaType: string;
    readonly index: number;
  }) => Readonly<Record<string, string>>;
  /** What the cache has, which may be behind. */
  readonly getJobFromInformerCache: (namespace: string, name: string) => Job | undefined;
  /** A live read. Rejects with an error that `kubeFault` knows as not_found when there is no such job. */
  readonly getJobFromApi: (namespace: string, name: string) => Promise<Job>;
};

/** The label keys and the group of a kind. */
export type LabelScheme = Pick<
  ControllerInterface<JobObject>,
  | "groupNameLabelValue"
  | "groupNameLabelKey"
  | "jobNameLabelKey"
  | "replicaTypeLabelKey"
  | "replicaIndexLabelKey"
  | "jobRoleLabelKey"
>;

/** What the work queue calls the job. */
export function jobKey(job: JobObject): string {
  return `${job.metadata.namespace}/${job.metadata.name}`;
}
