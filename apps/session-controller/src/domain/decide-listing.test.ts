import { expect, it } from "vitest";
import { makeLivePod, makePodSeen, makeProvisioning, makeRunning, START_MS } from "../../test/samples.ts";
import { isProgressReported, needsListing, withoutUnlisted, type KnownPods } from "./decide-listing.ts";
import type { PodSeen } from "./summarise-components.ts";

const verdict = { kind: "DONE", atMs: START_MS, description: "well", reason: "" } as const;
const SEEN = ["driver", "client-0", "server-0"].map((name) => makePodSeen(name));
const OVER_MS = START_MS + 900_001;
const pods = SEEN;
const LISTED = SEEN.map((pod) => makeLivePod(pod));
const DELETING = SEEN.map((pod) => makeLivePod(pod, { deleting: true }));
const LOST = new Map([["node-server-0", "gone"]] as const);

function losing(podUid: string): KnownPods["record"] {
  const base = makeProvisioning([]);
  return {
    ...base,
    components: base.components.map((component) =>
      component.name === "server-0" ? { ...component, node: "", lostAtMs: START_MS, podUid } : component,
    ),
  };
}

it.each<[string, boolean, Partial<KnownPods>]>([
  ["not while every pod is published", false, { pods }],
  ["when nothing was published of a pod for a while", true, { pods: SEEN.slice(1) }],
  ["not yet when nothing was published of a pod that was just made", false, { pods: [], isListDue: false }],
  ["now and then while the watchers are silent", true, { pods, podsFresh: false }],
  ["not more often than that", false, { pods, podsFresh: false, isListDue: false }],
  ["not for pods that were never made", false, { record: makeProvisioning([]), pods: [], podsFresh: false }],
  [
    "when the session's time is over, however fresh the known pods are",
    true,
    { pods, nowMs: OVER_MS, isListDue: false },
  ],
  ["while the session is cleaned up", true, { pods, record: makeRunning({ verdict }), isListDue: false }],
  [
    "not in a clean-up that waits for its deleted pods, as long as a watcher sees one",
    false,
    { pods, record: makeRunning({ verdict }), listed: DELETING },
  ],
  [
    "once the watchers have seen the last pod go",
    true,
    { pods: SEEN.map((pod) => ({ ...pod, deleted: true })), record: makeRunning({ verdict }), listed: DELETING },
  ],
  [
    "in such a clean-up while the watchers are silent",
    true,
    { pods, podsFresh: false, record: makeRunning({ verdict }), listed: DELETING },
  ],
  [
    "not before the pods of a young list are deleted",
    false,
    { pods, podsFresh: false, record: makeRunning({ verdict }), listed: [...DELETING.slice(1), ...LISTED.slice(0, 1)] },
  ],
  ["to prove that no pod is left", true, { pods, record: makeRunning({ verdict }), listed: [] }],
  [
    "not while the clean-up reads logs",
    false,
    { pods, record: makeRunning({ verdict }), listed: LISTED, isReading: true },
  ],
  ["when a machine is lost before its component started", true, { record: makeProvisioning([]), nodesLost: LOST }],
  ["not for the lost machine of a component that started", false, { pods, nodesLost: LOST }],
  ["while the pod of a component goes that lost its machine", true, { record: losing("uid-server-0") }],
  ["not once it is gone", false, { record: losing("") }],
  ["not once its pods are gone", false, { record: makeRunning({ verdict, podsDeleted: true }) }],
  ["not once the session is finished", false, { record: makeRunning({ verdict, finishedAtMs: START_MS + 9 }) }],
])("the API server lists the pods: %s", (_title, listed, more) => {
  const known = {
    nowMs: START_MS + 3,
    listed: undefined,
    isReading: false,
    record: makeRunning(),
    pods: [],
    podsFresh: true,
    isListDue: true,
    nodesLost: new Map(),
    ...more,
  } satisfies KnownPods;
  expect(needsListing(known)).toBe(listed);
});

const ENDED = SEEN.map((pod) => ({ ...pod, health: "SUCCEEDED" }) as const);
const OVERDUE = makeLivePod(makePodSeen("server-0"), { deleting: true, overdueOn: { state: "gone" } });

it.each<[string, boolean, Partial<KnownPods>]>([
  ["while a deleted pod has not ended", true, {}],
  ["while logs are read, without publications", true, { listed: LISTED, pods: [] }],
  ["once the last pod has ended, so that its machine is released early", false, { pods: ENDED }],
  ["once the ended pods hold no machine", true, { pods: ENDED, record: makeRunning({ verdict, released: true }) }],
  ["of a pod that the watchers have seen go", false, { pods: SEEN.map((pod) => ({ ...pod, deleted: true })) }],
  ["of other pods than the listed ones", false, { pods: SEEN.map((pod) => ({ ...pod, uid: "later" })) }],
  ["while the watchers are silent", false, { podsFresh: false }],
  ["while a machine is lost", false, { nodesLost: LOST }],
  ["while a pod is overdue", false, { listed: [...DELETING.slice(1), OVERDUE] }],
  ["without a list", false, { listed: undefined }],
])("an event reports the progress of a clean-up: %s", (_title, reported, more) => {
  const record = makeRunning({ verdict });
  const known = { nowMs: START_MS + 3, record, pods: SEEN, podsFresh: true, nodesLost: new Map(), listed: DELETING };
  expect(isProgressReported({ ...known, ...more })).toBe(reported);
});

it("trusts silent watchers that a pod has ended, but not that an unlisted pod still runs", () => {
  const [driver, client, server] = SEEN as [PodSeen, PodSeen, PodSeen];
  const ended: PodSeen = { ...client, health: "SUCCEEDED" };
  expect(withoutUnlisted([driver, ended, server], [makeLivePod(driver)])).toEqual([driver, ended]);
  expect(withoutUnlisted([driver, ended, server], undefined)).toEqual([driver, ended, server]);
});
