import type { V1Pod } from "@kubernetes/client-node";
import { openInformer, listWatch, loadKube } from "@muster/kube";
import { labels, schedulingGates } from "@muster/proto";
import type { PresentWork } from "./domain/decide-leftovers.ts";
import { type PodSeen, getWorkOfOwner } from "./domain/observed.ts";

/** Observes every pod of Muster, past the injected faults. */
export type PodObserver = AsyncDisposable & {
  /** Every pod that ever existed, in the order of their first observation. */
  readonly history: () => readonly PodSeen[];
  /** The pods that exist now. */
  readonly present: () => readonly (PresentWork & Pick<PodSeen, "uid" | "component" | "node">)[];
};

type Kept = Pick<PodSeen, "name" | "uid" | "kind" | "work" | "component" | "confirmed" | "isShared" | "node"> & {
  readonly phase: string;
  readonly deleting: boolean;
};

type Life = { -readonly [Key in keyof PodSeen]: PodSeen[Key] extends readonly string[] ? string[] : PodSeen[Key] };

export async function startPodObserver(kubeconfig: string): Promise<PodObserver> {
  const lives = new Map<string, Life>();
  let place = 0;
  const pods = openInformer({
    source: listWatch<V1Pod>(loadKube(kubeconfig), "/api/v1/pods", { labelSelector: labels.owner }),
    project: keep,
    timing: { minBackoffMs: 50, maxBackoffMs: 500 },
  });
  pods.onChange(({ before, after }) => {
    place += 1;
    if (before !== undefined && before.uid !== after?.uid) end(lives.get(before.uid), place, true);
    if (after === undefined) return;
    const life = lives.get(after.uid) ?? begin(after);
    lives.set(after.uid, life);
    for (const state of [after.phase, ...(after.deleting ? ["deleting"] : [])]) {
      if (!life.states.includes(state)) life.states.push(state);
    }
    life.confirmed ||= after.confirmed;
    if (after.node !== "" && life.boundPlace === undefined) {
      life.node = after.node;
      life.boundPlace = place;
    }
    if (after.phase === "Succeeded" || after.phase === "Failed") end(life, place, false);
  });
  await pods.synced;
  return {
    history: () => [...lives.values()],
    present: () => pods.list(),
    [Symbol.asyncDispose]: () => pods[Symbol.asyncDispose](),
  };
}

function keep(pod: V1Pod): Kept {
  const { metadata, spec, status } = pod;
  const own = metadata?.labels ?? {};
  const kind = own[labels.ownerKind] === "job" ? "job" : "session";
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    kind,
    work: getWorkOfOwner(own[labels.owner] ?? ""),
    component: own[labels.component] ?? "",
    confirmed: !(spec?.schedulingGates ?? []).some((gate) => gate.name === schedulingGates.unconfirmed),
    isShared: own[labels.exclusive] === "false",
    node: spec?.nodeName ?? "",
    phase: status?.phase ?? "Pending",
    deleting: metadata?.deletionTimestamp !== undefined,
  };
}

function begin({ name, uid, kind, work, component, confirmed, isShared }: Kept): Life {
  return {
    name,
    uid,
    kind,
    work,
    component,
    firstSeenMs: Date.now(),
    confirmed,
    isShared: isShared === true,
    node: "",
    boundPlace: undefined,
    endPlace: undefined,
    goneMs: undefined,
    states: [],
  };
}

function end(life: Life | undefined, place: number, isGone: boolean): void {
  if (life === undefined) return;
  life.endPlace ??= place;
  if (isGone) life.goneMs = Date.now();
}
