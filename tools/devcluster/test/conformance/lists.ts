import { beforeAll, describe, expect, it } from "vitest";
import { at, isObject, getList, findNumber, getText } from "../../src/apiserver/json.ts";
import { type Api, configMap, listNames, pod, getVersion } from "./api.ts";

/** Lists, pages and selectors. */
export function describeLists(api: () => Api): void {
  let namespace: string;
  let maps: string;
  let pods: string;
  beforeAll(async () => {
    namespace = await api().namespace();
    maps = `/api/v1/namespaces/${namespace}/configmaps`;
    pods = `/api/v1/namespaces/${namespace}/pods`;
    const labels = [{ app: "web", tier: "1" }, { app: "web", tier: "2" }, { app: "db" }, {}];
    for (const [index, labelsOf] of labels.entries())
      await api().post(maps, configMap(`map-${index}`, { metadata: { labels: labelsOf } }));
    await api().post(pods, pod("on-a", { spec: { nodeName: "node-a" } }));
    await api().post(pods, pod("on-b", { spec: { nodeName: "node-b" } }));
    await api().post(pods, pod("nowhere"));
  });
  const list = async (path: string, query: Record<string, string>): Promise<string[]> => {
    const answer = await api().get(`${path}?${new URLSearchParams(query).toString()}`);
    expect(answer.code, answer.text).toBe(200);
    return listNames(answer.body);
  };

  it("lists in the order of names, with the version of the moment, and without repeating the kind", async () => {
    const answer = await api().get(maps);
    expect(answer.body).toMatchObject({ kind: "ConfigMapList", apiVersion: "v1" });
    expect(listNames(answer.body)).toEqual(["map-0", "map-1", "map-2", "map-3"]);
    const versions = getList(answer.body, "items").map((item) => (isObject(item) ? Number(getVersion(item)) : 0));
    expect(Number(getVersion(answer.body))).toBeGreaterThanOrEqual(Math.max(...versions));
    expect(getList(answer.body, "items").some((item) => at(item, "kind") !== undefined)).toBe(false);
  });

  it("lists all namespaces together, and an unknown namespace as empty", async () => {
    const all = await api().get("/api/v1/configmaps?labelSelector=app%3Ddb");
    expect(listNames(all.body)).toEqual(["map-2"]);
    expect((await api().get("/api/v1/namespaces/unknown/configmaps")).body).toMatchObject({ items: [] });
  });

  it.each([
    ["app=web", ["map-0", "map-1"]],
    ["app==web", ["map-0", "map-1"]],
    ["app!=web", ["map-2", "map-3"]],
    ["app in (web,db)", ["map-0", "map-1", "map-2"]],
    ["app notin (web)", ["map-2", "map-3"]],
    ["tier", ["map-0", "map-1"]],
    ["!tier", ["map-2", "map-3"]],
    ["app=web,tier>1", ["map-1"]],
    ["tier<2", ["map-0"]],
    ["app=web,tier!=1", ["map-1"]],
    [" app = web , tier in ( 1 ) ", ["map-0"]],
    ["app=", []],
    ["", ["map-0", "map-1", "map-2", "map-3"]],
  ])("selects by the labels %s", async (labelSelector, expected) => {
    expect(await list(maps, { labelSelector })).toEqual(expected);
  });

  it.each(["a b", "a in b", "a=b=c", "=", "a in (", "a,", "-a=b", "a>b"])(
    "refuses the label selector %s",
    async (labelSelector) => {
      const answer = await api().get(`${maps}?labelSelector=${encodeURIComponent(labelSelector)}`);
      expect(answer.code).toBe(400);
      expect(answer.body).toMatchObject({ reason: "BadRequest" });
    },
  );

  it.each([
    ["metadata.name=on-a", ["on-a"]],
    ["metadata.name!=on-a", ["nowhere", "on-b"]],
    ["spec.nodeName=node-b", ["on-b"]],
    ["spec.nodeName=", ["nowhere"]],
    ["spec.nodeName!=", ["on-a", "on-b"]],
    ["status.phase=Pending,spec.nodeName==node-a", ["on-a"]],
    ["status.phase=Running", []],
    ["spec.restartPolicy=Always,spec.schedulerName=default-scheduler", ["nowhere", "on-a", "on-b"]],
  ])("selects pods by the fields %s", async (fieldSelector, expected) => {
    expect(await list(pods, { fieldSelector })).toEqual(expected);
  });

  it("selects across namespaces by metadata.namespace", async () => {
    expect(await list("/api/v1/pods", { fieldSelector: `metadata.namespace=${namespace}` })).toEqual([
      "nowhere",
      "on-a",
      "on-b",
    ]);
  });

  it("selects events by what they are about", async () => {
    const events = `/api/v1/namespaces/${namespace}/events`;
    for (const name of ["a", "b"]) {
      await api().post(events, {
        metadata: { name: `event-${name}` },
        involvedObject: { kind: "Pod", name, namespace, uid: `uid-${name}` },
        reason: "Tested",
        type: "Normal",
      });
    }
    expect(await list(events, { fieldSelector: "involvedObject.name=a,involvedObject.kind=Pod" })).toEqual(["event-a"]);
    expect(await list(events, { fieldSelector: "involvedObject.uid=uid-b,reason=Tested,type=Normal" })).toEqual([
      "event-b",
    ]);
  });

  it("refuses fields that a resource cannot be selected by", async () => {
    const answer = await api().get(`${pods}?fieldSelector=spec.hostname%3Da`);
    expect(answer.code).toBe(400);
    expect(answer.body).toMatchObject({ reason: "BadRequest", message: "field label not supported: spec.hostname" });
  });

  it("pages through one state, whatever changes in between", async () => {
    const first = await api().get(`${maps}?limit=3`);
    expect(listNames(first.body)).toEqual(["map-0", "map-1", "map-2"]);
    expect(findNumber(first.body, "metadata", "remainingItemCount")).toBe(1);
    const token = encodeURIComponent(getText(first.body, "metadata", "continue"));
    await api().post(maps, configMap("map-9"));
    await api().delete(`${maps}/map-9`);
    await api().post(maps, configMap("map-35"));
    const second = await api().get(`${maps}?limit=3&continue=${token}`);
    expect(listNames(second.body)).toEqual(["map-3"]);
    expect(getVersion(second.body)).toBe(getVersion(first.body));
    expect(at(second.body, "metadata", "continue")).toBeUndefined();
    await api().delete(`${maps}/map-35`);
  });

  it("does not count what remains when it selects", async () => {
    const answer = await api().get(`${maps}?limit=1&labelSelector=app`);
    expect(getText(answer.body, "metadata", "continue")).not.toBe("");
    expect(at(answer.body, "metadata", "remainingItemCount")).toBeUndefined();
  });

  it("has no limit for a list from the cache", async () => {
    expect(await list(maps, { limit: "1", resourceVersion: "0" })).toHaveLength(4);
  });

  it("lists a state that is at least as new as asked for", async () => {
    const version = getVersion((await api().get(maps)).body);
    expect(await list(maps, { resourceVersion: version })).toHaveLength(4);
    expect(await list(maps, { resourceVersion: version, resourceVersionMatch: "NotOlderThan" })).toHaveLength(4);
  });

  it("lists exactly an earlier state", async () => {
    const before = await api().get(maps);
    await api().post(maps, configMap("later"));
    const exact = await api().get(`${maps}?resourceVersion=${getVersion(before.body)}&resourceVersionMatch=Exact`);
    expect(listNames(exact.body)).toEqual(listNames(before.body));
    expect(getVersion(exact.body)).toBe(getVersion(before.body));
    await api().delete(`${maps}/later`);
  });

  it("answers 504 for a version that is still to come", async () => {
    const answer = await api().get(`${maps}?resourceVersion=999999999`);
    expect(answer.code).toBe(504);
    expect(answer.body).toMatchObject({
      reason: "Timeout",
      details: { causes: [{ reason: "ResourceVersionTooLarge" }], retryAfterSeconds: 1 },
    });
  });

  it.each([
    ["limit=many", 400, /strconv\.ParseInt: parsing "many": invalid syntax/],
    ["timeoutSeconds=soon", 400, /strconv\.ParseInt: parsing "soon": invalid syntax/],
    ["continue=nonsense", 400, /^invalid continue token: continue key is not valid/],
    ["continue=e30", 400, /: server does not recognize this encoded version $/],
    ["resourceVersion=new", 400, /^invalid resource version: resourceVersion: Invalid value: "new": strconv.ParseUint/],
    ["resourceVersionMatch=Exact", 422, /resourceVersionMatch is forbidden unless resourceVersion is provided$/],
    ["resourceVersionMatch=Exact&resourceVersion=0", 422, /"exact" is forbidden for resourceVersion "0"$/],
    [
      "resourceVersionMatch=Roughly&resourceVersion=1",
      422,
      /"Roughly": supported values: "Exact", "NotOlderThan", ""$/,
    ],
    ["resourceVersionMatch=Exact&resourceVersion=1&continue=abc", 422, /is forbidden when continue is provided$/],
    ["sendInitialEvents=true", 422, /sendInitialEvents is forbidden for list$/],
    [
      "fieldSelector=data%3Da",
      400,
      /^"data" is not a known field selector: only "metadata.name", "metadata.namespace"$/,
    ],
  ])("refuses the query %s", async (query, code, message) => {
    const answer = await api().get(`${maps}?${query}`);
    expect(answer.code, answer.text).toBe(code);
    expect(getText(answer.body, "message")).toMatch(message);
  });

  it("reports all errors in one answer", async () => {
    const answer = await api().get(`${maps}?resourceVersionMatch=Roughly&continue=abc&sendInitialEvents=true`);
    expect(answer.code).toBe(422);
    expect(getList(answer.body, "details", "causes").map((cause) => getText(cause, "field"))).toEqual([
      "resourceVersionMatch",
      "resourceVersionMatch",
      "resourceVersionMatch",
      "sendInitialEvents",
    ]);
  });

  it("takes a version of 0 with a further page, and no other", async () => {
    const first = await api().get(`${maps}?limit=1`);
    const token = encodeURIComponent(getText(first.body, "metadata", "continue"));
    expect((await api().get(`${maps}?continue=${token}&resourceVersion=0`)).code).toBe(200);
    const refused = await api().get(`${maps}?continue=${token}&resourceVersion=${getVersion(first.body)}`);
    expect(refused.code).toBe(400);
    expect(getText(refused.body, "message")).toBe("specifying resource version is not allowed when using continue");
  });

  describe("deleting a collection", () => {
    it("deletes what is selected and answers with it", async () => {
      const place = `/api/v1/namespaces/${await api().namespace()}/configmaps`;
      for (const app of ["a", "a", "b"]) await api().post(place, { metadata: { generateName: "c-", labels: { app } } });
      const answer = await api().delete(`${place}?labelSelector=app%3Da`);
      expect(answer.code).toBe(200);
      expect(answer.body).toMatchObject({ kind: "ConfigMapList" });
      expect(listNames(answer.body)).toHaveLength(2);
      expect(listNames((await api().get(place)).body)).toHaveLength(1);
    });

    it("accepts fields, options, and dry runs", async () => {
      const place = `/api/v1/namespaces/${await api().namespace()}/pods`;
      await api().post(place, pod("here", { spec: { nodeName: "here" } }));
      await api().post(place, pod("there", { spec: { nodeName: "there" } }));
      expect((await api().delete(`${place}?dryRun=All`)).code).toBe(200);
      expect(listNames((await api().get(place)).body)).toEqual(["here", "there"]);
      const marked = await api().delete(`${place}?fieldSelector=spec.nodeName%3Dhere`);
      expect(listNames(marked.body)).toEqual(["here"]);
      expect(at((await api().get(`${place}/here`)).body, "metadata", "deletionTimestamp")).toBeDefined();
      expect(at((await api().get(`${place}/there`)).body, "metadata", "deletionTimestamp")).toBeUndefined();
      await api().delete(place, { gracePeriodSeconds: 0 });
      expect(listNames((await api().get(place)).body)).toEqual([]);
    });

    it("refuses to delete in all namespaces together", async () => {
      expect((await api().delete("/api/v1/namespaces")).code).toBe(405);
    });
  });
}
