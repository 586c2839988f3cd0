/** The cost of the bus beside that of the client library, in turns in one run on one server. Run: npx node libs/bus/bench/main.ts */
import { jetstream, jetstreamManager, AckPolicy } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { muster, ReservationService } from "@muster/proto";
import { startTestNats, selectSize } from "@muster/testkit";
import { makeClient, connectNats, consumeEvents, publishEvent, serveMethods } from "../src/index.ts";
import { answered } from "../test/answered.ts";
import { compare } from "./compare.ts";

const Granted = muster.reservation.v1.ReservationGranted;
const IN_FLIGHT = 256;
const CONSUMED = selectSize(20_000, 500);

await using server = await startTestNats();
const { url, token } = server;
const options = { servers: url, token, noAsyncTraces: true };
await using bareService = await connect(options);
await using bareCaller = await connect(options);
await using service = await connectNats({ url, token, name: "service" });
await using caller = await connectNats({ url, token, name: "caller" });

const owner = { kind: "session", id: "benchmark-of-the-bus" };
const reservation = {
  id: "r-1",
  owner,
  needs: [{ component: "driver", pool: "drivers" }],
  createdAtMs: 1_700_000_000_000,
};
const event = { reservation };
// Both sides carry the same number of bytes.
const request = new Uint8Array(30);
const payload = Granted.encode(event).finish();

bareService.subscribe("bench.bare", { queue: "q", callback: (_error, message) => void message.respond(payload) });
await bareService.flush();
await using _served = await serveMethods(
  service,
  ReservationService,
  answered({ getReservation: () => Promise.resolve({ reservation }) }),
  { version: "1.0.0", description: "benchmark", concurrency: IN_FLIGHT },
);
const { getReservation } = makeClient(caller, ReservationService);

const requests = {
  bare: () => bareCaller.request("bench.bare", request, { timeout: 5000 }),
  ours: () => getReservation({ owner }),
};
await compare("request and reply, 256 in flight", requests, { inFlight: IN_FLIGHT, count: 30_000 });
await compare("request and reply, one by one", requests, { inFlight: 1, count: 4000 });

const manager = await jetstreamManager(bareCaller);
const js = jetstream(bareCaller);
await manager.streams.add({ name: "BARE", subjects: ["bare.>"] });
await caller.ensureStream({ name: "OURS", subjects: ["ours.>"], retention: "limits" });
let published = 0;
const publishes = {
  bare: () => js.publish("bare.a", payload, { msgID: String((published += 1)) }),
  ours: () => publishEvent(caller, "ours.a", Granted, event, { messageId: String((published += 1)) }),
};
await compare("durable publish, 256 in flight", publishes, { inFlight: IN_FLIGHT, count: 15_000 });
await compare("durable publish, one by one", publishes, { inFlight: 1, count: 3000 });

let consumers = 0;
const consumes = {
  bare: async () => {
    const durable = `bare-${(consumers += 1)}`;
    await manager.consumers.add("BARE", { durable_name: durable, ack_policy: AckPolicy.Explicit, max_ack_pending: -1 });
    const messages = await (await js.consumers.get("BARE", durable)).consume({ max_messages: IN_FLIGHT });
    let count = 0;
    for await (const message of messages) {
      message.ack();
      count += 1;
      if (count === CONSUMED) break;
    }
  },
  ours: async () => {
    const done = Promise.withResolvers<undefined>();
    let count = 0;
    const consuming = { stream: "OURS", durable: `ours-${(consumers += 1)}`, subject: "ours.>", area: "bench" };
    await using _consumer = await consumeEvents(
      caller,
      { ...consuming, maxInFlight: IN_FLIGHT, ackWaitMs: 30_000 },
      Granted,
      () => {
        count += 1;
        if (count === CONSUMED) done.resolve(undefined);
        return Promise.resolve();
      },
    );
    await done.promise;
  },
};
await compare("consume (ours waits until each acknowledgement is confirmed)", consumes, {
  inFlight: 1,
  count: 1,
  unit: CONSUMED,
});
