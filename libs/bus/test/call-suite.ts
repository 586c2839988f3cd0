import { describeFault, findFault, type Fault } from "@muster/faults";
import { ReservationService, subjects } from "@muster/proto";
import { until } from "@muster/testkit";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeClient, serveMethods, type Bus, type CallContext, type Handlers, type Message } from "../src/index.ts";
import type { RequestRate } from "../src/request-rates.ts";
import type { ServeOptions } from "../src/serve.ts";
import { answered } from "./answered.ts";

/** The server that buses of one test share: a nats-server, or a memory world. */
export type TestWorld = AsyncDisposable & {
  connect(
    name: string,
    onStatus?: (status: string, detail: string) => void,
    options?: { readonly user?: string; readonly requestRate?: RequestRate },
  ): Promise<Bus>;
};

type Reservations = Handlers<typeof ReservationService>;

const nothing = new Uint8Array();
/** Options for calls that wait for the test. */
const LONG = { timeoutMs: 60_000 };
const identity = { version: "1.0.0", description: "under test" };
const subjectOfGet = subjects.request("reservation", "get-reservation");

/** Tests the promises of typed calls on one kind of bus. */
export function callSuite(kind: string, openWorld: () => Promise<TestWorld>): void {
  describe(`typed calls on ${kind}`, () => {
    let world: TestWorld;
    let caller: Bus;
    beforeAll(async () => {
      world = await openWorld();
      caller = await world.connect("caller");
    });
    afterAll(async () => {
      await world[Symbol.asyncDispose]();
    });

    const served = async (
      handlers: Partial<Reservations>,
      options: Partial<ServeOptions<typeof ReservationService>> = {},
    ): Promise<AsyncDisposable> => {
      const bus = await world.connect("service");
      await serveMethods(bus, ReservationService, answered(handlers), { ...identity, ...options });
      return bus;
    };

    it("passes requests to the handler whose default values survive a spread", async () => {
      const asked: unknown[] = [];
      await using _service = await served({
        reserve: (request) => {
          asked.push({ ...request, ...(request.owner !== undefined && { owner: { ...request.owner } }) });
          return Promise.resolve({});
        },
      });
      await makeClient(caller, ReservationService).reserve({ requestId: "r-0", owner: { kind: "session" } });
      expect(asked).toMatchObject([{ requestId: "r-0", wait: false, owner: { kind: "session", id: "" } }]);
    });

    it("answers with the message that the handler returned", async () => {
      await using _service = await served({
        reserve: ({ requestId, owner }) => Promise.resolve({ reservation: { id: requestId, owner: owner ?? null } }),
      });
      const reply = await makeClient(caller, ReservationService).reserve({
        requestId: "r-1",
        owner: { kind: "session", id: "s" },
      });
      expect(reply.reservation).toMatchObject({ id: "r-1", owner: { kind: "session", id: "s" } });
    });

    it.each(everyFault)("returns the fault $code unchanged", async (fault) => {
      await using _service = await served({ listPools: () => Promise.reject(new FaultThrown(fault)) });
      const { listPools } = makeClient(caller, ReservationService, { repeat: "never" });
      expect(await catchFault(listPools({}))).toEqual(fault);
    });

    it("answers a defect with internal and reports it to the service", async () => {
      const defects: string[] = [];
      await using _service = await served(
        {
          listPools: () => {
            throw new TypeError("a defect");
          },
        },
        { onDefect: (method, error) => defects.push(`${method}: ${String(error)}`) },
      );
      const fault = await catchFault(makeClient(caller, ReservationService).listPools({}));
      expect(fault).toEqual({ code: "internal", operation: "reservation.list-pools" });
      expect(defects).toEqual(["ListPools: TypeError: a defect"]);
    });

    it("answers undecodable bytes with invalid_request, and keeps serving", async () => {
      await using _service = await served({ getReservation: () => Promise.resolve({}) });
      const bytes = fc.uint8Array({ maxLength: 64 });
      await fc.assert(
        fc.asyncProperty(bytes, async (garbage) => {
          const reply = await caller.request(subjectOfGet, garbage, { timeoutMs: 30_000 });
          expect(["3", undefined]).toContain(reply.headers.get("Nats-Service-Error-Code"));
        }),
        { numRuns: 50 },
      );
      const truncated = new Uint8Array([0x0a, 0xff]);
      const reply = await caller.request(subjectOfGet, truncated, { timeoutMs: 30_000 });
      expect(reply.headers.get("Nats-Service-Error-Code")).toBe("3");
      expect(await makeClient(caller, ReservationService).getReservation({})).toMatchObject({});
    });

    it("refuses a request whose request_id is longer than 128 characters, and passes none of it to the handler", async () => {
      const asked: number[] = [];
      await using _service = await served({
        reserve: ({ requestId }) => {
          asked.push(requestId.length);
          return Promise.resolve({});
        },
      });
      const { reserve } = makeClient(caller, ReservationService);
      await reserve({ requestId: "x".repeat(128) });
      expect(await catchFault(reserve({ requestId: "x".repeat(129) }))).toEqual({
        code: "invalid_request",
        field: "request_id",
        reason: "has 129 characters, and at most 128 are taken",
      });
      expect(asked).toEqual([128]);
    });

    it("refuses a request that is too large, and names the limit", async () => {
      await using _service = await served({});
      const call = makeClient(caller, ReservationService).reserve({ requestId: "x".repeat(1_100_000) });
      const fault = await catchFault(call);
      expect(fault).toMatchObject({ code: "limit_exceeded", limit: 1_048_576, retryAfterMs: 0 });
      expect(describeFault(fault)).toMatch(/^size of 11\d{5} bytes of a message to muster\.req\.reservation\.reserve /);
      expect(await makeClient(caller, ReservationService).listPools({})).toBeDefined();
    });

    it("answers limit_exceeded in place of a reply that is too large", async () => {
      await using _service = await served({
        reserve: () => Promise.resolve({ reservation: { id: "x".repeat(1_100_000) } }),
      });
      const fault = await catchFault(makeClient(caller, ReservationService).reserve({}));
      expect(fault).toMatchObject({ code: "limit_exceeded", limit: 1_048_576, retryAfterMs: 0 });
      expect(describeFault(fault)).toMatch(/^size of 11\d{5} bytes of a reply to muster\.req\.reservation\.reserve /);
    });

    it.each([
      { bytes: 1_048_576, header: 0, taken: true },
      { bytes: 1_048_577, header: 0, taken: false },
      { bytes: 100, header: 1_048_576 - 100 - 12 - 5, taken: true },
      { bytes: 100, header: 1_048_576 - 100 - 12 - 4, taken: false },
    ])("accepts a message of exactly max_payload: $bytes bytes and a header of $header", async (size) => {
      const headers = size.header === 0 ? undefined : new Map([["A", "x".repeat(size.header)]]);
      const options = { timeoutMs: 30_000, ...(headers && { headers }) };
      const fault = await catchFault(caller.request("no.responder", new Uint8Array(size.bytes), options));
      expect(fault.code).toBe(size.taken ? "unavailable" : "limit_exceeded");
    });

    it("ends the caller's wait and the handler's work at the deadline", async () => {
      const { context, handler } = heldCall();
      await using _service = await served({ getReservation: handler });
      let begun: CallContext | undefined;
      void context.then((first) => (begun = first));
      const { getReservation } = makeClient(caller, ReservationService);
      // A busy machine may deliver the first requests after their deadline.
      const { signal, deadlineMs } = await until("its handler has begun", async () => {
        expect(await catchFault(getReservation({}, { timeoutMs: 100 }))).toEqual({
          code: "deadline_exceeded",
          operation: "reservation.get-reservation",
          timeoutMs: 100,
        });
        return begun;
      });
      await until("the handler's signal is aborted", () => signal.aborted);
      expect(deadlineMs).toBeLessThanOrEqual(Date.now());
    });

    it("answers at the deadline though the handler ignores it", async () => {
      await using _service = await served({ getReservation: () => new Promise(() => undefined) });
      const headers = new Map([["Muster-Timeout-Ms", "50"]]);
      const reply = await caller.request(subjectOfGet, new Uint8Array(), { timeoutMs: 30_000, headers });
      expect(reply.headers.get("Nats-Service-Error-Code")).toBe("4");
    });

    it("aborts the handler when the caller gives up", async () => {
      const { context, handler } = heldCall();
      await using _service = await served({ getReservation: handler });
      const stop = new AbortController();
      const call = catchFault(makeClient(caller, ReservationService).getReservation({}, { signal: stop.signal }));
      const { signal } = await context;
      expect(signal.aborted).toBe(false);
      stop.abort();
      expect(await call).toEqual({ code: "cancelled", operation: "reservation.get-reservation" });
      await until("the handler's signal is aborted", () => signal.aborted);
    });

    it("sends nothing for a caller that was cancelled before", async () => {
      let calls = 0;
      await using _service = await served({
        listPools: () => {
          calls += 1;
          return Promise.resolve({});
        },
      });
      const { listPools } = makeClient(caller, ReservationService);
      expect(await catchFault(listPools({}, { signal: AbortSignal.abort() }))).toMatchObject({ code: "cancelled" });
      await listPools({});
      expect(calls).toBe(1);
    });

    it("retries without a responder, and is answered by a service that starts later", async () => {
      const call = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 60_000 });
      await using _service = await served({ listPools: () => Promise.resolve({ pools: [{ name: "a" }] }) });
      expect((await call).pools).toMatchObject([{ name: "a" }]);
    });

    it("names the service that has no responder at the deadline", async () => {
      const fault = await catchFault(makeClient(caller, ReservationService).listPools({}, { timeoutMs: 1000 }));
      expect(fault).toMatchObject({ code: "unavailable", dependency: "reservation" });
      expect(fault).toHaveProperty("retryAfterMs", expect.any(Number));
    });

    it("retries after an unavailable answer, and returns only the final answer", async () => {
      let calls = 0;
      await using _service = await served({
        listPools: () => {
          calls += 1;
          if (calls < 4) return Promise.reject(new FaultThrown(kubernetesAway));
          return Promise.resolve({ pools: [{ name: "a" }] });
        },
      });
      expect((await makeClient(caller, ReservationService).listPools({})).pools).toMatchObject([{ name: "a" }]);
      expect(calls).toBe(4);
    });

    it("returns the last unavailable answer at the deadline, and not later", async () => {
      let calls = 0;
      await using _service = await served({
        listPools: () => {
          calls += 1;
          return Promise.reject(new FaultThrown(kubernetesAway));
        },
      });
      const startMs = performance.now();
      const fault = await catchFault(makeClient(caller, ReservationService).listPools({}, { timeoutMs: 2000 }));
      expect(fault).toEqual(kubernetesAway);
      expect(performance.now() - startMs).toBeLessThan(20_000);
      expect(calls).toBeGreaterThan(1);
      const cancelled = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 60_000, signal: soon() });
      expect(await catchFault(cancelled)).toMatchObject({ code: "cancelled" });
    });

    it("passes on the missing dependency of the service when a later attempt is not answered in time", async () => {
      let calls = 0;
      await using _service = await served({
        listPools: () => {
          calls += 1;
          return calls > 1 ? new Promise(() => undefined) : Promise.reject(new FaultThrown(kubernetesAway));
        },
      });
      const call = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 3000 });
      expect(await catchFault(call)).toEqual(kubernetesAway);
      expect(calls).toBe(2);
    });

    it.each([{ of: "the client" }, { of: "the call" }])("asks once when $of forbids repetitions", async ({ of }) => {
      let calls = 0;
      await using _service = await served({
        listPools: () => {
          calls += 1;
          return Promise.reject(new FaultThrown(kubernetesAway));
        },
      });
      const fault = await catchFault(
        of === "the client"
          ? makeClient(caller, ReservationService, { repeat: "never" }).listPools({})
          : makeClient(caller, ReservationService).listPools({}, { repeat: "never" }),
      );
      expect(fault).toEqual(kubernetesAway);
      expect(calls).toBe(1);
    });

    it("refuses a request beyond the limit, and accepts it once a slot is free", async () => {
      const held = Promise.withResolvers<object>();
      await using _service = await served({ listPools: () => held.promise }, { concurrency: 2 });
      const { listPools } = makeClient(caller, ReservationService);
      const calls = [listPools({}, LONG), listPools({}, LONG)];
      const refused = await refusedBy(() => listPools({}, { timeoutMs: 100 }));
      expect(refused).toMatchObject({ code: "limit_exceeded", limit: 2 });
      expect(refused).toHaveProperty("retryAfterMs", expect.any(Number));
      const patient = listPools({}, { ...LONG, repeat: "never" });
      held.resolve({});
      await Promise.all([...calls, patient]);
    });

    it("counts handlers that continue after their deadline against the limit", async () => {
      const held = Promise.withResolvers<object>();
      let hasBegun = false;
      const listPoolsLate = (): Promise<object> => {
        hasBegun = true;
        return held.promise;
      };
      await using _service = await served({ listPools: listPoolsLate }, { concurrency: 1 });
      const { listPools } = makeClient(caller, ReservationService);
      await until("a handler continues after its deadline", async () => {
        expect(await catchFault(listPools({}, { timeoutMs: 50 }))).toMatchObject({ code: "deadline_exceeded" });
        return hasBegun;
      });
      expect(await refusedBy(() => listPools({}, { timeoutMs: 100 }))).toMatchObject({ limit: 1 });
      held.resolve({});
      await until("the place is free", () => listPools({}));
    });

    describe("a service with a rate limit per user", () => {
      const limited = async (requestRate: RequestRate, said: string[][] = []) => {
        const seen: string[] = [];
        const bus = await world.connect("service", (...words) => said.push(words), { requestRate });
        const handlers = answered({
          reserve: ({ requestId }) => {
            seen.push(requestId);
            return Promise.resolve({});
          },
        });
        await serveMethods(bus, ReservationService, handlers, { ...identity, hotMethods: ["reserve"] });
        return { seen, [Symbol.asyncDispose]: () => bus[Symbol.asyncDispose]() };
      };
      const asking = async (user: string) =>
        makeClient(await world.connect(user, undefined, { user }), ReservationService, { repeat: "never" });

      it("refuses more before its handler sees it, with a retry time, and still answers others", async () => {
        const said: string[][] = [];
        await using service = await limited({ perSecond: 0.001, burst: 3 }, said);
        const [busy, modest] = [await asking("busy"), await asking("modest")];
        for (const requestId of ["1", "2", "3"]) await busy.reserve({ requestId });
        for (const requestId of ["4", "5"]) {
          const fault = await catchFault(busy.reserve({ requestId }));
          expect(fault).toMatchObject({ code: "limit_exceeded", what: "requests a second of busy to reservation" });
          expect(fault).toHaveProperty("retryAfterMs", expect.closeTo(1_000_000, -5));
        }
        await modest.reserve({ requestId: "other" });
        expect(service.seen).toEqual(["1", "2", "3", "other"]);
        expect(said.map(([status]) => status)).toEqual(["refusing"]);
        expect(said[0]?.[1]).toContain("busy makes more than 0.001 requests a second of reservation: 1 refused");
      });

      it("admits any number of hot requests of services, and limits their other requests", async () => {
        await using service = await limited({ perSecond: 0.001, burst: 3 });
        const controller = await asking("session-controller");
        const ids = Array.from({ length: 20 }, (_, index) => `r-${index}`);
        await Promise.all(ids.map((requestId) => controller.reserve({ requestId })));
        expect(service.seen).toHaveLength(ids.length);
        for (let list = 0; list < 3; list += 1) await controller.listPools({});
        const what = "requests a second of session-controller to reservation";
        expect(await catchFault(controller.listPools({}))).toMatchObject({ code: "limit_exceeded", what });
        await controller.reserve({ requestId: "another" });
      });

      it("is retried no sooner than its hint, so that patient callers are answered", async () => {
        await using service = await limited({ perSecond: 10, burst: 1 });
        const { reserve } = await asking("patient");
        const startMs = performance.now();
        await Promise.all(["1", "2", "3", "4"].map((requestId) => reserve({ requestId }, { timeoutMs: 60_000 })));
        expect(performance.now() - startMs).toBeGreaterThan(299);
        expect(service.seen.toSorted()).toEqual(["1", "2", "3", "4"]);
      });
    });

    it("distributes requests among replicas and answers each once", async () => {
      const served1: string[] = [];
      const served2: string[] = [];
      const replica = (seen: string[]): Partial<Reservations> => ({
        reserve: ({ requestId }) => {
          seen.push(requestId);
          return Promise.resolve({});
        },
      });
      await using _one = await served(replica(served1));
      await using _two = await served(replica(served2));
      const ids = Array.from({ length: 60 }, (_, index) => `r-${index}`);
      const { reserve } = makeClient(caller, ReservationService);
      await Promise.all(ids.map((requestId) => reserve({ requestId })));
      expect([...served1, ...served2].sort()).toEqual(ids.sort());
      expect(Math.min(served1.length, served2.length)).toBeGreaterThan(0);
    });

    it("finishes requests in flight when it stops, and accepts no new one", async () => {
      const started = Promise.withResolvers<undefined>();
      const held = Promise.withResolvers<object>();
      const bus = await world.connect("service");
      const handlers = answered({
        listPools: () => {
          started.resolve(undefined);
          return held.promise;
        },
      });
      const service = await serveMethods(bus, ReservationService, handlers, { ...identity, graceMs: 20_000 });
      const call = makeClient(caller, ReservationService).listPools({}, LONG);
      await started.promise;
      const stopped = service[Symbol.asyncDispose]();
      await until("new requests have no responder", async () => {
        const fault = await catchFault(caller.request(subjectOfGet, new Uint8Array(), { timeoutMs: 200 }));
        return fault.code === "unavailable";
      });
      held.resolve({ pools: [{ name: "late" }] });
      expect((await call).pools).toMatchObject([{ name: "late" }]);
      await stopped;
      await bus[Symbol.asyncDispose]();
    });

    it("aborts unfinished calls when it stops, with a fault that permits a retry", async () => {
      const { context, handler } = heldCall();
      const bus = await world.connect("service");
      const handlers = answered({ getReservation: handler });
      const service = await serveMethods(bus, ReservationService, handlers, { ...identity, graceMs: 20 });
      const call = catchFault(makeClient(caller, ReservationService).getReservation({}));
      const { signal } = await context;
      await service[Symbol.asyncDispose]();
      expect(signal.aborted).toBe(true);
      expect(await call).toMatchObject({ code: "unavailable", dependency: "reservation" });
      await bus[Symbol.asyncDispose]();
    });

    it("drops signals beyond the limit of a slow listener, reports that, and keeps their order", async () => {
      const said: [string, string][] = [];
      await using slow = await world.connect("slow", (...status) => said.push(status));
      const held = Promise.withResolvers<undefined>();
      const heard: number[] = [];
      const handler = async ({ payload }: Message): Promise<void> => {
        heard.push(payload[0] ?? 0);
        await held.promise;
      };
      await slow.listen("test.slow.*", handler, { maxPending: 3 });
      for (let n = 1; n <= 7; n += 1) caller.signal("test.slow.a", new Uint8Array([n]));
      await until("it is reported", () => said.length === 1);
      caller.signal("test.slow.end", new Uint8Array([8]));
      // After a round trip of both connections, all signals have arrived.
      for (const end of [caller, slow]) await catchFault(end.request("no.responder", nothing, { timeoutMs: 30_000 }));
      held.resolve(undefined);
      await until("what waited has been heard", () => heard.length === 4 && said.length === 2);
      expect(heard).toEqual([1, 2, 3, 4]);
      expect(said.map(([status]) => status)).toEqual(["slow_consumer", "slow_consumer"]);
      expect(said[0]?.[1]).toContain("3 signals of test.slow.* wait for their handler; 1 dropped");
      expect(said[1]?.[1]).toContain("test.slow.* wait for their handler; 4 dropped; it has to do less");
      caller.signal("test.slow.a", new Uint8Array([9]));
      await until("it hears again", () => heard.at(-1) === 9);
    });

    it("delivers each signal to every listener of its subject", async () => {
      const heard: string[] = [];
      const listener = await world.connect("listener");
      await listener.listen("test.signal.*", ({ subject, payload, headers }) => {
        heard.push(`one ${subject} ${String(payload.length)} ${headers.get("k") ?? ""}`);
      });
      await listener.listen("test.signal.a", ({ subject }) => heard.push(`two ${subject}`));
      caller.signal("test.signal.a", new Uint8Array(3), new Map([["k", "v"]]));
      caller.signal("test.other", new Uint8Array());
      await until("both have heard it", () => heard.length === 2);
      expect(heard.sort()).toEqual(["one test.signal.a 3 v", "two test.signal.a"]);
      await listener[Symbol.asyncDispose]();
    });

    it("rejects with cancelled, and nothing else, once it is disposed", async () => {
      const bus = await world.connect("gone");
      await bus[Symbol.asyncDispose]();
      const stream = { name: "GONE", subjects: ["test.gone"], retention: "limits" } as const;
      const calls = [
        bus.request("test.gone", new Uint8Array(), { timeoutMs: 100 }),
        bus.publish("test.gone", new Uint8Array(), { messageId: "1" }),
        bus.ensureStream(stream),
        bus.listen("test.gone", () => undefined),
        bus.respond({ name: "gone", ...identity }, []),
      ];
      for (const call of calls) expect(await catchFault(call)).toMatchObject({ code: "cancelled" });
      expect(() => {
        bus.signal("test.gone", new Uint8Array());
      }).not.toThrow();
    });
  });
}

/** Returns the fault with which a call rejects; fails if the call resolves, or rejects with another error. */
export async function catchFault(call: Promise<unknown>): Promise<Fault> {
  const outcome: unknown = await call.then(
    () => "answered",
    (error: unknown) => findFault(error) ?? error,
  );
  if (typeof outcome === "object" && outcome !== null && "code" in outcome && !(outcome instanceof Error))
    return outcome as Fault;
  throw new Error("expected a fault", { cause: outcome });
}

/** Returns the refusal of a call. Retries, because a slow machine may deliver the refusal too late. */
function refusedBy(call: () => Promise<unknown>): Promise<Fault> {
  return until("the call is refused", async () => {
    const fault = await catchFault(call());
    return fault.code === "limit_exceeded" && fault;
  });
}

/** A fault, thrown by another copy of the library. */
class FaultThrown extends Error {
  override readonly name = "FaultError";
  readonly fault: Fault;
  constructor(fault: Fault) {
    super(fault.code);
    this.fault = fault;
  }
}

/** Builds a handler that never answers, and the context of its first call. */
function heldCall(): { context: Promise<CallContext>; handler: Reservations["getReservation"] } {
  const called = Promise.withResolvers<CallContext>();
  const handler: Reservations["getReservation"] = (_request, context) => {
    called.resolve(context);
    return new Promise(() => undefined);
  };
  return { context: called.promise, handler };
}

const kubernetesAway: Fault = { code: "unavailable", dependency: "kubernetes", retryAfterMs: 10 };

/** A signal that is aborted while the call waits to retry. */
function soon(): AbortSignal {
  return AbortSignal.timeout(50);
}

const everyFault: Fault[] = [
  { code: "invalid_request", field: "owner.id", reason: "has a line\r\nbreak, and a name with ü" },
  { code: "not_found", kind: "session", id: "s-1" },
  { code: "already_exists", kind: "session", id: "s-1" },
  { code: "conflict", id: "s-1", expectedRevision: 7, actualRevision: 9 },
  { code: "pool_unknown", pool: "gpu" },
  { code: "pool_capacity", pool: "gpu", requested: 9, capacity: 8 },
  { code: "pool_availability", pool: "gpu", requested: 3, available: 0 },
  { code: "reservation_differs", ownerKind: "session", ownerId: "s-1" },
  { code: "limit_exceeded", what: "queue", limit: 10, retryAfterMs: 250 },
  { code: "unavailable", dependency: "kubernetes", retryAfterMs: 1000 },
  { code: "deadline_exceeded", operation: "binding", timeoutMs: 30 },
  { code: "cancelled", operation: "binding" },
  { code: "internal", operation: "binding" },
];
