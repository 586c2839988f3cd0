/** A reference as the API server writes it. */
export type OwnerReference = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
};

/** A pod or a service, as far as whose it is is concerned. A cache may keep less than the whole object, but not less than this. */
export type Member = {
  readonly metadata?: {
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly OwnerReference[];
    /** Text in objects of informers, whatever client-node's types say. */
    readonly creationTimestamp?: Date | string;
    readonly deletionTimestamp?: Date | string;
  };
};

/** A member that runs something. */
export type PodMember = Member & {
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
};

/** The one owner that manages the member; undefined for an orphan. */
export function controllerOf(member: Member): OwnerReference | undefined {
  return member.metadata?.ownerReferences?.find((reference) => reference.controller === true);
}

export function isDeleting(object: Member): boolean {
  return object.metadata?.deletionTimestamp !== undefined;
}

export function labelsOf(member: Member): Readonly<Record<string, string>> {
  return member.metadata?.labels ?? {};
}

/** `namespace/name`, for messages. */
export function titleOf(member: Member): string {
  return `${member.metadata?.namespace ?? ""}/${member.metadata?.name ?? ""}`;
}
