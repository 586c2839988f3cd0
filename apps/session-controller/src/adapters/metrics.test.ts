import { scrapeMetrics } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { makeSessionMetrics } from "./metrics.ts";

it("counts unreadable sessions from 0, so that alerts see the first one as an increase", async () => {
  await using telemetry = await startTelemetry({ service: "session-controller", version: "test", env: {} });
  const counted = makeSessionMetrics();
  const count = async (): Promise<string | undefined> =>
    /^muster_session_unreadable_total\{.*\} (\d+)/m.exec(await scrapeMetrics(telemetry))?.[1];
  expect(await count()).toBe("0");
  counted.unreadable();
  expect(await count()).toBe("1");
});
