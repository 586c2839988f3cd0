import { once } from "node:events";
import { createServer } from "node:http";
import { makeMemoryBus } from "@muster/bus";
import { muster, streams } from "@muster/proto";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { openAlerts, type SetAlert } from "./alerts.ts";

const alert = (incidentKey: string): SetAlert => ({
  incidentKey,
  description: "too few",
  urgency: "LOW",
  details: { wanted: 3 },
  replicaSet: "web",
});

async function world(answers: readonly number[]) {
  const bus = makeMemoryBus();
  await bus.ensureStream(streams.events);
  const posted: string[] = [];
  const left = [...answers];
  const server = createServer((request, response) => {
    request.setEncoding("utf8");
    let body = "";
    request.on("data", (part: string) => (body += part));
    request.on("end", () => {
      posted.push(body);
      response.writeHead(left.shift() ?? 200).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const clock = { ms: 1000 };
  const counted: string[] = [];
  const alerts = openAlerts({
    bus,
    logger: { warn: () => undefined, error: () => undefined },
    webhook: `http://127.0.0.1:${port}/`,
    counted: (urgency) => counted.push(urgency),
    now: () => clock.ms,
  });
  const stack = new AsyncDisposableStack();
  stack.use(bus);
  stack.defer(async () => {
    server.close();
    await once(server, "close");
  });
  stack.use(alerts);
  return { bus, alerts, posted, counted, clock, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

describe("alerts", () => {
  it("reach the bus as soon as it is available", async () => {
    await using bus = makeMemoryBus();
    const silent = { warn: () => undefined, error: () => undefined };
    await using alerts = openAlerts({
      bus,
      logger: silent,
      webhook: undefined,
      counted: () => undefined,
      now: () => 1000,
    });
    alerts.raise(alert("a_web"));
    await new Promise(setImmediate);
    await bus.ensureStream(streams.events);
    const read = () => bus.readMessage(streams.events.name, "muster.evt.farm.a_web.alerted", 1);
    expect(await until("the alert is on the bus", read)).toBeDefined();
  });

  it("reach the bus, the metric and the webhook once per incident, and again when it returns", async () => {
    await using each = await world([]);
    const { alerts, posted, counted, bus } = each;
    alerts.raise(alert("a_web"));
    alerts.raise(alert("a_web"));
    alerts.raise(alert("b_web"));
    await until("both are posted", () => posted.length === 2);
    alerts.resolve("a_web");
    each.clock.ms += 1;
    alerts.raise(alert("a_web"));
    await until("it is posted again", () => posted.length === 3);
    expect(posted.map((body) => (JSON.parse(body) as SetAlert).incidentKey)).toEqual(["a_web", "b_web", "a_web"]);
    expect(counted).toEqual(["LOW", "LOW", "LOW"]);
    const message = await bus.readMessage(streams.events.name, "muster.evt.farm.b_web.alerted", 1);
    expect(muster.farm.v1.Alert.decode(message?.payload ?? new Uint8Array())).toMatchObject({
      description: "too few",
      detailsJson: '{"wanted":3}',
      replicaSet: "web",
    });
  });

  it("are posted again after the webhook fails", async () => {
    await using each = await world([500]);
    each.alerts.raise(alert("a_web"));
    await until("it is posted twice", () => each.posted.length === 2);
    expect(each.posted[0]).toBe(each.posted[1]);
  });

  it("are reported again after an hour of the same incident", async () => {
    await using each = await world([]);
    each.alerts.raise(alert("a_web"));
    each.clock.ms += 3_600_000;
    each.alerts.raise(alert("a_web"));
    expect(each.counted).toEqual(["LOW", "LOW"]);
    await until("both are posted", () => each.posted.length === 2);
  });
});
