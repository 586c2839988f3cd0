/** A pod that the kubelet of its node has rejected before a container started; see `isRejection`. */
export type RejectedPod = {
  readonly uid: string;
  /** The component, member or place of its owner for which it was created. */
  readonly component: string;
  readonly node: string;
  /** Reason and message of the rejection. */
  readonly text: string;
};

/** A machine that has rejected the pod of a component. */
export type Rejection = {
  readonly component: string;
  readonly node: string;
  readonly podUid: string;
  /** Reason and message of the rejection. */
  readonly text: string;
  /** The machine is lost to the component until this time; then a pod may try it again. */
  readonly untilMs: number;
};

/** Within this time, a full node usually frees some room, such as that of a terminating pod. */
const LOST_MS = 30_000;
/** A rejection counts as recent for this time afterwards. */
const RECENT_MS = 10 * 60_000;
/** Owners whose rejections are remembered. The oldest ones are forgotten first. */
const MAX_OWNERS = 10_000;

/** Adds the rejections of these pods to the known ones, and drops old ones. A pod counts once, from its first observation, while it exists. */
export function rememberRejections(
  known: readonly Rejection[],
  rejected: readonly RejectedPod[],
  nowMs: number,
): readonly Rejection[] {
  const isKnown = new Set(known.map(({ podUid }) => podUid));
  const exists = new Set(rejected.map(({ uid }) => uid));
  const kept = known.filter((each) => isRecent(each, nowMs) || exists.has(each.podUid));
  const found = rejected
    .filter(({ uid }) => !isKnown.has(uid))
    .map(({ uid, component, node, text }): Rejection => {
      return { component, node, podUid: uid, text, untilMs: nowMs + LOST_MS };
    });
  return [...kept, ...found];
}

function isRecent({ untilMs }: Rejection, nowMs: number): boolean {
  return nowMs < untilMs + RECENT_MS;
}

/** Finds the last remembered rejection of a pod of the component by this node. */
export function findRejection(
  rejections: readonly Rejection[] | undefined,
  component: string,
  node: string,
): Rejection | undefined {
  return rejections?.findLast((each) => each.component === component && each.node === node);
}

/** Whether the machine is lost to the component, because it has just rejected a pod of the component. */
export function isRejecting(
  rejections: readonly Rejection[] | undefined,
  place: { readonly component: string; readonly node: string },
  nowMs: number,
): boolean {
  return nowMs < (findRejection(rejections, place.component, place.node)?.untilMs ?? 0);
}

/** Returns the nodes that have recently rejected pods of components that `isAsked` names, in alphabetical order. */
export function listRejectingNodes(
  rejections: readonly Rejection[] | undefined,
  isAsked: (component: string) => boolean,
  nowMs: number,
): readonly string[] {
  const recent = (rejections ?? []).filter((each) => isAsked(each.component) && isRecent(each, nowMs));
  return [...new Set(recent.map(({ node }) => node))].sort();
}

/** Remembers the rejections of the owner with this uid, and returns those that it knows. */
export type RejectionMemory = (uid: string, rejected: readonly RejectedPod[], nowMs: number) => readonly Rejection[];

export function makeRejectionMemory(): RejectionMemory {
  const memories = new Map<string, readonly Rejection[]>();
  return (uid, rejected, nowMs) => {
    const before = memories.get(uid);
    if (before === undefined && rejected.length === 0) return [];
    const rejections = rememberRejections(before ?? [], rejected, nowMs);
    if (rejections.length === 0) memories.delete(uid);
    else memories.set(uid, rejections);
    const [oldest] = memories.keys();
    if (memories.size > MAX_OWNERS && oldest !== undefined) memories.delete(oldest);
    return rejections;
  };
}
