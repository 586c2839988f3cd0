import { scrape } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { sessionMetrics } from "./metrics.ts";

it("tells of sessions that do not decode before there are any, so that the first is a rise", async () => {
  await using telemetry = await startTelemetry({ service: "session-controller", version: "test", env: {} });
  const told = sessionMetrics();
  const count = async (): Promise<string | undefined> =>
    /^muster_session_unreadable_total\{.*\} (\d+)/m.exec(await scrape(telemetry))?.[1];
  expect(await count()).toBe("0");
  told.unreadable();
  expect(await count()).toBe("1");
});
