/** For any change of another lease of this user, or where there is a lease, for that one to be over. */
export type Wait = { readonly user: string; readonly lease: string | undefined };

/** Leases that wait for others, and are looked at again once one of those has changed. */
export type WaitingLeases = {
  /** Undefined: it waits no more. */
  set(id: string, wait: Wait | undefined): void;
  /** Those that the change of a lease may help. A user that is unknown has no record any more. */
  helpedBy(changed: { readonly id: string; readonly user: string | undefined; readonly isOver: boolean }): string[];
};

export function waitingLeases(): WaitingLeases {
  const waiting = new Map<string, Wait>();
  return {
    set: (id, wait) => {
      if (wait === undefined) waiting.delete(id);
      else waiting.set(id, wait);
    },
    helpedBy: ({ id, user, isOver }) =>
      [...waiting].flatMap(([each, wait]) => {
        const helps = wait.lease === undefined ? wait.user === user : wait.lease === id && isOver;
        return helps && each !== id ? [each] : [];
      }),
  };
}
