import { connectNats, serveMethods, type Handlers, type NatsBus } from "@muster/bus";
import { FarmService, LeaseService, SessionService, type ServiceDescriptor } from "@muster/proto";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { inProcess } from "./in-process.ts";

const ABOUT = { version: "1.0.0", description: "of an earlier version" };

let server: TestNats;
let bus: NatsBus;
beforeAll(async () => {
  server = await startTestNats();
  bus = await connectNats({ url: server.url, token: server.token, name: "old" });
});
afterAll(async () => {
  await bus[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

/** Removes a method from the service, as in a version before that method. */
function without<Service extends ServiceDescriptor>(service: Service, method: keyof Service["methods"] & string) {
  const methods = Object.fromEntries(Object.entries(service.methods).filter(([name]) => name !== method));
  return { ...service, methods };
}

it("names a service that is too old to explain", async () => {
  const old = without(SessionService, "explainSession");
  const handlers = { getSession: () => Promise.resolve({ session: { name: "x" } }) };
  await using _serving = await serveMethods(bus, old, handlers as unknown as Handlers<typeof old>, ABOUT);
  const { code, err } = await inProcess(["explain", "session/x"], { url: server.url, token: server.token });
  expect(err).toEqual([
    "error: the session-controller is too old for this command: it cannot explain",
    "hint: update the session-controller to the version of this command",
  ]);
  expect(code).toBe(4);
}, 60_000);

it("names an engine that is too old to explain", async () => {
  const old = without(LeaseService, "explainLease");
  const handlers = { getLease: () => Promise.resolve({ lease: { record: { order: { id: "1-1" } } } }) };
  await using _serving = await serveMethods(bus, old, handlers as unknown as Handlers<typeof old>, ABOUT);
  const { code, err } = await inProcess(["explain", "lease/1-1"], { url: server.url, token: server.token });
  expect(err[0]).toBe("error: the provision-engine is too old for this command: it cannot explain");
  expect(code).toBe(4);
}, 60_000);

it("names a farm that is too old to explain", async () => {
  const old = { ...FarmService, methods: { explainReplicaSet: FarmService.methods.explainReplicaSet } };
  const handlers = { explainReplicaSet: () => Promise.resolve({ set: { record: { name: "x" } } }) };
  await using _serving = await serveMethods(bus, old, handlers, ABOUT);
  const { code, err } = await inProcess(["explain", "replica-set/x"], { url: server.url, token: server.token });
  expect(err[0]).toBe("error: the replication-farm is too old for this command: it cannot explain");
  expect(code).toBe(4);
}, 60_000);
