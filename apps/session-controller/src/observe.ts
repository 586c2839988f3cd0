import { listComponentMachines, listComponentPlaces } from "./domain/component-machines.ts";
import {
  isPublicationMissing,
  isProgressReported,
  needsListing,
  withoutUnlisted,
  type KnownPods,
} from "./domain/decide-listing.ts";
import { rememberRejections } from "@muster/health";
import { listRejectedPods } from "./domain/rejections.ts";
import type { LivePod, SessionPolicy, Snapshot } from "./domain/snapshot.ts";
import type { PodSeen } from "./domain/summarise-components.ts";
import { RESYNC_MS, type SessionRun } from "./run.ts";
import { getText, type SessionDeps } from "./session-deps.ts";

/** Observes the input of a pass: the record, and pods and nodes as watchers publish them. Lists at the API server if the publications are not sufficient. */
export async function observeRun(deps: SessionDeps, policy: SessionPolicy, run: SessionRun): Promise<Snapshot> {
  const { record, reservation, replacements, obstacles } = run;
  // Read the time before the list, so that an expired time limit is decided from a list.
  const nowMs = deps.now();
  // Include reads that were reported during the last write.
  const isReading = run.reading !== undefined || run.read.length > 0;
  const isListDue = deps.monotonicMs() >= run.listPodsAtMs;
  const podsFresh = deps.podsFresh();
  const seen = deps.pods(record);
  const nodes = observeNodes(deps, run, seen, nowMs);
  run.rejections = rememberRejections(run.rejections, listRejectedPods(record, seen), nowMs);
  const knownPods = { nowMs, record, podsFresh, ...nodes, rejections: run.rejections };
  const listed = getRecentList(deps, policy, run, { ...knownPods, pods: seen });
  const livePods = await observeLivePods(deps, run, { ...knownPods, pods: seen, isListDue, listed, isReading });
  const listedPods = (livePods ?? []).map((pod) => pod.seen);
  const rejections = (run.rejections = rememberRejections(run.rejections, listRejectedPods(record, listedPods), nowMs));
  // Read the publications again after the list: a watcher publishes the end of a pod before the pod disappears.
  const newest = livePods === undefined ? seen : deps.pods(record);
  const isReported =
    record.verdict !== undefined && isProgressReported({ ...knownPods, pods: newest, listed: livePods });
  run.isProgressReported = isReported;
  const published = record.verdict === undefined ? newest : [];
  const pods = podsFresh ? published : withoutUnlisted(published, livePods);
  const trouble = run.trouble?.text;
  const heldMs = deps.monotonicMs() - run.takenAtMs;
  const known = { nowMs, heldMs, record, reservation, pods, livePods, isReading, obstacles, ...nodes, rejections };
  return { ...known, isProgressReported: isReported, replacements, trouble };
}

/** Returns the last list of a clean-up. While events report changes, a new list only compensates for a lost event. */
function getRecentList(
  { monotonicMs }: SessionDeps,
  { lookAgainMs }: SessionPolicy,
  { lastList }: SessionRun,
  knownPods: Omit<Parameters<typeof isProgressReported>[0], "listed">,
): KnownPods["listed"] {
  if (lastList === undefined) return undefined;
  const { atMs, pods } = lastList;
  const keptMs = isProgressReported({ ...knownPods, listed: pods }) ? Math.max(RESYNC_MS, lookAgainMs) : lookAgainMs;
  return monotonicMs() - atMs < keptMs ? pods : undefined;
}

type NodesSeen = Pick<Snapshot, "nodesLost" | "nodesBack" | "nodesUnschedulable" | "crowded">;

/** Observes which machines are lost or usable again: current machines of components, their replacements, and their lost machines. */
function observeNodes(
  deps: SessionDeps,
  { record, replacements }: SessionRun,
  pods: readonly PodSeen[],
  nowMs: number,
): NodesSeen {
  const { nodes, lostNodes, sharedNodes, tolerations } = listComponentMachines({ record, replacements });
  const held = record.components.flatMap(({ node }) => (node === "" ? [] : [node]));
  // A cordon does not make the machines of a finished session lost.
  const occupied = new Set(record.verdict === undefined ? pods.map(({ node }) => node) : held);
  const seen = {
    nodesLost: deps.nodesLost(nodes, occupied, tolerations),
    nodesBack: deps.nodesUsable(lostNodes, tolerations),
  };
  // A component that waits for a replacement has no node, but its lost machine may be crowded.
  if (record.verdict !== undefined || !record.spec.components.some(({ shared }) => shared)) return seen;
  return {
    ...seen,
    nodesUnschedulable: deps.nodesLost(sharedNodes, new Set(), tolerations),
    crowded: deps.crowding(record.uid, listComponentPlaces({ record, replacements, pods }), nowMs),
  };
}

async function observeLivePods(
  deps: SessionDeps,
  run: SessionRun,
  knownPods: KnownPods,
): Promise<readonly LivePod[] | undefined> {
  if (!needsListing(knownPods)) {
    if (run.trouble?.of === "list" && !isPublicationMissing(knownPods)) run.trouble = undefined;
    return knownPods.listed;
  }
  try {
    const listed = await deps.listPods(knownPods.record);
    if (run.trouble?.of === "list") run.trouble = undefined;
    const atMs = deps.monotonicMs();
    run.listPodsAtMs = atMs + RESYNC_MS;
    // A list from before the verdict does not show which logs and pods remain.
    run.lastList = knownPods.record.verdict === undefined ? undefined : { atMs, pods: listed };
    return listed;
  } catch (error) {
    run.trouble = { of: "list", text: getText(error) };
    run.failed = true;
    return undefined;
  }
}
