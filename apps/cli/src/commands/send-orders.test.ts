import { makeMemoryBus, serveMethods, type Handlers } from "@muster/bus";
import { throwFault, type Fault } from "@muster/faults";
import type { Order } from "@muster/leases";
import { makeSigner, openText, sealText } from "@muster/leases/keys";
import { toOrder, toWireOrder } from "@muster/leases/wire";
import { LeaseService, muster } from "@muster/proto";
import { expect, it } from "vitest";
import { makeBusCalls } from "../adapters/bus-calls.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { makeLease } from "../../test/a-lease.ts";
import type { LeaseDocument } from "../domain/lease-document.ts";
import { checkOrders, sendOrders } from "./send-orders.ts";
import { openResult, sealData } from "./seal-order.ts";

const SILENT: Fault = { code: "deadline_exceeded", operation: "provision.order-lease", timeoutMs: 1 };

/** Sends orders to an engine that gives these answers in turn, and then accepts all. */
async function sending(orders: readonly Order[], ...answers: readonly (Fault | "taken")[]) {
  return sendingAs({ dryRun: false }, orders, ...answers);
}

async function sendingAs(
  { dryRun }: { readonly dryRun: boolean },
  orders: readonly Order[],
  ...answers: readonly (Fault | "taken")[]
) {
  const came: Order[] = [];
  const before: string[][] = [];
  await using bus = makeMemoryBus();
  const handlers = {
    orderLease: ({
      order,
      before: sooner,
    }: {
      readonly order?: muster.provision.v1.Order;
      readonly before: { id?: string }[];
    }) => {
      before.push(sooner.map(({ id }) => id ?? ""));
      const decoded = toOrder(order ?? muster.provision.v1.Order.create());
      const taken = { ...decoded, signature: new Uint8Array(decoded.signature) };
      came.push(taken);
      const answer = answers[came.length - 1] ?? "taken";
      if (answer !== "taken") return Promise.resolve().then(() => throwFault(answer));
      const lease = { record: { order: toWireOrder(taken) }, revision: 1 };
      return Promise.resolve({ lease, outcome: "ORDERED", refusedBecause: taken.id === "1-2" ? "no room" : "" });
    },
  } as unknown as Handlers<typeof LeaseService>;
  await using _served = await serveMethods(bus, LeaseService, handlers, { version: "1", description: "" });
  const link = { ...makeBusCalls(bus), stop: new AbortController().signal };
  const cli = { now: () => 0, io: { out: () => undefined } } as unknown as Cli;
  const options = {
    named: new Set<string>(),
    dryRun,
    wait: false,
    timeoutMs: undefined,
    output: "json",
  } as const;
  return { came, before, sent: await sendOrders(cli, { link } as unknown as ConnectedCli, orders, options) };
}

const orderOf = (id: string): Order => ({ ...makeLease().order, id });

it("sends only an order that may not have arrived again, exactly as signed", async () => {
  const { came, sent } = await sending([orderOf("1-1")], SILENT, SILENT);
  expect(came).toEqual([orderOf("1-1"), orderOf("1-1"), orderOf("1-1")]);
  expect(sent).toMatchObject({ code: 0, records: [{ outcome: "ORDERED", id: "1-1" }], failure: undefined });
});

it("reports the orders before a failed one, and the id of the failed one", async () => {
  const silent = await sending([orderOf("1-1"), orderOf("1-2"), orderOf("1-3")], "taken", SILENT, SILENT, SILENT);
  expect(silent.sent).toMatchObject({ code: 3, records: [{ id: "1-1" }] });
  expect(silent.sent.failure?.message).toMatch(/^lease 1-2 may have been ordered: /);
  expect(silent.sent.failure?.hint).toContain("with metadata.name 1-2, sending the file again orders no second lease");
  const gone: Fault = { code: "invalid_request", field: "duration", reason: "is over" };
  const refused = await sending([orderOf("1-1"), orderOf("1-2")], "taken", gone);
  expect(refused.came).toHaveLength(2);
  expect(refused.sent).toMatchObject({
    code: 4,
    records: [{ id: "1-1" }],
    failure: { message: "spec.duration: is over" },
  });
});

it("predicts each order as if those before it had begun, except failed ones", async () => {
  const { before, sent } = await sendingAs({ dryRun: true }, [orderOf("1-1"), orderOf("1-2"), orderOf("1-3")]);
  expect(before).toEqual([[], ["1-1"], ["1-1"]]);
  expect(sent).toMatchObject({
    code: 1,
    records: [{ refusedBecause: "" }, { id: "1-2", refusedBecause: "no room" }, { refusedBecause: "" }],
  });
});

const { signer: user } = makeSigner();
const { signer: engine } = makeSigner();

it("has an engine check new orders without a prediction of their outcome", async () => {
  const asked: object[] = [];
  await using bus = makeMemoryBus();
  const handlers = {
    getEngine: () => Promise.resolve({ engine: "main", key: engine.userId }),
    orderLease: ({ dryRun, skipForesight }: { readonly dryRun: boolean; readonly skipForesight: boolean }) => {
      asked.push({ dryRun, skipForesight });
      return Promise.resolve({ lease: { record: {}, revision: 0 }, outcome: "ORDERED" });
    },
  } as unknown as Handlers<typeof LeaseService>;
  await using _served = await serveMethods(bus, LeaseService, handlers, { version: "1", description: "" });
  const connected = { link: { ...makeBusCalls(bus), stop: new AbortController().signal } } as unknown as ConnectedCli;
  const cli = { now: () => 0, randomId: () => "5b0c9d1e" } as unknown as Cli;
  const { engine: engineId, type, data, durationNs } = makeLease().order;
  const value = { id: undefined, engine: engineId, type, data, durationNs, reference: undefined } as LeaseDocument;
  const place = { file: "f", line: 1, column: 1 };
  const documents = [{ value, place, placeOf: () => place }];
  const { problems } = await checkOrders(cli, connected, documents, { signer: user, engineKey: undefined });
  expect({ problems, asked }).toEqual({ problems: [], asked: [{ dryRun: true, skipForesight: true }] });
});

it("seals the same document of one lease identically, and keeps sealed values", () => {
  const document = { type: "zdb", data: '{"size":1,"password":"hush"}' } as const;
  const by = { id: "1-1", signer: user, engine: { engine: "main", key: engine.userId } };
  const data = sealData(document, by);
  expect(sealData(document, by)).toBe(data);
  expect(sealData({ ...document, data }, by)).toBe(data);
  const { password } = JSON.parse(data) as { readonly password: string };
  const place = { kind: "order", id: "1-1", user: user.userId, field: "password" } as const;
  expect(openText(engine, password, place)).toBe("hush");
});

it("opens a result only for the user that it is sealed to", () => {
  const place = { kind: "result", id: "1-1", user: user.userId, field: "kubeconfig" } as const;
  const data = JSON.stringify({ namespace: "n", kubeconfig: sealText(engine, user.userId, "token", place) });
  const result = { id: "1-1", type: "kubernetes", data };
  expect(openResult({ user: user.userId }, result, user)).toBe('{"namespace":"n","kubeconfig":"token"}');
  for (const reader of [engine, undefined]) expect(openResult({ user: user.userId }, result, reader)).toBeUndefined();
  expect(openResult({ user: user.userId }, { ...result, id: "1-2" }, user)).toBeUndefined();
});
