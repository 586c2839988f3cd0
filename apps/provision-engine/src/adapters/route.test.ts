import type { Client, Handlers } from "@muster/bus";
import { FaultError } from "@muster/faults";
import { LeaseService, buildLeaseService, muster, type LeaseServiceOfEngine } from "@muster/proto";
import { expect, it } from "vitest";
import { makeRouteHandlers } from "./route.ts";

const { CleanupResourcesRequest, GetEngineRequest } = muster.provision.v1;
const call = { deadlineMs: 1000, pageBytes: Infinity, signal: new AbortController().signal };

/** Builds all methods of a service, with equal answers. */
function saying(dependency: string): Handlers<typeof LeaseService> & Client<LeaseServiceOfEngine> {
  const refuse = () => Promise.reject(new FaultError({ code: "unavailable", dependency, retryAfterMs: 1 }));
  const methods = Object.keys(LeaseService.methods).map((name) => [name, refuse]);
  // The entries have the keys of the descriptor, which Object.fromEntries cannot express.
  return Object.fromEntries(methods) as Handlers<typeof LeaseService> & Client<LeaseServiceOfEngine>;
}

it.each([
  { what: "its own word", engine: "a", elsewhere: "no request", says: "own" },
  { what: "another's word", engine: "b", elsewhere: "what was ordered before", says: "what was ordered before" },
  {
    what: "that another engine has no replica",
    engine: "b",
    elsewhere: buildLeaseService("b").area,
    says: 'engine "b", which',
  },
])("reports $what about something unavailable", async ({ engine, elsewhere, says }) => {
  const handlers = makeRouteHandlers({
    engine: "a",
    own: saying("own"),
    other: () => saying(elsewhere),
    hasLeases: () => true,
    nowMs: () => 0,
  });
  const asked = handlers.cleanupResources(CleanupResourcesRequest.create({ engine }), call);
  await expect(asked).rejects.toMatchObject({ fault: { dependency: expect.stringContaining(says) as unknown } });
});

it.each([
  { what: "no lease names", hasLeases: false, timeoutMs: 1000, fault: { code: "not_found", kind: "engine", id: "b" } },
  { what: "a lease names", hasLeases: true, timeoutMs: 10_000, fault: { code: "unavailable" } },
])("reports an engine without a replica that $what", async ({ hasLeases, timeoutMs, fault }) => {
  const limits: unknown[] = [];
  const { area } = buildLeaseService("b");
  const getEngine: Client<LeaseServiceOfEngine>["getEngine"] = (_request, options) => {
    limits.push(options?.timeoutMs);
    return Promise.reject(new FaultError({ code: "unavailable", dependency: area, retryAfterMs: 1 }));
  };
  const handlers = makeRouteHandlers({
    engine: "a",
    own: saying("own"),
    other: () => ({ ...saying("other"), getEngine }),
    hasLeases: () => hasLeases,
    nowMs: () => 0,
  });
  const asked = handlers.getEngine(GetEngineRequest.create({ engine: "b" }), { ...call, deadlineMs: 20_000 });
  await expect(asked).rejects.toMatchObject({ fault });
  expect(limits).toEqual([timeoutMs]);
});
