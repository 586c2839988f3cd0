/** The settings that a job requests from a gang scheduler; the scheduler chooses absent settings. */
export type GroupSettings = {
  readonly queue?: string;
  readonly priorityClassName?: string;
  readonly minResources?: Readonly<Record<string, string | number>>;
  readonly scheduleTimeoutSeconds?: number;
};

/** The scheduler that places all pods of a job, and the requested settings. */
export type GroupRequest = { readonly scheduler: string; readonly settings: GroupSettings };

/** The desired spec of the scheduler's object for a gang. */
export type GroupSpec = GroupSettings & { readonly minMember: number };

/** The groups that the cluster supports, and the groups of the job. */
export type GroupsSeen = {
  /** The kind of object that the job's scheduler reads; undefined if the cluster serves none. */
  readonly kind: { readonly apiVersion: string; readonly fields: readonly (keyof GroupSettings)[] } | undefined;
  /** The job's own groups, of any kind. */
  readonly existing: readonly { readonly apiVersion: string; readonly group: GroupSpec }[];
};
