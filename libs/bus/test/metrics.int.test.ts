import { startTestNats, scrapeMetrics, until } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { connectNats } from "../src/index.ts";

it("exports the lag of a consumer and the signals that a slow listener lost", async () => {
  await using telemetry = await startTelemetry({ service: "tested", version: "1.0.0", env: {} });
  await using server = await startTestNats();
  await using bus = await connectNats({ url: server.url, token: server.token, name: "tested" });
  await bus.ensureStream({ name: "LAG", subjects: ["lag.>"], retention: "limits" });
  const held = Promise.withResolvers<undefined>();
  let inFlight = 0;
  const consuming = { stream: "LAG", durable: "slow", subject: "lag.>", maxInFlight: 2, ackWaitMs: 60_000 };
  await bus.consume(consuming, async (delivery) => {
    inFlight += 1;
    await held.promise;
    await delivery.ack();
  });
  for (let n = 0; n < 7; n += 1) await bus.publish("lag.a", new Uint8Array(), { messageId: String(n) });
  await until("the hands are full", () => inFlight === 2);
  const of = 'messaging_destination_name="LAG",messaging_consumer_group_name="slow"';
  await until("the lag is shown", async () =>
    (await scrapeMetrics(telemetry)).includes(`muster_bus_consumer_waiting{${of}`),
  );
  const text = await scrapeMetrics(telemetry);
  expect(text).toMatch(new RegExp(`muster_bus_consumer_waiting\\{${of}[^}]*\\} 5`));
  expect(text).toMatch(new RegExp(`muster_bus_consumer_unacknowledged\\{${of}[^}]*\\} 2`));

  await bus.listen("lost.*", () => held.promise, { maxPending: 1 });
  for (let n = 0; n < 5; n += 1) bus.signal("lost.a", new Uint8Array());
  const lost = 'muster_bus_signals_dropped_total{messaging_destination_template="lost.*"';
  await until("the first loss is counted", async () => (await scrapeMetrics(telemetry)).includes(lost));
  held.resolve(undefined);
  await until("all are counted", async () => /signals_dropped_total\{[^}]*\} 3/.test(await scrapeMetrics(telemetry)));
});

it("counts refused requests by user and reason", async () => {
  await using telemetry = await startTelemetry({ service: "tested", version: "1.0.0", env: {} });
  await using server = await startTestNats();
  const { url, token } = server;
  const requestRate = { perSecond: 0.001, burst: 1 };
  await using bus = await connectNats({ url, token, name: "tested", inboxPrefix: "_INBOX.asker", requestRate });
  const handler = () => Promise.resolve({ payload: new Uint8Array(), headers: new Map<string, string>() });
  const endpoint = { name: "one", subject: "asked.one", concurrency: 9, handler };
  await bus.respond({ name: "answers", version: "1.0.0", description: "tested" }, [endpoint]);
  for (let n = 0; n < 3; n += 1) await bus.request("asked.one", new Uint8Array(), { timeoutMs: 30_000 });
  bus.connection.publish("asked.one", "", { reply: "elsewhere" });
  const counted = (reason: string, user: string, count: number) =>
    new RegExp(
      `requests_refused_total\\{rpc_service="answers",muster_bus_reason="${reason}",muster_bus_user="${user}"[^}]*\\} ${count}`,
    );
  const both = [counted("rate", "asker", 2), counted("reply", "others", 1)];
  await until("both are counted", async () => {
    const text = await scrapeMetrics(telemetry);
    return both.every((line) => line.test(text));
  });
});

it("exports refusals at 0, so that the first one is an increase", async () => {
  await using telemetry = await startTelemetry({ service: "tested", version: "1.0.0", env: {} });
  await using server = await startTestNats();
  await using _bus = await connectNats({ url: server.url, token: server.token, name: "tested" });
  const exported = [
    ...(await scrapeMetrics(telemetry)).matchAll(/^muster_bus_refusals_total\{muster_bus_refused="(\w+)".* 0/gm),
  ];
  expect(exported.map(([, what]) => what)).toEqual(["credential", "certificate", "publish", "subscription"]);
});

it("still answers scrapes while the server is away", async () => {
  await using telemetry = await startTelemetry({ service: "tested", version: "1.0.0", env: {} });
  await using server = await startTestNats();
  await using bus = await connectNats({ url: server.url, token: server.token, name: "tested", drainMs: 100 });
  await bus.ensureStream({ name: "GONE", subjects: ["gone.>"], retention: "limits" });
  const consuming = { stream: "GONE", durable: "d", subject: "gone.>", maxInFlight: 2, ackWaitMs: 60_000 };
  await bus.consume(consuming, () => Promise.resolve());
  await until("it is shown", async () => (await scrapeMetrics(telemetry)).includes('name="GONE"'));
  await server.kill();
  expect(await scrapeMetrics(telemetry)).toContain("target_info");
  await server.start();
});
