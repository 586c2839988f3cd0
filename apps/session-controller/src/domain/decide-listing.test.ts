import { expect, it } from "vitest";
import { livePod, podSeen, provisioning, running, START_MS } from "../../test/samples.ts";
import { needsListing, withoutUnlisted, type PodNews } from "./decide-listing.ts";
import type { PodSeen } from "./summarise-components.ts";

const verdict = { kind: "DONE", atMs: START_MS, description: "well", reason: "" } as const;
const SEEN = ["driver", "client-0", "server-0"].map((name) => podSeen(name));
const OVER_MS = START_MS + 900_001;
const pods = SEEN;
const LOST = new Map([["node-server-0", "gone"]] as const);

function losing(podUid: string): PodNews["record"] {
  const base = provisioning([]);
  return {
    ...base,
    components: base.components.map((component) =>
      component.name === "server-0" ? { ...component, node: "", lostAtMs: START_MS, podUid } : component,
    ),
  };
}

it.each<[string, boolean, Partial<PodNews>]>([
  ["not while every pod is published", false, { pods }],
  ["when nothing was published of a pod for a while", true, { pods: SEEN.slice(1) }],
  ["not yet when nothing was published of a pod that was just made", false, { pods: [], isListDue: false }],
  ["now and then while the watchers are silent", true, { pods, podsFresh: false }],
  ["not more often than that", false, { pods, podsFresh: false, isListDue: false }],
  ["not for pods that were never made", false, { record: provisioning([]), pods: [], podsFresh: false }],
  ["when the session's time is over, however fresh the news", true, { pods, nowMs: OVER_MS, isListDue: false }],
  ["while the session is cleaned up", true, { pods, record: running({ verdict }), isListDue: false }],
  ["when a machine is lost before its component started", true, { record: provisioning([]), nodesLost: LOST }],
  ["not for the lost machine of a component that started", false, { pods, nodesLost: LOST }],
  ["while the pod of a component goes that lost its machine", true, { record: losing("uid-server-0") }],
  ["not once it is gone", false, { record: losing("") }],
  ["not once its pods are gone", false, { record: running({ verdict, podsDeleted: true }) }],
  ["not once the session is finished", false, { record: running({ verdict, finishedAtMs: START_MS + 9 }) }],
])("the API server lists the pods: %s", (_title, listed, more) => {
  const news = {
    nowMs: START_MS + 3,
    record: running(),
    pods: [],
    podsFresh: true,
    isListDue: true,
    nodesLost: new Map(),
    ...more,
  } satisfies PodNews;
  expect(needsListing(news)).toBe(listed);
});

it("believes silent watchers that a pod has ended, and not that one runs which is not listed", () => {
  const [driver, client, server] = SEEN as [PodSeen, PodSeen, PodSeen];
  const ended: PodSeen = { ...client, health: "SUCCEEDED" };
  expect(withoutUnlisted([driver, ended, server], [livePod(driver)])).toEqual([driver, ended]);
  expect(withoutUnlisted([driver, ended, server], undefined)).toEqual([driver, ended, server]);
});
