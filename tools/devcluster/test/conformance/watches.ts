import { beforeAll, describe, expect, it } from "vitest";
import { at, getList, getText } from "../../src/apiserver/json.ts";
import { type Api, configMap, type Event, nameIn, pod, getVersion } from "./api.ts";

/** Watches: their events, the order of these, and their end. */
export function describeWatches(api: () => Api): void {
  let maps: string;
  let pods: string;
  beforeAll(async () => {
    const namespace = await api().namespace();
    maps = `/api/v1/namespaces/${namespace}/configmaps`;
    pods = `/api/v1/namespaces/${namespace}/pods`;
  });
  const now = async (): Promise<string> => getVersion((await api().get(maps)).body);
  const summaries = (events: readonly Event[]): string[] =>
    events.map(({ type, object }) => `${type} ${nameIn(object)}`);

  it("sends all changes after a version, in order, with whole objects", async () => {
    const since = await now();
    const made = await api().post(maps, configMap("changed"));
    const changed = await api().put(`${maps}/changed`, configMap("changed", { data: { key: "changed" } }));
    await api().delete(`${maps}/changed`);
    await using watch = await api().watch(`${maps}?watch=true&resourceVersion=${since}`);
    expect(watch.code).toBe(200);
    const events = await watch.take(3);
    expect(summaries(events)).toEqual(["ADDED changed", "MODIFIED changed", "DELETED changed"]);
    const [added, modified, deleted] = events;
    expect(added?.object).toEqual(made.body);
    expect(modified?.object).toEqual(changed.body);
    expect(getText(deleted?.object, "data", "key")).toBe("changed");
    expect(Number(getVersion(deleted?.object ?? {}))).toBeGreaterThan(Number(getVersion(changed.body)));
  });

  it("sends changes immediately", async () => {
    await using watch = await api().watch(`${maps}?watch=1&resourceVersion=${await now()}`);
    await api().post(maps, configMap("live"));
    expect(summaries(await watch.take(1))).toEqual(["ADDED live"]);
    await api().delete(`${maps}/live`);
    expect(summaries(await watch.take(1))).toEqual(["DELETED live"]);
  });

  it.each(["", "&resourceVersion=0"])(
    "begins with every existing object if no version is named (%s)",
    async (version) => {
      const place = `/api/v1/namespaces/${await api().namespace()}/configmaps`;
      await api().post(place, configMap("a"));
      await api().post(place, configMap("b"));
      await using watch = await api().watch(`${place}?watch=true${version}`);
      expect(summaries(await watch.take(2)).sort()).toEqual(["ADDED a", "ADDED b"]);
      await api().post(place, configMap("c"));
      expect(summaries(await watch.take(1))).toEqual(["ADDED c"]);
    },
  );

  it("marks the end of the initial events on request", async () => {
    const place = `/api/v1/namespaces/${await api().namespace()}/configmaps`;
    await api().post(place, configMap("a"));
    const query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    await using watch = await api().watch(`${place}?${query}`);
    const [added, bookmark] = await watch.take(2);
    expect([added?.type, bookmark?.type]).toEqual(["ADDED", "BOOKMARK"]);
    expect(bookmark?.object).toMatchObject({
      kind: "ConfigMap",
      apiVersion: "v1",
      metadata: { annotations: { "k8s.io/initial-events-end": "true" } },
    });
    expect(Number(getVersion(bookmark?.object ?? {}))).toBeGreaterThanOrEqual(Number(getVersion(added?.object ?? {})));
    await api().post(place, configMap("b"));
    expect(summaries(await watch.take(1))).toEqual(["ADDED b"]);
  });

  it("sends no initial events with sendInitialEvents=false", async () => {
    const place = `/api/v1/namespaces/${await api().namespace()}/configmaps`;
    await api().post(place, configMap("a"));
    await using watch = await api().watch(
      `${place}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan`,
    );
    await api().post(place, configMap("b"));
    expect(summaries(await watch.take(1))).toEqual(["ADDED b"]);
  });

  it("sends an error event when the initial events must be newer than any revision", async () => {
    const query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999";
    await using watch = await api().watch(`${maps}?${query}`);
    const [refused] = await watch.take(1);
    expect(refused).toMatchObject({
      type: "ERROR",
      object: { kind: "Status", code: 504, reason: "Timeout", details: { retryAfterSeconds: 1 } },
    });
    expect(getText(refused?.object, "message")).toMatch(
      /^Timeout: Too large resource version: 999999999, current: \d+$/,
    );
  });

  it.each([
    ["sendInitialEvents=true", ["sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"]],
    [
      "resourceVersionMatch=NotOlderThan",
      ["resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"],
    ],
    [
      "resourceVersionMatch=Exact",
      [
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        'Unsupported value: "Exact": supported values: "NotOlderThan"',
      ],
    ],
    ["continue=abc", ["resourceVersionMatch is forbidden when continue is provided"]],
  ])("refuses a watch with %s alone", async (query, problems) => {
    const refused = await api().get(`${maps}?watch=true&${query}`);
    expect(refused.code).toBe(422);
    const messages = getList(refused.body, "details", "causes").map((cause) => getText(cause, "message"));
    expect(messages).toEqual(problems.map((problem) => expect.stringContaining(problem) as string));
  });

  it("refuses a version that is no number", async () => {
    const refused = await api().get(`${maps}?watch=true&resourceVersion=abc`);
    expect(refused.code).toBe(500);
    expect(getText(refused.body, "message")).toBe(
      'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax',
    );
  });

  it("sends a bookmark before its time ends, on request", async () => {
    const since = await now();
    const query = `watch=true&timeoutSeconds=5&resourceVersion=${since}`;
    await using marked = await api().watch(`${maps}?${query}&allowWatchBookmarks=true`);
    await using plain = await api().watch(`${maps}?${query}`);
    const made = await api().post(maps, configMap("before-the-bookmark"));
    const [added, ...bookmarks] = await marked.rest();
    expect(summaries(added === undefined ? [] : [added])).toEqual(["ADDED before-the-bookmark"]);
    expect(bookmarks.length).toBeGreaterThan(0);
    for (const { type, object } of bookmarks) {
      expect(type).toBe("BOOKMARK");
      expect(object).toMatchObject({ kind: "ConfigMap", apiVersion: "v1" });
      expect(Number(getVersion(object))).toBeGreaterThanOrEqual(Number(getVersion(made.body)));
    }
    expect(summaries(await plain.rest())).toEqual(["ADDED before-the-bookmark"]);
  });

  it("waits for future versions, and is silent about earlier ones", async () => {
    const made = await api().post(maps, configMap("early"));
    const far = String(Number(getVersion(made.body)) + 2);
    await using watch = await api().watch(`${maps}?watch=true&resourceVersion=${far}&timeoutSeconds=1`);
    expect(watch.code).toBe(200);
    expect((await watch.rest()).filter(({ type }) => type !== "ERROR")).toEqual([]);
  });

  it("ends by itself after the requested time", async () => {
    await using watch = await api().watch(`${maps}?watch=true&timeoutSeconds=1&resourceVersion=${await now()}`);
    expect(await watch.rest()).toEqual([]);
  });

  it("answers a version from before its start with 410 or all changes since", async () => {
    await using watch = await api().watch(`/api/v1/namespaces?watch=true&resourceVersion=1`);
    const [first] = await watch.take(1);
    expect(watch.code).toBe(200);
    expect(["ERROR", "ADDED"]).toContain(first?.type);
    if (first?.type === "ERROR") expect(first.object).toMatchObject({ kind: "Status", code: 410, reason: "Expired" });
  });

  it("shows objects that start to match a selector as added, and those that stop as deleted", async () => {
    const since = await now();
    const write = (app: string, step: string): Promise<unknown> =>
      api().patch(`${maps}/moving`, "merge", { metadata: { labels: { app } }, data: { step } });
    await api().post(maps, configMap("moving"));
    await write("in", "1");
    await write("in", "2");
    await write("out", "3");
    await api().delete(`${maps}/moving`);
    await using watch = await api().watch(
      `${maps}?watch=true&labelSelector=app%3Din&resourceVersion=${since}&timeoutSeconds=1`,
    );
    const events = await watch.rest();
    expect(summaries(events)).toEqual(["ADDED moving", "MODIFIED moving", "DELETED moving"]);
    // The last state that the watcher could see, with the version of the change that took it away.
    expect(getText(events[2]?.object, "data", "step")).toBe("2");
    expect(Number(getVersion(events[2]?.object ?? {}))).toBeGreaterThan(Number(getVersion(events[1]?.object ?? {})));
  });

  it("follows the pods of one node", async () => {
    await using watch = await api().watch(`${pods}?watch=true&fieldSelector=spec.nodeName%3Dwatched`);
    await api().post(pods, pod("elsewhere", { spec: { nodeName: "other" } }));
    await api().post(pods, pod("to-bind"));
    await api().post(`${pods}/to-bind/binding`, {
      metadata: { name: "to-bind" },
      target: { kind: "Node", name: "watched" },
    });
    expect(summaries(await watch.take(1))).toEqual(["ADDED to-bind"]);
    await api().delete(`${pods}/to-bind`, { gracePeriodSeconds: 0 });
    expect(summaries(await watch.take(2))).toEqual(["MODIFIED to-bind", "DELETED to-bind"]);
  });

  it("observes how a status changes its fields and labels", async () => {
    const place = `/api/v1/namespaces/${await api().namespace()}/pods`;
    const since = await now();
    await api().post(place, pod("mover", { labels: { app: "in" } }));
    const phase = (value: string): Promise<unknown> =>
      api().patch(`${place}/mover/status`, "merge", { status: { phase: value } });
    const label = (app: string): Promise<unknown> =>
      api().patch(`${place}/mover`, "merge", { metadata: { labels: { app } } });
    await phase("Running");
    await label("out");
    await label("in");
    await phase("Succeeded");
    await api().delete(`${place}/mover`);
    const selectors = "fieldSelector=status.phase%3DRunning&labelSelector=app%3Din";
    await using watch = await api().watch(`${place}?watch=true&${selectors}&resourceVersion=${since}&timeoutSeconds=1`);
    const events = await watch.rest();
    expect(summaries(events)).toEqual(["ADDED mover", "DELETED mover", "ADDED mover", "DELETED mover"]);
    const versions = events.map(({ object }) => Number(getVersion(object)));
    expect(versions).toEqual(versions.toSorted((a, b) => a - b));
  });

  it("follows one object by its name", async () => {
    await using watch = await api().watch(
      `${maps}?watch=true&fieldSelector=metadata.name%3Dmine&resourceVersion=${await now()}`,
    );
    await api().post(maps, configMap("not-mine"));
    await api().post(maps, configMap("mine"));
    expect(summaries(await watch.take(1))).toEqual(["ADDED mine"]);
  });

  it("counts one version over all resources", async () => {
    const map = await api().post(maps, configMap("counted"));
    const made = await api().post(pods, pod("counted"));
    expect(Number(getVersion(made.body))).toBeGreaterThan(Number(getVersion(map.body)));
    await using watch = await api().watch(`${pods}?watch=true&resourceVersion=${getVersion(map.body)}`);
    expect(summaries(await watch.take(1))).toEqual(["ADDED counted"]);
  });

  describe("as tables", () => {
    it("gives the columns with the first event only", async () => {
      const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
      await using watch = await api().watch(`${maps}?watch=true&resourceVersion=${await now()}`, accept);
      await api().post(maps, configMap("row-1"));
      await api().post(maps, configMap("row-2"));
      const [first, second] = await watch.take(2);
      expect(first?.object).toMatchObject({
        kind: "Table",
        columnDefinitions: [{ name: "Name" }, { name: "Data" }, { name: "Age" }],
      });
      expect(at(second?.object, "columnDefinitions") ?? null).toBeNull();
      expect(second?.object).toMatchObject({ rows: [{ object: { metadata: { name: "row-2" } } }] });
      expect(getList(getList(second?.object, "rows")[0], "cells").slice(0, 2)).toEqual(["row-2", 1]);
    });
  });
}
