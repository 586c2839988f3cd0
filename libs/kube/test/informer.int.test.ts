import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { openInformer, toKubeFault, listWatch } from "../src/index.ts";
import type { InformerOptions } from "../src/informer.ts";
import {
  buildBookmark,
  buildPage,
  buildRefusal,
  startScriptedServer,
  makeThing,
  watch,
  type Line,
  type ScriptedServer,
  type Thing,
} from "./scripted-server.ts";

const PATH = "/api/v1/things";
const timing = {
  minWatchSeconds: 300,
  maxWatchSeconds: 600,
  silenceMarginMs: 15_000,
  maxSilenceMs: 150_000,
  minBackoffMs: 1,
  maxBackoffMs: 4,
};

type Kept = { readonly name: string; readonly version: number };

function follow(server: ScriptedServer, more: Partial<InformerOptions<Thing, Kept>> = {}) {
  const errors: unknown[] = [];
  const pauses: number[] = [];
  const changes: string[] = [];
  const followed = openInformer<Thing, Kept>({
    source: listWatch<Thing>(server.config, PATH, { labelSelector: "a=b" }),
    project: ({ metadata }) => ({ name: metadata.name, version: Number(metadata.resourceVersion) }),
    onError: (error, retryInMs) => {
      errors.push(error);
      pauses.push(retryInMs);
    },
    timing,
    ...more,
  });
  followed.onChange(({ key, before, after }) =>
    changes.push(`${key} ${before?.version ?? "-"} > ${after?.version ?? "-"}`),
  );
  return { followed, errors, pauses, changes };
}

const modified = (name: string, version: number): Line => ({ type: "MODIFIED", object: makeThing(name, version) });
const added = (name: string, version: number): Line => ({ type: "ADDED", object: makeThing(name, version) });
const deleted = (name: string, version: number): Line => ({ type: "DELETED", object: makeThing(name, version) });
const lists = (server: ScriptedServer) => server.asked.filter((asked) => !asked.watch);
const watches = (server: ScriptedServer) => server.asked.filter((asked) => asked.watch);

it("reads every page of the list, then watches from the list's version with bookmarks and a bounded time", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 1), makeThing("b", 2)], 7, "more"), buildPage([makeThing("c", 3)], 7));
  server.onWatch(watch([added("d", 8)], "stay"));
  const { followed, changes } = follow(server, { pageSize: 2 });
  await using _ = followed;
  await followed.synced;
  await until("the added thing is seen", () => followed.get("ns/d") !== undefined);

  expect(followed.list().map((kept) => kept.name)).toEqual(["a", "b", "c", "d"]);
  expect(changes).toEqual(["ns/a - > 1", "ns/b - > 2", "ns/c - > 3", "ns/d - > 8"]);
  expect(followed.resourceVersion()).toBe("8");
  expect(lists(server).map(({ url }) => url.search)).toEqual([
    "?labelSelector=a%3Db&limit=2",
    "?labelSelector=a%3Db&limit=2&continue=more",
  ]);
  const query = watches(server)[0]!.url.searchParams;
  expect(Object.fromEntries(query)).toMatchObject({
    allowWatchBookmarks: "true",
    resourceVersion: "7",
    labelSelector: "a=b",
  });
  expect(Number(query.get("timeoutSeconds"))).toBeGreaterThanOrEqual(300);
  expect(Number(query.get("timeoutSeconds"))).toBeLessThanOrEqual(600);
});

it("restarts the list when a continue token has expired, and without pages when that happens twice", async () => {
  await using server = await startScriptedServer();
  const gone = buildRefusal(410, "Expired");
  server.onList(
    buildPage([makeThing("old", 1)], 5, "t"),
    gone,
    buildPage([makeThing("old", 1)], 6, "t"),
    gone,
    buildPage([makeThing("a", 2)], 9),
  );
  server.onWatch(watch([], "stay"));
  const { followed, changes, errors } = follow(server);
  await using _ = followed;
  await followed.synced;
  expect(changes).toEqual(["ns/a - > 2"]);
  expect(lists(server).at(-1)!.url.searchParams.has("limit")).toBe(false);
  expect(errors.map((error) => toKubeFault(error)?.code)).toEqual(["conflict", "conflict"]);
});

it("lists again immediately after 410, in the answer or inside the watch, and reports the changes in between", async () => {
  await using server = await startScriptedServer();
  server.onList(
    buildPage([makeThing("a", 1), makeThing("b", 2)], 5),
    buildPage([makeThing("a", 6), makeThing("c", 7)], 9),
    buildPage([makeThing("c", 7)], 12),
  );
  server.onWatch(
    watch([{ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } }], "end"),
    watch([buildBookmark(10)], "end"),
    buildRefusal(410, "Gone"),
    watch([], "stay"),
  );
  const { followed, changes, pauses } = follow(server);
  await using _ = followed;
  await until("the second list is reported", () => changes.includes("ns/a 6 > -"));
  expect(changes).toEqual(["ns/a - > 1", "ns/b - > 2", "ns/b 2 > -", "ns/a 1 > 6", "ns/c - > 7", "ns/a 6 > -"]);
  expect(pauses).toEqual([0, 0]);
});

it("continues from the last version, bookmarks included, after a watch that ended or broke", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 1)], 5));
  server.onWatch(
    watch([modified("a", 6), buildBookmark(20)], "end"),
    watch([modified("a", 21)], "cut"),
    watch([deleted("a", 22)], "stay"),
  );
  const { followed, changes } = follow(server);
  await using _ = followed;
  await until("the deletion is seen", () => changes.includes("ns/a 21 > -"));
  expect(watches(server).map(({ url }) => url.searchParams.get("resourceVersion"))).toEqual(["5", "20", "21"]);
  expect(lists(server)).toHaveLength(1);
});

it.each([
  ["a line that is no JSON", "{garbage", "MalformedAnswerError"],
  ["an event without an object", { type: "ADDED", object: null }, "MalformedAnswerError"],
  [
    "an object without a name",
    { type: "ADDED", object: { metadata: { resourceVersion: "6" } } },
    "MalformedAnswerError",
  ],
  ["an event of an unknown type", { type: "RENAMED", object: makeThing("a", 6) }, "MalformedAnswerError"],
  ["a Status in place of an object", { type: "ADDED", object: { kind: "Status", code: 500 } }, "KubeError"],
  ["an ERROR event", { type: "ERROR", object: { kind: "Status", code: 500, reason: "InternalError" } }, "KubeError"],
])("survives %s: reports it and lists again", async (_title, line, name) => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 1)], 5), buildPage([makeThing("b", 8)], 9));
  server.onWatch(watch([line], "stay"), watch([], "stay"));
  const { followed, changes, errors } = follow(server);
  await using _ = followed;
  await until("the second list is reported", () => changes.includes("ns/b - > 8"));
  expect(changes).toEqual(["ns/a - > 1", "ns/a 1 > -", "ns/b - > 8"]);
  expect(errors).toHaveLength(1);
  expect((errors[0] as Error).name).toBe(name);
});

it("waits as long as the server asks after 429, and increases its own pauses up to the limit", async () => {
  await using server = await startScriptedServer();
  const busy = buildRefusal(503, "ServiceUnavailable");
  server.onList(
    buildRefusal(429, "TooManyRequests", { "retry-after": "1" }),
    busy,
    busy,
    busy,
    busy,
    buildPage([makeThing("a", 1)], 5),
  );
  server.onWatch(watch([], "stay"));
  const { followed, pauses, errors } = follow(server);
  await using _ = followed;
  await followed.synced;
  expect(pauses[0]).toBe(1000);
  expect(Math.max(...pauses.slice(1))).toBeLessThanOrEqual(timing.maxBackoffMs);
  expect(errors.map((error) => toKubeFault(error)?.code)).toEqual(Array.from({ length: 5 }, () => "unavailable"));
});

it("never stops: it retries after a malformed list, a reset connection and 500s", async () => {
  await using server = await startScriptedServer();
  server.onList(
    (response) => response.writeHead(200).end(JSON.stringify({ kind: "Status", status: "Failure" })),
    (response) => response.socket?.resetAndDestroy(),
    buildRefusal(500, "InternalError"),
    (response) => response.writeHead(502).end("<html>bad gateway</html>"),
    buildPage([makeThing("a", 1)], 5),
  );
  server.onWatch(
    buildRefusal(500, "InternalError"),
    (response) => response.destroy(),
    watch([modified("a", 6)], "stay"),
  );
  const { followed, errors } = follow(server);
  await using _ = followed;
  await until("the change is seen", () => followed.get("ns/a")?.version === 6);
  expect(errors).toHaveLength(6);
});

it("lists after three failures in a row", async () => {
  await using server = await startScriptedServer();
  const timeout = buildRefusal(504, "Timeout");
  server.onList(buildPage([makeThing("a", 900)], 1000), buildPage([makeThing("a", 2, "restored")], 3));
  server.onWatch(timeout, timeout, timeout, watch([], "stay"));
  const { followed, changes } = follow(server);
  await using _ = followed;
  await until("the restored world is seen", () => changes.includes("ns/a - > 2"));
  expect(changes).toEqual(["ns/a - > 900", "ns/a 900 > -", "ns/a - > 2"]);
});

it("lists when the server's versions go back, as those of a rebuilt cluster do", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 900)], 1000), buildPage([makeThing("b", 2)], 3));
  server.onWatch(watch([buildBookmark(3)], "stay"), watch([], "stay"));
  const { followed, changes } = follow(server);
  await using _ = followed;
  await until("the rebuilt world is seen", () => changes.includes("ns/b - > 2"));
  expect(changes).toEqual(["ns/a - > 900", "ns/a 900 > -", "ns/b - > 2"]);
});

it("cuts a watch that is silent for longer than its time, and continues", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 1)], 5));
  server.onWatch(watch([], "stay"), watch([modified("a", 6)], "stay"));
  const { followed, errors } = follow(server, {
    timing: { ...timing, minWatchSeconds: 0, maxWatchSeconds: 0, silenceMarginMs: 1 },
  });
  await using _ = followed;
  await until("the change is seen", () => followed.get("ns/a")?.version === 6);
  expect((errors[0] as Error).message).toBe("the watch was silent for 1001 ms");
});

it("cuts a dead watch before its duration has passed, and counts every event as a heartbeat", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 1)], 5));
  server.onWatch(
    watch([], "stay"),
    (response, request) => {
      let version = 6;
      watch([buildBookmark(version)], "stay")(response, request);
      const word = setInterval(() => response.write(JSON.stringify(buildBookmark((version += 1))) + "\n"), 10);
      response.on("close", () => clearInterval(word));
    },
    watch([modified("a", 1000)], "stay"),
  );
  const { followed, errors } = follow(server, { timing: { ...timing, maxSilenceMs: 200 } });
  await using _ = followed;
  await until("the second watch has lived for longer than the limit", () => Number(followed.resourceVersion()) > 50);
  expect(errors.map((error) => (error as Error).message)).toEqual(["the watch was silent for 200 ms"]);
});

it("does not treat the suspension of its process as silence of the watch", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 1)], 5));
  server.onWatch((response, request) => {
    let version = 6;
    watch([buildBookmark(version)], "stay")(response, request);
    const word = setInterval(() => response.write(JSON.stringify(buildBookmark((version += 1))) + "\n"), 10);
    response.on("close", () => clearInterval(word));
  });
  const { followed, errors } = follow(server, { timing: { ...timing, maxSilenceMs: 400 } });
  await using _ = followed;
  for (const version of [10, 20, 30]) {
    await until("it has heard the watch", () => Number(followed.resourceVersion()) > version);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
  }
  await until("it has heard the watch again", () => Number(followed.resourceVersion()) > 40);
  expect(errors).toEqual([]);
  expect(watches(server)).toHaveLength(1);
});

it("lists again when the last list is too old, even while the watch works", async () => {
  await using server = await startScriptedServer();
  let nowMs = 0;
  server.onList(buildPage([makeThing("a", 1)], 5), buildPage([makeThing("b", 6)], 7));
  server.onWatch(
    (response, request) => {
      nowMs = 60_000;
      watch([buildBookmark(6)], "end")(response, request);
    },
    watch([], "stay"),
  );
  const { followed, changes } = follow(server, { relistEveryMs: 60_000, now: () => nowMs });
  await using _ = followed;
  await until("the second list is reported", () => changes.includes("ns/b - > 6"));
  expect(watches(server)[0]!.url.searchParams.get("timeoutSeconds")).toBe("60");
});

it("has the age of the server's last answer", async () => {
  await using server = await startScriptedServer();
  let nowMs = 0;
  server.onList(buildPage([makeThing("a", 1)], 5));
  server.onWatch(watch([], "stay"));
  const { followed } = follow(server, { now: () => nowMs });
  await using _ = followed;
  expect(followed.listAgeMs()).toBe(Infinity);
  nowMs = 500;
  await followed.synced;
  nowMs = 1700;
  expect(followed.ageMs()).toBe(1200);
  expect(followed.listAgeMs()).toBe(1700);
});

it("keeps the former row of an object that the projection cannot read", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 1)], 5), buildPage([makeThing("a", 6)], 9));
  server.onWatch(
    watch([{ type: "MODIFIED", object: { ...makeThing("a", 6), kind: "Poison" } }, added("b", 7)], "stay"),
  );
  const { followed, errors } = follow(server, {
    project: ({ kind, metadata }) => {
      if (kind === "Poison") throw new Error("cannot read this");
      return { name: metadata.name, version: Number(metadata.resourceVersion) };
    },
  });
  await using _ = followed;
  await until("the next object is seen", () => followed.get("ns/b") !== undefined);
  expect(followed.get("ns/a")?.version).toBe(1);
  expect(errors.map(String)).toEqual(["Error: cannot read this"]);
});

it("has updated its indexes when it reports a change", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a1", 1), makeThing("a2", 2), makeThing("b1", 3)], 5));
  server.onWatch(watch([added("a3", 6), deleted("a1", 7)], "stay"));
  await using followed = openInformer({
    source: listWatch<Thing>(server.config, PATH),
    project: ({ metadata }) => metadata.name,
    indexes: { first: (name: string) => [name.slice(0, 1)] },
    timing,
  });
  const changes: string[] = [];
  followed.onChange(({ key }) => changes.push(`${key}: ${followed.byIndex("first", "a").join(" ")}`));
  await until(
    "the deletion is reported",
    () => followed.get("ns/a1") === undefined && followed.get("ns/a3") !== undefined,
  );
  expect(changes.slice(-2)).toEqual(["ns/a3: a1 a2 a3", "ns/a1: a2 a3"]);
  expect(followed.byIndex("first", "b")).toEqual(["b1"]);
});

it("notifies the other listeners when one throws", async () => {
  await using server = await startScriptedServer();
  server.onList(buildPage([makeThing("a", 1)], 5));
  server.onWatch(watch([], "stay"));
  const { followed, errors, changes } = follow(server);
  await using _ = followed;
  followed.onChange(() => {
    throw new Error("a defect");
  });
  followed.onChange(({ key }) => changes.push(`second ${key}`));
  await followed.synced;
  expect(changes).toEqual(["ns/a - > 1", "second ns/a"]);
  expect(errors.map(String)).toEqual(["Error: a defect"]);
});

it("stops when disposed before the first list, and rejects `synced`", async () => {
  await using server = await startScriptedServer();
  server.onList(() => undefined);
  const { followed } = follow(server);
  await followed[Symbol.asyncDispose]();
  await expect(followed.synced).rejects.toMatchObject({ fault: { code: "cancelled" } });
});
