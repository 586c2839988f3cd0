import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { sessionMetrics } from "./metrics.ts";

it("tells of sessions that do not decode before there are any, so that the first is a rise", async () => {
  await using telemetry = startTelemetry({ service: "session-controller", version: "test", env: {} });
  const told = sessionMetrics();
  const server = createServer((request, response) => {
    telemetry.answerScrape(request, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const count = async (): Promise<string | undefined> => {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: "close" } });
    return /^muster_session_unreadable_total\{.*\} (\d+)/m.exec(await answer.text())?.[1];
  };
  expect(await count()).toBe("0");
  told.unreadable();
  expect(await count()).toBe("1");
  server.close();
});
