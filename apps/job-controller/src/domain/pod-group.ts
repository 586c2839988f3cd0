/** What a job asks of a scheduler that has groups of its own; what is absent is left to it. */
export type GroupSettings = {
  readonly queue?: string;
  readonly priorityClassName?: string;
  readonly minResources?: Readonly<Record<string, string | number>>;
  readonly scheduleTimeoutSeconds?: number;
};

/** The scheduler that places all pods of a job, and what it is asked. */
export type GroupWish = { readonly scheduler: string; readonly settings: GroupSettings };

/** A scheduler's object for a gang, as it should be. */
export type GroupWanted = GroupSettings & { readonly minMember: number };

/** What the cluster has for groups, and what of it is the job's. */
export type GroupsSeen = {
  /** The kind of object that the job's scheduler looks at; undefined: the cluster serves none. */
  readonly kind: { readonly apiVersion: string; readonly fields: readonly (keyof GroupSettings)[] } | undefined;
  /** The job's own groups, of whatever kind. */
  readonly there: readonly { readonly apiVersion: string; readonly group: GroupWanted }[];
};
