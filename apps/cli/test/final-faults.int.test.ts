import { connectNats, serveMethods, type Handlers, type NatsBus } from "@muster/bus";
import { throwFault, type Fault } from "@muster/faults";
import { ReservationService, SessionService } from "@muster/proto";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { inProcess } from "./in-process.ts";

let server: TestNats;
let bus: NatsBus;
/** The answer of every method that has no answer of its own. */
let fault: Fault;
let answers: Record<string, () => unknown>;
const asked: string[] = [];
const served = new AsyncDisposableStack();

beforeAll(async () => {
  server = await startTestNats();
  bus = await connectNats({ url: server.url, token: server.token, name: "faulty" });
  const about = { version: "1.0.0", description: "refuses everything" };
  served.use(await serveMethods(bus, SessionService, refusing as Handlers<typeof SessionService>, about));
  served.use(await serveMethods(bus, ReservationService, refusing as Handlers<typeof ReservationService>, about));
});
afterAll(async () => {
  await served.disposeAsync();
  await bus[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});
beforeEach(() => {
  asked.length = 0;
  answers = {};
});

/** Handles any method of any service. */
const refusing: object = new Proxy(
  {},
  {
    get: (_target, name) => () => {
      asked.push(String(name));
      const answer = answers[String(name)];
      return answer === undefined ? throwFault(fault) : Promise.resolve(answer());
    },
  },
);

const file = `apiVersion: muster.dev/v1
kind: Session
metadata: { name: x }
spec: { components: [{ name: driver, kind: driver, pool: p, image: i }] }
`;
const muster = (args: readonly string[]) => inProcess(args, { url: server.url, token: server.token, file });

const FINAL: readonly Fault[] = [
  { code: "invalid_request", field: "name", reason: "is not what it should be" },
  { code: "not_found", kind: "session", id: "x" },
  { code: "internal", operation: "session.watch" },
  { code: "pool_unknown", pool: "p" },
  { code: "limit_exceeded", what: "the size of the request", limit: 1, retryAfterMs: 0 },
];

/** A session whose one component has started. */
const SESSION = { name: "x", uid: "u", revision: 1, events: [{ kind: 4 }], components: [{ name: "driver" }] };
const session = (): object => ({ session: SESSION });

const COMMANDS: readonly (readonly [args: string, answers: Record<string, () => unknown>, asked: readonly string[]])[] =
  [
    ["run -", {}, ["submitSession"]],
    ["run - --detach", {}, ["submitSession"]],
    ["run -", { submitSession: session }, ["submitSession", "watchSession"]],
    ["get sessions", {}, ["listSessions"]],
    ["get session x", {}, ["getSession"]],
    ["describe session x", {}, ["getSession"]],
    ["cancel session/x", {}, ["cancelSession"]],
    ["explain x", {}, ["explainSession"]],
    ["explain lease/x", {}, ["explainReservation"]],
    ["events", {}, ["listSessions"]],
    ["events x", {}, ["getSession"]],
    ["events -f", {}, ["listSessions"]],
    ["events -f x", {}, ["getSession"]],
    ["logs x", {}, ["getSession"]],
    ["logs x driver", { getSession: session }, ["getSession", "getLogs"]],
    ["pools", {}, ["listPools"]],
    ["get pool p", {}, ["listPools"]],
    ["get reservations", {}, ["listReservations"]],
    ["get reservation job/x", {}, ["getReservation"]],
  ];

it.each(COMMANDS.flatMap(([args, given, methods]) => FINAL.map((final) => [args, final, given, methods] as const)))(
  "muster %s ends with 4 at once on %o, and has asked once",
  async (args, final, given, methods) => {
    fault = final;
    answers = given;
    const { code, err } = await muster(args.split(" "));
    expect(err.filter((line) => line.startsWith("error: "))).toHaveLength(1);
    expect(code).toBe(4);
    expect(asked).toEqual(methods);
  },
);

it.each(FINAL.filter(({ code }) => code !== "not_found"))(
  "muster logs -f ends with 4 immediately on %o",
  async (final) => {
    fault = final;
    answers = { getSession: session };
    const { code, err } = await muster(["logs", "-f", "x", "driver"]);
    expect(err).toContainEqual(expect.stringMatching(/^error: /));
    expect(code).toBe(4);
    expect(asked).toEqual(["getSession", "getLogs"]);
  },
);
