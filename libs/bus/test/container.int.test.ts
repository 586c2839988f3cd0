import { until } from "@muster/testkit";
import { GenericContainer, getContainerRuntimeClient, Wait } from "testcontainers";
import { expect, it } from "vitest";
import type { Headers } from "../src/bus.ts";
import { connectNats } from "../src/index.ts";

const WITHOUT_HEADERS: Headers = new Map();
const identity = { name: "echo", version: "1.0.0", description: "" };
const events = { name: "EVENTS", subjects: ["event.*"], retention: "limits" } as const;
const consuming = { stream: "EVENTS", durable: "worker", subject: "event.*", maxInFlight: 1, ackWaitMs: 60_000 };
/** Allows for a pull of the image. */
const SLOW = { timeout: 300_000 };
/** Time for a server to write its state; without it, Docker kills the server. */
const STOP = { timeout: 30_000 };

// The test removes its container itself. "false" lets testcontainers remove it after the test is killed.
process.env["TESTCONTAINERS_RYUK_DISABLED"] ??= "true";
const noDocker = await getContainerRuntimeClient().then(() => "", String);

it(
  "answers on the NATS of a container, which keeps a stream and what of it is done over a restart",
  SLOW,
  async ({ skip }) => {
    skip(noDocker !== "", `no Docker engine: ${noDocker}`);
    await using container = await new GenericContainer("nats:2.15-alpine")
      .withCommand(["--jetstream", "--store_dir", "/data", "--http_port", "8222"])
      .withExposedPorts(4222, 8222)
      .withWaitStrategy(Wait.forHttp("/healthz", 8222))
      .start();
    // A restart maps the container to other host ports.
    const connect = () =>
      connectNats({ url: `nats://${container.getHost()}:${container.getMappedPort(4222)}`, name: "test" });
    {
      await using bus = await connect();
      const handler = ({ payload }: { readonly payload: Uint8Array }) =>
        Promise.resolve({ payload: payload.toReversed(), headers: WITHOUT_HEADERS });
      await using _service = await bus.respond(identity, [{ name: "echo", subject: "echo", concurrency: 1, handler }]);
      const { payload } = await bus.request("echo", Uint8Array.of(1, 2, 3), { timeoutMs: 30_000 });
      expect([...payload]).toEqual([3, 2, 1]);

      await bus.ensureStream(events);
      await bus.publish("event.first", new Uint8Array(), { messageId: "1" });
      let done = 0;
      {
        await using _first = await bus.consume(consuming, async (delivery) => {
          await delivery.ack();
          done += 1;
        });
        await until("the first is done", () => done === 1);
      }
      await bus.publish("event.second", new Uint8Array(), { messageId: "2" });
    }
    await container.restart(STOP);

    await using bus = await connect();
    expect(await bus.streamState("EVENTS")).toMatchObject({ messages: 2, lastSequence: 2 });
    const seen: string[] = [];
    await using _second = await bus.consume(consuming, async (delivery) => {
      seen.push(delivery.subject);
      await delivery.ack();
    });
    await until("something comes", () => seen.length > 0);
    expect(seen).toEqual(["event.second"]);
  },
);
