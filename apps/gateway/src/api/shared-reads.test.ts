import { throwFault } from "@muster/faults";
import { RESOURCES, buildRoutes, type Route } from "@muster/gateway-api";
import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { isShared, openSharedReads, type CallBytes } from "./shared-reads.ts";

const routes = buildRoutes(RESOURCES);
const routeOf = (path: string, http = "GET"): Route =>
  routes.find((route) => route.path === path && route.http === http)!;
const SESSION = routeOf("/v1/sessions/:name");
const LIMITS = { maxAnswers: 3, maxKept: 10_000 };

/** Opens reads of a service with one session, whose waiting reason the test changes. */
function openReads(limits = LIMITS) {
  const service = { reason: "first", calls: 0 };
  const call: CallBytes = (_, { name }) => {
    service.calls += 1;
    const session = { name: String(name), waitingBecause: service.reason };
    return Promise.resolve(muster.session.v1.GetSessionReply.encode({ session }).finish());
  };
  const reads = openSharedReads(call, limits);
  const read = (name: string) =>
    reads.read(`/v1/sessions/${name}`, SESSION, { params: { name }, query: {}, body: undefined });
  return { service, reads, read };
}

it("calls the service once for all requests that arrive before the call begins", async () => {
  const { service, read } = openReads();
  const [one, other, different] = await Promise.all([read("a"), read("a"), read("b")]);
  expect(JSON.parse(one.json)).toMatchObject({ name: "a", waitingBecause: "first" });
  expect([service.calls, other, JSON.parse(different.json)]).toMatchObject([2, one, { name: "b" }]);
});

it("calls the service again for requests after the call has begun, so that every read observes earlier writes", async () => {
  const begun = Promise.withResolvers<undefined>();
  const held = Promise.withResolvers<Uint8Array>();
  let calls = 0;
  const reply = (waitingBecause: string) =>
    muster.session.v1.GetSessionReply.encode({ session: { name: "a", waitingBecause } }).finish();
  const reads = openSharedReads(() => {
    calls += 1;
    begun.resolve(undefined);
    return calls === 1 ? held.promise : Promise.resolve(reply("written"));
  }, LIMITS);
  const read = () => reads.read("/v1/sessions/a", SESSION, { params: { name: "a" }, query: {}, body: undefined });
  const before = read();
  await begun.promise;
  const after = await read();
  held.resolve(reply("before"));
  expect([(await before).json, after.json]).toMatchObject([
    expect.stringContaining('"before"'),
    expect.stringContaining('"written"'),
  ]);
});

it("keeps the answer of a reply with the same bytes, and converts any other reply", async () => {
  const { service, read } = openReads();
  const first = await read("a");
  expect(await read("a")).toBe(first);
  service.reason = "second";
  const second = await read("a");
  expect(second.json).toContain("second");
  expect(second.tag).not.toBe(first.tag);
  expect(service.calls).toBe(3);
});

it.each([
  ["number", { maxAnswers: 3, maxKept: 1e6 }, ["d", "c", "a"], ["b"]],
  ["size", { maxAnswers: 1e6, maxKept: 0 }, [], ["a", "b", "c", "d"]],
])(
  "forgets the answers that were asked for longest ago beyond the limit of %s",
  async (_, limits, known, forgotten) => {
    const { reads, read } = openReads(limits);
    const answers = new Map<string, object>();
    for (const name of ["a", "b", "c", "a", "d"]) answers.set(name, await read(name));
    expect(reads.kept).toBeLessThanOrEqual(limits.maxKept);
    for (const name of known) expect(await read(name), name).toBe(answers.get(name));
    for (const name of forgotten) expect(await read(name), name).not.toBe(answers.get(name));
  },
);

it("keeps no failure", async () => {
  let isAway = true;
  const reads = openSharedReads(() => {
    if (isAway) return throwFault({ code: "unavailable", dependency: "sessions", retryAfterMs: 1 });
    return Promise.resolve(muster.session.v1.GetSessionReply.encode({ session: { name: "a" } }).finish());
  }, LIMITS);
  const ask = () => reads.read("/v1/sessions/a", SESSION, { params: { name: "a" }, query: {}, body: undefined });
  await expect(ask()).rejects.toThrow(/sessions/);
  isAway = false;
  expect(JSON.parse((await ask()).json)).toMatchObject({ name: "a" });
});

it("rejects a reply that is no message", async () => {
  const reads = openSharedReads(() => Promise.resolve(Uint8Array.of(255)), LIMITS);
  const asked = { params: { name: "a" }, query: {}, body: undefined };
  await expect(reads.read("/v1/sessions/a", SESSION, asked)).rejects.toThrow(/getSession/i);
});

it.each([
  ["/v1/sessions", {}, "GET", true],
  ["/v1/sessions/:name", {}, "GET", true],
  ["/v1/sessions/:name/log", { component: "driver" }, "GET", true],
  // A long poll lasts long, and a change has an effect.
  ["/v1/sessions/:name/next", { waitMs: "5" }, "GET", false],
  ["/v1/sessions", {}, "POST", false],
  // Several replies form one answer.
  ["/v1/pools/:name", {}, "GET", false],
])("%s with %j by %s may be shared: %s", (path, query, http, expected) => {
  expect(isShared(routeOf(path, http), query)).toBe(expected);
});
