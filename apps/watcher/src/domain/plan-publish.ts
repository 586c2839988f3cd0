/** The fields of every published state. */
export type PublishedFields = {
  readonly uid: string;
  /** Kubernetes' resource version as a number: of two states of one object, the higher one is newer. */
  readonly resourceVersion: number;
  /** True once the object is removed from the API server; final for this uid. */
  readonly deleted: boolean;
  /** Time in ms since 1970 at which a watcher observed the object, by that watcher's clock. */
  readonly observedAtMs: number;
};

export type DesiredState<State> = { readonly key: string; readonly state: State; readonly createdAtMs: number };

export type PublishedState<State> = { readonly key: string; readonly state: State; readonly revision: number };

/** The last observation of a removed object whose end may still have to be published. */
type Removed<State> = { readonly key: string; readonly state: State };

/** Progress of an informer in observing the cluster. */
export type InformerProgress = {
  /** The resource version up to which the informer has observed all changes. */
  readonly version: number;
  /** Time in ms since 1970 at which the informer's last complete list was requested. */
  readonly listedAtMs: number;
};

export type PublishSnapshot<State> = {
  readonly nowMs: number;
  readonly sight: InformerProgress;
  readonly desired: readonly DesiredState<State>[];
  /** Removed objects; no removed object is desired. */
  readonly removed?: readonly Removed<State>[];
  readonly published: readonly PublishedState<State>[];
};

type PublishPolicy = {
  /** Time for which the state of a removed object is kept for late readers. */
  readonly keepDeletedMs: number;
};

/** The rules of one kind of object. */
export type PublishRules<State> = {
  /** Returns the state that replaces the published one. `newer`: the desired state was observed later than the published state. */
  merge(both: { readonly published: State; readonly desired: State; readonly newer: boolean }): State;
  /** Returns the final state of a removed object, from its last known state. */
  gone(last: State): State;
  /** Returns whether both states are equal apart from versions and times. */
  same(one: State, other: State): boolean;
};

export type PublishStep<State> =
  | {
      readonly kind: "put";
      readonly key: string;
      readonly state: State;
      /** Undefined: the key must not exist. */
      readonly expectedRevision: number | undefined;
      readonly because: "new" | "changed" | "replaced" | "gone";
    }
  | {
      readonly kind: "forget";
      readonly key: string;
      readonly expectedRevision: number;
      readonly because: "kept-long-enough";
    };

/** A list counts as later than another watcher's observation if it was requested this much later, whatever the clocks. */
const CLOCK_DIFFERENCE_MS = 60_000;

/**
 * Plans the writes that make the published states equal to the observed ones.
 *
 * Several watchers publish concurrently without a leader, so each watcher must detect that it is behind. A state is replaced only by a state that was observed
 * later. A published object that is not observed is declared gone only by a watcher that has observed more than the published state. Resource versions order
 * observations. They restart when a cluster is rebuilt or restored, so an object created, or a list requested, after the published observation is later, too.
 *
 * A removed object is published with its last observation before its successor of the same name, because a reader may wait for its end.
 */
export function planPublish<State extends PublishedFields>(
  snapshot: PublishSnapshot<State>,
  policy: PublishPolicy,
  rules: PublishRules<State>,
): PublishStep<State>[] {
  const desired = byKey(snapshot.desired);
  const published = byKey(snapshot.published);
  const removed = Map.groupBy(snapshot.removed ?? [], ({ key }) => key);
  const keys = [...new Set([...desired.keys(), ...removed.keys(), ...published.keys()])].sort();
  return keys.flatMap((key) => {
    const here = { desired: desired.get(key), removed: removed.get(key) ?? [], published: published.get(key) };
    const step = planKey(here, snapshot, policy, rules);
    return step === undefined ? [] : [step];
  });
}

type Known<State> = {
  readonly desired: DesiredState<State> | undefined;
  readonly removed: readonly Removed<State>[];
  readonly published: PublishedState<State> | undefined;
};

function planKey<State extends PublishedFields>(
  { desired, removed, published }: Known<State>,
  { nowMs, sight }: PublishSnapshot<State>,
  policy: PublishPolicy,
  rules: PublishRules<State>,
): PublishStep<State> | undefined {
  const put = (because: "new" | "changed" | "replaced" | "gone", state: State): PublishStep<State> => ({
    kind: "put",
    key: published?.key ?? desired?.key ?? removed[0]?.key ?? "",
    state: { ...state, observedAtMs: nowMs },
    expectedRevision: published?.revision,
    because,
  });
  const unpublished = removed
    .map((each) => each.state)
    .sort((one, other) => one.resourceVersion - other.resourceVersion)
    .find((each) => !isEndPublished(each, published?.state));
  if (unpublished !== undefined) return put("gone", rules.gone(lastOf(unpublished, published?.state, rules)));
  if (published === undefined) return desired === undefined ? undefined : put("new", desired.state);
  const { key, state, revision } = published;
  if (desired !== undefined) {
    const next = rules.merge({ published: state, desired: desired.state, newer: isNewer(desired, state, sight) });
    if (!rules.same(next, state)) return put(next.uid === state.uid ? "changed" : "replaced", next);
  }
  if (state.deleted) {
    if (nowMs < state.observedAtMs + policy.keepDeletedMs) return undefined;
    return { kind: "forget", key, expectedRevision: revision, because: "kept-long-enough" };
  }
  if (desired === undefined && isObservedLater(sight, state.resourceVersion, state.observedAtMs)) {
    return put("gone", rules.gone(state));
  }
  return undefined;
}

/** Returns whether the published state shows the removal of the object, or belongs to a later object of that name. */
export function isEndPublished(last: PublishedFields, published: PublishedFields | undefined): boolean {
  if (published === undefined) return false;
  return published.uid === last.uid ? published.deleted : published.resourceVersion >= last.resourceVersion;
}

/** Returns the last known state of an object, observed or published. */
function lastOf<State extends PublishedFields>(
  last: State,
  published: State | undefined,
  rules: PublishRules<State>,
): State {
  if (published?.uid !== last.uid) return last;
  return rules.merge({ published, desired: last, newer: last.resourceVersion >= published.resourceVersion });
}

function isNewer<State extends PublishedFields>(
  { state, createdAtMs }: DesiredState<State>,
  published: State,
  sight: InformerProgress,
): boolean {
  const listedLater = sight.listedAtMs > published.observedAtMs + CLOCK_DIFFERENCE_MS;
  if (state.uid === published.uid) {
    return !published.deleted && (state.resourceVersion >= published.resourceVersion || listedLater);
  }
  return state.resourceVersion > published.resourceVersion || createdAtMs > published.observedAtMs || listedLater;
}

/** Returns whether the informer has observed the cluster after this observation: an object that it does not list is gone. */
export function isObservedLater(sight: InformerProgress, resourceVersion: number, observedAtMs: number): boolean {
  return sight.version >= resourceVersion || sight.listedAtMs > observedAtMs + CLOCK_DIFFERENCE_MS;
}

/** Returns the time in ms since 1970 at which the first removed state may be deleted. */
export function nextForgetMs<State extends PublishedFields>(
  published: readonly PublishedState<State>[],
  policy: PublishPolicy,
): number {
  const times = published.filter(({ state }) => state.deleted).map(({ state }) => state.observedAtMs);
  return Math.min(...times) + policy.keepDeletedMs;
}

function byKey<Row extends { readonly key: string }>(rows: readonly Row[]): ReadonlyMap<string, Row> {
  return new Map(rows.map((row) => [row.key, row]));
}
